import { beforeEach, describe, expect, test } from "vitest";
import type { KubeObject } from "../api/meta.ts";
import { foreignKinds } from "./foreign-kind.ts";
import type { ManagedFieldsEntry } from "./managed-fields.ts";
import { ourKinds } from "./our-kind.ts";
import { Refusal } from "./refusal.ts";
import { Store } from "./store.ts";
import { Verbs, type WriteOptions } from "./verbs.ts";

const kinds = [...ourKinds(), ...foreignKinds()];
const kindOf = (name: string) => {
  const kind = kinds.find(({ resource }) => resource.kind === name);
  if (kind === undefined) throw new Error(`no kind ${name}`);
  return kind;
};
const POOL = kindOf("IPAddressPool");
const GATEWAY = kindOf("Gateway");
const SERVICE = kindOf("Service");
const NAMESPACE = kindOf("Namespace");

let store: Store;
let verbs: Verbs;
beforeEach(() => {
  store = new Store();
  verbs = new Verbs(store, kinds, () => new Date("2026-01-01T00:00:00Z"));
});

const as = (manager: string, more: Partial<WriteOptions> = {}): WriteOptions => ({ manager, ...more });
const pool = (name: string, spec: object = {}) => ({
  metadata: { name },
  spec: { addresses: ["192.0.2.0/24"], ...spec },
});
const gateway = (listeners: object[] = [{ name: "web", port: 80, protocol: "TCP" }]) => ({
  metadata: { name: "gw", namespace: "demo" },
  spec: { gatewayClassName: "belfry", listeners },
});
const service = (name: string, spec: object = {}) => ({
  metadata: { name, namespace: "demo" },
  spec: { ports: [{ port: 80 }], ...spec },
});
/** Code and message of the refusal. */
function refused(act: () => unknown): { code: number; reason: string | undefined; message: string } {
  try {
    act();
  } catch (error) {
    if (error instanceof Refusal) {
      const { code, reason, message = "" } = error.status;
      return { code, reason, message };
    }
    throw error;
  }
  throw new Error("it was not refused");
}
const managersOf = (object: KubeObject): string[] =>
  ((object.metadata as { managedFields?: ManagedFieldsEntry[] }).managedFields ?? []).map(
    ({ manager, operation, subresource }) => `${manager} ${operation}${subresource ? ` ${subresource}` : ""}`,
  );

describe("create", () => {
  test("fills in what only the server writes, and the defaults", () => {
    const { object, created } = verbs.create(POOL, undefined, pool("lan"), as("test"));
    expect(created).toBe(true);
    expect(object).toMatchObject({
      apiVersion: "belfry.dev/v1alpha1",
      kind: "IPAddressPool",
      metadata: { name: "lan", generation: 1, creationTimestamp: "2026-01-01T00:00:00Z", uid: expect.any(String) },
      spec: { autoAssign: true, excludes: [] },
    });
  });

  test("drops a status, unknown fields warn or refuse as asked", () => {
    const body = { ...pool("lan"), status: { assignedIPv4: 3 }, extra: 1 };
    const { object, warnings } = verbs.create(POOL, undefined, body, as("test"));
    expect(object).not.toHaveProperty("status");
    expect(object).not.toHaveProperty("extra");
    expect(warnings).toEqual(['unknown field "extra"']);
    const strict = refused(() =>
      verbs.create(POOL, undefined, { ...body, metadata: { name: "b" } }, as("test", { fieldValidation: "Strict" })),
    );
    expect(strict).toMatchObject({ code: 400, message: expect.stringContaining('unknown field "extra"') });
  });

  test.each([
    ["a name that is there", pool("there"), 409, "AlreadyExists"],
    ["a resourceVersion", { ...pool("a"), metadata: { name: "a", resourceVersion: "1" } }, 400, "BadRequest"],
    ["no name", { spec: pool("a").spec }, 422, "Invalid"],
    ["a bad name", pool("Big"), 422, "Invalid"],
    ["another kind", { ...pool("a"), kind: "Gateway" }, 422, "Invalid"],
    ["another version", { ...pool("a"), apiVersion: "belfry.dev/v9" }, 400, "BadRequest"],
    ["a missing field", { metadata: { name: "a" }, spec: {} }, 422, "Invalid"],
    ["a wrong type", pool("a", { autoAssign: "yes" }), 422, "Invalid"],
    ["host bits", pool("a", { addresses: ["192.0.2.1/24"] }), 422, "Invalid"],
  ])("refuses %s", (_what, body, code, reason) => {
    verbs.create(POOL, undefined, pool("there"), as("test"));
    expect(refused(() => verbs.create(POOL, undefined, body, as("test")))).toMatchObject({ code, reason });
  });

  test("makes a name of generateName, and the namespace that is not there yet", () => {
    const body = { ...service("x"), metadata: { generateName: "x-", namespace: "demo" } };
    const { object } = verbs.create(SERVICE, "demo", body, as("test"));
    expect(object.metadata.name).toMatch(/^x-[a-z0-9]{5}$/);
    expect(store.get("namespaces", "demo")?.object).toMatchObject({ status: { phase: "Active" } });
  });
});

describe("update", () => {
  test("without a change is no write", () => {
    const { object } = verbs.create(POOL, undefined, pool("lan"), as("one"));
    const version = store.version;
    verbs.update(POOL, undefined, "lan", object, as("two"));
    verbs.patch(POOL, undefined, "lan", (live) => live, as("two"));
    expect(store.version).toBe(version);
  });

  test("with an older resourceVersion, another uid, or for a custom resource none, is refused", () => {
    const { object } = verbs.create(POOL, undefined, pool("lan"), as("one"));
    const { object: newer } = verbs.update(
      POOL,
      undefined,
      "lan",
      { ...object, spec: { ...pool("").spec, disabled: true } },
      as("one"),
    );
    expect(refused(() => verbs.update(POOL, undefined, "lan", object, as("one")))).toMatchObject({
      code: 409,
      reason: "Conflict",
    });
    const other = { ...newer, metadata: { ...newer.metadata, uid: "other" } };
    expect(refused(() => verbs.update(POOL, undefined, "lan", other, as("one")))).toMatchObject({ code: 409 });
    expect(refused(() => verbs.update(POOL, undefined, "lan", pool("lan"), as("one")))).toMatchObject({ code: 422 });
  });

  test("of the spec leaves the status alone and counts a generation; of the status the reverse", () => {
    const { object } = verbs.create(POOL, undefined, pool("lan"), as("user"));
    const both = { ...object, spec: { addresses: ["198.51.100.0/24"] }, status: { assignedIPv4: 1 } };
    const spec = verbs.update(POOL, undefined, "lan", both, as("user")).object;
    expect(spec).toMatchObject({ metadata: { generation: 2 }, spec: { addresses: ["198.51.100.0/24"] } });
    expect(spec).not.toHaveProperty("status");
    const labelled = {
      ...spec,
      metadata: { ...spec.metadata, labels: { a: "b" } },
      spec: pool("").spec,
      status: { assignedIPv4: 1 },
    };
    const status = verbs.update(POOL, undefined, "lan", labelled, as("ctl", { subresource: "status" })).object;
    expect(status).toMatchObject({
      metadata: { generation: 2 },
      spec: { addresses: ["198.51.100.0/24"] },
      status: { assignedIPv4: 1 },
    });
    expect(status.metadata.labels).toBeUndefined();
    expect(managersOf(status)).toEqual(["user Update", "ctl Update status"]);
  });

  test("of what is immutable is refused", () => {
    const { object } = verbs.create(
      kindOf("GatewayClass"),
      undefined,
      { metadata: { name: "c" }, spec: { controllerName: "a/b" } },
      as("x"),
    );
    const changed = { ...object, spec: { controllerName: "a/c" } };
    expect(refused(() => verbs.update(kindOf("GatewayClass"), undefined, "c", changed, as("x")))).toMatchObject({
      code: 422,
    });
  });

  test("does not change an object that was handed out", () => {
    const { object } = verbs.create(SERVICE, "demo", service("web"), as("x"));
    const before = JSON.stringify(object);
    verbs.patch(
      SERVICE,
      "demo",
      "web",
      (live) => ({ ...live, spec: { ...(live as { spec?: object }).spec, type: "LoadBalancer" } }),
      as("x"),
    );
    expect(JSON.stringify(object)).toBe(before);
  });
});

describe("apply", () => {
  const apply = (manager: string, body: object, more: { force?: boolean; subresource?: "status" } = {}) =>
    verbs.apply(
      GATEWAY,
      "demo",
      "gw",
      { apiVersion: "gateway.networking.k8s.io/v1", kind: "Gateway", ...body },
      { manager, force: false, ...more },
    );
  const statusOf = (name: string, ...types: string[]) => ({
    metadata: { name },
    status: {
      conditions: types.map((type) => ({
        type,
        status: "True",
        reason: "R",
        message: "",
        lastTransitionTime: "2026-01-01T00:00:00Z",
      })),
    },
  });

  test("creates; the same again is no write; a dropped item goes", () => {
    const two = gateway([
      { name: "web", port: 80, protocol: "TCP" },
      { name: "dns", port: 53, protocol: "UDP" },
    ]);
    expect(apply("a", two).created).toBe(true);
    const version = store.version;
    expect(apply("a", two).created).toBe(false);
    expect(store.version).toBe(version);
    const { object } = apply("a", gateway());
    expect(object).toMatchObject({ metadata: { generation: 2 }, spec: { listeners: [{ name: "web" }] } });
  });

  test("two managers own items of one list each, and one's leaving does not touch the other's", () => {
    apply("a", gateway());
    apply("b", gateway([{ name: "dns", port: 53, protocol: "UDP" }]));
    const { object } = apply("b", { metadata: { name: "gw" }, spec: { gatewayClassName: "belfry" } });
    expect(
      (object as unknown as { spec: { listeners: { name: string }[] } }).spec.listeners.map(({ name }) => name),
    ).toEqual(["web"]);
    expect(managersOf(object)).toEqual(["a Apply", "b Apply"]);
  });

  test("what two managers own stays when one of them leaves it", () => {
    apply("a", gateway());
    apply("b", gateway());
    const { object } = apply("b", gateway([{ name: "dns", port: 53, protocol: "UDP" }]));
    expect(
      (object as unknown as { spec: { listeners: { name: string }[] } }).spec.listeners.map(({ name }) => name),
    ).toEqual(["web", "dns"]);
  });

  test("a field with another manager's other value is a conflict that names him; force takes it from him", () => {
    apply("a", gateway());
    const other = gateway([{ name: "web", port: 81, protocol: "TCP" }]);
    expect(refused(() => apply("b", other))).toMatchObject({
      code: 409,
      reason: "Conflict",
      message: 'Apply failed with 1 conflict: conflict with "a": .spec.listeners[name="web"].port',
    });
    expect(apply("b", other, { force: true }).object).toMatchObject({ spec: { listeners: [{ port: 81 }] } });
    expect(refused(() => apply("a", gateway()))).toMatchObject({ code: 409 });
    const managed = (verbs.get(GATEWAY, "demo", "gw").object.metadata as { managedFields?: ManagedFieldsEntry[] })
      .managedFields;
    const owned = managed?.filter(({ fieldsV1 }) => JSON.stringify(fieldsV1).includes('"f:port"'));
    expect(owned?.map(({ manager }) => manager)).toEqual(["b"]);
  });

  test("an update takes a field over from who applied it", () => {
    const { object } = apply("a", gateway());
    const spec = { ...gateway().spec, gatewayClassName: "other" };
    verbs.update(GATEWAY, "demo", "gw", { ...object, spec }, as("editor"));
    expect(refused(() => apply("a", gateway())).message).toContain(
      'conflict with "editor" using gateway.networking.k8s.io/v1: .spec.gatewayClassName',
    );
  });

  test("of the status keeps the other conditions and knows nothing of the spec", () => {
    apply("a", gateway());
    const { object } = apply("ctl", statusOf("gw", "Programmed"), { subresource: "status", force: true });
    expect(object).toMatchObject({
      metadata: { generation: 1 },
      status: {
        conditions: [
          { type: "Accepted", status: "Unknown" },
          { type: "Programmed", status: "True" },
        ],
      },
    });
    expect(
      refused(() =>
        verbs.apply(GATEWAY, "demo", "none", statusOf("none", "X"), {
          manager: "ctl",
          force: false,
          subresource: "status",
        }),
      ),
    ).toMatchObject({ code: 404 });
  });
});

describe("delete", () => {
  test("holds to its preconditions", () => {
    const { object } = verbs.create(POOL, undefined, pool("lan"), as("x"));
    const { uid = "", resourceVersion = "" } = object.metadata;
    expect(refused(() => verbs.delete(POOL, undefined, "lan", { uid: "other" }))).toMatchObject({ code: 409 });
    expect(refused(() => verbs.delete(POOL, undefined, "lan", { uid, resourceVersion: "1" }))).toMatchObject({
      code: 409,
    });
    expect(verbs.delete(POOL, undefined, "lan", { uid, resourceVersion })).toMatchObject({ gone: true });
    expect(refused(() => verbs.get(POOL, undefined, "lan"))).toMatchObject({ code: 404, reason: "NotFound" });
  });

  test("waits for finalizers, takes no new ones, and goes with the last", () => {
    verbs.create(POOL, undefined, { ...pool("lan"), metadata: { name: "lan", finalizers: ["a/b"] } }, as("x"));
    const { object, gone } = verbs.delete(POOL, undefined, "lan", {});
    expect(gone).toBe(false);
    expect(object.metadata).toMatchObject({ deletionTimestamp: "2026-01-01T00:00:00Z", generation: 2 });
    const version = store.version;
    verbs.delete(POOL, undefined, "lan", {});
    expect(store.version).toBe(version);
    const withFinalizers = (finalizers: string[]) => ({ ...object, metadata: { ...object.metadata, finalizers } });
    expect(refused(() => verbs.update(POOL, undefined, "lan", withFinalizers(["a/b", "c/d"]), as("x")))).toMatchObject({
      code: 422,
    });
    verbs.update(POOL, undefined, "lan", withFinalizers([]), as("x"));
    expect(store.get("ipaddresspools.belfry.dev", "lan")).toBeUndefined();
    expect(store.since("ipaddresspools.belfry.dev", version)?.map(({ type }) => type)).toEqual(["DELETED"]);
  });

  test("of an owner takes what only it owns", () => {
    const owner = verbs.create(SERVICE, "demo", service("owner"), as("x")).object;
    const ownerReferences = [{ apiVersion: "v1", kind: "Service", name: "owner", uid: owner.metadata.uid ?? "" }];
    verbs.create(SERVICE, "demo", { ...service("owned"), metadata: { name: "owned", ownerReferences } }, as("x"));
    verbs.delete(SERVICE, "demo", "owner", {});
    expect(store.size("services")).toBe(0);
  });

  test("of a namespace takes what is in it, and waits for finalizers there", () => {
    verbs.create(SERVICE, "demo", service("free"), as("x"));
    verbs.create(GATEWAY, "demo", { ...gateway(), metadata: { name: "gw", finalizers: ["a/b"] } }, as("x"));
    verbs.delete(NAMESPACE, undefined, "demo", {});
    expect(store.size("services")).toBe(0);
    expect(store.get("namespaces", "demo")?.object).toMatchObject({ status: { phase: "Terminating" } });
    expect(refused(() => verbs.create(SERVICE, "demo", service("late"), as("x")))).toMatchObject({ code: 403 });
    const held = verbs.get(GATEWAY, "demo", "gw").object;
    verbs.update(GATEWAY, "demo", "gw", { ...held, metadata: { ...held.metadata, finalizers: [] } }, as("x"));
    expect(store.get("namespaces", "demo")).toBeUndefined();
  });
});

describe("a Service", () => {
  const created = (name: string, spec: object) =>
    (verbs.create(SERVICE, "demo", service(name, spec), as("x")).object as unknown as { spec: Record<string, unknown> })
      .spec;

  test.each([
    ["plain", {}, { type: "ClusterIP", ipFamilies: ["IPv4"], ipFamilyPolicy: "SingleStack" }],
    [
      "dual",
      { ipFamilyPolicy: "PreferDualStack" },
      {
        ipFamilies: ["IPv4", "IPv6"],
        clusterIPs: [expect.stringMatching(/^198\.19\./), expect.stringMatching(/^2001:db8:ffff::/)],
      },
    ],
    [
      "six",
      { ipFamilies: ["IPv6"] },
      { ipFamilies: ["IPv6"], ipFamilyPolicy: "SingleStack", clusterIP: expect.stringContaining("2001:db8:ffff::") },
    ],
    ["headless", { clusterIP: "None" }, { clusterIP: "None", clusterIPs: ["None"] }],
    [
      "balanced",
      { type: "LoadBalancer" },
      {
        externalTrafficPolicy: "Cluster",
        allocateLoadBalancerNodePorts: true,
        ports: [{ port: 80, protocol: "TCP", targetPort: 80, nodePort: expect.any(Number) }],
      },
    ],
  ])("%s gets what the API server gives it", (name, spec, expected) => {
    expect(created(name, spec)).toMatchObject(expected);
  });

  test("is refused when every node port is taken, and the server lives on", () => {
    const port = () => ({ type: "LoadBalancer", ports: [{ port: 80 }] });
    expect(() => {
      for (let i = 0; i < 3000; i++) created(`many-${i}`, port());
    }).toThrow(/no node port is left/);
    created("without", { ...port(), allocateLoadBalancerNodePorts: false });
  });

  test("keeps its addresses through updates, and gives them back when it goes", () => {
    const before = created("a", {});
    verbs.patch(SERVICE, "demo", "a", (live) => ({ ...live, spec: { ports: [{ port: 81 }] } }), as("x"));
    expect(verbs.get(SERVICE, "demo", "a").object).toMatchObject({ spec: { clusterIP: before["clusterIP"] } });
    expect(created("b", {})["clusterIP"]).not.toBe(before["clusterIP"]);
    const same = { clusterIP: before["clusterIP"] };
    expect(() => created("c", same)).toThrow(/already allocated/);
    verbs.delete(SERVICE, "demo", "a", {});
    expect(created("c", same)["clusterIP"]).toBe(before["clusterIP"]);
  });
});

test("a Gateway is held to the rules of its CRD that concern L4", () => {
  const row =
    (listeners: object[], addresses: object[] = []) =>
    () =>
      verbs.create(
        GATEWAY,
        "demo",
        { ...gateway(listeners), spec: { ...gateway(listeners).spec, addresses } },
        as("x", { dryRun: true }),
      );
  const tcp = { name: "a", port: 80, protocol: "TCP" };
  expect(refused(row([])).message).toContain("at least 1 items");
  expect(refused(row([tcp, { ...tcp, port: 81 }])).message).toContain("Duplicate value");
  expect(refused(row([tcp, { ...tcp, name: "b" }])).message).toContain("must be unique for each listener");
  expect(refused(row([{ ...tcp, hostname: "a.example" }])).message).toContain("hostname must not be specified");
  expect(refused(row([tcp], [{ value: "192.0.2.300" }])).message).toContain("valid IPv4 or IPv6 address");
  expect(refused(row([tcp], [{ value: "192.0.2.3" }, { value: "192.0.2.3" }])).message).toContain("must be unique");
  expect(row([tcp, { ...tcp, name: "b", protocol: "UDP" }], [{ type: "IPAddress" }])().created).toBe(true);
});

/**
 * A thousand Gateways at once, each with a ServiceRoute to one Service that they share, and what that costs the API server: the
 * writes of Belfry's accounts are counted in its audit log.
 */
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { must, put, putNamespace } from "../../lab/cluster.ts";
import { eventually } from "../../lab/eventually.ts";
import { type AuditEntry, forbidden, readAudit } from "../../lab/kube/audit.ts";
import type { Lab } from "../../lab/lab.ts";
import type { Gateway, Service } from "../../src/api/foreign.ts";
import type { KubeObject } from "../../src/api/meta.ts";
import { API_VERSION, LOAD_BALANCER } from "../../src/api/names.ts";
import {
  GATEWAY,
  GATEWAYCLASS,
  IPADDRESSPOOL,
  L2ADVERTISEMENT,
  type Resource,
  SERVICE,
  SERVICEROUTE,
  VIRTUALIP,
} from "../../src/api/resource.ts";
import type { ServiceRoute } from "../../src/api/service-route.ts";
import type { VirtualIP } from "../../src/api/virtual-ip.ts";
import { type KubeLab, startKubeLab } from "./kube-lab.ts";

const SINGLE_STACK = 1000;
const DUAL_STACK = 200;
const IN_FLIGHT = 32;
const IDLE_SECONDS = 60;

let cluster: KubeLab;
let lab: Lab;

beforeAll(async () => {
  cluster = await startKubeLab((started) => started.startAll(), { logLevel: "warn" });
  lab = cluster.lab;
  const of = (resource: Resource, apiVersion: string, name: string, spec: unknown) =>
    put(lab.api, resource, { apiVersion, kind: resource.kind, metadata: { name }, spec } as KubeObject);
  await of(GATEWAYCLASS, "gateway.networking.k8s.io/v1", "belfry", { controllerName: LOAD_BALANCER });
  // Only IPv4 for who lives in `single`, both families for who lives in `dual`.
  await of(IPADDRESSPOOL, API_VERSION, "ipv4", { addresses: ["198.19.0.0/20"] });
  await of(IPADDRESSPOOL, API_VERSION, "ipv6", {
    addresses: ["2001:db8:0:1:1::/96"],
    serviceAllocation: { namespaces: ["dual"] },
  });
  // The IPv4 addresses lie in no subnet of the lab's LAN.
  await of(L2ADVERTISEMENT, API_VERSION, "all", { requireSubnet: false });
  for (const namespace of ["single", "dual"]) {
    await putNamespace(lab.api, namespace);
    await put(lab.api, SERVICE, serviceIn(namespace));
  }
  for (const node of lab.nodes) await eventually(`${node.name} is ready`, 60_000, () => lab.speakerIsReady(node));
});
afterAll(() => cluster?.lab.close());

const serviceIn = (namespace: string): Service => ({
  apiVersion: "v1",
  kind: "Service",
  metadata: { name: "shared", namespace },
  spec: { ipFamilyPolicy: "PreferDualStack", ports: [{ name: "http", protocol: "TCP", port: 80 }] },
});

const nameOf = (i: number): string => `web-${String(i).padStart(4, "0")}`;

const routeOf = (namespace: string, i: number): ServiceRoute => ({
  metadata: { name: nameOf(i), namespace },
  spec: {
    parentRefs: [{ group: "gateway.networking.k8s.io", kind: "Gateway", name: nameOf(i) }],
    ports: [{ name: "http", protocol: "TCP", port: 80 }],
    backendRef: { group: "", kind: "Service", name: "shared" },
  },
});

const gatewayOf = (namespace: string, i: number): Gateway => ({
  metadata: { name: nameOf(i), namespace },
  spec: {
    gatewayClassName: "belfry",
    listeners: [
      {
        name: "http",
        protocol: "TCP",
        port: 80,
        allowedRoutes: { kinds: [{ group: "belfry.dev", kind: "ServiceRoute" }] },
      },
    ],
  },
});

async function createAll(count: number, create: (i: number) => Promise<unknown>): Promise<void> {
  let next = 0;
  const work = async () => {
    for (let i = next++; i < count; i = next++) await create(i);
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, work));
}

const isTrue = (object: Gateway | VirtualIP, type: string) =>
  object.status?.conditions?.some((condition) => condition.type === type && condition.status === "True") === true;

/** Routes, then all their Gateways at once; resolves when every Gateway is Programmed with so many addresses, each its own. */
async function bringUp(namespace: string, count: number, addresses: number): Promise<void> {
  await createAll(count, async (i) => must("route", await lab.api.create(SERVICEROUTE, routeOf(namespace, i))));
  const from = performance.now();
  await createAll(count, async (i) => must("gateway", await lab.api.create(GATEWAY, gatewayOf(namespace, i))));
  const created = performance.now();
  const gateways = await eventually(
    `${count} Gateways of ${namespace} are Programmed`,
    300_000,
    async () => {
      const { items } = must("gateways", await lab.api.list<Gateway>(GATEWAY, { namespace }));
      const programmed = items.filter((gateway) => isTrue(gateway, "Programmed"));
      if (programmed.length < count) throw new Error(`${programmed.length} are`);
      return items;
    },
    1000,
  );
  const seconds = (at: number) => ((at - from) / 1000).toFixed(1);
  console.log(`${count} Gateways: created in ${seconds(created)} s, Programmed after ${seconds(performance.now())} s`);
  const shown = gateways.flatMap(({ status }) => (status?.addresses ?? []).map(({ value }) => value));
  expect(shown).toHaveLength(count * addresses);
  expect(new Set(shown).size).toBe(shown.length);
}

/** Until nobody of Belfry has written anything but a Lease for 3 s. */
async function settled(): Promise<void> {
  let before = -1;
  await eventually(
    "nothing is written",
    60_000,
    () => {
      const now = writesOf(audit()).filter(({ resource }) => resource !== "leases").length;
      const same = now === before;
      before = now;
      return same;
    },
    3000,
  );
}

const audit = (): AuditEntry[] => readAudit(cluster.kube.controlPlane.auditLog);

const writesOf = (entries: readonly AuditEntry[]): AuditEntry[] =>
  entries.filter(({ verb }) => !["get", "list", "watch"].includes(verb));

/** `patch gateways/status` → how often. */
function tally(entries: readonly AuditEntry[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { verb, resource, code } of entries) {
    const key = `${verb} ${resource}${code < 300 ? "" : ` ${code}`}`;
    counts[key] = (counts[key] ?? 0) + 1;
  }
  return counts;
}

/**
 * Writes that were carried out, about the Gateways themselves and their addresses; the other objects are few, whatever the
 * number of Gateways. SpeakerStatus, Leases, Events and what was refused (a conflict, a server that is too busy) are
 * printed.
 */
async function countWrites(count: number, act: () => Promise<void>) {
  const before = audit().length;
  await act();
  await settled();
  const attempts = writesOf(audit().slice(before));
  console.log(tally(attempts));
  const writes = attempts.filter(({ code }) => code < 300);
  const of = (resource: string) => writes.filter((entry) => entry.resource.split("/")[0] === resource).length;
  return {
    perGateway: (of("gateways") + of("virtualips")) / count,
    perRoute: of("serviceroutes") / count,
    poolsAndClasses: of("ipaddresspools") + of("gatewayclasses") + of("l2advertisements"),
  };
}

// A second try would find the Gateways there. A minute on two cores that do nothing else.
const ONCE = { retry: 0, timeout: 360_000 } as const;

test(`${SINGLE_STACK} Gateways of one family cost at most 5 writes each, and one per route`, ONCE, async () => {
  const { perGateway, perRoute, poolsAndClasses } = await countWrites(SINGLE_STACK, () =>
    bringUp("single", SINGLE_STACK, 1),
  );
  expect(perGateway).toBeLessThanOrEqual(5);
  expect(perRoute).toBe(1);
  expect(poolsAndClasses).toBeLessThan(SINGLE_STACK / 2);
});

test(`${DUAL_STACK} Gateways of two families cost at most 8 writes each, and one per route`, ONCE, async () => {
  const { perGateway, perRoute, poolsAndClasses } = await countWrites(DUAL_STACK, () => bringUp("dual", DUAL_STACK, 2));
  expect(perGateway).toBeLessThanOrEqual(8);
  expect(perRoute).toBe(1);
  expect(poolsAndClasses).toBeLessThan(DUAL_STACK / 2);
});

test("every VirtualIP has an owner that serves its latest change, and says so", async () => {
  const { items } = must("VirtualIPs", await lab.api.list<VirtualIP>(VIRTUALIP));
  expect(items).toHaveLength(SINGLE_STACK + 2 * DUAL_STACK);
  const wrong = items.filter(
    (vip) => vip.status?.owner?.generation !== vip.metadata.generation || !isTrue(vip, "Programmed"),
  );
  expect(wrong).toEqual([]);
});

test(`in ${IDLE_SECONDS} idle seconds Belfry's accounts write nothing but their Leases`, async () => {
  const before = audit().length;
  await delay(IDLE_SECONDS * 1000);
  const writes = writesOf(audit().slice(before));
  expect(tally(writes.filter(({ resource }) => resource !== "leases"))).toEqual({});
  expect(writes.length).toBeGreaterThan(0);
});

test("in all of this no request of Belfry's accounts was forbidden", () => {
  expect(forbidden(audit())).toEqual([]);
});

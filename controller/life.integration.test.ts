/** The life of a VIP, with the real loop on either API server. Names that begin with an id (IP-03) are known faults of the field. */
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { Service } from "../src/api/foreign.ts";
import type { IPAddressPool } from "../src/api/ip-address-pool.ts";
import {
  EVENT,
  GATEWAY,
  GATEWAYCLASS,
  IPADDRESSPOOL,
  L2ADVERTISEMENT,
  NODE,
  SERVICE,
  SERVICEROUTE,
  VIRTUALIP,
} from "../src/api/resource.ts";
import { ON_KUBE } from "./backend.fixture.ts";
import {
  backend,
  type Cluster,
  eventually,
  gateway,
  gatewayClass,
  l2,
  loadBalancer,
  must,
  pool,
  type RunningController,
  route,
  startCluster,
} from "./fixture.ts";

type KubeEvent = { regarding: { kind: string; name: string }; type: string; reason: string; note: string };

let cluster: Cluster;
let controller: RunningController;

beforeEach(async () => {
  cluster = await startCluster();
  await cluster.create(L2ADVERTISEMENT, l2());
  await cluster.create(GATEWAYCLASS, gatewayClass());
});
afterEach(() => cluster.close());

const ingress = (name: string): string[] =>
  (cluster.service(name)?.status?.loadBalancer?.ingress ?? []).flatMap(({ ip }) => ip ?? []);
const condition = (name: string, type = "belfry.dev/Programmed") =>
  cluster.service(name)?.status?.conditions?.find((each) => each.type === type);
const has = (name: string, count = 1) =>
  eventually(`${name} has ${count} address(es)`, () => ingress(name).length === count && ingress(name));
const refused = (name: string, reason: string) =>
  eventually(`${name} is refused with ${reason}`, () => condition(name)?.reason === reason && condition(name)?.message);
const programmed = (name: string) => eventually(`${name} is programmed`, () => condition(name)?.status === "True");
const addressOf = (name: string) => cluster.gateway(name)?.status?.addresses?.map(({ value }) => value) ?? [];
const idle = () => eventually("the loop is idle", () => controller.loop?.idle);

async function change(name: string, spec: Partial<Service["spec"]>): Promise<void> {
  must(await cluster.client.mergePatch(SERVICE, { namespace: "default", name }, { spec }));
}

/** Requests that changed something, Leases aside. */
const writes = () =>
  controller
    .audit()
    .filter(({ verb, resource }) => ["create", "update", "patch", "delete"].includes(verb) && resource !== "leases");

test("a VIP costs the writes of docs/life-of-a-vip.md (Allocate), and idle costs none", async () => {
  await cluster.speaker("n1");
  await cluster.create(IPADDRESSPOOL, pool("one", "192.0.2.192/28"));
  await cluster.create(SERVICE, backend("web"));
  await cluster.create(SERVICEROUTE, route("web", "web", "web") as never);
  await cluster.create(GATEWAY, gateway("first"));
  controller = await cluster.controller();
  await eventually("the first Gateway is there", () => addressOf("first").length === 1);
  await sleep(1_000);
  controller.forgetAudit();
  await cluster.create(GATEWAY, gateway("web"));
  await sleep(2_000);
  const made = writes().map(({ verb, resource, subresource }) => [verb, resource, subresource ?? ""].join(" "));
  expect(made.sort()).toEqual([
    "create events ",
    "create virtualips ",
    "patch gateways status",
    "patch gateways status",
    "patch ipaddresspools status",
    "patch serviceroutes status",
    "patch virtualips status",
  ]);
  controller.forgetAudit();
  await sleep(2_500);
  expect(writes()).toEqual([]);
});

test("IP-02: when a is deleted, b is not written to", async () => {
  await cluster.speaker("n1");
  await cluster.create(IPADDRESSPOOL, pool("v4", "192.0.2.2-192.0.2.3"));
  await cluster.create(IPADDRESSPOOL, pool("v6", "2001:db8::2-2001:db8::3"));
  controller = await cluster.controller();
  const dual = { ipFamilyPolicy: "RequireDualStack", ipFamilies: ["IPv4", "IPv6"] };
  await cluster.create(SERVICE, loadBalancer("a", dual));
  await has("a", 2);
  await cluster.create(SERVICE, loadBalancer("b", dual));
  const before = await has("b", 2);
  await programmed("b");
  await idle();
  const versions = cluster.versions();
  await cluster.remove(SERVICE, "a", "default");
  await eventually("a's VIPs are gone", () => cluster.vips().length === 2);
  await sleep(500);
  expect(ingress("b")).toEqual(before);
  const after = cluster.versions();
  for (const key of [
    "Service/default/b",
    ...cluster.vips().map(({ metadata }) => `VirtualIP/undefined/${metadata.name}`),
  ]) {
    expect(after.get(key)).toBe(versions.get(key));
  }
});

test("Events on the holder tell of an address, of its going, and of a refusal; a restart tells nothing again", async () => {
  await cluster.speaker("n1");
  await cluster.create(IPADDRESSPOOL, pool("one", "192.0.2.10/32"));
  controller = await cluster.controller();
  const events = async () => {
    const all = must(await cluster.client.list(EVENT, { namespace: "default" })).items as unknown as KubeEvent[];
    return all.map(
      ({ regarding, type, reason, note }) => `${regarding.kind}/${regarding.name} ${type} ${reason}: ${note}`,
    );
  };
  await cluster.create(SERVICE, loadBalancer("a"));
  await has("a");
  const given = 'Service/a Normal AddressAssigned: 192.0.2.10 from pool "one"';
  await eventually("a was told", async () => (await events()).includes(given));
  await cluster.create(SERVICE, loadBalancer("b"));
  await refused("b", "PoolExhausted");
  await eventually("b was told", async () =>
    (await events()).some((each) => each.startsWith("Service/b Warning PoolExhausted: ")),
  );
  await programmed("a");
  await idle();
  const before = (await events()).length;
  await controller.stop();
  controller = await cluster.controller();
  await idle();
  await sleep(500);
  expect(await events()).toHaveLength(before);
  await change("a", { type: "ClusterIP", loadBalancerClass: null } as never);
  const gone = "Service/a Normal AddressReleased: 192.0.2.10 is not its address now";
  await eventually("a was told again", async () => (await events()).includes(gone));
});

test("IP-03: a release gives the address to who waits longest, within 2 s", async () => {
  await cluster.speaker("n1");
  await cluster.create(IPADDRESSPOOL, pool("one", "192.0.2.10/32"));
  controller = await cluster.controller();
  await cluster.create(SERVICE, loadBalancer("a"));
  await has("a");
  // Its name sorts last, and it waits longest.
  await cluster.create(SERVICE, loadBalancer("z-second"));
  expect(await refused("z-second", "PoolExhausted")).toMatch(/"one"/);
  await sleep(1_100);
  await cluster.create(SERVICE, loadBalancer("b-third"));
  await refused("b-third", "PoolExhausted");
  await cluster.remove(SERVICE, "a", "default");
  await eventually("z-second has it", () => ingress("z-second").length === 1, 2_000);
  await cluster.remove(SERVICE, "z-second", "default");
  await eventually("b-third has it", () => ingress("b-third").length === 1, 2_000);
});

test("IP-03: of two that ask for one address, the second gets it when the first goes", async () => {
  await cluster.speaker("n1");
  await cluster.create(IPADDRESSPOOL, pool("one", "192.0.2.10-192.0.2.20"));
  controller = await cluster.controller();
  await cluster.create(SERVICE, loadBalancer("a", { loadBalancerIP: "192.0.2.15" }));
  await has("a");
  await cluster.create(SERVICE, loadBalancer("b", { loadBalancerIP: "192.0.2.15" }));
  expect(await refused("b", "AddressInUse")).toMatch(/default\/a/);
  await cluster.remove(SERVICE, "a", "default");
  await eventually("b has it", () => ingress("b")[0] === "192.0.2.15", 2_000);
});

test("IP-07: a node that joins later on a held address is told, and the address is not given out again", async () => {
  await cluster.speaker("n1");
  await cluster.create(IPADDRESSPOOL, pool("one", "192.0.2.20/32"));
  controller = await cluster.controller();
  await cluster.create(SERVICE, loadBalancer("a"));
  await has("a");
  await programmed("a");
  await cluster.speaker("n2", { address: "192.0.2.20", subnets: ["192.0.2.20/24"] });
  await eventually("the pool says so", () =>
    cluster
      .list<IPAddressPool>(IPADDRESSPOOL)[0]
      ?.status?.conditions?.some(({ type }) => type === "NodeAddressOverlap"),
  );
  expect(ingress("a")).toEqual(["192.0.2.20"]);
  await eventually(
    "the Service says so",
    () => condition("a", "belfry.dev/PartiallyInvalid")?.reason === "NodeAddressOverlap",
  );
  await eventually("an Event says so", () =>
    controller.audit().some(({ verb, resource }) => verb === "create" && resource === "events"),
  );
  await cluster.remove(SERVICE, "a", "default");
  await eventually("released", () => cluster.vips().length === 0);
  await cluster.create(SERVICE, loadBalancer("b"));
  await refused("b", "NoPoolForFamily");
});

test("IP-14: leaving type LoadBalancer withdraws and frees, and coming back is a new request", async () => {
  await cluster.speaker("n1");
  await cluster.create(IPADDRESSPOOL, pool("one", "192.0.2.10/32"));
  controller = await cluster.controller();
  await cluster.create(SERVICE, loadBalancer("a"));
  await has("a");
  for (let flip = 0; flip < 2; flip++) {
    await change("a", { type: "ClusterIP", loadBalancerClass: null } as never);
    await eventually("its status is clear", () => ingress("a").length === 0);
    await eventually("its address is free", () => cluster.vips().length === 0);
    expect(condition("a")).toBe(undefined);
    await change("a", { type: "LoadBalancer", loadBalancerClass: "belfry.dev/load-balancer" });
    await has("a");
  }
});

test("IP-16: what was deleted while the controller was down is free for the next one who asks for it", async () => {
  await cluster.speaker("n1");
  await cluster.create(IPADDRESSPOOL, pool("one", "192.0.2.10-192.0.2.20"));
  controller = await cluster.controller();
  await cluster.create(SERVICE, loadBalancer("a", { loadBalancerIP: "192.0.2.15" }));
  await has("a");
  await controller.stop();
  await cluster.remove(SERVICE, "a", "default");
  await cluster.create(SERVICE, loadBalancer("b", { loadBalancerIP: "192.0.2.15" }));
  controller = await cluster.controller();
  await eventually("b has it", () => ingress("b")[0] === "192.0.2.15");
});

test("IP-21: an address outside all pools is refused", async () => {
  await cluster.create(IPADDRESSPOOL, pool("one", "192.0.2.5-192.0.2.6"));
  controller = await cluster.controller();
  await cluster.create(SERVICE, loadBalancer("a", { loadBalancerIP: "192.0.2.111" }));
  expect(await refused("a", "AddressNotInPool")).toMatch(/192\.0\.2\.111/);
  expect(cluster.vips()).toEqual([]);
});

test("a re-created holder keeps the VIP: it is rebound to the new uid", async () => {
  await cluster.speaker("n1");
  await cluster.create(IPADDRESSPOOL, pool("one", "192.0.2.0/24"));
  controller = await cluster.controller();
  await cluster.create(GATEWAY, gateway("web"));
  const [address] = await eventually("an address", () => addressOf("web").length > 0 && addressOf("web"));
  await controller.stop();
  await cluster.remove(GATEWAY, "web", "default");
  const again = await cluster.create(GATEWAY, gateway("web"));
  controller = await cluster.controller();
  await eventually("the same address", () => addressOf("web")[0] === address);
  expect(cluster.vips().map(({ spec }) => spec.holders[0]?.uid)).toEqual([again.metadata.uid]);
});

test.skipIf(ON_KUBE)(
  "a class that goes releases nothing, and neither does a Gateway API that can't be listed",
  async () => {
    await cluster.speaker("n1");
    await cluster.create(IPADDRESSPOOL, pool("one", "192.0.2.0/24"));
    controller = await cluster.controller();
    await cluster.create(GATEWAY, gateway("web"));
    await eventually("an address", () => addressOf("web").length > 0);
    await eventually("in-use finalizer", () => (cluster.list(GATEWAYCLASS)[0]?.metadata.finalizers ?? []).length > 0);
    await controller.stop();
    must(await cluster.client.mergePatch(GATEWAYCLASS, { name: "belfry" }, { metadata: { finalizers: [] } }));
    await cluster.remove(GATEWAYCLASS, "belfry");
    const lists = cluster.api.faults.inject(
      { verb: "list", resource: "gateways" },
      { type: "status", code: 404, message: "404 page not found" },
      { times: Number.POSITIVE_INFINITY },
    );
    controller = await cluster.controller();
    await eventually("started", () => controller.loop?.missing().length === 0);
    await sleep(1_000);
    expect(cluster.vips().filter(({ metadata }) => metadata.deletionTimestamp === undefined)).toHaveLength(1);
    lists.remove();
  },
);

test("a cut speaker keeps a deleted VIP's address out of use; Releasing names its node; its Node's deletion frees it", async () => {
  const cut = await cluster.speaker("n1");
  await cluster.create(IPADDRESSPOOL, pool("one", "192.0.2.10/32"));
  controller = await cluster.controller();
  await cluster.create(SERVICE, loadBalancer("a"));
  await programmed("a");
  await cluster.speaker("n2", { address: "192.0.2.12", subnets: ["192.0.2.12/24"] });
  cut.cut();
  await cluster.create(SERVICE, loadBalancer("b"));
  await cluster.remove(SERVICE, "a", "default");
  const releasing = await eventually("Releasing", () =>
    cluster.vips()[0]?.status?.conditions?.find(({ type }) => type === "Releasing"),
  );
  expect(releasing.message).toMatch(/n1/);
  expect(releasing.message).not.toMatch(/n2/);
  await sleep(1_500);
  expect(ingress("b")).toEqual([]);
  await cluster.remove(NODE, "n1");
  await eventually("b has it", () => ingress("b")[0] === "192.0.2.10", 8_000);
});

test("a live speaker that has not reported keeps the address out of use, and no condition is written for it", async () => {
  const slow = await cluster.speaker("n1");
  await cluster.create(IPADDRESSPOOL, pool("one", "192.0.2.10/32"));
  controller = await cluster.controller();
  await cluster.create(SERVICE, loadBalancer("a"));
  await programmed("a");
  slow.holdWithdrawals(true);
  await cluster.remove(SERVICE, "a", "default");
  await cluster.create(SERVICE, loadBalancer("b"));
  await refused("b", "PoolExhausted");
  await sleep(700);
  expect(cluster.vips()[0]?.status?.conditions?.find(({ type }) => type === "Releasing")).toBe(undefined);
  expect(cluster.vips()[0]?.metadata.deletionTimestamp).toBeDefined();
  slow.holdWithdrawals(false);
  await has("b");
});

test("a VIP that a user deletes is replaced by another address for its holder, which lives on", async () => {
  await cluster.speaker("n1");
  await cluster.create(IPADDRESSPOOL, pool("one", "192.0.2.0/24"));
  controller = await cluster.controller();
  await cluster.create(SERVICE, loadBalancer("a"));
  const [first] = await has("a");
  await programmed("a");
  await cluster.remove(VIRTUALIP, first as string);
  await eventually("another address", () => ingress("a").length === 1 && ingress("a")[0] !== first);
  await eventually("the first is free", () => cluster.vips().length === 1);
});

test("a VIP made by hand is guarded by the finalizer and told who answers, and its spec is left alone", async () => {
  await cluster.speaker("n1");
  await cluster.create(IPADDRESSPOOL, pool("one", "192.0.2.0/24"));
  controller = await cluster.controller();
  const spec = { address: "192.0.2.9", holders: [], advertisements: { l2: ["lan"] }, forwards: [] };
  await cluster.create(VIRTUALIP, { metadata: { name: "192.0.2.9" }, spec } as never);
  await eventually("guarded", () => cluster.vips()[0]?.metadata.finalizers?.includes("belfry.dev/withdraw"));
  await eventually("announced", () =>
    cluster.vips()[0]?.status?.conditions?.some(({ type, status }) => type === "Announced" && status === "True"),
  );
  await cluster.create(SERVICE, loadBalancer("a", { loadBalancerIP: "192.0.2.9" }));
  await refused("a", "AddressInUse");
  await cluster.remove(VIRTUALIP, "192.0.2.9");
  await has("a");
});

test("a change of the requested address shows the new one beside the old, then lets the old one go", async () => {
  await cluster.speaker("n1");
  await cluster.create(IPADDRESSPOOL, pool("one", "192.0.2.0/24"));
  controller = await cluster.controller();
  await cluster.create(GATEWAY, gateway("web", { addresses: [{ type: "IPAddress", value: "192.0.2.50" }] }));
  await eventually("the first", () => addressOf("web")[0] === "192.0.2.50");
  const spec = { addresses: [{ type: "IPAddress", value: "192.0.2.60" }] };
  must(await cluster.client.mergePatch(GATEWAY, { namespace: "default", name: "web" }, { spec }));
  await eventually("only the second", () => addressOf("web").join() === "192.0.2.60");
  await eventually(
    "the first is free",
    () =>
      cluster
        .vips()
        .map(({ spec }) => spec.address)
        .join() === "192.0.2.60",
  );
});

test("a requested address that can't be had leaves the working one in place and says why", async () => {
  await cluster.speaker("n1");
  await cluster.create(IPADDRESSPOOL, pool("one", "192.0.2.0/24"));
  controller = await cluster.controller();
  await cluster.create(GATEWAY, gateway("web", { addresses: [{ type: "IPAddress", value: "192.0.2.50" }] }));
  await eventually("the first", () => addressOf("web")[0] === "192.0.2.50");
  const spec = { addresses: [{ type: "IPAddress", value: "203.0.113.1" }] };
  must(await cluster.client.mergePatch(GATEWAY, { namespace: "default", name: "web" }, { spec }));
  await eventually("AddressNotUsable", () =>
    cluster.gateway("web")?.status?.conditions?.some(({ reason }) => reason === "AddressNotUsable"),
  );
  await idle();
  expect(addressOf("web")).toEqual(["192.0.2.50"]);
});

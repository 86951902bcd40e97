/** Restarts, replicas, faults of the API and restores: no address moves. Names that begin with an id (IP-03) are known faults of the field. */
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, expect, test } from "vitest";
import { GIVEN_UP_ANNOTATION, NAMESPACE, speakerLeaseName } from "../src/api/names.ts";
import {
  GATEWAY,
  GATEWAYCLASS,
  IPADDRESSPOOL,
  L2ADVERTISEMENT,
  LEASE,
  SERVICE,
  SERVICEROUTE,
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

let cluster: Cluster;
let controller: RunningController;

beforeEach(async () => {
  cluster = await startCluster();
  await cluster.create(L2ADVERTISEMENT, l2());
  await cluster.create(GATEWAYCLASS, gatewayClass());
});
afterEach(() => cluster.close());

const ingress = (name: string, namespace = "default"): string[] =>
  (cluster.service(name, namespace)?.status?.loadBalancer?.ingress ?? []).flatMap(({ ip }) => ip ?? []);
const condition = (name: string, namespace = "default") =>
  cluster.service(name, namespace)?.status?.conditions?.find(({ type }) => type === "belfry.dev/Programmed");
const idle = () =>
  eventually(
    "the loop is idle and settled",
    () => controller.loop?.idle && controller.loop.settling.type === "settled",
  );
const FOREVER = { times: Number.POSITIVE_INFINITY };

/** A pool of one address, `zz-holder` on it, then `aa-waiter`, which sorts first. */
async function holderAndWaiter(): Promise<void> {
  await cluster.speaker("n1");
  await cluster.create(IPADDRESSPOOL, pool("one", "192.0.2.10/32"));
  controller = await cluster.controller();
  await cluster.create(SERVICE, loadBalancer("zz-holder", {}, {}, "t1"));
  await eventually("the holder has it", () => condition("zz-holder", "t1")?.status === "True");
  await cluster.create(SERVICE, loadBalancer("aa-waiter", {}, {}, "t1"));
  await eventually("the waiter is told", () => condition("aa-waiter", "t1")?.reason === "PoolExhausted");
  await idle();
  await sleep(700);
  await controller.stop();
}

test("I-01 A (IP-01): 20 restarts with lists in random order write nothing", async () => {
  await holderAndWaiter();
  await cluster.create(SERVICE, backend("web"));
  await cluster.create(SERVICEROUTE, route("web", "web", "web") as never);
  await cluster.create(GATEWAY, gateway("web"));
  controller = await cluster.controller();
  await eventually("the Gateway is told", () =>
    cluster.gateway("web")?.status?.conditions?.some(({ reason }) => reason === "AddressNotAssigned"),
  );
  await idle();
  await sleep(700);
  await controller.stop();
  if (!ON_KUBE) cluster.api.faults.inject({ verb: "list" }, { type: "shuffle" }, FOREVER);
  const versions = cluster.versions();
  for (let restart = 0; restart < 20; restart++) {
    controller = await cluster.controller();
    await idle();
    await controller.stop();
  }
  expect(cluster.versions()).toEqual(versions);
  expect(ingress("zz-holder", "t1")).toEqual(["192.0.2.10"]);
  expect(condition("aa-waiter", "t1")?.message).toMatch(/"one"/);
}, 60_000);

test("I-01 B: a holder that is deleted meanwhile gives way to the waiter in 5 s", async () => {
  await holderAndWaiter();
  await cluster.remove(SERVICE, "zz-holder", "t1");
  controller = await cluster.controller();
  await eventually("the waiter has it", () => ingress("aa-waiter", "t1")[0] === "192.0.2.10", 5_000);
});

test("I-01 C: who asks for a held address meanwhile is told who has it", async () => {
  await holderAndWaiter();
  await cluster.create(SERVICE, loadBalancer("mm-fixed", { loadBalancerIP: "192.0.2.10" }, {}, "t1"));
  controller = await cluster.controller();
  await eventually("AddressInUse", () => condition("mm-fixed", "t1")?.reason === "AddressInUse");
  expect(condition("mm-fixed", "t1")?.message).toMatch(/t1\/zz-holder/);
  expect(ingress("zz-holder", "t1")).toEqual(["192.0.2.10"]);
});

test("I-01 D: a status that was wiped is written again from the record, and the waiter never has the address", async () => {
  await holderAndWaiter();
  const wiped = { status: { loadBalancer: { ingress: null }, conditions: null } };
  must(await cluster.client.mergePatch(SERVICE, { namespace: "t1", name: "zz-holder" }, wiped, "status"));
  await eventually("it is wiped", () => ingress("zz-holder", "t1").length === 0);
  controller = await cluster.controller();
  await eventually("restored", () => ingress("zz-holder", "t1")[0] === "192.0.2.10", 5_000);
  await idle();
  expect(ingress("aa-waiter", "t1")).toEqual([]);
});

test("IP-20: two controllers that both believe to lead give 200 parallel Services 200 addresses, each one once", async () => {
  await cluster.speaker("n1");
  await cluster.create(IPADDRESSPOOL, pool("one", "198.51.100.0/24"));
  // Two elections on two Leases: neither stops the other.
  controller = await cluster.controller({ leaseName: "one" });
  const other = await cluster.controller({ leaseName: "two" });
  await eventually("both lead", () => controller.loop?.idle && other.loop?.idle);
  // A real server looks for a clusterIP for each of them first: it takes so many at once.
  for (let batch = 0; batch < 200; batch += 40) {
    const names = Array.from({ length: 40 }, (_, n) => `s${batch + n}`);
    await Promise.all(names.map((name) => cluster.create(SERVICE, loadBalancer(name))));
  }
  await eventually(
    "all have one",
    () => Array.from({ length: 200 }, (_, n) => ingress(`s${n}`)).every(({ length }) => length === 1),
    20_000,
  );
  expect(new Set(Array.from({ length: 200 }, (_, n) => ingress(`s${n}`)[0])).size).toBe(200);
  await eventually("no spare VIP is left", () => cluster.vips().length === 200, 10_000);
  for (const { metadata, spec } of cluster.vips()) {
    expect(ingress(spec.holders[0]?.name ?? "")).toEqual([metadata.name]);
  }
}, 60_000);

test("kill -9 of the leader: the other goes on within the Lease, and no address moves", async () => {
  await cluster.speaker("n1");
  await cluster.create(IPADDRESSPOOL, pool("one", "192.0.2.0/24"));
  controller = await cluster.controller();
  await cluster.create(SERVICE, loadBalancer("a"));
  await eventually("a is served", () => condition("a")?.status === "True");
  const before = ingress("a");
  const standby = await cluster.controller();
  await sleep(300);
  await idle();
  await sleep(700);
  const versions = cluster.versions();
  controller.kill();
  await cluster.create(SERVICE, loadBalancer("b"));
  const since = Date.now();
  await eventually("b is served by the other", () => ingress("b").length === 1, 12_000);
  expect(Date.now() - since).toBeLessThan(10_000);
  expect(ingress("a")).toEqual(before);
  expect(cluster.versions().get("Service/default/a")).toBe(versions.get("Service/default/a"));
  expect(standby.loop).toBeDefined();
}, 30_000);

test("SIGTERM gives the leadership back: the other goes on at once", async () => {
  await cluster.speaker("n1");
  await cluster.create(IPADDRESSPOOL, pool("one", "192.0.2.0/24"));
  controller = await cluster.controller();
  await eventually("it leads", () => controller.loop?.idle);
  await cluster.controller();
  await sleep(500);
  await controller.stop();
  await cluster.create(SERVICE, loadBalancer("b"));
  await eventually("b is served", () => ingress("b").length === 1, 4_000);
});

test.skipIf(ON_KUBE)(
  "answers that never came, conflicts, refusals and half lists: everybody gets one address in the end",
  async () => {
    await cluster.speaker("n1");
    await cluster.create(IPADDRESSPOOL, pool("one", "192.0.2.0/24"));
    controller = await cluster.controller();
    await eventually("it leads", () => controller.loop?.idle);
    const user = controller.user;
    const { faults } = cluster.api;
    // Carried out, and never told.
    faults.inject({ user, verb: "create", resource: "virtualips" }, { type: "halfLine" }, { times: 3 });
    faults.inject({ user, resource: "services", subresource: "status" }, { type: "status", code: 409 }, { times: 5 });
    faults.inject({ user, verb: "create" }, { type: "status", code: 500 }, { skip: 3, times: 3 });
    faults.inject({ user, verb: "create" }, { type: "status", code: 429, retryAfterSeconds: 1 }, { skip: 8, times: 2 });
    faults.inject({ verb: "watch", user }, { type: "halfLine" }, { times: 2 });
    const names = Array.from({ length: 20 }, (_, n) => `s${n}`);
    await Promise.all(names.map((name) => cluster.create(SERVICE, loadBalancer(name))));
    await eventually("all have one", () => names.every((name) => ingress(name).length === 1), 15_000);
    await eventually("no spare VIP is left", () => cluster.vips().length === 20, 10_000);
    expect(new Set(names.map((name) => ingress(name)[0])).size).toBe(20);
  },
  40_000,
);

test.skipIf(ON_KUBE)(
  "a store put back to before an allocation: nothing is given out until every speaker was heard, and no address twice",
  async () => {
    const speaker = await cluster.speaker("n1");
    await cluster.create(IPADDRESSPOOL, pool("one", "192.0.2.0/30"));
    controller = await cluster.controller();
    await cluster.create(SERVICE, loadBalancer("a"));
    await eventually("a is served", () => condition("a")?.status === "True");
    const backup = cluster.api.snapshot();
    await cluster.create(SERVICE, loadBalancer("b"));
    await eventually("b is served", () => condition("b")?.status === "True");
    const [a] = ingress("a");
    speaker.stopRenewing();
    cluster.api.restore(backup);
    await eventually("the controller saw it", () => controller.loop?.settling.type === "unsettled", 10_000);
    await cluster.create(SERVICE, loadBalancer("c"));
    await sleep(1_000);
    expect(ingress("c")).toEqual([]);
    speaker.renewAgain();
    await eventually("c is served", () => ingress("c").length === 1, 10_000);
    expect(ingress("a")).toEqual([a]);
    expect(ingress("c")[0]).not.toBe(a);
  },
  40_000,
);

test.skipIf(ON_KUBE)(
  "a store put back while a node is off for long: an admin gives it up, and nobody waits any more",
  async () => {
    const speaker = await cluster.speaker("n1");
    await cluster.create(IPADDRESSPOOL, pool("one", "192.0.2.0/30"));
    controller = await cluster.controller();
    await cluster.create(SERVICE, loadBalancer("a"));
    await eventually("a is served", () => condition("a")?.status === "True");
    const backup = cluster.api.snapshot();
    await cluster.create(SERVICE, loadBalancer("b"));
    await eventually("b is served", () => condition("b")?.status === "True");
    speaker.stopRenewing();
    cluster.api.restore(backup);
    await eventually("the controller saw it", () => controller.loop?.settling.type === "unsettled", 10_000);
    await cluster.create(SERVICE, loadBalancer("c"));
    // Its Lease runs out meanwhile, which is no proof: it may be cut off and still answer.
    await sleep(3_000);
    expect(ingress("c")).toEqual([]);
    // What `belfry release --node n1 --force` does.
    const annotations = { [GIVEN_UP_ANNOTATION]: "2026-01-01T00:00:00.000000Z" };
    const key = { namespace: NAMESPACE, name: speakerLeaseName("n1") };
    must(await cluster.client.mergePatch(LEASE, key, { metadata: { annotations } }));
    await eventually("c has an address", () => ingress("c").length === 1, 5_000);
  },
  40_000,
);

test.skipIf(ON_KUBE)(
  "a store put back in an outage that outlasts the leader's term: the process remembers what the term does not, and waits",
  async () => {
    const speaker = await cluster.speaker("n1");
    await cluster.create(IPADDRESSPOOL, pool("one", "192.0.2.0/30"));
    controller = await cluster.controller();
    await cluster.create(SERVICE, loadBalancer("a"));
    await eventually("a is served", () => condition("a")?.status === "True");
    const backup = cluster.api.snapshot();
    await cluster.create(SERVICE, loadBalancer("b"));
    await eventually("b is served", () => condition("b")?.status === "True");
    // A backup is older than the last renewal: that is how the store shows that it went back.
    await sleep(1_000);
    const before = controller.loop;
    speaker.stopRenewing();
    const mend = controller.cut();
    await eventually("it leads no more", () => controller.loop === undefined, 10_000);
    cluster.api.restore(backup);
    mend();
    await eventually("it leads again", () => controller.loop !== undefined && controller.loop !== before, 10_000);
    await cluster.create(SERVICE, loadBalancer("c"));
    await eventually("it knows everything", () => controller.loop?.missing().length === 0, 10_000);
    await sleep(1_500);
    // Stricter than the wait of one that has just begun: an expired Lease is not enough.
    expect(controller.loop?.settling).toMatchObject({ type: "unsettled", why: "storeChanged", waitingFor: ["n1"] });
    expect(ingress("c")).toEqual([]);
    speaker.renewAgain();
    await eventually("c is served", () => ingress("c").length === 1, 10_000);
  },
  60_000,
);

test("an outage that outlasts Leases and leader changes no condition: nobody was seen to die", async () => {
  await cluster.speaker("n1");
  await cluster.create(IPADDRESSPOOL, pool("one", "192.0.2.0/24"));
  controller = await cluster.controller();
  await cluster.create(SERVICE, loadBalancer("a"));
  await eventually("a is served", () => condition("a")?.status === "True");
  await idle();
  await sleep(700);
  const versions = cluster.versions();
  const before = controller.loop;
  const mend = controller.cut();
  await eventually("it leads no more", () => controller.loop === undefined, 10_000);
  mend();
  await eventually("it leads again", () => controller.loop !== undefined && controller.loop !== before, 10_000);
  await idle();
  await sleep(700);
  expect(cluster.versions()).toEqual(versions);
}, 40_000);

test("a controller without memory waits for the first renewal of a live speaker, and for a dead one's expiry", async () => {
  const speaker = await cluster.speaker("n1");
  speaker.stopRenewing();
  await cluster.create(IPADDRESSPOOL, pool("one", "192.0.2.0/24"));
  controller = await cluster.controller();
  await cluster.create(SERVICE, loadBalancer("a"));
  await sleep(800);
  expect(ingress("a")).toEqual([]);
  speaker.renewAgain();
  await eventually("a is served", () => ingress("a").length === 1, 3_000);
});

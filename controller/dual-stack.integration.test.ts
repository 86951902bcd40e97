/** I-08: what a Service asks for and what the pools have, against what it gets. */
import { afterEach, beforeEach, expect, test } from "vitest";
import type { Service } from "../src/api/foreign.ts";
import { GATEWAY, GATEWAYCLASS, IPADDRESSPOOL, L2ADVERTISEMENT, SERVICE } from "../src/api/resource.ts";
import {
  type Cluster,
  eventually,
  gateway,
  gatewayClass,
  l2,
  loadBalancer,
  must,
  pool,
  startCluster,
} from "./fixture.ts";

let cluster: Cluster;

beforeEach(async () => {
  cluster = await startCluster();
  await cluster.speaker("n1");
  await cluster.create(L2ADVERTISEMENT, l2());
  await cluster.create(GATEWAYCLASS, gatewayClass());
});
afterEach(() => cluster.close());

const ingress = (name = "a"): string[] =>
  (cluster.service(name)?.status?.loadBalancer?.ingress ?? []).flatMap(({ ip }) => ip ?? []);
const conditions = (name = "a") => cluster.service(name)?.status?.conditions ?? [];
const families = (addresses: string[]) => addresses.map((each) => (each.includes(":") ? "v6" : "v4"));
const idle = (controller: Awaited<ReturnType<Cluster["controller"]>>) =>
  eventually(
    "idle",
    () => controller.loop?.idle && controller.loop.settling.type === "settled" && conditions().length > 0,
  );

const V4 = pool("four", "192.0.2.0/24");
const V6 = pool("six", "2001:db8:0:1::/64");
const DUAL = pool("dual", "192.0.2.0/24", "2001:db8:0:1::/64");

type Row = {
  name: string;
  pools: ReturnType<typeof pool>[];
  spec: Partial<Service["spec"]>;
  annotations?: Record<string, string>;
  gets: string[];
  says?: [type: string, reason: string, message: RegExp];
  vips?: number;
};

const prefer = { ipFamilyPolicy: "PreferDualStack", ipFamilies: ["IPv4", "IPv6"] };
const require46 = { ipFamilyPolicy: "RequireDualStack", ipFamilies: ["IPv4", "IPv6"] };
const require64 = { ipFamilyPolicy: "RequireDualStack", ipFamilies: ["IPv6", "IPv4"] };

test.each<Row>([
  {
    name: "PreferDualStack on IPv4 only",
    pools: [V4],
    spec: prefer,
    gets: ["v4"],
    says: ["belfry.dev/FamilyMissing", "NoPoolForFamily", /IPv6/],
  },
  {
    name: "RequireDualStack on IPv4 only gets nothing, and consumes nothing",
    pools: [V4],
    spec: require46,
    gets: [],
    says: ["belfry.dev/Programmed", "NoPoolForFamily", /IPv6/],
    vips: 0,
  },
  { name: "RequireDualStack, IPv6 first, of two pools", pools: [V4, V6], spec: require64, gets: ["v6", "v4"] },
  { name: "SingleStack IPv4 of a dual pool", pools: [DUAL], spec: { ipFamilies: ["IPv4"] }, gets: ["v4"] },
  {
    name: "SingleStack IPv6 on IPv4 only",
    pools: [V4],
    spec: { ipFamilies: ["IPv6"] },
    gets: [],
    says: ["belfry.dev/Programmed", "NoPoolForFamily", /IPv6/],
  },
  {
    name: "a requested IPv4 address, and any IPv6 one",
    pools: [V4, V6],
    spec: { ...require46, loadBalancerIP: "192.0.2.10" },
    gets: ["v4", "v6"],
  },
  {
    name: "a requested family that the Service does not have",
    pools: [V4, V6],
    spec: { ipFamilies: ["IPv4"] },
    annotations: { "belfry.dev/loadBalancerIPs": "192.0.2.10,2001:db8:0:1::10" },
    gets: [],
    says: ["belfry.dev/Programmed", "FamilyNotRequested", /IPv6/],
  },
])("I-08: $name", async ({ pools, spec, annotations, gets, says, vips }) => {
  for (const each of pools) await cluster.create(IPADDRESSPOOL, each);
  const controller = await cluster.controller();
  await cluster.create(SERVICE, loadBalancer("a", spec, annotations));
  await idle(controller);
  await eventually("the addresses", () => ingress().length === gets.length);
  expect(families(ingress())).toEqual(gets);
  if (spec.loadBalancerIP !== undefined) expect(ingress()[0]).toBe(spec.loadBalancerIP);
  if (vips !== undefined) expect(cluster.vips()).toHaveLength(vips);
  if (says === undefined) return;
  const [type, reason, message] = says;
  const said = conditions().find((each) => each.type === type);
  expect(said).toMatchObject({ reason, message: expect.stringMatching(message) });
});

test("I-08: an IPv6 pool that comes later adds an IPv6 address, and the IPv4 one stays", async () => {
  await cluster.create(IPADDRESSPOOL, V4);
  await cluster.controller();
  await cluster.create(SERVICE, loadBalancer("a", prefer));
  const [first] = await eventually("IPv4", () => ingress().length === 1 && ingress());
  await cluster.create(IPADDRESSPOOL, V6);
  await eventually("both", () => ingress().length === 2);
  expect(ingress()[0]).toBe(first);
  await eventually("nothing is missing", () => !conditions().some(({ type }) => type === "belfry.dev/FamilyMissing"));
});

test("I-08: a dual Service that becomes SingleStack IPv4 keeps its IPv4 address, and frees the IPv6 one in 5 s", async () => {
  await cluster.create(IPADDRESSPOOL, V4);
  await cluster.create(IPADDRESSPOOL, V6);
  await cluster.controller();
  await cluster.create(SERVICE, loadBalancer("a", require46));
  const [first] = await eventually("both", () => ingress().length === 2 && ingress());
  const spec = {
    ipFamilyPolicy: "SingleStack",
    ipFamilies: ["IPv4"],
    clusterIPs: cluster.service("a")?.spec.clusterIPs?.slice(0, 1),
  };
  must(await cluster.client.mergePatch(SERVICE, { namespace: "default", name: "a" }, { spec }));
  await eventually("IPv6 is free", () => cluster.vips().length === 1, 5_000);
  expect(ingress()).toEqual([first]);
});

test("a Gateway gets one address of each family that its pools offer", async () => {
  await cluster.create(IPADDRESSPOOL, DUAL);
  await cluster.controller();
  await cluster.create(GATEWAY, gateway("web"));
  const addresses = () => cluster.gateway("web")?.status?.addresses?.map(({ value }) => value) ?? [];
  await eventually("both", () => addresses().length === 2);
  expect(families(addresses())).toEqual(["v4", "v6"]);
});

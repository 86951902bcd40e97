import { describe, expect, test } from "vitest";
import type { Address } from "../net/address.ts";
import type { Flow } from "../netlink/conntrack.ts";
import type { Buckets, FrontendPlan, VipPlan } from "../plan/vip-plan.ts";
import { flowChangesOf, isStale } from "./conntrack.ts";

const VIP = "203.0.113.10" as Address;
const at = (last: number, port = 53) => ({ address: `198.18.1.${last}` as Address, port, local: true });
const frontend = (
  protocol: "TCP" | "UDP",
  port: number,
  buckets: Buckets,
  outside?: Buckets | "drop",
): FrontendPlan => ({
  protocol,
  port,
  sourceRanges: [],
  action: { type: "balance", affinity: "None", buckets, ...(outside !== undefined && { outside }) },
});
const refuse = (protocol: "TCP" | "UDP", port: number): FrontendPlan => ({
  protocol,
  port,
  sourceRanges: [],
  action: { type: "refuse" },
});
const pass = (protocol: "TCP" | "UDP", port: number): FrontendPlan => ({
  protocol,
  port,
  sourceRanges: [],
  action: { type: "pass" },
});
const vip = (...frontends: FrontendPlan[]): VipPlan => ({ address: VIP, scope: "External", frontends });

describe("what a change makes worth looking at", () => {
  const one = frontend("UDP", 53, [at(2)]);
  test.each<[string, VipPlan | undefined, VipPlan | undefined, string | undefined]>([
    ["a new VIP", undefined, vip(one), "first"],
    ["a VIP gone", vip(one), undefined, "all"],
    ["a VIP that never was", undefined, undefined, undefined],
    ["an equal plan", vip(one), vip(frontend("UDP", 53, [at(2)])), undefined],
    ["a UDP frontend more", vip(one), vip(one, frontend("UDP", 54, [at(2)])), "udp"],
    ["a UDP frontend less", vip(one), vip(), "udp"],
    ["a UDP endpoint more", vip(one), vip(frontend("UDP", 53, [at(2), at(3)])), undefined],
    ["a UDP endpoint less", vip(frontend("UDP", 53, [at(2), at(3)])), vip(one), "udp"],
    ["a UDP endpoint's port changed", vip(one), vip(frontend("UDP", 53, [at(2, 5353)])), "udp"],
    ["the last UDP endpoint gone", vip(one), vip(refuse("UDP", 53)), "udp"],
    ["the first UDP endpoint", vip(refuse("UDP", 53)), vip(one), "udp"],
    ["an endpoint that only the outside still uses", vip(one), vip(frontend("UDP", 53, [at(3)], [at(2)])), undefined],
    ["a TCP endpoint less", vip(frontend("TCP", 80, [at(2), at(3)])), vip(frontend("TCP", 80, [at(2)])), undefined],
    ["a frontend handed to another data path", vip(one), vip(pass("UDP", 53)), undefined],
  ])("%s", (_, applied, wanted, type) => expect(flowChangesOf(VIP, applied, wanted)?.type).toBe(type));
});

describe("which flows go", () => {
  const flow = (protocol: number, port: number, replier: string, replierPort = 53): Flow => ({
    family: "IPv4",
    original: { source: "192.0.2.1" as Address, destination: VIP, protocol, sourcePort: 4000, destinationPort: port },
    reply: {
      source: replier as Address,
      destination: "192.0.2.1" as Address,
      protocol,
      sourcePort: replierPort,
      destinationPort: 4000,
    },
    name: { original: new Uint8Array(), id: undefined, zone: undefined },
  });
  const plan = vip(
    frontend("UDP", 53, [at(2), undefined], [at(4)]),
    frontend("TCP", 80, [at(2, 8080)]),
    pass("UDP", 99),
    refuse("UDP", 54),
  );
  test.each<[string, Flow, VipPlan | undefined, boolean]>([
    ["UDP to an endpoint", flow(17, 53, "198.18.1.2"), plan, false],
    ["UDP to an endpoint of the outside", flow(17, 53, "198.18.1.4"), plan, false],
    ["UDP to one that left", flow(17, 53, "198.18.1.3"), plan, true],
    ["UDP to another port of an endpoint", flow(17, 53, "198.18.1.2", 5353), plan, true],
    ["UDP never translated", flow(17, 53, VIP), plan, true],
    ["UDP to a frontend without endpoints", flow(17, 54, "198.18.1.2"), plan, true],
    ["UDP to a frontend that is gone", flow(17, 55, "198.18.1.2"), plan, true],
    ["UDP of another data path", flow(17, 99, "198.18.1.2"), plan, false],
    ["TCP to one that left: it may be draining", flow(6, 80, "198.18.1.3", 8080), plan, false],
    ["TCP never translated", flow(6, 80, VIP, 80), plan, true],
    ["an echo that was redirected", flow(1, 0, "192.0.2.11", 0), plan, false],
    ["an echo that was not", flow(1, 0, VIP, 0), plan, true],
    ["UDP to a node's own service", flow(17, 161, VIP), { ...plan, scope: "Node" }, false],
    ["an echo to a node's own address", flow(1, 0, VIP, 0), { ...plan, scope: "Node" }, false],
    ["a VIP that we don't know", flow(17, 53, "198.18.1.3"), undefined, false],
  ])("%s", (_, one, known, stale) => expect(isStale(one, known)).toBe(stale));
});

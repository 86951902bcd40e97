import { describe, expect, test } from "vitest";
import type { Node, Service } from "../api/foreign.ts";
import type { IPAddressPool } from "../api/ip-address-pool.ts";
import type { Condition } from "../api/meta.ts";
import type { SpeakerStatus } from "../api/speaker-status.ts";
import type { VirtualIP } from "../api/virtual-ip.ts";
import { type ClusterObjects, NO_OBJECTS, ReadModel } from "./read-model.ts";

const condition = (type: string, status: Condition["status"], reason: string, message = ""): Condition => ({
  type,
  status,
  reason,
  message,
  lastTransitionTime: "2026-01-01T00:00:00Z",
});
const model = (objects: Partial<ClusterObjects>, live: string[] = []) =>
  new ReadModel({ ...NO_OBJECTS, ...objects }, { liveLeases: new Set(live) });
const vip = (
  address: string,
  more: { deleted?: boolean; node?: string; conditions?: Condition[] } = {},
): VirtualIP => ({
  metadata: {
    name: address.replaceAll(":", "-"),
    ...(more.deleted === true ? { deletionTimestamp: "2026-01-01T00:00:00Z" } : {}),
  },
  spec: {
    address,
    scope: "External",
    pool: "lan",
    holders: [{ kind: "Service", namespace: "demo", name: "web", uid: "1" }],
    advertisements: { l2: [] },
    forwards: [],
  },
  status: {
    ...(more.node === undefined
      ? {}
      : { owner: { node: more.node, interface: "eth0", since: "2026-01-01T00:00:00Z", term: 1, generation: 1 } }),
    conditions: more.conditions ?? [],
  },
});

describe("an address", () => {
  const served = [condition("Programmed", "True", "Programmed"), condition("Announced", "True", "Answering")];
  test.each<[string, VirtualIP, string | undefined]>([
    ["that is served", vip("192.0.2.1", { conditions: served }), undefined],
    ["that nobody has looked at", vip("192.0.2.1"), "Pending"],
    ["that is being given back", vip("192.0.2.1", { deleted: true, conditions: served }), "Releasing"],
    [
      "that a dead node keeps",
      vip("192.0.2.1", { deleted: true, conditions: [condition("Releasing", "True", "NodeMayAnswer")] }),
      "NodeMayAnswer",
    ],
    [
      "that nobody announces, which says more than that it is not programmed",
      vip("192.0.2.1", {
        conditions: [condition("Programmed", "False", "Pending"), condition("Announced", "False", "NoInterface")],
      }),
      "NoInterface",
    ],
    [
      "that is not programmed",
      vip("192.0.2.1", { conditions: [condition("Programmed", "False", "Pending")] }),
      "Pending",
    ],
    [
      "that another claims, whatever else is true",
      vip("192.0.2.1", { conditions: [...served, condition("Conflict", "True", "Claimed")] }),
      "Claimed",
    ],
  ])("%s", (_, object, reason) => {
    expect(model({ vips: [object] }).vipViews()[0]?.whyNot?.reason).toBe(reason);
  });

  test("stands in the order of addresses, IPv4 first", () => {
    const vips = ["2001:db8::1", "192.0.2.10", "192.0.2.9"].map((address) => vip(address));
    expect(
      model({ vips })
        .vipViews()
        .map(({ address }) => address),
    ).toEqual(["192.0.2.9", "192.0.2.10", "2001:db8::1"]);
  });

  test("is found by its holder, whatever uid it is bound to", () => {
    const found = model({ vips: [vip("192.0.2.1")] });
    expect(found.vipsOf({ kind: "Service", namespace: "demo", name: "web" })).toHaveLength(1);
    expect(found.vipsOf({ kind: "Gateway", namespace: "demo", name: "web" })).toHaveLength(0);
  });
});

describe("a node", () => {
  const node: Node = { metadata: { name: "a" } };
  const speaker = (status: SpeakerStatus["status"] = {}): SpeakerStatus => ({
    metadata: { name: "a" },
    spec: { nodeName: "a" },
    status,
  });
  const unready = { conditions: [condition("DataPathReady", "False", "ForwardingOff", "set it")] };
  test.each<[string, Partial<ClusterObjects>, string[], string | undefined]>([
    ["with a living speaker", { nodes: [node], speakers: [speaker()] }, ["belfry-speaker-a"], undefined],
    ["that never had a speaker", { nodes: [node] }, [], "NoSpeaker"],
    ["whose speaker is dead", { nodes: [node], speakers: [speaker()] }, [], "SpeakerDead"],
    ["that is gone", { speakers: [speaker()] }, [], "NodeGone"],
    ["that can't forward", { nodes: [node], speakers: [speaker(unready)] }, ["belfry-speaker-a"], "ForwardingOff"],
    [
      "that fails for an address",
      { nodes: [node], speakers: [speaker({ failing: [{ vip: "192.0.2.1", reason: "full" }] })] },
      ["belfry-speaker-a"],
      "Failing",
    ],
  ])("%s", (_, objects, live, reason) => {
    expect(model(objects, live).speakerViews()[0]?.whyNot?.reason).toBe(reason);
  });

  test("is counted the addresses that name it as owner", () => {
    const vips = [vip("192.0.2.1", { node: "a" }), vip("192.0.2.2", { node: "b" }), vip("192.0.2.3", { node: "a" })];
    expect(model({ nodes: [node], vips }).speakerViews()[0]?.owns).toBe(2);
  });
});

describe("a pool", () => {
  const pool = (disabled: boolean, conditions: Condition[]): IPAddressPool => ({
    metadata: { name: "lan" },
    spec: { addresses: ["192.0.2.0/24"], excludes: [], autoAssign: true, avoidBuggyIPs: false, disabled },
    status: { assignedIPv4: 1, availableIPv4: 2, conditions },
  });
  test.each<[string, IPAddressPool, string | undefined]>([
    ["in order", pool(false, [condition("Accepted", "True", "Accepted")]), undefined],
    ["that is drained", pool(true, []), "Disabled"],
    ["without an address", pool(true, [condition("Accepted", "False", "NoAddresses")]), "NoAddresses"],
    ["that lost some to an older one", pool(false, [condition("Conflicted", "True", "Overlap")]), "Overlap"],
    ["with an entry that says nothing", pool(false, [condition("PartiallyInvalid", "True", "HostBits")]), "HostBits"],
  ])("%s", (_, object, reason) => {
    expect(model({ pools: [object] }).poolViews()[0]).toMatchObject({ used: { IPv4: 1, IPv6: 0 }, free: { IPv4: 2 } });
    expect(model({ pools: [object] }).poolViews()[0]?.whyNot?.reason).toBe(reason);
  });

  test("never has a node's or the cluster's own addresses free", () => {
    const objects: Partial<ClusterObjects> = {
      pools: [pool(false, [])],
      nodes: [{ metadata: { name: "a" }, status: { addresses: [{ type: "InternalIP", address: "192.0.2.7" }] } }],
      serviceCIDRs: [{ metadata: { name: "k" }, spec: { cidrs: ["192.0.2.128/25"] } }],
      vips: [vip("192.0.2.9")],
    };
    expect(model(objects).book().free("lan", "IPv4")).toBe(256n - 128n - 1n - 1n);
  });
});

describe("holders", () => {
  const service = (name: string, loadBalancerClass?: string): Service => ({
    metadata: { namespace: "demo", name },
    spec: { type: "LoadBalancer", ...(loadBalancerClass === undefined ? {} : { loadBalancerClass }) },
  });
  test("are the Services of our class, and those that have an address of ours", () => {
    const services = [
      service("ours", "belfry.dev/load-balancer"),
      service("theirs", "x/y"),
      service("none"),
      service("web"),
    ];
    const found = model({ services, vips: [vip("192.0.2.1")] });
    expect(found.serviceViews().map(({ name }) => name)).toEqual(["ours", "web"]);
  });

  test("are the Gateways of classes that name our controller", () => {
    const gateway = (name: string, gatewayClassName: string) => ({
      metadata: { namespace: "demo", name },
      spec: { gatewayClassName, listeners: [] },
    });
    const gatewayClasses = [
      { metadata: { name: "a" }, spec: { controllerName: "belfry.dev/load-balancer" } },
      { metadata: { name: "b" }, spec: { controllerName: "x/y" } },
    ];
    const gateways = [gateway("one", "a"), gateway("two", "b"), gateway("three", "missing")];
    expect(
      model({ gateways, gatewayClasses })
        .gatewayViews()
        .map(({ name }) => name),
    ).toEqual(["one"]);
  });
});

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { L2AdvertisementSpec } from "../api/l2-advertisement.ts";
import type { Forward } from "../api/virtual-ip.ts";
import type { Address } from "../net/address.ts";
import { type Elected, type Election, elect, type NodeView } from "./elect.ts";
import type { Slice, SliceEndpoint } from "./endpoint.ts";
import { nodesWithEndpoints } from "./forward.ts";

const advertisement = (more: Partial<L2AdvertisementSpec> = {}): L2AdvertisementSpec => ({
  ipAddressPools: [],
  ipAddressPoolSelectors: [],
  serviceSelectors: [],
  nodeSelectors: [],
  preferredNodeSelectors: [],
  interfaces: [],
  requireSubnet: true,
  refreshIntervalSeconds: 60,
  ...more,
});

const node = (name: string, more: Partial<NodeView> = {}): NodeView => ({
  name,
  labels: {},
  live: true,
  excluded: false,
  dataPathReady: true,
  links: [{ name: "eth0", mac: "02:00:00:00:00:0a", up: true, subnets: ["192.0.2.11/24"], defaultGateways: [] }],
  ...more,
});

const among = (...nodes: NodeView[]) => new Map(nodes.map((it) => [it.name, it]));

const election = (more: Partial<Election> = {}): Election => ({
  address: "192.0.2.200" as Address,
  advertisements: [advertisement()],
  needsDataPath: true,
  homes: undefined,
  recorded: undefined,
  ...more,
});

const ownerOf = (elected: Elected): string => (elected.type === "owner" ? elected.node : elected.reason);

describe("who is a candidate", () => {
  const only = (more: Partial<NodeView>) => among(node("a", more));
  const rows: [string, Partial<Election>, Partial<NodeView>, string][] = [
    ["a node with all it takes", {}, {}, "a"],
    ["no advertisement that exists", { advertisements: [] }, {}, "NoAdvertisement"],
    [
      "not selected by nodeSelectors",
      { advertisements: [advertisement({ nodeSelectors: [{ matchLabels: { rack: "1" } }] })] },
      {},
      "NoNodeSelected",
    ],
    [
      "selected by one of several",
      { advertisements: [advertisement({ nodeSelectors: [{ matchLabels: { rack: "1" } }, {}] })] },
      {},
      "a",
    ],
    ["its speaker is dead", {}, { live: false }, "NoLiveSpeaker"],
    ["excluded by label", {}, { excluded: true }, "NodesExcluded"],
    ["data path not ready", {}, { dataPathReady: false }, "DataPathNotReady"],
    ["data path not ready, but not needed", { needsDataPath: false }, { dataPathReady: false }, "a"],
    ["no link at all", {}, { links: [] }, "NoInterface"],
    ["AR-05: no subnet", { address: "203.0.113.5" as Address }, {}, "NotInSubnet"],
    ["LocalOnly without an endpoint", { homes: new Set<string>() }, {}, "NoLocalEndpoints"],
    ["LocalOnly with one", { homes: new Set(["a"]) }, {}, "a"],
  ];
  test.each(rows)("%s", (_, more, view, expected) => expect(ownerOf(elect(election(more), only(view)))).toBe(expected));

  test("nobody is explained by the cause that is nearest to a working VIP", () => {
    const elected = elect(election({ homes: new Set() }), among(node("a", { live: false }), node("b")));
    expect(elected).toMatchObject({ type: "nobody", reason: "NoLocalEndpoints" });
    expect(elected.type === "nobody" && elected.message).toContain("192.0.2.200");
  });

  test("FO-11: a node on two subnets is a candidate for a VIP in the second", () => {
    const links = [
      { name: "eth0", mac: "02:00:00:00:00:0a", up: true, subnets: ["192.0.2.11/24"], defaultGateways: [] },
      { name: "eth1", mac: "02:00:00:00:00:0b", up: true, subnets: ["203.0.113.11/24"], defaultGateways: [] },
    ];
    const second = election({ address: "203.0.113.5" as Address });
    expect(ownerOf(elect(second, among(node("a"), node("b", { links }))))).toBe("b");
  });
});

describe("who of them", () => {
  const five = ["a", "b", "c", "d", "e"].map((name) => node(name));

  test("FO-06: the recorded owner stays while it is a candidate, whoever joins, returns or is preferred", () => {
    const preferring = advertisement({
      preferredNodeSelectors: [{ weight: 100, preference: { matchLabels: { best: "yes" } } }],
    });
    let moves = 0;
    let recorded = ownerOf(elect(election(), among(node("a"))));
    for (const nodes of [
      among(...five.slice(0, 2)),
      among(...five),
      among(...five, node("f", { labels: { best: "yes" } })),
      among(node("a"), ...five.slice(2)),
    ]) {
      const owner = ownerOf(elect(election({ recorded, advertisements: [preferring] }), nodes));
      if (owner !== recorded) moves++;
      recorded = owner;
    }
    expect(moves).toBe(0);
  });

  test("the most preferred wins a new election; weights of several selectors add up", () => {
    const preferring = advertisement({
      preferredNodeSelectors: [
        { weight: 10, preference: { matchLabels: { rack: "1" } } },
        { weight: 5, preference: { matchLabels: { disk: "ssd" } } },
      ],
    });
    const nodes = among(
      node("a", { labels: { disk: "ssd" } }),
      node("b", { labels: { rack: "1" } }),
      node("c", { labels: { rack: "1", disk: "ssd" } }),
      node("d"),
    );
    expect(ownerOf(elect(election({ advertisements: [preferring] }), nodes))).toBe("c");
  });

  test("property: every node elects the same one, in whatever order it knows the nodes", () => {
    fc.assert(
      fc.property(fc.shuffledSubarray(five, { minLength: 1 }), fc.integer({ min: 1, max: 250 }), (nodes, last) => {
        const one = election({ address: `192.0.2.${last}` as Address });
        expect(elect(one, among(...nodes))).toEqual(elect(one, among(...nodes.toReversed())));
      }),
    );
  });

  test("property: a node that goes moves its own VIPs only", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 250 }), fc.constantFrom(...five), (last, gone) => {
        const one = election({ address: `192.0.2.${last}` as Address });
        const before = ownerOf(elect(one, among(...five)));
        const after = ownerOf(elect(one, among(...five.filter((it) => it !== gone))));
        if (before !== gone.name) expect(after).toBe(before);
      }),
    );
  });

  test("VIPs spread over the nodes", () => {
    const counts = new Map<string, number>();
    for (let i = 0; i < 1000; i++) {
      const owner = ownerOf(
        elect(
          election({ address: `192.0.2.${i}` as Address, advertisements: [advertisement({ requireSubnet: false })] }),
          among(...five),
        ),
      );
      counts.set(owner, (counts.get(owner) ?? 0) + 1);
    }
    expect(Math.min(...counts.values())).toBeGreaterThan(150);
    expect(Math.max(...counts.values())).toBeLessThan(250);
  });
});

/** Who may answer for a LocalOnly VIP, row by row of the table; n1 to n3 are nodes with everything else in order. */
describe("I-20, FO-13: nodes LocalOnly follows the endpoints", () => {
  const nodes = among(node("n1"), node("n2"), node("n3"));
  const forward = (more: Partial<Forward>): Forward =>
    ({
      protocol: "TCP",
      port: 80,
      dataPath: "Belfry",
      nodes: "LocalOnly",
      backends: [{ kind: "Service", namespace: "t", name: "web", portName: "", weight: 1 }],
      ...more,
    }) as Forward;
  type Line = readonly [address: string, node: string | undefined, state: SliceEndpoint["state"]];
  const slice = (...lines: Line[]): Slice => ({
    service: "t/web",
    family: "IPv4",
    ports: [{ name: "", protocol: "TCP", port: 8080 }],
    endpoints: lines.map(([address, home, state]) => ({ address: address as Address, node: home, state })),
  });
  /** Every node that could be elected: each in turn stands for the recorded owner. */
  const candidates = (slices: readonly Slice[], more: Partial<Forward> = {}): string[] => {
    const homes = nodesWithEndpoints({ address: "192.0.2.200", forwards: [forward(more)] }, () => slices);
    return [...nodes.keys()].filter((name) => ownerOf(elect(election({ homes, recorded: name }), nodes)) === name);
  };
  const one: Line = ["198.18.1.5", "n1", "ready"];
  const two: Line = ["198.18.2.5", "n2", "ready"];
  const rows: [string, Slice[], string[]][] = [
    ["1: one ready on n1", [slice(one)], ["n1"]],
    ["2: another, not ready, on n2", [slice(one, ["198.18.2.5", "n2", "unusable"])], ["n1"]],
    ["3: it is ready", [slice(one, two)], ["n1", "n2"]],
    ["4: n1's terminates and serves", [slice(["198.18.1.5", "n1", "terminating"], two)], ["n2"]],
    ["4b: the same with nothing ready anywhere", [slice(["198.18.1.5", "n1", "terminating"])], ["n1"]],
    ["5: n1's serves no more", [slice(["198.18.1.5", "n1", "unusable"], two)], ["n2"]],
    ["6: n1's is gone", [slice(two)], ["n2"]],
    ["6b: n2's, too", [slice()], []],
    ["7: a new one starts on n1", [slice(["198.18.1.6", "n1", "unusable"], two)], ["n2"]],
    ["8: it is ready", [slice(["198.18.1.6", "n1", "ready"], two)], ["n1", "n2"]],
    [
      "9: one on n3 whose conditions are all null",
      [slice(one, two, ["198.18.3.5", "n3", "ready"])],
      ["n1", "n2", "n3"],
    ],
    ["10: one without nodeName beside others", [slice(one, ["198.18.9.5", undefined, "ready"])], ["n1"]],
    ["10b: alone", [slice(["198.18.9.5", undefined, "ready"])], []],
    ["12: in two slices", [slice(one), slice(one)], ["n1"]],
    ["12b: one of them removed", [slice(one)], ["n1"]],
    ["13: every slice is deleted", [], []],
  ];
  test.each(rows)("I-20 row %s", (_, slices, expected) => expect(candidates(slices)).toEqual(expected));

  test("I-20 row 14: nodes Cluster without endpoints stays announced", () => {
    expect(candidates([], { nodes: "Cluster" })).toEqual(["n1", "n2", "n3"]);
  });

  test("FO-13: the owner without a pod gives way to a node that has one", () => {
    const homes = new Set(["n2"]);
    expect(ownerOf(elect(election({ homes, recorded: "n1" }), nodes))).toBe("n2");
    expect(ownerOf(elect(election({ homes: new Set(), recorded: "n1" }), nodes))).toBe("NoLocalEndpoints");
  });
});

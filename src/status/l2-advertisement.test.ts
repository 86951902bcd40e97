import { expect, test } from "vitest";
import { type L2Advertisement, L2AdvertisementSpec } from "../api/l2-advertisement.ts";
import { l2AdvertisementStatus } from "./l2-advertisement.ts";

const NOW = "2026-01-02T00:00:00Z";
const POOLS = new Map([["edge", { labels: { tier: "edge" } }]]);
const NODES = [{ name: "node-a", labels: { rack: "1" } }];

const advertisement = (spec: Partial<L2AdvertisementSpec>): L2Advertisement => ({
  metadata: { name: "all", generation: 2 },
  spec: L2AdvertisementSpec.parse(spec),
});

const rows: [string, Partial<L2AdvertisementSpec>, string, string][] = [
  ["nothing but defaults", {}, "", ""],
  ["a pool that is there", { ipAddressPools: ["edge"] }, "", ""],
  ["a pool that is not there", { ipAddressPools: ["edge", "core"] }, "ResolvedRefs=PoolNotFound", '"core"'],
  ["labels of a pool", { ipAddressPoolSelectors: [{ matchLabels: { tier: "edge" } }] }, "", ""],
  [
    "labels of no pool",
    { ipAddressPoolSelectors: [{ matchLabels: { tier: "x" } }] },
    "ResolvedRefs=PoolNotFound",
    "labels",
  ],
  ["labels of a node", { nodeSelectors: [{ matchLabels: { rack: "2" } }, { matchLabels: { rack: "1" } }] }, "", ""],
  ["labels of no node", { nodeSelectors: [{ matchLabels: { rack: "2" } }] }, "NodesSelected=NoNodeSelected", "no node"],
  ["an expression", { interfaces: ["/^eth[0-9]$/", "e(0"] }, "", ""],
  ["text that is no expression", { interfaces: ["/eth(/"] }, "Accepted=InvalidPattern", "/eth(/"],
  ["no expression among excludes", { excludeInterfaces: ["/[/"] }, "Accepted=InvalidPattern", "/[/"],
];

test.each(rows)("an L2Advertisement with %s", (_, spec, expected, message) => {
  const { conditions = [] } = l2AdvertisementStatus({
    advertisement: advertisement(spec),
    pools: POOLS,
    nodes: NODES,
    now: NOW,
  });
  const bad = conditions.filter(({ status }) => status === "False");
  expect(bad.map(({ type, reason }) => `${type}=${reason}`).join(" ")).toBe(expected);
  expect(bad[0]?.message ?? "").toContain(message);
  expect(conditions.map(({ observedGeneration }) => observedGeneration)).toEqual([2, 2, 2]);
});

test("a status that is right is the very same one", () => {
  const of = advertisement({});
  const status = l2AdvertisementStatus({ advertisement: of, pools: POOLS, nodes: NODES, now: NOW });
  const later = { advertisement: { ...of, status }, pools: POOLS, nodes: NODES, now: "2026-02-01T00:00:00Z" };
  expect(l2AdvertisementStatus(later)).toBe(status);
});

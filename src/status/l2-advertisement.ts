/** Status of an L2Advertisement: whether what it names is there. */
import type { L2Advertisement } from "../api/l2-advertisement.ts";
import { selects } from "../api/label-selector.ts";
import { unlessSame } from "../core/same.ts";
import type { Problem } from "../core/trouble.ts";
import { mergeConditions, verdict } from "./condition.ts";

const OWNED = ["Accepted", "ResolvedRefs", "NodesSelected"];

type Labels = Readonly<Record<string, string>>;

export type L2AdvertisementStatusInput = {
  readonly advertisement: L2Advertisement;
  /** All pools, by name. */
  readonly pools: ReadonlyMap<string, { readonly labels: Labels }>;
  readonly nodes: readonly { readonly name: string; readonly labels: Labels }[];
  /** RFC 3339, in seconds and UTC. */
  readonly now: string;
};

/** The status that the advertisement should have; `advertisement.status` itself when it has it. */
export function l2AdvertisementStatus({
  advertisement,
  pools,
  nodes,
  now,
}: L2AdvertisementStatusInput): NonNullable<L2Advertisement["status"]> {
  const { spec, status, metadata } = advertisement;
  const verdicts = [
    verdict("Accepted", badPattern(spec), { reason: "Accepted", message: "" }),
    verdict("ResolvedRefs", missingPools(spec, pools), { reason: "ResolvedRefs", message: "" }),
    verdict("NodesSelected", noNode(spec, nodes), { reason: "NodesSelected", message: "" }),
  ];
  const writing = { owned: OWNED, generation: metadata.generation, now };
  return unlessSame(status, { ...status, conditions: [...mergeConditions(status?.conditions, verdicts, writing)] });
}

function badPattern({ interfaces = [], excludeInterfaces = [] }: L2Advertisement["spec"]): Problem | undefined {
  const bad = [...interfaces, ...excludeInterfaces].filter((pattern) => isExpression(pattern) && !compiles(pattern));
  if (bad.length === 0) return undefined;
  return {
    reason: "InvalidPattern",
    message: `${bad.join(", ")} is not a regular expression and matches no interface`,
  };
}

const isExpression = (pattern: string): boolean =>
  pattern.length > 1 && pattern.startsWith("/") && pattern.endsWith("/");

function compiles(pattern: string): boolean {
  try {
    new RegExp(pattern.slice(1, -1));
    return true;
  } catch {
    return false;
  }
}

function missingPools(
  { ipAddressPools = [], ipAddressPoolSelectors = [] }: L2Advertisement["spec"],
  pools: L2AdvertisementStatusInput["pools"],
): Problem | undefined {
  const missing = ipAddressPools.filter((name) => !pools.has(name));
  if (missing.length > 0) {
    const named = missing.map((name) => `"${name}"`).join(", ");
    return { reason: "PoolNotFound", message: `ipAddressPools: there is no IPAddressPool ${named}` };
  }
  if (ipAddressPools.length > 0 || ipAddressPoolSelectors.length === 0) return undefined;
  const found = [...pools.values()].some(({ labels }) => ipAddressPoolSelectors.some((each) => selects(each, labels)));
  if (found) return undefined;
  return { reason: "PoolNotFound", message: "ipAddressPoolSelectors: no IPAddressPool has these labels" };
}

function noNode(
  { nodeSelectors = [] }: L2Advertisement["spec"],
  nodes: L2AdvertisementStatusInput["nodes"],
): Problem | undefined {
  if (nodeSelectors.length === 0) return undefined;
  if (nodes.some(({ labels }) => nodeSelectors.some((selector) => selects(selector, labels)))) return undefined;
  return { reason: "NoNodeSelected", message: "nodeSelectors: no node has these labels, so nobody can answer" };
}

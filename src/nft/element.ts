/** What the constant table must hold for a VIP and for the cluster around this node, as set elements. Pure. */
import { concat } from "../core/bytes.ts";
import { type Address, addressOf, bytesOf, type Family, familyOf } from "../net/address.ts";
import { type Prefix, partsOf, prefixOf } from "../net/prefix.ts";
import type { Element, Verdict } from "../netlink/nftables.ts";
import type { BucketCount, Buckets, Endpoint, FrontendPlan, NodeSurroundings, VipPlan } from "../plan/vip-plan.ts";
import {
  BUCKET_COUNTS,
  chooseChain,
  FAMILIES,
  NFPROTO,
  OUTSIDE_BUCKETS,
  PLAIN_BRIDGE,
  rangeChain,
  type SetKind,
  setName,
  splitChain,
} from "./ruleset.ts";

/** An element and the set that it belongs to. */
export type Placed = { readonly set: string; readonly element: Element };

const PROTOCOL = { TCP: 6, UDP: 17 } as const;

/** All elements of a VIP, each in its set. Addresses of local endpoints are not here: VIPs share them. */
export function elementsOfVip(plan: VipPlan): Placed[] {
  return [...elementsOfAddress(plan), ...plan.frontends.flatMap((frontend) => elementsOfFrontend(plan, frontend))];
}

/** The elements that a VIP has whatever its frontends are. */
export function elementsOfAddress(plan: VipPlan): Placed[] {
  // A node's own address is never guarded: that would cut the node's own services.
  if (plan.scope === "Node") return [];
  return [{ set: setName("vip", familyOf(plan.address)), element: { key: bytesOf(plan.address) } }];
}

/** The elements of one frontend of a VIP. */
export function elementsOfFrontend(plan: VipPlan, frontend: FrontendPlan): Placed[] {
  const placed = leadingElements(plan, frontend);
  const set = setName("endpoint", familyOf(plan.address));
  for (const { key, data } of bucketElements(plan, frontend)) {
    placed.push({ set, element: { key: key.slice(), ...(data !== undefined && { data }) } });
  }
  return placed;
}

/** The elements of one frontend that lead to its buckets, or stand in their place. */
export function leadingElements(plan: VipPlan, frontend: FrontendPlan): Placed[] {
  const family = familyOf(plan.address);
  const key = frontendKey(bytesOf(plan.address), frontend);
  const placed: Placed[] = [];
  const put = (kind: SetKind, element: Element): void => void placed.push({ set: setName(kind, family), element });
  const { action } = frontend;
  if (action.type === "pass") {
    if (plan.scope !== "Node") put("pass", { key });
    return placed;
  }
  const ranges = mergedRanges(frontend.sourceRanges, family);
  if (ranges.length > 0) {
    put("frontend", { key, data: goto(rangeChain(family)) });
    for (const { first, last } of ranges) {
      put("range", {
        key: concat(key, bytesOf(addressOf(first, family))),
        keyEnd: concat(key, bytesOf(addressOf(last, family))),
      });
    }
  }
  if (action.type === "refuse") return placed;
  const choose = (buckets: Buckets, side: "inside" | "outside"): Verdict =>
    goto(chooseChain(family, action.affinity, bucketCount(buckets), side));
  const first = ranges.length > 0 ? "ranged" : "frontend";
  if (action.outside === undefined) {
    put(first, { key, data: choose(action.buckets, "inside") });
  } else {
    put(first, { key, data: goto(splitChain(family)) });
    put("inside", { key, data: choose(action.buckets, "inside") });
    put("outside", { key, data: action.outside === "drop" ? { type: "drop" } : choose(action.outside, "outside") });
  }
  if (plan.scope === "Node") put("node-frontend", { key });
  return placed;
}

/**
 * The elements of one frontend's buckets, in the map `endpoint` of the VIP's family. There are many, so it is one and the
 * same element with one and the same key each time: read it before the next one is asked for.
 */
export function* bucketElements(plan: VipPlan, frontend: FrontendPlan): Iterable<Element> {
  const { action } = frontend;
  if (action.type !== "balance") return;
  const frontendBytes = frontendKey(bytesOf(plan.address), frontend);
  const element: { key: Uint8Array; data?: Uint8Array } = { key: bucketKey(frontendBytes, 0) };
  const dataOf = endpointData();
  for (const [from, buckets] of [
    [0, action.buckets],
    [OUTSIDE_BUCKETS, action.outside === "drop" ? [] : (action.outside ?? [])],
  ] as const) {
    for (let bucket = 0; bucket < buckets.length; bucket++) {
      const endpoint = buckets[bucket];
      if (endpoint === undefined) continue;
      putBucket(element.key, frontendBytes.length, from + bucket);
      element.data = dataOf(endpoint);
      yield element;
    }
  }
}

/** How many elements the buckets of a frontend are. */
export function bucketElementCount({ action }: FrontendPlan): number {
  if (action.type !== "balance") return 0;
  let count = 0;
  for (const endpoint of action.buckets) if (endpoint !== undefined) count++;
  if (action.outside === undefined || action.outside === "drop") return count;
  for (const endpoint of action.outside) if (endpoint !== undefined) count++;
  return count;
}

/** address . protocol . port, each padded to four bytes. */
function frontendKey(address: Uint8Array, frontend: { protocol: "TCP" | "UDP"; port: number }): Uint8Array {
  const key = new Uint8Array(address.length + 8);
  key.set(address);
  key[address.length] = PROTOCOL[frontend.protocol];
  key[address.length + 4] = frontend.port >> 8;
  key[address.length + 5] = frontend.port & 0xff;
  return key;
}

/** The key of a bucket: its number is in host order, as the hash leaves it in the register. */
function bucketKey(frontend: Uint8Array, bucket: number): Uint8Array {
  const key = new Uint8Array(frontend.length + 4);
  key.set(frontend);
  putBucket(key, frontend.length, bucket);
  return key;
}

function putBucket(key: Uint8Array, at: number, bucket: number): void {
  key[at] = bucket & 0xff;
  key[at + 1] = (bucket >> 8) & 0xff;
  key[at + 2] = (bucket >> 16) & 0xff;
  key[at + 3] = bucket >>> 24;
}

/** address . port of endpoints, made once for each that is met. */
function endpointData(): (endpoint: Endpoint) => Uint8Array {
  const made = new Map<Endpoint, Uint8Array>();
  return (endpoint) => {
    let data = made.get(endpoint);
    if (data === undefined) {
      const address = bytesOf(endpoint.address);
      data = new Uint8Array(address.length + 4);
      data.set(address);
      data[address.length] = endpoint.port >> 8;
      data[address.length + 1] = endpoint.port & 0xff;
      made.set(endpoint, data);
    }
    return data;
  };
}

const gotos = new Map<string, Verdict>();
function goto(chain: string): Verdict {
  let verdict = gotos.get(chain);
  if (verdict === undefined) {
    verdict = { type: "goto", chain };
    gotos.set(chain, verdict);
  }
  return verdict;
}

function bucketCount(buckets: Buckets): BucketCount {
  const count = BUCKET_COUNTS.find((known) => known === buckets.length);
  if (count === undefined) throw new Error(`no chain has ${buckets.length} buckets`);
  return count;
}

/** Addresses of the endpoints on this node that a VIP's flows may reach. */
export function localEndpointsOf(plan: VipPlan): ReadonlySet<Address> {
  let addresses: Set<Address> | undefined;
  for (const { action } of plan.frontends) {
    if (action.type !== "balance") continue;
    for (const buckets of [action.buckets, action.outside === "drop" ? [] : (action.outside ?? [])]) {
      for (const endpoint of buckets) {
        if (!endpoint?.local) continue;
        addresses ??= new Set();
        addresses.add(endpoint.address);
      }
    }
  }
  return addresses ?? NOWHERE;
}

/** Most VIPs have no endpoint on this node. */
const NOWHERE: ReadonlySet<Address> = new Set();

/** The element that says that an endpoint of this address is on this node (see ruleset.ts: twice the address). */
export function localElement(address: Address): Placed {
  const bytes = bytesOf(address);
  return { set: setName("local", familyOf(address)), element: { key: concat(bytes, bytes) } };
}

/** The elements that say what is in the cluster and on this node. */
export function elementsOfSurroundings(surroundings: NodeSurroundings): Placed[] {
  const nodes = surroundings.nodeAddresses.map((address) => prefixOf(address, familyOf(address) === "IPv4" ? 32 : 128));
  return [
    ...FAMILIES.flatMap((family) => [
      ...intervals(setName("own-pods", family), surroundings.ownPods, family),
      ...intervals(setName("cluster", family), [...surroundings.clusterPods, ...nodes], family),
    ]),
    ...FAMILIES.filter((family) => !surroundings.bridgeNetfilter?.[family]).map((family) => ({
      set: PLAIN_BRIDGE,
      element: { key: Uint8Array.of(NFPROTO[family]) },
    })),
    ...(surroundings.echoTargets ?? []).map(({ interfaceIndex, address }) => ({
      set: setName("echo", familyOf(address)),
      element: { key: bucketKey(new Uint8Array(), interfaceIndex), data: bytesOf(address) },
    })),
  ];
}

/** Two elements for each interval: its first address, and the first one after it. */
function intervals(set: string, prefixes: readonly Prefix[], family: Family): Placed[] {
  const beyond = 1n << (family === "IPv4" ? 32n : 128n);
  return mergedRanges(prefixes, family).flatMap(({ first, last }) => [
    { set, element: { key: bytesOf(addressOf(first, family)) } },
    ...(last + 1n === beyond
      ? []
      : [{ set, element: { key: bytesOf(addressOf(last + 1n, family)), intervalEnd: true } }]),
  ]);
}

/** The prefixes of the family as ranges that neither overlap nor touch: the kernel refuses overlaps. */
function mergedRanges(prefixes: readonly Prefix[], family: Family): { first: bigint; last: bigint }[] {
  const ranges: { first: bigint; last: bigint }[] = [];
  const sorted = prefixes
    .map(partsOf)
    .filter((range) => range.family === family)
    .sort((a, b) => (a.first < b.first ? -1 : a.first > b.first ? 1 : 0));
  for (const { first, last } of sorted) {
    const before = ranges.at(-1);
    if (before !== undefined && first <= before.last + 1n) {
      if (last > before.last) before.last = last;
    } else {
      ranges.push({ first, last });
    }
  }
  return ranges;
}

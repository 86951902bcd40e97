import type { Backend, Forward } from "../api/virtual-ip.ts";
import { type Address, type Family, familyOf } from "../net/address.ts";
import { type Prefix, parsePrefix, partsOf } from "../net/prefix.ts";
import { planBuckets, type Share } from "./buckets.ts";
import { type Slice, type Usable, type UsableEndpoint, usableEndpoints } from "./endpoint.ts";
import type { BucketCount, Buckets, Endpoint, FrontendPlan, VipPlan } from "./vip-plan.ts";

/** The slices of a Service, by `namespace/name`. */
export type SliceLookup = (service: string) => Iterable<Slice>;

/** `namespace/name` of the Service behind a backend: the key under which its slices are found. */
export const serviceOf = (backend: Pick<Backend, "namespace" | "name">): string =>
  [backend.namespace, backend.name].join("/");

/** The part of a VirtualIP's spec that planning reads. */
export type Forwarding = {
  readonly address: string;
  readonly scope: VipPlan["scope"];
  readonly forwards: readonly Forward[];
};

/** Bucket counts that a frontend has in force. */
export type HeldCount = { readonly inside?: BucketCount; readonly outside?: BucketCount };

/**
 * What this node's plane must hold for the VIP. `previous` is the plan in force, whose bucket counts shrink only slowly
 * (or `held` says what they are, where an earlier life of the speaker left them in the kernel); frontends that come out equal to it are the same objects, so that comparing is cheap and memory is shared.
 */
export function planVip(
  spec: Forwarding,
  slices: SliceLookup,
  node: string,
  previous?: VipPlan,
  held?: (forward: Forward) => HeldCount | undefined,
): VipPlan {
  const address = spec.address as Address;
  const family = familyOf(address);
  const frontends = spec.forwards.map((forward) => {
    const before = previous?.frontends.find((it) => it.protocol === forward.protocol && it.port === forward.port);
    const planned = planFrontend(
      forward,
      family,
      slices,
      node,
      before === undefined ? held?.(forward) : heldBy(before),
    );
    return before !== undefined && sameFrontend(before, planned) ? before : planned;
  });
  if (
    previous !== undefined &&
    previous.scope === spec.scope &&
    previous.frontends.length === frontends.length &&
    frontends.every((frontend, i) => frontend === previous.frontends[i])
  ) {
    return previous;
  }
  return { address, scope: spec.scope, frontends };
}

function planFrontend(
  forward: Forward,
  family: Family,
  slices: SliceLookup,
  node: string,
  held: HeldCount | undefined,
): FrontendPlan {
  const frontend = {
    protocol: forward.protocol,
    port: forward.port,
    sourceRanges: forward.sourceRanges.length === 0 ? NO_RANGES : rangesOf(forward.sourceRanges, family),
  };
  if (forward.dataPath === "ServiceProxy") return { ...frontend, action: { type: "pass" } };
  if (forward.sourceRanges.length > 0 && frontend.sourceRanges.length === 0) {
    // Ranges of the other family only: nobody of this one may connect. An empty list would mean everybody.
    frontend.sourceRanges = [NOBODY[family]];
  }
  const backends = forward.backends.map((backend) => ({
    identity: `${backend.namespace}/${backend.name}/${backend.portName}`,
    weight: backend.weight,
    usable: usableEndpoints(slices(serviceOf(backend)), family, backend.portName, forward.protocol),
  }));
  const buckets = planBuckets(
    withRefusals(backends, forward.refuseWeight, (usable) => seenFrom(node, usable.anywhere)),
    held?.inside,
  );
  if (buckets === undefined) return { ...frontend, action: { type: "refuse" } };
  const outside = outsideBuckets(forward, backends, node, held?.outside);
  return {
    ...frontend,
    action: {
      type: "balance",
      affinity: forward.sessionAffinity,
      buckets,
      ...(outside === undefined ? {} : { outside }),
    },
  };
}

type ResolvedBackend = { identity: string; weight: number; usable: Usable };

/** Clients outside the cluster: undefined when they use the same buckets as those inside. */
function outsideBuckets(
  forward: Forward,
  backends: readonly ResolvedBackend[],
  node: string,
  previous: BucketCount | undefined,
): Buckets | "drop" | undefined {
  if (forward.nodes === "Cluster") return undefined;
  // A backend that is alive, only not here, gives its part to those that are here; a dead one keeps refusing its part.
  const here = backends.filter(({ usable }) => usable.anywhere.length === 0 || usable.on(node).length > 0);
  const buckets = planBuckets(
    withRefusals(here, forward.refuseWeight, (usable) => seenFrom(node, usable.on(node))),
    previous,
  );
  return buckets ?? (forward.nodes === "LocalOnly" ? "drop" : undefined);
}

function withRefusals(
  backends: readonly ResolvedBackend[],
  refuseWeight: number,
  endpoints: (usable: Usable) => Endpoint[],
): Share[] {
  const shares: Share[] = backends.map(({ identity, weight, usable }) => ({
    identity,
    weight,
    endpoints: endpoints(usable),
  }));
  if (refuseWeight > 0) shares.push({ identity: "refused", weight: refuseWeight, endpoints: [] });
  return shares;
}

const seenFrom = (node: string, endpoints: readonly UsableEndpoint[]): Endpoint[] =>
  endpoints.map(({ address, port, node: home }) => ({ address, port, local: home === node }));

function heldBy({ action }: FrontendPlan): HeldCount {
  if (action.type !== "balance") return {};
  const { buckets, outside } = action;
  return {
    inside: buckets.length as BucketCount,
    ...(outside === undefined || outside === "drop" ? {} : { outside: outside.length as BucketCount }),
  };
}

const NO_RANGES: Prefix[] = [];

/** The unspecified address as a source reaches nobody's connection. */
const NOBODY: Record<Family, Prefix> = { IPv4: "0.0.0.0/32" as Prefix, IPv6: "::/128" as Prefix };

function rangesOf(texts: readonly string[], family: Family): Prefix[] {
  const prefixes: Prefix[] = [];
  for (const text of texts) {
    const parsed = parsePrefix(text);
    // The controller reports ranges that are not prefixes; here a range with host bits means the prefix around it.
    const prefix = parsed.ok ? parsed.prefix : parsed.refusal.type === "hostBits" ? parsed.refusal.masked : undefined;
    if (prefix !== undefined && partsOf(prefix).family === family) prefixes.push(prefix);
  }
  return [...new Set(prefixes)].sort();
}

function sameFrontend(a: FrontendPlan, b: FrontendPlan): boolean {
  if (a.sourceRanges.join() !== b.sourceRanges.join()) return false;
  if (a.action.type !== "balance" || b.action.type !== "balance") return a.action.type === b.action.type;
  return (
    a.action.affinity === b.action.affinity &&
    sameBuckets(a.action.buckets, b.action.buckets) &&
    sameBuckets(a.action.outside, b.action.outside)
  );
}

function sameBuckets(a: Buckets | "drop" | undefined, b: Buckets | "drop" | undefined): boolean {
  if (a === undefined || a === "drop" || b === undefined || b === "drop") return a === b;
  return a.length === b.length && a.every((endpoint, i) => sameEndpoint(endpoint, b[i]));
}

const sameEndpoint = (a: Endpoint | undefined, b: Endpoint | undefined): boolean =>
  a === b ||
  (a !== undefined && b !== undefined && a.address === b.address && a.port === b.port && a.local === b.local);

/** Nodes with a usable endpoint for clients outside, when only such nodes may answer; undefined when any may. */
export function nodesWithEndpoints(
  spec: Pick<Forwarding, "address" | "forwards">,
  slices: SliceLookup,
): ReadonlySet<string> | undefined {
  const family = familyOf(spec.address as Address);
  const localOnly = spec.forwards.filter((forward) => forward.nodes === "LocalOnly");
  if (localOnly.length === 0) return undefined;
  const homes = localOnly
    .map((forward) => homesOf(forward, family, slices))
    // A forward that has no endpoint anywhere speaks for no node.
    .filter((nodes) => nodes.size > 0);
  if (homes.length === 0) return localOnly.length === spec.forwards.length ? new Set() : undefined;
  const all = new Set(homes.flatMap((nodes) => [...nodes]));
  const everywhere = [...all].filter((node) => homes.every((nodes) => nodes.has(node)));
  // No node serves all of them: one that serves some is better than none.
  return everywhere.length > 0 ? new Set(everywhere) : all;
}

function homesOf(forward: Forward, family: Family, slices: SliceLookup): Set<string> {
  const nodes = new Set<string>();
  for (const backend of forward.backends) {
    if (backend.weight === 0) continue;
    const usable = usableEndpoints(slices(serviceOf(backend)), family, backend.portName, forward.protocol);
    for (const { node } of usable.anywhere) if (node !== undefined) nodes.add(node);
  }
  return nodes;
}

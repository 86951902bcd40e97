import { hashText, score } from "./hash.ts";
import type { BucketCount, Buckets, Endpoint } from "./vip-plan.ts";

/** One weighted backend of a frontend. No endpoints: its share of the buckets stays without element and is refused. */
export type Share = {
  /** Stable name of the backend; decides which buckets are its. */
  readonly identity: string;
  /** Relative to the sum of all weights; 0 gets nothing. */
  readonly weight: number;
  readonly endpoints: readonly Endpoint[];
};

const COUNTS: readonly BucketCount[] = [1, 16, 64, 256, 1024];

/** Buckets per usable endpoint at least: so few that a table stays small, so many that shares come out even. */
const PER_ENDPOINT = 8;

/** An endpoint holds at most this times its even part of its backend's buckets. */
const LOAD_CAP = 1.1;

/** How far a backend's part of the buckets may lie from its weight's, in points of a hundred. */
const TOLERANCE_POINTS = 2;

/**
 * The buckets of a frontend, or undefined when no weight has a usable endpoint.
 * A function of its arguments alone, so every node computes the same table; `previous` is the bucket count in force.
 */
export function planBuckets(shares: readonly Share[], previous?: BucketCount): Buckets | undefined {
  const weighted = merged(shares);
  if (weighted.every((share) => share.endpoints.length === 0)) return undefined;
  const count = bucketCount(weighted, previous);
  const owners = weighted.length === 1 ? undefined : divide(weighted, quotas(weighted, count), count);
  const buckets = new Array<Endpoint | undefined>(count).fill(undefined);
  for (const [index, share] of weighted.entries()) {
    const own = owners === undefined ? range(count) : owners[index];
    if (own !== undefined) spread(share.endpoints, own, buckets);
  }
  return buckets;
}

/** An endpoint with its name, which decides its place on every node, made once. */
type Named = { readonly endpoint: Endpoint; readonly identity: string };
type Weighted = { readonly identity: string; readonly weight: number; readonly endpoints: readonly Named[] };

/** The smallest count that fits, except that it shrinks only below a quarter of the step that is in force. */
function bucketCount(shares: readonly Weighted[], previous: BucketCount | undefined): BucketCount {
  const endpoints = new Set<string>();
  for (const share of shares) for (const { identity } of share.endpoints) endpoints.add(identity);
  const needed = endpoints.size * PER_ENDPOINT;
  const wanted =
    COUNTS.find((count) => (count >= needed || (count === 1 && endpoints.size === 1)) && fits(shares, count)) ?? 1024;
  if (previous === undefined || wanted >= previous) return wanted;
  return needed < previous / 4 ? wanted : previous;
}

function fits(shares: readonly Weighted[], count: BucketCount): boolean {
  if (shares.length === 1) return true;
  const total = sum(shares.map((share) => share.weight));
  return quotas(shares, count).every((quota, i) => {
    const weight = shares[i]?.weight ?? 0;
    return quota > 0 && Math.abs(quota / count - weight / total) * 100 <= TOLERANCE_POINTS;
  });
}

/** Whole buckets for each weight by largest remainder; equal remainders go by the backend's hash, alike everywhere. */
function quotas(shares: readonly Weighted[], count: number): number[] {
  const total = sum(shares.map((share) => share.weight));
  const exact = shares.map((share) => (share.weight / total) * count);
  const whole = exact.map(Math.floor);
  const order = shares
    .map((share, index) => ({ index, rest: (exact[index] ?? 0) - (whole[index] ?? 0), hash: hashText(share.identity) }))
    .sort((a, b) => b.rest - a.rest || b.hash - a.hash || a.index - b.index);
  let left = count - sum(whole);
  for (const { index } of order) {
    if (left-- <= 0) break;
    whole[index] = (whole[index] ?? 0) + 1;
  }
  return whole;
}

/** Which buckets belong to which backend: exactly its quota of them. */
function divide(shares: readonly Weighted[], quota: readonly number[], count: number): number[][] {
  const hashes = shares.map((share) => hashText(share.identity));
  return match(range(count), hashes, quota);
}

/** Gives each of the backend's buckets one of its endpoints. */
function spread(endpoints: readonly Named[], own: readonly number[], buckets: (Endpoint | undefined)[]): void {
  const [only, another] = endpoints;
  if (only === undefined) return;
  if (another === undefined) {
    for (const bucket of own) buckets[bucket] = only.endpoint;
    return;
  }
  const cap = Math.ceil((own.length / endpoints.length) * LOAD_CAP);
  const hashes = endpoints.map(({ identity }) => hashText(identity));
  const held = match(own, hashes, new Array<number>(endpoints.length).fill(cap));
  for (let i = 0; i < held.length; i++) for (const bucket of held[i] ?? []) buckets[bucket] = endpoints[i]?.endpoint;
}

/**
 * Rendezvous hashing with capacities: bucket and taker see each pair with the same score, buckets ask in falling order,
 * a full taker lets go of the lowest. That is the stable matching of the scores (Gale and Shapley), which is unique,
 * so it depends neither on order nor on history, and a taker that comes or goes disturbs little but its own buckets.
 * Capacities must add up to the buckets at least. Ties go by index; takers come in an order that all nodes share.
 */
function match(buckets: readonly number[], takers: readonly number[], capacity: readonly number[]): number[][] {
  const held: number[][] = takers.map(() => []);
  const asking = [...buckets];
  /** Per bucket the score and index of the taker that let it go last: it asks only below that from now on. */
  const ceiling = new Map<number, { score: number; taker: number }>();
  for (let bucket = asking.pop(); bucket !== undefined; bucket = asking.pop()) {
    const limit = ceiling.get(bucket);
    let best = -1;
    let bestScore = -1;
    for (let taker = 0; taker < takers.length; taker++) {
      const value = score(takers[taker] ?? 0, bucket);
      if (limit !== undefined && (value > limit.score || (value === limit.score && taker <= limit.taker))) continue;
      if (value > bestScore) [best, bestScore] = [taker, value];
    }
    const mine = held[best];
    if (mine === undefined) continue;
    mine.push(bucket);
    if (mine.length <= (capacity[best] ?? 0)) continue;
    const hash = takers[best] ?? 0;
    let lowest = 0;
    for (let i = 1; i < mine.length; i++) {
      const [a, b] = [mine[i] ?? 0, mine[lowest] ?? 0];
      const difference = score(hash, a) - score(hash, b);
      if (difference < 0 || (difference === 0 && a < b)) lowest = i;
    }
    const refused = mine[lowest] ?? 0;
    mine[lowest] = mine[mine.length - 1] ?? 0;
    mine.pop();
    ceiling.set(refused, { score: score(hash, refused), taker: best });
    asking.push(refused);
  }
  return held;
}

/** Weights above zero, one share per identity, in an order that every node shares. */
function merged(shares: readonly Share[]): Weighted[] {
  const byIdentity = new Map<string, Share>();
  for (const share of shares) {
    if (share.weight <= 0) continue;
    const before = byIdentity.get(share.identity);
    byIdentity.set(share.identity, before === undefined ? share : { ...before, weight: before.weight + share.weight });
  }
  return [...byIdentity.values()]
    .sort((a, b) => (a.identity < b.identity ? -1 : 1))
    .map(({ identity, weight, endpoints }) => ({ identity, weight, endpoints: named(endpoints) }));
}

function named(endpoints: readonly Endpoint[]): Named[] {
  return endpoints
    .map((endpoint) => ({ endpoint, identity: `${endpoint.address}|${endpoint.port}` }))
    .sort((a, b) => (a.identity < b.identity ? -1 : 1));
}

const sum = (numbers: readonly number[]): number => numbers.reduce((total, number) => total + number, 0);
const range = (count: number): number[] => Array.from({ length: count }, (_, i) => i);

import type { IPAddressPool, IPAddressPoolSpec } from "../api/ip-address-pool.ts";
import type { Problem } from "../core/trouble.ts";
import { type Address, addressOf, type Family, familyOf, numberOf } from "../net/address.ts";
import { type Interval, IntervalSet } from "../net/interval-set.ts";
import { parseRange, printRange, type Range } from "../net/range.ts";

export type ByFamily<T> = { readonly [family in Family]: T };

export const FAMILIES: readonly Family[] = ["IPv4", "IPv6"];

/** Addresses that belong to something else and are never given out, whichever pool has them. */
export type Reservation = {
  readonly range: Range;
  readonly why: "NodeAddress" | "DefaultGateway" | "ServiceCIDR";
  /** Name of the Node or ServiceCIDR. */
  readonly of: string;
};

/** A pool as allocation sees it: what its text came to after everything that takes addresses away from it. */
export type ResolvedPool = {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly spec: IPAddressPoolSpec;
  /** `addresses` less `excludes`, the buggy ones and what an older pool has: the addresses that are this pool's. */
  readonly declared: ByFamily<IntervalSet>;
  /** `declared` less the reservations: the addresses that can be given out. */
  readonly usable: ByFamily<IntervalSet>;
  /** Entries that say nothing. A bad entry of `addresses` costs itself, one of `excludes` the whole pool. */
  readonly problems: readonly Problem[];
  /** What older pools have of this pool's addresses. */
  readonly lost: readonly { readonly pool: string; readonly ranges: readonly Range[] }[];
  /** Reservations with an address inside this pool, and which. */
  readonly reserved: readonly (Reservation & { readonly inside: readonly Range[] })[];
};

/**
 * All pools, by name. Pools never share an address: where two overlap the older one has it (creationTimestamp, then
 * name), so that a new pool takes nothing from one in use.
 */
export function resolvePools(
  pools: Iterable<IPAddressPool>,
  reservations: readonly Reservation[],
): ReadonlyMap<string, ResolvedPool> {
  const resolved = new Map<string, ResolvedPool>();
  for (const pool of [...pools].sort(byAge)) {
    resolved.set(pool.metadata.name, resolvePool(pool, [...resolved.values()], reservations));
  }
  return resolved;
}

function resolvePool(
  pool: IPAddressPool,
  older: readonly ResolvedPool[],
  reservations: readonly Reservation[],
): ResolvedPool {
  const problems: Problem[] = [];
  const parse = (entries: readonly string[], field: string): Range[] =>
    entries.flatMap((entry) => {
      const parsed = parseRange(entry);
      if (parsed.ok) return [parsed.range];
      problems.push({ ...parsed.problem, message: `${field}: ${parsed.problem.message}` });
      return [];
    });
  const addresses = parse(pool.spec.addresses, "addresses");
  const problemsBefore = problems.length;
  const excludes = parse(pool.spec.excludes ?? [], "excludes");
  // An exclude that can't be read may have meant any address, so nothing is given out until it can.
  const given = problems.length > problemsBefore ? [] : addresses;

  const lost: { pool: string; ranges: Range[] }[] = [];
  const reserved: (Reservation & { inside: Range[] })[] = [];
  const declared: Record<Family, IntervalSet> = { IPv4: new IntervalSet(), IPv6: new IntervalSet() };
  const usable: Record<Family, IntervalSet> = { IPv4: new IntervalSet(), IPv6: new IntervalSet() };
  for (const family of FAMILIES) {
    let set = setOf(given, family).subtract(setOf(excludes, family));
    if (pool.spec.avoidBuggyIPs === true && family === "IPv4") set = set.subtract(IntervalSet.of(buggyPartsOf(set)));
    for (const other of older) {
      const overlap = set.intersect(other.declared[family]);
      if (overlap.size === 0n) continue;
      lost.push({ pool: other.name, ranges: rangesOf(overlap, family) });
      set = set.subtract(overlap);
    }
    declared[family] = set;
    const taken: Interval[] = [];
    for (const reservation of reservations) {
      if (reservation.range.family !== family) continue;
      const inside = set.intersect(IntervalSet.of([reservation.range]));
      if (inside.size === 0n) continue;
      reserved.push({ ...reservation, inside: rangesOf(inside, family) });
      taken.push(...inside.intervals);
    }
    usable[family] = set.subtract(IntervalSet.of(taken));
  }
  const { name, labels } = pool.metadata;
  return { name, labels: labels ?? {}, spec: pool.spec, declared, usable, problems, lost, reserved };
}

/** True when the address is one of the pool's, given out or not. */
export const poolHas = (pool: ResolvedPool, address: Address): boolean =>
  pool.declared[familyOf(address)].has(numberOf(address));

/** Whose the address is although the pool has it, in words; undefined when nobody else's. */
export function reservationOf(pool: ResolvedPool, address: Address): string | undefined {
  const value = numberOf(address);
  const reservation = pool.reserved.find(({ inside }) =>
    inside.some((range) => range.family === familyOf(address) && range.first <= value && value <= range.last),
  );
  if (reservation === undefined) return undefined;
  switch (reservation.why) {
    case "NodeAddress":
      return `an address of node ${reservation.of}`;
    case "DefaultGateway":
      return `a default gateway of node ${reservation.of}`;
    case "ServiceCIDR":
      return `in the cluster's ServiceCIDR ${reservation.of}`;
  }
}

/** The set's intervals as ranges of the family. */
export const rangesOf = (set: IntervalSet, family: Family): Range[] =>
  set.intervals.map(({ first, last }) => ({ family, first, last }));

/** `192.0.2.10-192.0.2.12, 192.0.2.20/32`: at most five, then how many more. */
export function printRanges(ranges: readonly Range[]): string {
  const shown = ranges.slice(0, 5).map(printRange).join(", ");
  return ranges.length > 5 ? `${shown} and ${ranges.length - 5} more` : shown;
}

/** Hosts behind some routers and old stacks refuse .0 and .255 even where the prefix makes them ordinary addresses. */
function* buggyPartsOf(set: IntervalSet): Iterable<Interval> {
  for (const { first, last } of set.intervals) {
    // .255 of one /24 and .0 of the next are neighbours, so one interval takes both.
    for (let base = first & ~0xffn; base <= last; base += 256n) yield { first: base - 1n, last: base };
    yield { first: last | 0xffn, last: last | 0xffn };
  }
}

const setOf = (ranges: readonly Range[], family: Family): IntervalSet =>
  IntervalSet.of(ranges.filter((range) => range.family === family));

const byAge = (a: IPAddressPool, b: IPAddressPool): number =>
  compareText(a.metadata.creationTimestamp ?? "", b.metadata.creationTimestamp ?? "") ||
  compareText(a.metadata.name, b.metadata.name);

const compareText = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

/** The address at that place of the set, counted from its first; undefined outside. */
export function addressAt(set: IntervalSet, place: bigint, family: Family): Address | undefined {
  const value = set.at(place);
  return value === undefined ? undefined : addressOf(value, family);
}

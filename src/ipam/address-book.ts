import { type Address, addressOf, type Family, familyOf, numberOf } from "../net/address.ts";
import type { IntervalSet } from "../net/interval-set.ts";
import { addressAt, type ByFamily, poolHas, type ResolvedPool } from "./pool.ts";

/**
 * Which addresses are free: the pools less what VirtualIPs hold and what is being created now. Rebuilt from live
 * objects only; the API server has the last word, since a VirtualIP's name is its address.
 */
export class AddressBook {
  #pools: ReadonlyMap<string, ResolvedPool> = new Map();
  readonly #occupied = new Map<Address, string>();
  /** Free addresses per pool: the next one is a search in intervals, whatever the pool's size. */
  readonly #free = new Map<string, ByFamily<IntervalSet>>();
  readonly #assigned = new Map<string, Record<Family, number>>();

  get pools(): ReadonlyMap<string, ResolvedPool> {
    return this.#pools;
  }

  /** The pools changed: every occupied address is counted anew. */
  setPools(pools: ReadonlyMap<string, ResolvedPool>): void {
    this.#pools = pools;
    this.#free.clear();
    this.#assigned.clear();
    for (const pool of pools.values()) {
      this.#free.set(pool.name, { IPv4: pool.usable.IPv4.copy(), IPv6: pool.usable.IPv6.copy() });
      this.#assigned.set(pool.name, { IPv4: 0, IPv6: 0 });
    }
    for (const address of this.#occupied.keys()) this.#count(address, 1);
  }

  /** The address is `by`'s (a holder, as `namespace/name`, or a reason); the last caller's word is kept. */
  occupy(address: Address, by: string): void {
    const known = this.#occupied.has(address);
    this.#occupied.set(address, by);
    if (!known) this.#count(address, 1);
  }

  vacate(address: Address): void {
    if (this.#occupied.delete(address)) this.#count(address, -1);
  }

  occupant(address: Address): string | undefined {
    return this.#occupied.get(address);
  }

  /** Every address that is somebody's. */
  occupied(): Address[] {
    return [...this.#occupied.keys()];
  }

  /** The pool that has the address. */
  poolOf(address: Address): ResolvedPool | undefined {
    for (const pool of this.#pools.values()) if (poolHas(pool, address)) return pool;
    return undefined;
  }

  /** How many addresses of the pool are free. */
  free(pool: string, family: Family): bigint {
    return this.#free.get(pool)?.[family].size ?? 0n;
  }

  /** How many of the pool's addresses are in use, reserved ones that were given out before included. */
  assigned(pool: string, family: Family): number {
    return this.#assigned.get(pool)?.[family] ?? 0;
  }

  /**
   * A free address of the pool: the one that the seed points at, so that two controllers with different caches try the
   * same name first and one of them learns of the other; if that is taken the next free one above it, around the end.
   */
  pick(pool: ResolvedPool, family: Family, seed: bigint): Address | undefined {
    const free = this.#free.get(pool.name)?.[family];
    const usable = pool.usable[family];
    if (free === undefined || free.size === 0n) return undefined;
    const first = addressAt(usable, seed % usable.size, family);
    if (first === undefined) return undefined;
    const next = free.nextFrom(numberOf(first)) ?? free.nextFrom(0n);
    return next === undefined ? undefined : addressOf(next, family);
  }

  #count(address: Address, by: 1 | -1): void {
    const pool = this.poolOf(address);
    if (pool === undefined) return;
    const family = familyOf(address);
    const value = numberOf(address);
    const assigned = this.#assigned.get(pool.name);
    if (assigned !== undefined) assigned[family] += by;
    const free = this.#free.get(pool.name)?.[family];
    if (by === 1) free?.remove({ first: value, last: value });
    else if (pool.usable[family].has(value)) free?.add({ first: value, last: value });
  }
}

/** Where in a pool a holder looks first: 64 bits of FNV-1a over its uid and the family. */
export function seedOf(uid: string, family: Family): bigint {
  let hash = 0xcbf29ce484222325n;
  for (const byte of new TextEncoder().encode(`${uid}/${family}`)) {
    hash = ((hash ^ BigInt(byte)) * 0x100000001b3n) & 0xffffffffffffffffn;
  }
  // FNV's low bits alone follow the last byte closely; fold the high ones in before the remainder is taken.
  return hash ^ (hash >> 29n);
}

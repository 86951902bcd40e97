import { selects } from "../api/label-selector.ts";
import type { LabelSelector } from "../api/meta.ts";
import { type Address, familyOf, numberOf } from "../net/address.ts";
import type { Refusal, RefusalReason } from "../status/allocation.ts";
import type { AddressBook } from "./address-book.ts";
import { seedOf } from "./address-book.ts";
import type { Slot } from "./adopt.ts";
import { poolHas, type ResolvedPool, reservationOf } from "./pool.ts";
import type { AddressRequest } from "./request.ts";

/** What allocation must know of the world beside the pools. */
export type Surroundings = {
  /** Labels of a namespace; undefined while it is unknown. */
  namespaceLabels(namespace: string): Readonly<Record<string, string>> | undefined;
  /** True when the VirtualIP of the address is being deleted. */
  releasing(address: Address): boolean;
};

/** The next address to try for a slot, or why there is none. */
export type Draw =
  | { readonly type: "try"; readonly address: Address; readonly pool: string }
  | { readonly type: "refused"; readonly problem: Refusal };

/**
 * The address to try next for the slot. Pure: the caller occupies what it tries and asks again when the API server
 * says that another has it, so the answers are an ordered list of candidates.
 */
export function draw(request: AddressRequest, slot: Slot, book: AddressBook, around: Surroundings): Draw {
  const named = namedPool(request, book, around);
  if (named?.type === "refused") return named;
  if (slot.requested !== undefined) return drawRequested(request, slot.requested, named?.pool, book, around);
  const pools = named === undefined ? automaticPools(request, book, around) : [named.pool];
  for (const family of slot.families) {
    for (const pool of pools) {
      const address = book.pick(pool, family, seedOf(request.holder.uid, family));
      if (address !== undefined) return { type: "try", address, pool: pool.name };
    }
  }
  const offering = pools.filter((pool) => slot.families.some((family) => pool.usable[family].size > 0n));
  const families = slot.families.join(" or ");
  if (offering.length === 0) return refuse("NoPoolForFamily", noPoolMessage(families, named?.pool, book));
  return exhausted(offering, families);
}

/**
 * Pools that the holder may draw from unasked, best first: lowest priority number, 0 last; then pools that name the
 * holder's namespace, labels or class before those that take anybody; then by name, so that the order is the same on
 * every controller and after every restart.
 */
export function automaticPools(request: AddressRequest, book: AddressBook, around: Surroundings): ResolvedPool[] {
  return [...book.pools.values()]
    .filter((pool) => pool.spec.autoAssign !== false && pool.spec.disabled !== true)
    .filter((pool) => takes(pool, request, around))
    .sort((a, b) => priorityOf(a) - priorityOf(b) || openness(a) - openness(b) || (a.name < b.name ? -1 : 1));
}

/** True when the pool's serviceAllocation lets the holder draw. Absent or empty parts restrict nothing (IP-12). */
export function takes(pool: ResolvedPool, request: AddressRequest, around: Surroundings): boolean {
  const rules = pool.spec.serviceAllocation;
  if (rules === undefined) return true;
  const { namespaces = [], namespaceSelectors = [], serviceSelectors = [], gatewayClasses = [] } = rules;
  const { namespace } = request.holder;
  if (namespaces.length > 0 || namespaceSelectors.length > 0) {
    const labels = around.namespaceLabels(namespace);
    // Selectors that match no namespace are a restriction that nobody meets, never none at all.
    const chosen = namespaces.includes(namespace) || (labels !== undefined && matchesAny(namespaceSelectors, labels));
    if (!chosen) return false;
  }
  if (serviceSelectors.length > 0 && !matchesAny(serviceSelectors, request.labels)) return false;
  return (
    gatewayClasses.length === 0 || request.gatewayClass === undefined || gatewayClasses.includes(request.gatewayClass)
  );
}

function namedPool(
  request: AddressRequest,
  book: AddressBook,
  around: Surroundings,
): { readonly type: "pool"; readonly pool: ResolvedPool } | (Draw & { type: "refused" }) | undefined {
  if (request.pool === undefined) return undefined;
  const pool = book.pools.get(request.pool);
  if (pool === undefined) return refuse("PoolNotFound", `there is no IPAddressPool "${request.pool}"`);
  return refusalOfPool(pool, request, around) ?? { type: "pool", pool };
}

function refusalOfPool(pool: ResolvedPool, request: AddressRequest, around: Surroundings) {
  if (!takes(pool, request, around)) {
    return refuse(
      "PoolNotAllowed",
      `pool "${pool.name}" does not take ${describe(request)}: see its serviceAllocation`,
    );
  }
  return pool.spec.disabled === true
    ? refuse("PoolDisabled", `pool "${pool.name}" is being drained (spec.disabled): it gives out nothing new`)
    : undefined;
}

function drawRequested(
  request: AddressRequest,
  address: Address,
  named: ResolvedPool | undefined,
  book: AddressBook,
  around: Surroundings,
): Draw {
  const pool = named ?? book.poolOf(address);
  if (pool === undefined || !poolHas(pool, address)) {
    const excluded = pool === undefined ? undefined : excludedMessage(pool, address);
    return refuse(
      "AddressNotInPool",
      excluded ?? (named ? `${address} is not in pool "${named.name}"` : `${address} is in no IPAddressPool`),
    );
  }
  const refusal = refusalOfPool(pool, request, around);
  if (refusal !== undefined) return refusal;
  const occupant = book.occupant(address);
  if (occupant !== undefined) {
    return around.releasing(address)
      ? refuse(
          "AddressReleasing",
          `${address} is still being given back by ${occupant}: it can be had when that is done`,
        )
      : refuse("AddressInUse", `${address} is in use by ${occupant}`);
  }
  if (!pool.usable[familyOf(address)].has(numberOf(address))) {
    return refuse("AddressExcluded", excludedMessage(pool, address) ?? `${address} is never given out`);
  }
  return { type: "try", address, pool: pool.name };
}

function excludedMessage(pool: ResolvedPool, address: Address): string | undefined {
  const owner = reservationOf(pool, address);
  return owner === undefined ? undefined : `${address} is ${owner}, so pool "${pool.name}" never gives it out`;
}

function noPoolMessage(family: string, named: ResolvedPool | undefined, book: AddressBook): string {
  if (named !== undefined) return `pool "${named.name}" has no ${family} addresses`;
  return book.pools.size === 0
    ? `there is no IPAddressPool: create one with ${family} addresses`
    : `no pool that this object may draw from has ${family} addresses (autoAssign, serviceAllocation and disabled decide)`;
}

function exhausted(pools: readonly ResolvedPool[], family: string): Draw {
  const names = pools.map(({ name }) => `"${name}"`).join(", ");
  const noun = pools.length === 1 ? `pool ${names} has` : `pools ${names} have`;
  return refuse("PoolExhausted", `${noun} no free ${family} address: add addresses or release some`);
}

const matchesAny = (selectors: readonly LabelSelector[], labels: Readonly<Record<string, string>>): boolean =>
  selectors.some((selector) => selects(selector, labels));

const describe = ({ holder }: AddressRequest): string => `${holder.kind} ${holder.namespace}/${holder.name}`;

const refuse = (reason: RefusalReason, message: string) => ({ type: "refused", problem: { reason, message } }) as const;

/** 0 comes last, as network admins know it from MetalLB. */
const priorityOf = (pool: ResolvedPool): number => pool.spec.serviceAllocation?.priority || Number.MAX_SAFE_INTEGER;

function openness(pool: ResolvedPool): 0 | 1 {
  const rules = pool.spec.serviceAllocation;
  const named = [rules?.namespaces, rules?.namespaceSelectors, rules?.serviceSelectors, rules?.gatewayClasses];
  return named.some((part) => part !== undefined && part.length > 0) ? 0 : 1;
}

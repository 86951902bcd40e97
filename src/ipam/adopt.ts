import type { VirtualIP } from "../api/virtual-ip.ts";
import { type Address, type Family, familyOf } from "../net/address.ts";
import type { AddressRequest } from "./request.ts";

/** One address that a request wants: a certain one, or any of the families, the first one first. */
export type Slot = {
  readonly families: readonly [Family, ...Family[]];
  readonly requested: Address | undefined;
  readonly need: "Required" | "Preferred";
};

/** What a holder has against what it wants. */
export type Match = {
  readonly slots: readonly { readonly slot: Slot; readonly vip: VirtualIP | undefined }[];
  /** Live VIPs of the holder that no slot wants, with the family that still is wanted or not. */
  readonly extras: readonly { readonly vip: VirtualIP; readonly familyWanted: boolean }[];
};

/** The addresses that a request wants, in the order of its families; requested ones of a family instead of any one. */
export function slotsOf(request: AddressRequest): Slot[] {
  const [first, ...others] = request.families.map(({ family }) => family);
  if (request.atMost === 1 && request.addresses.length === 0 && first !== undefined) {
    return [{ families: [first, ...others], requested: undefined, need: "Required" }];
  }
  const slots: Slot[] = [];
  for (const { family, need } of request.families) {
    const named = request.addresses.filter((address) => familyOf(address) === family);
    if (named.length === 0) slots.push({ families: [family], requested: undefined, need });
    for (const requested of named) slots.push({ families: [family], requested, need: "Required" });
  }
  return slots;
}

/**
 * Adopts: gives each slot the VIP that the holder has for it. Of two VIPs for one slot the one that the holder's status
 * shows stays, else the oldest (invariant 2; "Allocate" and "Rebind" of the life of a VIP). `vips` are all of this
 * kind, namespace and name that are not being deleted, whatever uid they are bound to.
 */
export function matchHoldings(request: AddressRequest, vips: readonly VirtualIP[]): Match {
  const left = new Set([...vips].sort((a, b) => rank(request, a) - rank(request, b) || byAge(a, b)));
  const take = (fits: (vip: VirtualIP) => boolean): VirtualIP | undefined => {
    for (const vip of left) {
      if (fits(vip)) {
        left.delete(vip);
        return vip;
      }
    }
    return undefined;
  };
  const slots = slotsOf(request).map((slot) => ({
    slot,
    // An address of another pool than the one asked for now stays: the status says that the wish comes too late.
    vip: take((vip) =>
      slot.requested === undefined
        ? slot.families.includes(familyOf(vip.spec.address as Address))
        : vip.spec.address === slot.requested,
    ),
  }));
  const wanted = new Set(slots.flatMap(({ slot }) => slot.families));
  const extras = [...left].map((vip) => ({ vip, familyWanted: wanted.has(familyOf(vip.spec.address as Address)) }));
  return { slots, extras };
}

/** True when the VIP is bound to another uid than the holder has now: it was re-created or restored. */
export const isBoundElsewhere = (request: AddressRequest, vip: VirtualIP): boolean =>
  !vip.spec.holders.some((holder) => isSameObject(holder, request.holder) && holder.uid === request.holder.uid);

const isSameObject = (
  a: { kind: string; namespace: string; name: string },
  b: { kind: string; namespace: string; name: string },
): boolean => a.kind === b.kind && a.namespace === b.namespace && a.name === b.name;

function rank(request: AddressRequest, vip: VirtualIP): number {
  const elsewhere = isBoundElsewhere(request, vip) ? 2 : 0;
  return elsewhere + (request.shown.includes(vip.spec.address as Address) ? 0 : 1);
}

function byAge(a: VirtualIP, b: VirtualIP): number {
  const [x, y] = [a.metadata.creationTimestamp ?? "", b.metadata.creationTimestamp ?? ""];
  if (x !== y) return x < y ? -1 : 1;
  return a.metadata.name < b.metadata.name ? -1 : 1;
}

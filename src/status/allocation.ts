/** What the address pools answered to an AddressRequest: `ipam` writes it, the status of a Gateway or Service is made of it. */
import type { Problem } from "../core/trouble.ts";
import type { Address, Family } from "../net/address.ts";

/** Why nothing was given out for a family or for one requested address: one reason per cause. */
export type RefusalReason =
  /** Every pool that the holder may draw from is full; the message names them. */
  | "PoolExhausted"
  /** No pool that the holder may draw from has addresses of the family. */
  | "NoPoolForFamily"
  /** The pool asked for by name does not exist. */
  | "PoolNotFound"
  /** The pool that was named, or that holds the requested address, does not take this holder. */
  | "PoolNotAllowed"
  /** The pool that was named is being drained. */
  | "PoolDisabled"
  /** The requested address is in no pool (or not in the pool asked for). */
  | "AddressNotInPool"
  /** The requested address is in a pool that never gives it out: excluded, or a node's, a gateway's, the cluster's own. */
  | "AddressExcluded"
  /** The requested address has another holder, which the message names. */
  | "AddressInUse"
  /** The requested address, or the last free one, is still being given back; the message says who has not let go. */
  | "AddressReleasing"
  /** Not decided yet: caches are being filled, or the store changed under us. */
  | "Waiting";

export type Refusal = Problem & { readonly reason: RefusalReason };

/** What became of one family of the request, or of one requested address. */
export type FamilyOutcome =
  | { readonly type: "assigned"; readonly family: Family; readonly address: Address; readonly pool: string }
  | {
      readonly type: "refused";
      readonly family: Family;
      /** The address that was asked for by name; undefined when any of the family would have done. */
      readonly requested?: Address;
      readonly problem: Refusal;
    };

/**
 * The whole answer to one request, in the order of `request.families`; a request of several addresses of one family has an
 * entry each. A `Preferred` family that no pool offers has no entry: nobody is told about what was not needed.
 */
export type AllocationOutcome = readonly FamilyOutcome[];

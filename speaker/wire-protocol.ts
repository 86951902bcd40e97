/**
 * Messages between the speaker's main thread and its wire worker. Instants are CLOCK_MONOTONIC in milliseconds
 * (process.hrtime), which both threads share.
 */
import type { Instant } from "../src/core/instant.ts";
import type { Address } from "../src/net/address.ts";
import type { Mac } from "../src/net/mac.ts";

/** How this node should answer for one VIP. Being told the same thing twice changes nothing and sends nothing. */
export type Announcement = {
  readonly address: Address;
  /** Interfaces to answer on and announce from, by name. One that is missing or down is taken up when it appears. */
  readonly interfaces: readonly string[];
  /** owner.term of this ownership: a higher one is a new take-over and is announced as such. */
  readonly term: number;
  /** Seconds between refreshes; 0 turns them off. */
  readonly refreshIntervalSeconds: number;
};

export type ToWire =
  /** Answer for this VIP from now on (programmed before, invariant 5). */
  | { readonly type: "announce"; readonly announcement: Announcement }
  /** Stop answering; confirmed by `withdrawn` after the last frame. */
  | { readonly type: "withdraw"; readonly address: Address }
  /** The node's Lease is provably valid until this instant (last successful renewal's start + duration). */
  | { readonly type: "lease"; readonly validUntil: Instant }
  /**
   * Answer to `stalled`: a consistent read made after it still names this node as owner of exactly these; for others
   * that were announced the wire stays silent until told anew. Also unasked, with the last stall's number (0 before the
   * first), after a renewal that followed a `claim` with `yielded`: the addresses named are answered again.
   */
  | { readonly type: "confirmed"; readonly stall: number; readonly addresses: readonly Address[] }
  /** Answer to `stalled`: the API server does not answer; probe and listen before speaking. */
  | { readonly type: "unconfirmed"; readonly stall: number }
  | { readonly type: "stop" };

export type WireCounters = { readonly [name: string]: number };

export type FromWire =
  | { readonly type: "ready" }
  /** An interface can't be used, once per message that changes; retried. `interface` is `*` where rtnetlink itself fails. */
  | { readonly type: "fault"; readonly interface: string; readonly family: "IPv4" | "IPv6"; readonly message: string }
  | { readonly type: "cleared"; readonly interface: string; readonly family: "IPv4" | "IPv6" }
  /** First announcement of this term has left on an interface. */
  | { readonly type: "announced"; readonly address: Address; readonly term: number; readonly interface: string }
  | { readonly type: "withdrawn"; readonly address: Address }
  /** Another MAC claims the VIP. `yielded` when this node fell silent for it because its Lease is not provably valid. */
  | {
      readonly type: "claim";
      readonly address: Address;
      readonly mac: Mac;
      readonly interface: string;
      readonly yielded: boolean;
    }
  /** A node that had yielded heard nobody and answers again. */
  | { readonly type: "resumed"; readonly address: Address }
  /** The process stood still for more than 1 s: nothing is sent until `confirmed` or `unconfirmed` with this number. */
  | { readonly type: "stalled"; readonly stall: number; readonly milliseconds: number }
  | { readonly type: "counters"; readonly counters: WireCounters };

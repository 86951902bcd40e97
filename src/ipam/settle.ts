import type { Instant } from "../core/instant.ts";

/** A speaker's Lease as seen: `renewal` changes with each renewal (renewTime and resourceVersion will do). */
export type SeenLease = {
  readonly node: string;
  readonly renewal: string;
  /** True when it was seen to stand still for its whole duration. */
  readonly expired: boolean;
};

/**
 * Why nothing may be allocated now. `noMemory`: this process has just begun and can't know what the speakers still
 * answer for. `storeChanged`: the API server's store was put back, so what it says may be older than the world.
 */
export type Unsettled = {
  readonly why: "noMemory" | "storeChanged";
  readonly message: string;
  /** Renewal of each Lease that is waited for, as it was when the wait began. */
  readonly waitingFor: ReadonlyMap<string, string>;
  readonly since: Instant;
};

export type Settling = { readonly type: "settled" } | ({ readonly type: "unsettled" } & Unsettled);

export const SETTLED: Settling = { type: "settled" };

/** From now on every Lease that is known must be seen renewed before anything is allocated. */
export function unsettle(leases: Iterable<SeenLease>, why: Unsettled["why"], message: string, now: Instant): Settling {
  const waitingFor = new Map(Array.from(leases, ({ node, renewal }) => [node, renewal]));
  return { type: "unsettled", why, message, waitingFor, since: now };
}

/**
 * Looks at the Leases again. A Lease is done with when it was renewed since (a renewed Lease says that its speaker
 * holds nothing but what is in the store), when its Node is deleted, or, for a process that has just begun, when it was
 * seen to expire. A store that changed is stricter: an expired speaker may be cut off and still answer.
 */
export function settle(state: Settling, leases: Iterable<SeenLease>, nodeExists: (node: string) => boolean): Settling {
  if (state.type === "settled") return state;
  const seen = new Map(Array.from(leases, (lease) => [lease.node, lease]));
  const waitingFor = new Map(
    [...state.waitingFor].filter(([node, renewal]) => {
      if (!nodeExists(node)) return false;
      const lease = seen.get(node);
      // A Lease that is gone says nothing; its node's speaker makes it anew before it lists.
      if (lease === undefined) return state.why === "storeChanged";
      return lease.renewal === renewal && !(state.why === "noMemory" && lease.expired);
    }),
  );
  return waitingFor.size === 0 ? SETTLED : { ...state, waitingFor };
}

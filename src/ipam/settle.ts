import type { Instant } from "../core/instant.ts";

/** What is known of the speakers' Leases, by node; `kube`'s LeaseWatcher knows it. */
export type LeaseSight = {
  /** Its holder was seen to renew it at or after that time. */
  renewedSince(node: string, since: Instant): boolean;
  /** It was seen to stand still for its whole duration. */
  expired(node: string, now: Instant): boolean;
};

/**
 * Whether anything may be allocated ("Restore" of the life of a VIP). `noMemory`: this process has just begun and can't
 * know what the speakers still answer for. `storeChanged`: the API server's store was put back, so what it says may
 * be older than the world.
 */
export type Settling =
  | { readonly type: "settled" }
  | {
      readonly type: "unsettled";
      readonly why: "noMemory" | "storeChanged";
      readonly message: string;
      /** Renewals count from here. */
      readonly since: Instant;
      /** Nodes whose speakers have to speak first. */
      readonly waitingFor: readonly string[];
    };

export type Unsettled = Extract<Settling, { type: "unsettled" }>;

export const SETTLED: Settling = { type: "settled" };

export function unsettle(
  why: "noMemory" | "storeChanged",
  nodes: readonly string[],
  message: string,
  since: Instant,
): Unsettled {
  return { type: "unsettled", why, message, since, waitingFor: nodes };
}

/** The same, and whoever was waited for before is waited for still. */
export const alsoWaitingFor = (state: Unsettled, before: Settling): Unsettled =>
  before.type === "settled"
    ? state
    : { ...state, waitingFor: [...new Set([...before.waitingFor, ...state.waitingFor])] };

/**
 * Looks at the Leases again. A node is done with when its Lease was renewed since (a renewed Lease says that its speaker
 * holds nothing but what is in the store), when its Node is deleted, or, for a process that has just begun, when the
 * Lease was seen to expire. A store that changed is stricter: an expired speaker may be cut off and still answer.
 */
export function settle(
  state: Settling,
  leases: LeaseSight,
  nodeExists: (node: string) => boolean,
  now: Instant,
): Settling {
  if (state.type === "settled") return state;
  const waitingFor = state.waitingFor.filter(
    (node) =>
      nodeExists(node) &&
      !leases.renewedSince(node, state.since) &&
      !(state.why === "noMemory" && leases.expired(node, now)),
  );
  return waitingFor.length === 0 ? SETTLED : { ...state, waitingFor };
}

import { after, type Instant } from "../core/instant.ts";
import type { Step } from "../core/machine.ts";
import { unreachable } from "../core/trouble.ts";
import type { Mac } from "../net/mac.ts";

/**
 * Whether this node may speak for one VIP that was named to it. Only `answering` ever sends an answer or an announcement.
 * Drawing in README.md.
 */
export type Ownership =
  | {
      readonly type: "answering";
      /** The last announcement made in defence (RFC 5227 2.4). */
      readonly defendedAt?: Instant;
    }
  /** The process stood still: nothing is said until the main thread knows what the API server says, or can't know. */
  | { readonly type: "suspended"; readonly since: Instant; readonly attempt: number; readonly heard?: Mac }
  /** Asked once who has the address; listening until the deadline. `attempt` counts the probes since it yielded, 0 if it never did. */
  | { readonly type: "probing"; readonly until: Instant; readonly attempt: number }
  /** Someone else has it. Asks again later, more and more seldom. */
  | { readonly type: "yielded"; readonly probeAt: Instant; readonly attempt: number }
  /** The record no longer names this node; only the main thread's word brings it back. */
  | { readonly type: "disowned" };

export type OwnershipInput =
  /** A frame in which another MAC says that the VIP is its own, and until when our Lease is provably valid. */
  | { readonly type: "claim"; readonly mac: Mac; readonly leaseValidUntil: Instant }
  /** Another MAC asks whether the VIP is free; `ours` is the MAC of the interface that heard it. */
  | { readonly type: "rival"; readonly mac: Mac; readonly ours: Mac }
  | { readonly type: "stalled" }
  /** The main thread: a consistent read after the stall or the yielding names this node. */
  | { readonly type: "named" }
  /** The main thread: a consistent read after the stall names another node, or none. */
  | { readonly type: "unnamed" }
  /** The main thread: the API server does not answer. */
  | { readonly type: "unconfirmed" }
  /** Every interface was away, and with it what others said meanwhile. */
  | { readonly type: "returned"; readonly leaseValidUntil: Instant }
  /** The main thread took the VIP over anew (a higher term), or names it again after it was disowned. */
  | { readonly type: "takenOver" };

export type OwnershipEffect =
  /** Announce at once and through the burst. */
  | { readonly type: "herald" }
  /** Announce once. */
  | { readonly type: "defend" }
  /** One ARP probe or NS on each interface. */
  | { readonly type: "probe" }
  | { readonly type: "report"; readonly mac: Mac; readonly yielded: boolean }
  | { readonly type: "resumed" };

/** RFC 5227 1.1 DEFEND_INTERVAL. */
export const DEFEND_INTERVAL_MILLISECONDS = 10_000;
/** How long a probe is listened for. */
export const SILENCE_MILLISECONDS = 1_000;
/** The main thread answers a stall within its API timeout; when even that does not come, the wire decides alone. */
export const PATIENCE_MILLISECONDS = 5_000;
const FIRST_PROBE_MILLISECONDS = 2_000;
const PROBE_DOUBLINGS = 4;

export const NEW_OWNER: Ownership = { type: "answering" };

export function step(
  state: Ownership,
  input: OwnershipInput | { readonly type: "tick" },
  now: Instant,
): Step<Ownership, OwnershipEffect> {
  switch (input.type) {
    case "claim":
      return afterClaim(state, input.mac, input.leaseValidUntil, now);
    case "rival":
      // Two that both yielded may probe at once. Were both to give way, or both to go on, nobody or two would answer.
      return state.type === "probing" && input.mac < input.ours ? yieldTo(input.mac, state.attempt, now) : stay(state);
    case "stalled":
      return state.type === "disowned"
        ? stay(state)
        : stay({ type: "suspended", since: now, attempt: attemptOf(state) });
    case "named":
      return state.type === "answering" ? stay(state) : resume(attemptOf(state));
    case "unnamed":
      return state.type === "suspended" || state.type === "probing" ? stay({ type: "disowned" }) : stay(state);
    case "unconfirmed":
      return state.type === "suspended" ? afterSilentServer(state, now) : stay(state);
    case "returned":
      // With a valid Lease nobody can have taken it; without, it is asked before caches are overwritten.
      if (state.type !== "answering") return stay(state);
      return now < input.leaseValidUntil ? { state, effects: [{ type: "herald" }] } : probe(0, now);
    case "takenOver":
      return { state: NEW_OWNER, effects: [{ type: "herald" }] };
    case "tick":
      return afterTick(state, now);
    default:
      return unreachable(input);
  }
}

export function nextDeadline(state: Ownership): Instant | undefined {
  switch (state.type) {
    case "suspended":
      return after(state.since, PATIENCE_MILLISECONDS);
    case "probing":
      return state.until;
    case "yielded":
      return state.probeAt;
    case "answering":
    case "disowned":
      return undefined;
    default:
      return unreachable(state);
  }
}

function afterClaim(
  state: Ownership,
  mac: Mac,
  leaseValidUntil: Instant,
  now: Instant,
): Step<Ownership, OwnershipEffect> {
  switch (state.type) {
    case "answering":
      return now < leaseValidUntil ? defend(state, mac, now) : yieldTo(mac, 0, now);
    case "suspended":
      return stay({ ...state, heard: mac });
    case "probing":
      return yieldTo(mac, state.attempt, now);
    case "yielded":
    case "disowned":
      return stay(state);
    default:
      return unreachable(state);
  }
}

function defend(state: Ownership & { type: "answering" }, mac: Mac, now: Instant): Step<Ownership, OwnershipEffect> {
  const due = state.defendedAt === undefined || now >= after(state.defendedAt, DEFEND_INTERVAL_MILLISECONDS);
  return due
    ? { state: { ...state, defendedAt: now }, effects: [{ type: "defend" }, { type: "report", mac, yielded: false }] }
    : stay(state);
}

/** Falls silent, and says so once. The n-th time that the probe is heard, the next one waits twice as long. */
function yieldTo(mac: Mac, attempt: number, now: Instant): Step<Ownership, OwnershipEffect> {
  const wait = FIRST_PROBE_MILLISECONDS * 2 ** Math.min(attempt, PROBE_DOUBLINGS);
  return {
    state: { type: "yielded", probeAt: after(now, wait), attempt: attempt + 1 },
    effects: attempt === 0 ? [{ type: "report", mac, yielded: true }] : [],
  };
}

const afterSilentServer = (state: Ownership & { type: "suspended" }, now: Instant): Step<Ownership, OwnershipEffect> =>
  state.heard === undefined ? probe(state.attempt, now) : yieldTo(state.heard, state.attempt, now);

const probe = (attempt: number, now: Instant): Step<Ownership, OwnershipEffect> => ({
  state: { type: "probing", until: after(now, SILENCE_MILLISECONDS), attempt },
  effects: [{ type: "probe" }],
});

/** Who was told that this node yielded is told that it answers again. */
const resume = (attempt: number): Step<Ownership, OwnershipEffect> => ({
  state: NEW_OWNER,
  effects: attempt > 0 ? [{ type: "resumed" }, { type: "herald" }] : [{ type: "herald" }],
});

function afterTick(state: Ownership, now: Instant): Step<Ownership, OwnershipEffect> {
  const deadline = nextDeadline(state);
  if (deadline === undefined || now < deadline) return stay(state);
  switch (state.type) {
    case "suspended":
      return afterSilentServer(state, now);
    case "yielded":
      return probe(state.attempt, now);
    case "probing":
      return resume(state.attempt);
    default:
      return stay(state);
  }
}

const attemptOf = (state: Ownership): number => ("attempt" in state ? state.attempt : 0);

const stay = (state: Ownership): Step<Ownership, OwnershipEffect> => ({ state, effects: [] });

/**
 * Leader election on a Lease, as a value: no clock, no client.
 *
 *     follower ── took it ──▶ leader ── not renewed in time, or taken ──▶ follower
 *         └────── stop ──▶ left ◀── stop: gives it back ──┘
 *
 * Times on the Lease are for people. A leader counts from the start of its last write that succeeded; a follower counts
 * the duration in the Lease from when it saw the last change. The write came before it was seen, so a leader stops
 * before any follower starts, as long as clocks run at about the same speed (the margin pays for the rest).
 */
import type { Lease } from "../api/foreign.ts";
import { after, earlier, type Instant } from "../core/instant.ts";
import type { Step } from "../core/machine.ts";
import {
  durationMillisecondsOf,
  holderOf,
  LEASE_DURATION_SECONDS,
  LEASE_RENEW_MILLISECONDS,
  leaseIdentity,
} from "./lease.ts";
import type { Answer } from "./port.ts";

export type ElectionSettings = {
  readonly identity: string;
  readonly durationSeconds: number;
  readonly renewMilliseconds: number;
  /** How often a follower looks: it takes over this much later than the Lease ends, at most. */
  readonly lookMilliseconds: number;
  /** After a failure, and for as long as the server did not ask for more. */
  readonly retryMilliseconds: number;
  /** A leader stops this much before its Lease ends. */
  readonly marginMilliseconds: number;
};

export const DEFAULT_ELECTION = {
  durationSeconds: LEASE_DURATION_SECONDS,
  renewMilliseconds: LEASE_RENEW_MILLISECONDS,
  lookMilliseconds: 500,
  retryMilliseconds: 250,
  marginMilliseconds: 500,
} as const;

export type Election = {
  readonly settings: ElectionSettings;
  readonly role:
    | { readonly type: "follower" }
    | { readonly type: "leader"; readonly until: Instant }
    /** Gives the Lease back once the request in flight is answered. */
    | { readonly type: "leaving" }
    | { readonly type: "left" };
  /** The Lease as last read or written, and when that version was first seen; undefined when there is none. */
  readonly seen: { readonly lease: Lease; readonly at: Instant } | undefined;
  /** What is seen may be out of date: look before the next write. */
  readonly doubtful: boolean;
  /** One request at a time. */
  readonly inFlight: { readonly type: "look" | "write" | "give-back"; readonly startedAt: Instant } | undefined;
  readonly nextAt: Instant;
};

export type ElectionInput =
  | { readonly type: "tick" }
  /** The answer to the one look, write or give-back that was asked for. */
  | { readonly type: "answered"; readonly answer: Answer<Lease> }
  | { readonly type: "stop" };

export type ElectionEffect =
  | { readonly type: "look" }
  /** Create when `over` is undefined, else update `over` on condition that it is unchanged. */
  | { readonly type: "write"; readonly over: Lease | undefined; readonly takes: boolean }
  | { readonly type: "give-back"; readonly over: Lease }
  | { readonly type: "started" }
  | { readonly type: "stopped"; readonly why: string }
  /** Nothing more will come. */
  | { readonly type: "left" };

export const beginElection = (settings: ElectionSettings, now: Instant): Election => ({
  settings,
  role: { type: "follower" },
  seen: undefined,
  doubtful: true,
  inFlight: undefined,
  nextAt: now,
});

type Stepped = Step<Election, ElectionEffect>;

export function stepElection(before: Election, input: ElectionInput, now: Instant): Stepped {
  const { state, effects } = endOverdueTerm(before, now);
  const next = (() => {
    switch (input.type) {
      case "tick":
        return act(state, now);
      case "answered":
        return answered(state, input.answer, now);
      case "stop":
        return stop(state, now);
    }
  })();
  return { state: next.state, effects: [...effects, ...next.effects] };
}

export function nextElectionDeadline(state: Election): Instant | undefined {
  if (state.role.type === "left" || state.role.type === "leaving") return undefined;
  const until = state.role.type === "leader" ? state.role.until : undefined;
  return state.inFlight === undefined ? earlier(state.nextAt, until) : until;
}

const quiet = (state: Election): Stepped => ({ state, effects: [] });

function endOverdueTerm(state: Election, now: Instant): Stepped {
  if (state.role.type !== "leader" || now < state.role.until) return quiet(state);
  return {
    state: { ...state, role: { type: "follower" } },
    effects: [{ type: "stopped", why: "the Lease could not be renewed in time" }],
  };
}

function act(state: Election, now: Instant): Stepped {
  if (state.inFlight !== undefined || now < state.nextAt) return quiet(state);
  switch (state.role.type) {
    case "follower":
      return look(state, now);
    case "leader":
      return state.doubtful ? look(state, now) : write(state, now);
    case "leaving":
    case "left":
      return quiet(state);
  }
}

const look = (state: Election, now: Instant): Stepped => ({
  state: { ...state, inFlight: { type: "look", startedAt: now } },
  effects: [{ type: "look" }],
});

function write(state: Election, now: Instant): Stepped {
  const over = state.seen?.lease;
  const takes = over === undefined || holderOf(over) !== state.settings.identity;
  return {
    state: { ...state, inFlight: { type: "write", startedAt: now } },
    effects: [{ type: "write", over, takes }],
  };
}

function answered(before: Election, answer: Answer<Lease>, now: Instant): Stepped {
  const { inFlight } = before;
  if (inFlight === undefined) return quiet(before);
  const state: Election = { ...before, inFlight: undefined };
  if (inFlight.type === "give-back") return leave(state);
  const learned = answer.ok
    ? { ...state, seen: see(state, answer.object, now), doubtful: false }
    : answer.failure.status === 404
      ? { ...state, seen: undefined, doubtful: false }
      : { ...state, doubtful: true };
  if (state.role.type === "leaving") return giveBack(learned, now);
  if (!answer.ok && answer.failure.status !== 404) {
    // 409: someone else wrote it. Anything else may have been carried out all the same. Both: look before the next write.
    const wait = Math.max(state.settings.retryMilliseconds, (answer.failure.retryAfterSeconds ?? 0) * 1000);
    return quiet({ ...learned, nextAt: after(now, wait) });
  }
  return answer.ok && inFlight.type === "write" ? wrote(learned, inFlight.startedAt, now) : looked(learned, now);
}

/** The Lease is mine since the write began. */
function wrote(state: Election, startedAt: Instant, now: Instant): Stepped {
  const { durationSeconds, marginMilliseconds, renewMilliseconds } = state.settings;
  const until = after(startedAt, durationSeconds * 1000 - marginMilliseconds);
  // The answer took longer than the term: renew before leading.
  if (now >= until) return write(state, now);
  return {
    state: { ...state, role: { type: "leader", until }, nextAt: after(startedAt, renewMilliseconds) },
    effects: state.role.type === "leader" ? [] : [{ type: "started" }],
  };
}

function looked(state: Election, now: Instant): Stepped {
  const { settings, seen, role } = state;
  const holder = seen === undefined ? undefined : holderOf(seen.lease);
  // A Lease in my name is mine, also from an earlier life of this process.
  if (seen === undefined || holder === undefined || holder === settings.identity) return write(state, now);
  if (role.type === "leader") {
    return {
      state: { ...state, role: { type: "follower" }, nextAt: after(now, settings.lookMilliseconds) },
      effects: [{ type: "stopped", why: `${holder} took the Lease` }],
    };
  }
  const expiry = after(seen.at, durationMillisecondsOf(seen.lease));
  if (now >= expiry) return write(state, now);
  return quiet({ ...state, nextAt: earlier(after(now, settings.lookMilliseconds), expiry) ?? now });
}

const see = (state: Election, lease: Lease, now: Instant) =>
  state.seen !== undefined && leaseIdentity(state.seen.lease) === leaseIdentity(lease)
    ? state.seen
    : { lease, at: now };

/** Stops leading first, then gives the Lease back. */
function stop(state: Election, now: Instant): Stepped {
  switch (state.role.type) {
    case "leaving":
    case "left":
      return quiet(state);
    case "leader":
    case "follower": {
      const effects: ElectionEffect[] = state.role.type === "leader" ? [{ type: "stopped", why: "asked to stop" }] : [];
      const leaving: Election = { ...state, role: { type: "leaving" } };
      if (state.inFlight !== undefined) return { state: leaving, effects };
      const last = giveBack(leaving, now);
      return { state: last.state, effects: [...effects, ...last.effects] };
    }
  }
}

function giveBack(state: Election, now: Instant): Stepped {
  const lease = state.seen?.lease;
  // What is doubtful is left to run out.
  if (lease === undefined || state.doubtful || holderOf(lease) !== state.settings.identity) return leave(state);
  return {
    state: { ...state, role: { type: "leaving" }, inFlight: { type: "give-back", startedAt: now } },
    effects: [{ type: "give-back", over: lease }],
  };
}

const leave = (state: Election): Stepped => ({
  state: { ...state, role: { type: "left" }, inFlight: undefined },
  effects: [{ type: "left" }],
});

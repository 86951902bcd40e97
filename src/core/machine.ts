import type { Instant } from "./instant.ts";

/** What a machine answers: the state it is in now, and what the driver has to do. */
export type Step<S, E> = { readonly state: S; readonly effects: readonly E[] };

/** A state machine as a value: no clock, no socket, no timer of its own. */
export type Machine<S, I, E> = {
  step(state: S, input: I | { readonly type: "tick" }, now: Instant): Step<S, E>;
  /** When the driver has to wake us with a tick; early or late ticks are harmless. */
  nextDeadline(state: S): Instant | undefined;
};

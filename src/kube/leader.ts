import type { Lease } from "../api/foreign.ts";
import { LEASE } from "../api/resource.ts";
import type { Log } from "../core/log.ts";
import { unreachable } from "../core/trouble.ts";
import type { Clock } from "../host/port.ts";
import {
  beginElection,
  DEFAULT_ELECTION,
  type ElectionEffect,
  type ElectionInput,
  type ElectionSettings,
  nextElectionDeadline,
  stepElection,
} from "./election.ts";
import { microTime } from "./lease.ts";
import type { Answer, ApiClient, Key } from "./port.ts";

export type LeaderOptions = {
  /** A client of its own, with `LEASE_CLIENT_LIMITS`. */
  readonly client: ApiClient;
  readonly key: Key;
  readonly identity: string;
  readonly clock: Clock;
  readonly log: Log;
  /** Firing it stops leading, gives the Lease back and resolves `left`. */
  readonly signal: AbortSignal;
  /** We lead from now on; the signal fires the moment we don't. May come again after a loss. */
  readonly onStarted: (leading: AbortSignal) => void;
  readonly onStopped?: (why: string) => void;
  readonly settings?: Partial<Omit<ElectionSettings, "identity">>;
  readonly wallClock?: () => Date;
};

/** Runs for the leadership until the signal fires. */
export function electLeader(options: LeaderOptions): { readonly leading: boolean; readonly left: Promise<void> } {
  const { client, key, identity, clock, log, signal, wallClock = () => new Date() } = options;
  let state = beginElection({ ...DEFAULT_ELECTION, ...options.settings, identity }, clock.now());
  let term: AbortController | undefined;
  let timer: NodeJS.Timeout | undefined;
  let left = () => {};
  const leftPromise = new Promise<void>((resolve) => {
    left = resolve;
  });

  function feed(input: ElectionInput): void {
    const step = stepElection(state, input, clock.now());
    state = step.state;
    for (const effect of step.effects) perform(effect);
    clearTimeout(timer);
    const deadline = nextElectionDeadline(state);
    if (deadline !== undefined) timer = setTimeout(() => feed({ type: "tick" }), Math.max(0, deadline - clock.now()));
  }

  function perform(effect: ElectionEffect): void {
    switch (effect.type) {
      case "look":
        ask(client.get<Lease>(LEASE, key));
        break;
      case "write":
        ask(write(effect.over, effect.takes));
        break;
      case "give-back":
        ask(client.update<Lease>(LEASE, freed(effect.over)));
        break;
      case "started":
        term = new AbortController();
        log.info({ lease: key.name, identity }, "leading");
        options.onStarted(term.signal);
        break;
      case "stopped":
        term?.abort();
        term = undefined;
        log.warn({ lease: key.name, identity, why: effect.why }, "not leading any more");
        options.onStopped?.(effect.why);
        break;
      case "left":
        left();
        break;
      default:
        unreachable(effect);
    }
  }

  function ask(answer: Promise<Answer<Lease>>): void {
    void answer.then((answer) => feed({ type: "answered", answer }));
  }

  function write(over: Lease | undefined, takes: boolean): Promise<Answer<Lease>> {
    const now = microTime(wallClock());
    const spec = {
      ...over?.spec,
      holderIdentity: identity,
      leaseDurationSeconds: state.settings.durationSeconds,
      renewTime: now,
      ...(takes ? { acquireTime: now, leaseTransitions: transitionsAfter(over) } : {}),
    };
    return over === undefined
      ? client.create<Lease>(LEASE, { metadata: { ...key }, spec })
      : client.update<Lease>(LEASE, { ...over, spec });
  }

  // In a turn of its own, so that nothing is called before the caller has what we return.
  queueMicrotask(() => feed({ type: "tick" }));
  const stop = () => feed({ type: "stop" });
  if (signal.aborted) queueMicrotask(stop);
  else signal.addEventListener("abort", stop, { once: true });
  return {
    get leading() {
      return state.role.type === "leader" && clock.now() < state.role.until;
    },
    left: leftPromise,
  };
}

/** Counts changes of hands; the first holder makes none, and taking back what was given back makes one. */
const transitionsAfter = (over: Lease | undefined): number =>
  over === undefined ? 0 : (over.spec?.leaseTransitions ?? 0) + 1;

/** Nobody's, and for one second only: whoever looks next takes it. */
const freed = (lease: Lease): Lease => ({
  ...lease,
  spec: { ...lease.spec, holderIdentity: "", leaseDurationSeconds: 1 },
});

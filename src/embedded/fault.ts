/**
 * Faults that tests order: which requests go wrong, and how. `request.ts` asks before and after each request; watches
 * that run are reached through `watches`.
 */
import type { Verb } from "./route.ts";
import type { Snapshot } from "./store.ts";

/** What a request must have to be hit; absent fields match anything. */
export type Matcher = {
  readonly verb?: Verb | readonly Verb[];
  /** Plural of the kind. */
  readonly resource?: string;
  readonly namespace?: string;
  readonly name?: string;
  readonly subresource?: "status";
  readonly user?: string;
};

export type Fault =
  /** Answered with that code; `when: "after"` carries the request out first. */
  | {
      readonly type: "status";
      readonly code: number;
      readonly reason?: string;
      readonly message?: string;
      readonly retryAfterSeconds?: number;
      readonly when?: "before" | "after";
    }
  /** Never answered; the connection lives. */
  | { readonly type: "stall"; readonly when?: "before" | "after" }
  /** TCP reset of the connection, with everything on it. */
  | { readonly type: "drop"; readonly when?: "before" | "after" }
  /** Half of the answer, or of the watch's next line; then the stream ends. */
  | { readonly type: "halfLine" }
  /** The answer, or each event of the watch, comes so much later. */
  | { readonly type: "delay"; readonly milliseconds: number }
  /** A watch that starts and then says nothing. */
  | { readonly type: "freeze" }
  /** A watch that ends cleanly after so many lines (default 0). */
  | { readonly type: "end"; readonly afterLines?: number }
  /** HTTP/2 GOAWAY on the connection; the request is still answered. */
  | { readonly type: "goaway" }
  /** A list in random order. */
  | { readonly type: "shuffle" }
  /** A list, or the start of a watch with sendInitialEvents, out of an older state. */
  | { readonly type: "stale"; readonly snapshot: Snapshot };

export type Subject = {
  readonly verb: Verb;
  readonly resource: string;
  readonly namespace: string | undefined;
  readonly name: string | undefined;
  readonly subresource: string | undefined;
  readonly user: string;
};

export type Injection = {
  readonly hits: number;
  remove(): void;
};

/** A watch that runs. */
export type RunningWatch = {
  readonly subject: Subject;
  /** A clean end of the stream. */
  end(): void;
  /** TCP reset of its connection. */
  reset(): void;
  /** Half a line, then the end of the stream. */
  halfLine(): void;
  /** No byte comes until `thaw`, which delivers what was held back. */
  freeze(): void;
  thaw(): void;
  /** An ERROR event with 410 Expired, then the end of the stream. */
  expire(): void;
};

type Armed = { matcher: Matcher; fault: Fault; skip: number; times: number; hits: number };

export class Faults {
  readonly #armed: Armed[] = [];
  readonly #watches = new Set<RunningWatch>();

  /** The next `times` matching requests after the first `skip` get the fault; of two that match, the older goes first. */
  inject(matcher: Matcher, fault: Fault, { skip = 0, times = 1 }: { skip?: number; times?: number } = {}): Injection {
    const armed: Armed = { matcher, fault, skip, times, hits: 0 };
    this.#armed.push(armed);
    return {
      get hits() {
        return armed.hits;
      },
      remove: () => {
        armed.times = 0;
      },
    };
  }

  /** Forgets all that was ordered. */
  clear(): void {
    this.#armed.length = 0;
  }

  /** The fault for this request, which counts as a hit. */
  take(subject: Subject): Fault | undefined {
    let taken: Fault | undefined;
    for (const armed of this.#armed) {
      if (armed.times <= 0 || !matches(armed.matcher, subject)) continue;
      if (armed.skip > 0) armed.skip--;
      else if (taken === undefined) {
        armed.times--;
        armed.hits++;
        taken = armed.fault;
      }
    }
    return taken;
  }

  /** The watches that run and match. */
  watches(matcher: Matcher = {}): RunningWatch[] {
    return [...this.#watches].filter((watch) => matches(matcher, watch.subject));
  }

  /** For the server: a watch began; the returned function says that it ended. */
  noteWatch(watch: RunningWatch): () => void {
    this.#watches.add(watch);
    return () => this.#watches.delete(watch);
  }
}

function matches(matcher: Matcher, subject: Subject): boolean {
  const verbs = matcher.verb === undefined ? undefined : [matcher.verb].flat();
  return (
    (verbs === undefined || verbs.includes(subject.verb)) &&
    (["resource", "namespace", "name", "subresource", "user"] as const).every(
      (field) => matcher[field] === undefined || matcher[field] === subject[field],
    )
  );
}

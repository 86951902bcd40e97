import { after, type Instant } from "../core/instant.ts";
import { AlarmHeap } from "./alarm-heap.ts";

export type QueueOptions = {
  /** Wait after the first failure; doubles with each further one. */
  readonly backoffMilliseconds: number;
  readonly mostBackoffMilliseconds: number;
  /** Uniform in [0, 1): jitter, so that keys that failed together do not come back together. */
  readonly random: () => number;
};

/** So many places of taken keys are kept before the list is cut. */
const MOST_TAKEN = 4096;

/**
 * Keys that want work. A key is in the queue once however often it is marked, is worked on by one taker at a time, and
 * comes back after a wait when the work failed. First marked, first served. No timer of its own: the driver asks
 * `take(now)` and wakes at `nextDeadline()`.
 */
export class DirtyQueue {
  readonly #options: QueueOptions;
  readonly #ready = new Set<string>();
  /** The ready keys in the order they became ready, from `#head` on. The first of a Set costs what was deleted before it. */
  #order: string[] = [];
  #head = 0;
  /** Keys that wait: when they may run again. */
  readonly #waiting = new Map<string, Instant>();
  /** The same by time. Entries that `#waiting` does not confirm any more are passed over. */
  readonly #alarms = new AlarmHeap();
  /** Keys being worked on; true when they were marked meanwhile. */
  readonly #inFlight = new Map<string, boolean>();
  readonly #failures = new Map<string, number>();

  constructor(options: QueueOptions) {
    this.#options = options;
  }

  /** Something that the key depends on changed. A key that backs off after a failure keeps its wait. */
  mark(key: string): void {
    if (this.#inFlight.has(key)) this.#inFlight.set(key, true);
    else if (!this.#failures.has(key) || !this.#waiting.has(key)) {
      this.#waiting.delete(key);
      this.#makeReady(key);
    }
  }

  /** The key wants to be looked at again at that time, if nothing marks it earlier. */
  markAt(key: string, at: Instant): void {
    if (this.#ready.has(key)) return;
    const known = this.#waiting.get(key);
    if (known === undefined || at < known) this.#wait(key, at);
  }

  /** The key that waits longest, now in the taker's hands until `succeed` or `fail`. */
  take(now: Instant): string | undefined {
    this.#wake(now);
    const key = this.#order[this.#head];
    if (key === undefined) return undefined;
    this.#head++;
    if (this.#head === this.#order.length || this.#head > MOST_TAKEN) {
      this.#order = this.#order.slice(this.#head);
      this.#head = 0;
    }
    this.#ready.delete(key);
    this.#inFlight.set(key, false);
    return key;
  }

  /** The work is done. Returns true when the key was marked meanwhile and is ready again. */
  succeed(key: string): boolean {
    const again = this.#inFlight.get(key) === true;
    this.#inFlight.delete(key);
    this.#failures.delete(key);
    if (again) {
      this.#waiting.delete(key);
      this.#makeReady(key);
    } else {
      // An alarm that rang while the key was in flight was passed over.
      const at = this.#waiting.get(key);
      if (at !== undefined) this.#alarms.push({ key, at });
    }
    return again;
  }

  /** The work failed: the key comes back after its backoff, at least `leastMilliseconds` (a server's Retry-After). */
  fail(key: string, now: Instant, leastMilliseconds = 0): void {
    this.#inFlight.delete(key);
    const failures = (this.#failures.get(key) ?? 0) + 1;
    this.#failures.set(key, failures);
    const { backoffMilliseconds, mostBackoffMilliseconds, random } = this.#options;
    const wait = Math.min(mostBackoffMilliseconds, backoffMilliseconds * 2 ** Math.min(failures - 1, 20));
    this.#wait(key, after(now, Math.max(leastMilliseconds, wait * (0.5 + random() / 2))));
  }

  /** The world is back (a watch was renewed, the API answers): what backs off may run at once. */
  forgive(): void {
    for (const key of this.#failures.keys()) {
      if (this.#waiting.delete(key)) this.#makeReady(key);
    }
    this.#failures.clear();
  }

  /** When the next waiting key becomes ready; undefined when nothing waits. Ready keys are there at once. */
  nextDeadline(): Instant | undefined {
    for (let next = this.#alarms.first; next !== undefined; next = this.#alarms.first) {
      if (this.#waiting.get(next.key) === next.at && !this.#inFlight.has(next.key)) return next.at;
      this.#alarms.pop();
    }
    return undefined;
  }

  /** Keys that are ready or in flight. */
  get depth(): number {
    return this.#ready.size + this.#inFlight.size;
  }

  get inFlight(): number {
    return this.#inFlight.size;
  }

  get backingOff(): number {
    return this.#failures.size;
  }

  #makeReady(key: string): void {
    if (this.#ready.has(key)) return;
    this.#ready.add(key);
    this.#order.push(key);
  }

  #wait(key: string, at: Instant): void {
    this.#waiting.set(key, at);
    this.#alarms.push({ key, at });
  }

  #wake(now: Instant): void {
    for (let next = this.nextDeadline(); next !== undefined && next <= now; next = this.nextDeadline()) {
      const due = this.#alarms.pop();
      if (due === undefined) return;
      this.#waiting.delete(due.key);
      this.#makeReady(due.key);
    }
  }
}

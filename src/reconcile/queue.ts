import { after, type Instant } from "../core/instant.ts";
import { AlarmHeap } from "./alarm-heap.ts";
import { Fifo } from "./fifo.ts";

export type QueueOptions = {
  /** Wait after the first failure; doubles with each further one. */
  readonly backoffMilliseconds: number;
  readonly mostBackoffMilliseconds: number;
  /** Uniform in [0, 1): jitter, so that keys that failed together do not come back together. */
  readonly random: () => number;
};

/** What somebody waits for goes before what only tells of it: a thousand reports shall not hold up one address. */
export type Lane = "first" | "later";

/**
 * Keys that want work. A key is in the queue once however often it is marked, is worked on by one taker at a time, and
 * comes back after a wait when the work failed. The lane `first` goes before `later`; in a lane, first marked, first
 * served. No timer of its own: the driver asks `take(now)` and wakes at `nextDeadline()`.
 */
export class DirtyQueue {
  readonly #options: QueueOptions;
  /** Ready keys and their lane. */
  readonly #ready = new Map<string, Lane>();
  /** The ready keys in the order they became ready. An entry of another lane than `#ready` says was moved up. */
  readonly #lines: Readonly<Record<Lane, Fifo>> = { first: new Fifo(), later: new Fifo() };
  readonly #readyIn: Record<Lane, number> = { first: 0, later: 0 };
  /** Keys that wait: when they may run again, and in which lane. */
  readonly #waiting = new Map<string, { readonly at: Instant; readonly lane: Lane }>();
  /** The same by time. Entries that `#waiting` does not confirm any more are passed over. */
  readonly #alarms = new AlarmHeap();
  /** Keys being worked on, and the lane in which they were marked meanwhile. */
  readonly #inFlight = new Map<string, { readonly lane: Lane; again: Lane | undefined }>();
  readonly #inFlightIn: Record<Lane, number> = { first: 0, later: 0 };
  readonly #failures = new Map<string, number>();

  constructor(options: QueueOptions) {
    this.#options = options;
  }

  /** Something that the key depends on changed. A key that backs off after a failure keeps its wait. */
  mark(key: string, lane: Lane = "first"): void {
    const work = this.#inFlight.get(key);
    if (work !== undefined) work.again = before(work.again, lane);
    else if (!this.#failures.has(key) || !this.#waiting.has(key)) {
      const waited = this.#waiting.get(key);
      this.#waiting.delete(key);
      this.#makeReady(key, before(waited?.lane, lane));
    }
  }

  /** The key wants to be looked at again at that time, if nothing marks it earlier. */
  markAt(key: string, at: Instant, lane: Lane = "first"): void {
    if (this.#ready.has(key)) return;
    const known = this.#waiting.get(key);
    if (known === undefined || at < known.at) this.#wait(key, at, before(known?.lane, lane));
  }

  /**
   * The key that waits longest in the foremost lane, now in the taker's hands until `succeed` or `fail`. With `most` first,
   * none of the lane `later`.
   */
  take(now: Instant, most: Lane = "later"): string | undefined {
    this.#wake(now);
    return this.#takeFrom("first") ?? (most === "later" ? this.#takeFrom("later") : undefined);
  }

  #takeFrom(lane: Lane): string | undefined {
    for (let key = this.#lines[lane].shift(); key !== undefined; key = this.#lines[lane].shift()) {
      if (this.#ready.get(key) !== lane) continue;
      this.#ready.delete(key);
      this.#readyIn[lane]--;
      this.#inFlight.set(key, { lane, again: undefined });
      this.#inFlightIn[lane]++;
      return key;
    }
    return undefined;
  }

  /** The work is done. Returns true when the key was marked meanwhile and is ready again. */
  succeed(key: string): boolean {
    const again = this.#land(key)?.again;
    this.#failures.delete(key);
    const waited = this.#waiting.get(key);
    if (again !== undefined) {
      this.#waiting.delete(key);
      this.#makeReady(key, before(waited?.lane, again));
    } else if (waited !== undefined) {
      // An alarm that rang while the key was in flight was passed over.
      this.#alarms.push({ key, at: waited.at });
    }
    return again !== undefined;
  }

  /** The work failed: the key comes back after its backoff, at least `leastMilliseconds` (a server's Retry-After). */
  fail(key: string, now: Instant, leastMilliseconds = 0): void {
    const work = this.#land(key);
    const failures = (this.#failures.get(key) ?? 0) + 1;
    this.#failures.set(key, failures);
    const { backoffMilliseconds, mostBackoffMilliseconds, random } = this.#options;
    const wait = Math.min(mostBackoffMilliseconds, backoffMilliseconds * 2 ** Math.min(failures - 1, 20));
    const at = after(now, Math.max(leastMilliseconds, wait * (0.5 + random() / 2)));
    this.#wait(key, at, before(work?.again, work?.lane ?? "first"));
  }

  /** The world is back (a watch was renewed, the API answers): what backs off may run at once. */
  forgive(): void {
    for (const key of this.#failures.keys()) {
      const waited = this.#waiting.get(key);
      if (waited === undefined) continue;
      this.#waiting.delete(key);
      this.#makeReady(key, waited.lane);
    }
    this.#failures.clear();
  }

  /** When the next waiting key becomes ready; undefined when nothing waits. Ready keys are there at once. */
  nextDeadline(): Instant | undefined {
    for (let next = this.#alarms.first; next !== undefined; next = this.#alarms.first) {
      if (this.#waiting.get(next.key)?.at === next.at && !this.#inFlight.has(next.key)) return next.at;
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

  inFlightIn(lane: Lane): number {
    return this.#inFlightIn[lane];
  }

  readyIn(lane: Lane): number {
    return this.#readyIn[lane];
  }

  get backingOff(): number {
    return this.#failures.size;
  }

  #land(key: string) {
    const work = this.#inFlight.get(key);
    if (work === undefined) return undefined;
    this.#inFlight.delete(key);
    this.#inFlightIn[work.lane]--;
    return work;
  }

  /** A key that is ready already moves up, and never back. */
  #makeReady(key: string, lane: Lane): void {
    const known = this.#ready.get(key);
    if (known !== undefined && before(known, lane) === known) return;
    if (known !== undefined) this.#readyIn[known]--;
    this.#ready.set(key, lane);
    this.#readyIn[lane]++;
    this.#lines[lane].push(key);
  }

  #wait(key: string, at: Instant, lane: Lane): void {
    this.#waiting.set(key, { at, lane });
    this.#alarms.push({ key, at });
  }

  #wake(now: Instant): void {
    for (let next = this.nextDeadline(); next !== undefined && next <= now; next = this.nextDeadline()) {
      const due = this.#alarms.pop();
      if (due === undefined) return;
      const lane = this.#waiting.get(due.key)?.lane ?? "first";
      this.#waiting.delete(due.key);
      this.#makeReady(due.key, lane);
    }
  }
}

/** The foremost of the two lanes. */
const before = (known: Lane | undefined, lane: Lane): Lane => (known === "first" ? known : lane);

/**
 * Which Events to write, as a value: equal ones become one Event with a series (events.k8s.io/v1), and the whole is
 * bounded in rate and in size. KEP-383 has the model.
 */

import type { KubeObject } from "../api/meta.ts";
import { after, type Instant } from "../core/instant.ts";

/** What happened, to what. */
export type Happening = {
  readonly regarding: KubeObject;
  readonly type: "Normal" | "Warning";
  /** CamelCase, one per cause. */
  readonly reason: string;
  /** CamelCase verb: what we did or tried. */
  readonly action: string;
  /** For a person; at most 1,024 bytes are kept. */
  readonly note: string;
};

export type SeriesLimits = {
  /** A happening like an earlier one within this time joins its series. */
  readonly quietMilliseconds: number;
  /** A series is written no more often than this. */
  readonly seriesMilliseconds: number;
  /** Writes in a burst, and one more after each `refillMilliseconds`. */
  readonly burst: number;
  readonly refillMilliseconds: number;
  readonly remembered: number;
};

export const DEFAULT_SERIES_LIMITS: SeriesLimits = {
  quietMilliseconds: 6 * 60_000,
  seriesMilliseconds: 60_000,
  burst: 25,
  refillMilliseconds: 1_000,
  remembered: 1_024,
};

type Series = {
  /** Number of the Event that was written for it; the driver knows its name. */
  readonly id: number;
  count: number;
  written: number;
  lastAt: Instant;
  writtenAt: Instant;
};

export type EventWrite =
  | { readonly type: "create"; readonly id: number; readonly happening: Happening }
  /** The series' count so far. */
  | { readonly type: "count"; readonly id: number; readonly count: number };

export class EventSeries {
  readonly #limits: SeriesLimits;
  /** In the order of their last write or happening, so that the oldest are forgotten first. */
  readonly #series = new Map<string, Series>();
  #tokens: number;
  #refilledAt: Instant;
  #nextId = 1;
  /** Happenings that no Event tells of, since the limits were reached. */
  dropped = 0;

  constructor(limits: SeriesLimits, now: Instant) {
    this.#limits = limits;
    this.#tokens = limits.burst;
    this.#refilledAt = now;
  }

  /** The write that this happening calls for at once, if any. */
  record(happening: Happening, now: Instant): EventWrite | undefined {
    const key = keyOfSeries(happening);
    const known = this.#series.get(key);
    if (known !== undefined && now - known.lastAt < this.#limits.quietMilliseconds) {
      known.count++;
      known.lastAt = now;
      return this.#tell(known, now);
    }
    if (!this.#take(now)) {
      this.dropped++;
      return undefined;
    }
    const id = this.#nextId++;
    this.#series.delete(key);
    this.#series.set(key, {
      id,
      count: 1,
      written: 1,
      lastAt: now,
      writtenAt: now,
    });
    if (this.#series.size > this.#limits.remembered) {
      const oldest = this.#series.keys().next().value;
      if (oldest !== undefined) this.#series.delete(oldest);
    }
    return { type: "create", id, happening };
  }

  /** Writes of series whose count has grown since and may be told now; forgets the ones that ended. */
  due(now: Instant): EventWrite[] {
    const writes: EventWrite[] = [];
    for (const [key, series] of this.#series) {
      const write = this.#tell(series, now);
      if (write !== undefined) writes.push(write);
      const isTold = series.count === series.written;
      if (isTold && now - series.lastAt >= this.#limits.quietMilliseconds) this.#series.delete(key);
    }
    return writes;
  }

  /** When `due` may have something to say; undefined when all is told. */
  nextDeadline(): Instant | undefined {
    let next: Instant | undefined;
    for (const series of this.#series.values()) {
      if (series.count === series.written) continue;
      const at = after(series.writtenAt, this.#limits.seriesMilliseconds);
      if (next === undefined || at < next) next = at;
    }
    return next;
  }

  #tell(series: Series, now: Instant): EventWrite | undefined {
    if (series.count === series.written) return undefined;
    if (now - series.writtenAt < this.#limits.seriesMilliseconds) return undefined;
    // Also when there is no token: the next try is a whole interval away.
    series.writtenAt = now;
    if (!this.#take(now)) return undefined;
    series.written = series.count;
    return { type: "count", id: series.id, count: series.count };
  }

  #take(now: Instant): boolean {
    const refills = Math.floor((now - this.#refilledAt) / this.#limits.refillMilliseconds);
    if (refills > 0) {
      this.#tokens = Math.min(this.#limits.burst, this.#tokens + refills);
      this.#refilledAt = after(this.#refilledAt, refills * this.#limits.refillMilliseconds);
    }
    if (this.#tokens === 0) return false;
    this.#tokens--;
    return true;
  }
}

const keyOfSeries = ({ regarding, type, reason, action, note }: Happening): string =>
  JSON.stringify([
    regarding.metadata.uid,
    regarding.metadata.namespace,
    regarding.metadata.name,
    type,
    reason,
    action,
    note,
  ]);

import { after, type Instant } from "../core/instant.ts";
import { compareVersions } from "../core/resource-version.ts";

/**
 * After a write, the key that made it is not worked on again until the informer has shown what was written:
 * a decision from the cache of before the write would make it twice. An expectation that stays unmet for too long is
 * dropped, since the informer heals by listing.
 */
export class Expectations {
  readonly #timeoutMilliseconds: number;
  /** Object → version that must be seen, "gone" for a delete, and the keys that wait for it. */
  readonly #expected = new Map<string, { version: string | "gone"; keys: Set<string>; until: Instant }>();
  readonly #held = new Map<string, Set<string>>();

  constructor(options: { timeoutMilliseconds: number }) {
    this.#timeoutMilliseconds = options.timeoutMilliseconds;
  }

  /** `key` wrote `object` (a name unique over resources) and got this resourceVersion back, or deleted it. */
  expect(key: string, object: string, version: string | "gone", now: Instant): void {
    const known = this.#expected.get(object);
    const keys = known?.keys ?? new Set();
    keys.add(key);
    this.#expected.set(object, { version, keys, until: after(now, this.#timeoutMilliseconds) });
    const objects = this.#held.get(key) ?? new Set();
    objects.add(object);
    this.#held.set(key, objects);
  }

  /** The informer showed the object at this version, or that it is gone. Returns the keys that are free now. */
  seen(object: string, version: string | "gone"): readonly string[] {
    const expected = this.#expected.get(object);
    if (expected === undefined) return [];
    if (version !== "gone") {
      if (expected.version === "gone") return [];
      const order = compareVersions(version, expected.version);
      if (order !== undefined && order < 0) return [];
    }
    return this.#drop(object);
  }

  /** True while the key waits for an informer. */
  holds(key: string): boolean {
    return this.#held.has(key);
  }

  /** Drops what was not met in time. Returns the keys that are free now. */
  expire(now: Instant): readonly string[] {
    const late = [...this.#expected].filter(([, { until }]) => until <= now);
    return late.flatMap(([object]) => this.#drop(object));
  }

  /** When the oldest expectation runs out. */
  nextDeadline(): Instant | undefined {
    let next: Instant | undefined;
    for (const { until } of this.#expected.values()) if (next === undefined || until < next) next = until;
    return next;
  }

  get size(): number {
    return this.#expected.size;
  }

  #drop(object: string): readonly string[] {
    const expected = this.#expected.get(object);
    this.#expected.delete(object);
    const free: string[] = [];
    for (const key of expected?.keys ?? []) {
      const objects = this.#held.get(key);
      objects?.delete(object);
      if (objects?.size === 0) {
        this.#held.delete(key);
        free.push(key);
      }
    }
    return free;
  }
}

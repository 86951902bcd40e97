import type { Instant } from "../core/instant.ts";

/**
 * What is due when, soonest first, equals in the order of their coming: a binary heap, so that ten thousand VIPs cost
 * a handful of comparisons per change. Nothing is ever taken out early: who takes an entry asks whether it still holds.
 */
export class Agenda<T> {
  readonly #heap: { readonly at: Instant; readonly order: number; readonly item: T }[] = [];
  #order = 0;

  /** The earliest instant in it. */
  get nextAt(): Instant | undefined {
    return this.#heap[0]?.at;
  }

  add(at: Instant, item: T): void {
    const heap = this.#heap;
    heap.push({ at, order: this.#order++, item });
    let child = heap.length - 1;
    while (child > 0) {
      const parent = (child - 1) >> 1;
      if (!this.#swapIfSooner(child, parent)) break;
      child = parent;
    }
  }

  /** Takes the soonest entry if it is due. */
  take(now: Instant): { readonly at: Instant; readonly item: T } | undefined {
    const heap = this.#heap;
    const first = heap[0];
    if (first === undefined || first.at > now) return undefined;
    const last = heap.pop();
    if (last !== undefined && heap.length > 0) {
      heap[0] = last;
      for (let parent = 0; ; ) {
        const left = 2 * parent + 1;
        const sooner = this.#isSooner(left + 1, left) ? left + 1 : left;
        if (!this.#swapIfSooner(sooner, parent)) break;
        parent = sooner;
      }
    }
    return first;
  }

  #isSooner(a: number, b: number): boolean {
    const [x, y] = [this.#heap[a], this.#heap[b]];
    return x !== undefined && y !== undefined && (x.at < y.at || (x.at === y.at && x.order < y.order));
  }

  #swapIfSooner(a: number, b: number): boolean {
    const [x, y] = [this.#heap[a], this.#heap[b]];
    if (x === undefined || y === undefined || !this.#isSooner(a, b)) return false;
    this.#heap[a] = y;
    this.#heap[b] = x;
    return true;
  }
}

/** Consecutive numbers, both ends inside. */
export type Interval = { readonly first: bigint; readonly last: bigint };

/**
 * A set of numbers, kept as sorted intervals that neither overlap nor touch. Use one per address family.
 * It costs memory by interval, never by number: all of a /64 is one entry. Lookups take O(log n) of the intervals.
 */
export class IntervalSet {
  #intervals: Interval[] = [];
  #size = 0n;
  /** How many numbers lie before each interval; made when `at` asks and dropped at each change. */
  #before: bigint[] | undefined;

  /** The numbers of all these intervals; they may overlap and come in any order. Empty ones (last < first) add nothing. */
  static of(intervals: Iterable<Interval>): IntervalSet {
    const set = new IntervalSet();
    const sorted = Array.from(intervals).filter((each) => each.first <= each.last);
    sorted.sort((a, b) => (a.first < b.first ? -1 : a.first > b.first ? 1 : 0));
    for (const next of sorted) {
      const previous = set.#intervals.at(-1);
      if (previous === undefined || next.first > previous.last + 1n) {
        set.#intervals.push({ first: next.first, last: next.last });
      } else if (next.last > previous.last) {
        set.#intervals[set.#intervals.length - 1] = { first: previous.first, last: next.last };
      }
    }
    for (const each of set.#intervals) set.#size += lengthOf(each);
    return set;
  }

  /** The intervals in order: disjoint, with at least one number missing between two of them. */
  get intervals(): readonly Interval[] {
    return this.#intervals;
  }

  /** How many numbers are in the set. */
  get size(): bigint {
    return this.#size;
  }

  /** True when the number is in the set. */
  has(value: bigint): boolean {
    const found = this.#intervals[this.#firstEndingFrom(value)];
    return found !== undefined && found.first <= value;
  }

  /** The smallest number of the set that is not below `value`; `undefined` when there is none. */
  nextFrom(value: bigint): bigint | undefined {
    const found = this.#intervals[this.#firstEndingFrom(value)];
    if (found === undefined) return undefined;
    return found.first > value ? found.first : value;
  }

  /** The number at the place `index` (0 is the smallest); `undefined` outside 0 … size-1. */
  at(index: bigint): bigint | undefined {
    if (index < 0n || index >= this.#size) return undefined;
    this.#before ??= runningSums(this.#intervals);
    const before = this.#before;
    const place = firstWhere(before.length, (i) => (before[i] ?? 0n) > index) - 1;
    return (this.#intervals[place]?.first ?? 0n) + index - (before[place] ?? 0n);
  }

  /** How many numbers of the set lie in the interval. */
  countIn(interval: Interval): bigint {
    let count = 0n;
    for (let i = this.#firstEndingFrom(interval.first); i < this.#intervals.length; i++) {
      const overlap = overlapOf(this.#intervals[i] as Interval, interval);
      if (overlap === undefined) break;
      count += lengthOf(overlap);
    }
    return count;
  }

  /** Puts all numbers of the interval into this set. */
  add(interval: Interval): void {
    if (interval.last < interval.first) return;
    // Neighbours that only touch melt into one as well, so the search runs one number wider on both sides.
    const start = this.#firstEndingFrom(interval.first - 1n);
    const end = this.#firstStartingAfter(interval.last + 1n);
    const [leftmost, rightmost] = [this.#intervals[start], this.#intervals[end - 1]];
    const first = start < end && leftmost && leftmost.first < interval.first ? leftmost.first : interval.first;
    const last = start < end && rightmost && rightmost.last > interval.last ? rightmost.last : interval.last;
    this.#replace(start, end, [{ first, last }]);
  }

  /** Takes all numbers of the interval out of this set. */
  remove(interval: Interval): void {
    if (interval.last < interval.first) return;
    const start = this.#firstEndingFrom(interval.first);
    const end = this.#firstStartingAfter(interval.last);
    const [leftmost, rightmost] = [this.#intervals[start], this.#intervals[end - 1]];
    if (start >= end || leftmost === undefined || rightmost === undefined) return;
    const rest: Interval[] = [];
    if (leftmost.first < interval.first) rest.push({ first: leftmost.first, last: interval.first - 1n });
    if (rightmost.last > interval.last) rest.push({ first: interval.last + 1n, last: rightmost.last });
    this.#replace(start, end, rest);
  }

  /** A new set: the numbers in either. */
  union(other: IntervalSet): IntervalSet {
    return IntervalSet.of([...this.#intervals, ...other.#intervals]);
  }

  /** A new set: the numbers in this one and not in the other. */
  subtract(other: IntervalSet): IntervalSet {
    const rest: Interval[] = [];
    let next = 0;
    for (const whole of this.#intervals) {
      let { first } = whole;
      while (next < other.#intervals.length && (other.#intervals[next] as Interval).last < first) next++;
      for (let i = next; i < other.#intervals.length; i++) {
        const hole = other.#intervals[i] as Interval;
        if (hole.first > whole.last) break;
        if (hole.first > first) rest.push({ first, last: hole.first - 1n });
        first = hole.last + 1n;
      }
      if (first <= whole.last) rest.push({ first, last: whole.last });
    }
    return IntervalSet.of(rest);
  }

  /** A new set: the numbers in both. */
  intersect(other: IntervalSet): IntervalSet {
    const both: Interval[] = [];
    let [i, j] = [0, 0];
    while (i < this.#intervals.length && j < other.#intervals.length) {
      const [a, b] = [this.#intervals[i] as Interval, other.#intervals[j] as Interval];
      const overlap = overlapOf(a, b);
      if (overlap !== undefined) both.push(overlap);
      if (a.last < b.last) i++;
      else j++;
    }
    return IntervalSet.of(both);
  }

  /** A set of its own with the same numbers. */
  copy(): IntervalSet {
    const set = new IntervalSet();
    set.#intervals = this.#intervals.slice();
    set.#size = this.#size;
    return set;
  }

  #replace(start: number, end: number, by: readonly Interval[]): void {
    for (const gone of this.#intervals.splice(start, end - start, ...by)) this.#size -= lengthOf(gone);
    for (const come of by) this.#size += lengthOf(come);
    this.#before = undefined;
  }

  /** Place of the first interval that ends at `value` or later. */
  #firstEndingFrom(value: bigint): number {
    return firstWhere(this.#intervals.length, (i) => (this.#intervals[i] as Interval).last >= value);
  }

  /** Place of the first interval that starts after `value`. */
  #firstStartingAfter(value: bigint): number {
    return firstWhere(this.#intervals.length, (i) => (this.#intervals[i] as Interval).first > value);
  }
}

const lengthOf = (interval: Interval): bigint => interval.last - interval.first + 1n;

function overlapOf(a: Interval, b: Interval): Interval | undefined {
  // biome-ignore lint/complexity/useMathMinMax: Math.max knows no bigint.
  const first = a.first > b.first ? a.first : b.first;
  // biome-ignore lint/complexity/useMathMinMax: Math.min knows no bigint.
  const last = a.last < b.last ? a.last : b.last;
  return first <= last ? { first, last } : undefined;
}

function runningSums(intervals: readonly Interval[]): bigint[] {
  let sum = 0n;
  return intervals.map((each) => {
    const before = sum;
    sum += lengthOf(each);
    return before;
  });
}

/** The first place for which the test holds, by bisection; `length` when it holds for none. Once true it must stay true. */
function firstWhere(length: number, test: (place: number) => boolean): number {
  let [low, high] = [0, length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (test(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}

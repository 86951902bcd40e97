import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type Interval, IntervalSet } from "./interval-set.ts";

/** A small world, so that an ordinary set of numbers can be the judge. */
const WORLD = 48;
const everything = Array.from({ length: WORLD + 2 }, (_, i) => BigInt(i - 1));

const interval = fc
  .tuple(fc.integer({ min: 0, max: WORLD - 1 }), fc.integer({ min: 0, max: 9 }))
  .map(([first, more]): Interval => ({ first: BigInt(first), last: BigInt(Math.min(first + more, WORLD - 1)) }));
const intervals = fc.array(interval, { maxLength: 10 });

const numbersOf = (list: readonly Interval[]): Set<bigint> =>
  new Set(everything.filter((n) => list.some((each) => each.first <= n && n <= each.last)));

const union = (a: Set<bigint>, b: Set<bigint>) => new Set([...a, ...b]);
const difference = (a: Set<bigint>, b: Set<bigint>) => new Set([...a].filter((n) => !b.has(n)));
const intersection = (a: Set<bigint>, b: Set<bigint>) => new Set([...a].filter((n) => b.has(n)));

function expectSame(set: IntervalSet, model: Set<bigint>): void {
  const sorted = everything.filter((n) => model.has(n));
  expect(everything.filter((n) => set.has(n))).toEqual(sorted);
  expect(set.size).toBe(BigInt(model.size));
  expect(sorted.map((_, i) => set.at(BigInt(i)))).toEqual(sorted);
  expect(set.at(set.size)).toBeUndefined();
  expect(set.at(-1n)).toBeUndefined();
  for (const n of everything) expect(set.nextFrom(n)).toBe(sorted.find((each) => each >= n));
  for (const [i, each] of set.intervals.entries()) {
    const previous = set.intervals[i - 1];
    expect(each.first <= each.last).toBe(true);
    if (previous !== undefined) expect(each.first > previous.last + 1n).toBe(true);
  }
}

describe("a set of intervals", () => {
  it("holds the numbers of the intervals it was made of, counting none twice", () => {
    fc.assert(fc.property(intervals, (list) => expectSame(IntervalSet.of(list), numbersOf(list))));
  });

  it("joins, subtracts and intersects as sets of numbers do", () => {
    fc.assert(
      fc.property(intervals, intervals, (left, right) => {
        const [a, b] = [IntervalSet.of(left), IntervalSet.of(right)];
        const [x, y] = [numbersOf(left), numbersOf(right)];
        expectSame(a.union(b), union(x, y));
        expectSame(a.subtract(b), difference(x, y));
        expectSame(a.intersect(b), intersection(x, y));
        expectSame(a, x);
      }),
    );
  });

  it("follows every addition and removal, and a copy goes its own way", () => {
    const step = fc.tuple(fc.boolean(), interval);
    fc.assert(
      fc.property(intervals, fc.array(step, { maxLength: 12 }), (list, steps) => {
        const original = IntervalSet.of(list);
        const set = original.copy();
        let model = numbersOf(list);
        for (const [add, each] of steps) {
          if (add) set.add(each);
          else set.remove(each);
          model = (add ? union : difference)(model, numbersOf([each]));
          expectSame(set, model);
        }
        expectSame(original, numbersOf(list));
      }),
    );
  });

  it("counts the numbers inside an interval", () => {
    fc.assert(
      fc.property(intervals, interval, (list, window) => {
        const inside = intersection(numbersOf(list), numbersOf([window]));
        expect(IntervalSet.of(list).countIn(window)).toBe(BigInt(inside.size));
      }),
    );
  });

  it("IP-10: costs one interval for a /64 and knows its size exactly", () => {
    const first = 0x20010db8n << 96n;
    const set = IntervalSet.of([{ first, last: first + 2n ** 64n - 1n }]);
    set.remove({ first: first + 5n, last: first + 5n });
    expect(set.intervals.length).toBe(2);
    expect(set.size).toBe(2n ** 64n - 1n);
    expect(set.at(5n)).toBe(first + 6n);
    expect(set.nextFrom(first + 5n)).toBe(first + 6n);
  });

  it("IP-10: an empty set has size 0 and gives nothing", () => {
    const one: Interval = { first: 7n, last: 7n };
    const set = IntervalSet.of([one, { first: 9n, last: 8n }]).subtract(IntervalSet.of([one, one]));
    expect([set.size, set.nextFrom(0n), set.at(0n), set.intervals.length]).toEqual([0n, undefined, undefined, 0]);
  });
});

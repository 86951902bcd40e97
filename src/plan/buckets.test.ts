import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Address } from "../net/address.ts";
import { planBuckets, type Share } from "./buckets.ts";
import type { BucketCount, Buckets, Endpoint } from "./vip-plan.ts";

const endpoint = (i: number): Endpoint => ({
  address: `198.18.${Math.floor(i / 250)}.${(i % 250) + 1}` as Address,
  port: 8080,
  local: i % 2 === 0,
});

const share = (identity: string, weight: number, endpoints: readonly number[]): Share => ({
  identity,
  weight,
  endpoints: endpoints.map(endpoint),
});

const upTo = (count: number): number[] => Array.from({ length: count }, (_, i) => i);

const held = (buckets: Buckets | undefined): Map<string, number> => {
  const counts = new Map<string, number>();
  for (const it of buckets ?? []) counts.set(it?.address ?? "none", (counts.get(it?.address ?? "none") ?? 0) + 1);
  return counts;
};

describe("the bucket count", () => {
  const rows: [string, Share[], BucketCount][] = [
    ["one endpoint", [share("a", 1, [0])], 1],
    ["two", [share("a", 1, [0, 1])], 16],
    ["three", [share("a", 1, upTo(3))], 64],
    ["eight", [share("a", 1, upTo(8))], 64],
    ["nine", [share("a", 1, upTo(9))], 256],
    ["thirty-two", [share("a", 1, upTo(32))], 256],
    ["thirty-three", [share("a", 1, upTo(33))], 1024],
    ["more than there are buckets for", [share("a", 1, upTo(300))], 1024],
    ["one endpoint beside dead weight", [share("a", 1, [0]), share("b", 1, [])], 16],
    ["weights 1 and 99: the small one needs a bucket", [share("a", 1, [0]), share("b", 99, [1])], 64],
    ["weights 1 and 999", [share("a", 1, [0]), share("b", 999, [1])], 1024],
    ["weights that no count can show", [share("a", 1, [0]), share("b", 999_999, [1])], 1024],
    ["the same endpoint behind two backends counts once", [share("a", 1, [0]), share("b", 1, [0])], 16],
  ];
  test.each(rows)("%s", (_, shares, count) => expect(planBuckets(shares)).toHaveLength(count));

  const steps: [string, number, BucketCount, BucketCount][] = [
    ["grows at once", 3, 16, 64],
    ["stays when one of three goes", 2, 64, 64],
    ["shrinks below a quarter of its step", 1, 64, 1],
    ["stays at a quarter", 8, 256, 256],
    ["shrinks below it", 7, 256, 64],
    ["from the top", 31, 1024, 256],
    ["not yet from the top", 32, 1024, 1024],
    ["sixteen serve one as well", 1, 16, 16],
  ];
  test.each(steps)("%s", (_, endpoints, before, after) =>
    expect(planBuckets([share("a", 1, upTo(endpoints))], before)).toHaveLength(after),
  );
});

describe("weights", () => {
  test("80 of 100 that are refused leave 80 in 100 buckets empty", () => {
    const buckets = planBuckets([share("good", 20, [0]), share("refused", 80, [])]);
    const counts = held(buckets);
    expect((counts.get("none") ?? 0) / (buckets?.length ?? 1)).toBeCloseTo(0.8, 1);
  });

  test("weight 0 gets nothing, and nothing but dead weight is no table at all", () => {
    expect(held(planBuckets([share("a", 0, [0]), share("b", 1, [1])]))).toEqual(new Map([[endpoint(1).address, 1]]));
    expect(planBuckets([share("a", 0, [0])])).toBeUndefined();
    expect(planBuckets([share("a", 1, []), share("b", 5, [])])).toBeUndefined();
    expect(planBuckets([])).toBeUndefined();
  });

  test("property: every non-zero weight has its share within 2 points, and a bucket", () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 1, max: 50 }), { minLength: 2, maxLength: 8 }), (weights) => {
        const buckets = planBuckets(weights.map((weight, i) => share(`b${i}`, weight, [i])));
        const total = weights.reduce((sum, weight) => sum + weight, 0);
        const counts = held(buckets);
        for (const [i, weight] of weights.entries()) {
          const part = (counts.get(endpoint(i).address) ?? 0) / (buckets?.length ?? 1);
          expect(part).toBeGreaterThan(0);
          expect(Math.abs(part - weight / total)).toBeLessThanOrEqual(0.02);
        }
      }),
    );
  });

  test("a backend that dies empties its own buckets and moves no other", () => {
    const alive = planBuckets([share("a", 3, [0, 1]), share("b", 1, [2])]);
    const dead = planBuckets([share("a", 3, [0, 1]), share("b", 1, [])], alive?.length as BucketCount);
    for (const [i, before] of (alive ?? []).entries()) {
      expect(dead?.[i]).toEqual(before?.address === endpoint(2).address ? undefined : before);
    }
  });
});

describe("filling", () => {
  const numbers = fc.uniqueArray(fc.integer({ min: 0, max: 400 }), { minLength: 2, maxLength: 60 });

  test("property: the order of endpoints and backends, and who is local, change nothing: every node has the same table", () => {
    fc.assert(
      fc.property(numbers, fc.infiniteStream(fc.nat()), (endpoints, order) => {
        const shuffled = endpoints
          .map((it) => ({ it, at: order.next().value as number }))
          .sort((a, b) => a.at - b.at)
          .map(({ it }) => it);
        const one = planBuckets([share("a", 2, endpoints), share("b", 1, [0])]);
        const elsewhere = [share("b", 1, [0]), share("a", 2, shuffled)].map((it) => ({
          ...it,
          endpoints: it.endpoints.map((that) => ({ ...that, local: !that.local })),
        }));
        const other = planBuckets(elsewhere);
        expect(other?.map((it) => it?.address)).toEqual(one?.map((it) => it?.address));
      }),
    );
  });

  test("property: no endpoint holds more than 1.1 times its part, and every bucket is filled", () => {
    fc.assert(
      fc.property(numbers, (endpoints) => {
        const buckets = planBuckets([share("a", 1, endpoints)]) ?? [];
        const counts = held(buckets);
        expect(counts.has("none")).toBe(false);
        const cap = Math.ceil((buckets.length / endpoints.length) * 1.1);
        for (const count of counts.values()) expect(count).toBeLessThanOrEqual(cap);
      }),
    );
  });

  test("property: an endpoint that goes moves its own buckets and hardly any other, while the count stays", () => {
    fc.assert(
      fc.property(numbers, (endpoints) => {
        const [gone, ...left] = endpoints;
        const before = planBuckets([share("a", 1, endpoints)]) ?? [];
        const after = planBuckets([share("a", 1, left)], before.length as BucketCount) ?? [];
        fc.pre(before.length === after.length);
        const others = before.filter(
          (it, i) => it?.address !== endpoint(gone ?? 0).address && it?.address !== after[i]?.address,
        );
        // The load cap rises with each endpoint that goes, so a bucket that was turned away may come home: at most a few.
        expect(others.length / before.length).toBeLessThanOrEqual(MOST_OTHERS);
      }),
      { numRuns: 500 },
    );
  });

  /** Share of all buckets that may move beside those of the endpoint that went. */
  const MOST_OTHERS = 0.12;

  test("on average a change of one in n endpoints moves little more than 1/n of the buckets", () => {
    let [moved, own, all] = [0, 0, 0];
    for (let count = 4; count <= 8; count++) {
      for (let round = 0; round < 20; round++) {
        const endpoints = upTo(count).map((i) => i + round * 10);
        const before = planBuckets([share("a", 1, endpoints)]) ?? [];
        const after = planBuckets([share("a", 1, endpoints.slice(1))], before.length as BucketCount) ?? [];
        moved += before.filter((it, i) => it?.address !== after[i]?.address).length;
        own += before.filter((it) => it?.address === endpoint(endpoints[0] ?? 0).address).length;
        all += before.length;
      }
    }
    expect((moved - own) / all).toBeLessThan(0.03);
  });

  test("the table of a known set stays what it is in every version: flows of running clusters hang on it", () => {
    const buckets = planBuckets([share("t/web/", 1, [0, 1])]);
    expect(buckets?.map((it) => (it?.address === endpoint(0).address ? "0" : "1")).join("")).toMatchInlineSnapshot(
      `"0110101010101100"`,
    );
  });
});

import fc from "fast-check";
import { expect, test } from "vitest";
import { addressOf } from "../net/address.ts";
import { type Prefix, prefixHolds, prefixOf } from "../net/prefix.ts";
import { resolveSourceRanges } from "./source-ranges.ts";

const rows: [string, string[], string[], string[]][] = [
  ["none: anybody", [], [], []],
  ["both families", ["2001:db8::/32", "192.0.2.0/24"], ["192.0.2.0/24", "2001:db8::/32"], []],
  ["blanks around, one twice", [" 192.0.2.0/24", "192.0.2.0/24"], ["192.0.2.0/24"], []],
  ["host bits are masked", ["192.0.2.9/24"], ["192.0.2.0/24"], []],
  ["a part of another one goes", ["192.0.2.128/25", "192.0.2.0/24"], ["192.0.2.0/24"], []],
  ["a bad one is left out", ["192.0.2.0/24", "192.0.2.0/33"], ["192.0.2.0/24"], ["InvalidSourceRange"]],
  ["only bad ones let nobody in", ["anywhere"], ["0.0.0.0/32"], ["InvalidSourceRange"]],
  ["an empty one is bad", [""], ["0.0.0.0/32"], ["InvalidSourceRange"]],
];

test.each(rows)("source ranges, %s", (_, texts, ranges, problems) => {
  const resolved = resolveSourceRanges(texts);
  expect(resolved.ranges).toEqual(ranges);
  expect(resolved.problems.map((problem) => problem.reason)).toEqual(problems);
});

test("more ranges than a forward holds are cut, and that is said", () => {
  const { ranges, problems } = resolveSourceRanges(Array.from({ length: 70 }, (_, i) => `192.0.${i}.0/24`));
  expect(ranges).toHaveLength(64);
  expect(problems.map((problem) => problem.reason)).toEqual(["TooManySourceRanges"]);
});

test("joined ranges let in exactly what the given ones let in", () => {
  const address = fc.nat(0xff).map((low) => addressOf(0xc0000200n + BigInt(low), "IPv4"));
  const prefix = fc.tuple(address, fc.integer({ min: 24, max: 32 })).map(([base, length]) => prefixOf(base, length));
  fc.assert(
    fc.property(fc.array(prefix, { minLength: 1, maxLength: 8 }), address, (given, source) => {
      const letsIn = (ranges: readonly Prefix[]) => ranges.some((range) => prefixHolds(range, source));
      expect(letsIn(resolveSourceRanges(given).ranges)).toBe(letsIn(given));
    }),
  );
});

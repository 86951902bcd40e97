import { expect, test } from "vitest";
import { same, unlessSame } from "./same.ts";

const rows: [unknown, unknown, boolean][] = [
  [{ a: 1, b: [1, { c: 2 }] }, { b: [1, { c: 2 }], a: 1 }, true],
  [{ a: 1, b: undefined }, { a: 1 }, true],
  [{ a: undefined }, { b: undefined }, true],
  [{ a: 1 }, { a: 1, b: 2 }, false],
  [{ a: null }, {}, false],
  [null, {}, false],
  [[1, 2], [2, 1], false],
  [[1], [1, 2], false],
  [[], {}, false],
  [{ toString: 1 }, {}, false],
  [{ a: 1, b: undefined }, { a: 1, c: 2 }, false],
  [{ 0: 1 }, [1], false],
  ["1", 1, false],
  [undefined, null, false],
];

test.each(rows)("%j says the same as %j: %s", (a, b, expected) => {
  expect(same(a, b)).toBe(expected);
  expect(same(b, a)).toBe(expected);
});

test("what says the same is kept itself", () => {
  const current = { a: [1] };
  expect(unlessSame(current, { a: [1] })).toBe(current);
  expect(unlessSame<{ a: number[] }>(current, { a: [2] })).toEqual({ a: [2] });
  expect(unlessSame<{ a: number[] }>(undefined, { a: [1] })).toEqual({ a: [1] });
});

import { expect, test } from "vitest";
import { backoffMilliseconds, DEFAULT_BACKOFF } from "./backoff.ts";

test.each([
  [1, 50, 100],
  [2, 100, 200],
  [9, 12_800, 25_600],
  [10, 15_000, 30_000],
  [10_000, 15_000, 30_000],
])("after %i failures the wait lies between %i and %i ms", (failures, least, most) => {
  expect(backoffMilliseconds(DEFAULT_BACKOFF, failures, 0)).toBe(least);
  expect(backoffMilliseconds(DEFAULT_BACKOFF, failures, 1)).toBe(most);
});

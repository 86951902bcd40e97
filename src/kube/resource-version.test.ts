import { expect, test } from "vitest";
import { compareVersions, isOlder } from "./resource-version.ts";

test.each([
  ["9", "10", -1],
  ["10", "9", 1],
  ["7", "7", 0],
  ["18446744073709551615", "18446744073709551616", -1],
  ["0", "1", -1],
])("resourceVersions compare as decimals of any length: %s and %s", (a, b, sign) => {
  expect(Math.sign(compareVersions(a, b) ?? Number.NaN)).toBe(sign);
});

test.each([
  ["abc", "1"],
  ["", "1"],
  ["01", "1"],
  ["-1", "1"],
])("nothing is concluded from %j and %j", (a, b) => {
  expect(compareVersions(a, b)).toBeUndefined();
  expect(isOlder(a, b)).toBe(false);
  expect(isOlder(b, a)).toBe(false);
});

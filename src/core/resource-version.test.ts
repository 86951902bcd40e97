import { expect, test } from "vitest";
import { compareVersions, isOlder, reaches } from "./resource-version.ts";

test.each([
  ["9", "10", -1],
  ["10", "9", 1],
  ["10", "10", 0],
  ["18446744073709551617", "18446744073709551616", 1],
] as const)("%s against %s is compared as a decimal", (a, b, sign) => {
  expect(Math.sign(compareVersions(a, b) ?? Number.NaN)).toBe(sign);
});

test.each([
  ["", "1"],
  ["01", "1"],
  ["abc", "1"],
  [undefined, "1"],
])("of %s nothing is concluded", (a, b) => {
  expect(compareVersions(a, b)).toBe(undefined);
  expect(reaches(a, b)).toBe(false);
});

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

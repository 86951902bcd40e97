import { expect, test } from "vitest";
import { compareVersions, reaches } from "./resource-version.ts";

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

import { expect, test } from "vitest";
import { MemoryRelease } from "./memory.ts";

test("memory is given back once, when it has been quiet after the start or much work", () => {
  const release = new MemoryRelease();
  expect(release.due(1_000)).toBe(false);
  expect(release.due(5_999)).toBe(false);
  expect(release.due(6_000)).toBe(true);
  release.worked(10, 7_000);
  expect(release.due(60_000)).toBe(false);
  release.worked(5000, 60_000);
  expect(release.due(60_001)).toBe(false);
  release.worked(1, 64_000);
  expect(release.due(66_000)).toBe(false);
  expect(release.due(69_000)).toBe(true);
  expect(release.due(80_000)).toBe(false);
});

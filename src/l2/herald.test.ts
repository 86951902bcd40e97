import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type Instant, instant } from "../core/instant.ts";
import { announced, refreshEvery, startHerald } from "./herald.ts";

/** Instants of the announcements until `end`, each made exactly when due. */
function timeline(refreshIntervalSeconds: number, random: number, end: number): number[] {
  const at: number[] = [];
  let herald = startHerald(instant(0));
  while (herald.dueAt !== undefined && herald.dueAt <= end) {
    const now: Instant = herald.dueAt;
    at.push(now);
    herald = announced(herald, refreshIntervalSeconds, random, now);
  }
  return at;
}

describe("the herald", () => {
  it("AR-07: speaks at 0, 1.1, 2.2, 3.3 and 4.4 s, then refreshes", () => {
    expect(timeline(60, 0.5, 125_000)).toEqual([0, 1100, 2200, 3300, 4400, 64_400, 124_400]);
  });

  it.each([
    [0, 50],
    [0.5, 60],
    [0.999999, 70],
  ])("AR-08: a draw of %d makes the refresh come after %d s", (random, seconds) => {
    const refresh = timeline(60, random, 80_000)[5] ?? 0;
    expect(refresh - 4400).toBeCloseTo(seconds * 1000, 0);
  });

  it("AR-08: refreshes lie within a sixth of the interval, well below the 300 s of a switch table", () => {
    fc.assert(
      fc.property(fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }), (random) => {
        const [last = 0, refresh = 0] = timeline(60, random, 80_000).slice(4);
        expect(refresh - last).toBeGreaterThanOrEqual(50_000);
        expect(refresh - last).toBeLessThanOrEqual(70_000);
      }),
    );
  });

  it("an interval of 0 means the burst and nothing more", () => {
    expect(timeline(0, 0.5, 1e9)).toEqual([0, 1100, 2200, 3300, 4400]);
  });

  it("a late announcement moves the next one, and none is made up for", () => {
    const late = announced(startHerald(instant(0)), 60, 0.5, instant(5000));
    expect(late).toEqual({ burstLeft: 4, dueAt: 6100 });
  });

  it("a changed interval waits for the burst to end, then counts from now", () => {
    const burst = startHerald(instant(0));
    expect(refreshEvery(burst, 30, 0.5, instant(0))).toBe(burst);
    expect(refreshEvery({ burstLeft: 0, dueAt: instant(99_000) }, 30, 0.5, instant(10_000)).dueAt).toBe(40_000);
    expect(refreshEvery({ burstLeft: 0, dueAt: instant(99_000) }, 0, 0.5, instant(10_000)).dueAt).toBeUndefined();
  });
});

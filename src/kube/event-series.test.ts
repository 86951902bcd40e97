import { expect, test } from "vitest";
import { instant } from "../core/instant.ts";
import { EventSeries, type Happening, type SeriesLimits } from "./event-series.ts";

const LIMITS: SeriesLimits = {
  quietMilliseconds: 1_000,
  seriesMilliseconds: 100,
  burst: 3,
  refillMilliseconds: 50,
  remembered: 4,
};
const happening = (name: string, reason = "Conflict"): Happening => ({
  regarding: { metadata: { name, uid: name } },
  type: "Warning",
  reason,
  action: "Announce",
  note: "n",
});

test("the first of its kind is written at once, the next ones as one count", () => {
  const series = new EventSeries(LIMITS, instant(0));
  expect(series.record(happening("a"), instant(0))).toMatchObject({ type: "create", id: 1 });
  expect(series.nextDeadline()).toBeUndefined();
  for (let at = 1; at < 100; at++) expect(series.record(happening("a"), instant(at))).toBeUndefined();
  expect(series.nextDeadline()).toBe(100);
  expect(series.due(instant(99))).toEqual([]);
  expect(series.due(instant(100))).toEqual([{ type: "count", id: 1, count: 100 }]);
  expect(series.nextDeadline()).toBeUndefined();
});

test("after a quiet time it is a new Event", () => {
  const series = new EventSeries(LIMITS, instant(0));
  series.record(happening("a"), instant(0));
  expect(series.record(happening("a"), instant(1_000))).toMatchObject({ type: "create", id: 2 });
});

test("another object or another reason is another Event", () => {
  const series = new EventSeries(LIMITS, instant(0));
  expect(series.record(happening("a"), instant(0))).toMatchObject({ id: 1 });
  expect(series.record(happening("b"), instant(0))).toMatchObject({ id: 2 });
  expect(series.record(happening("a", "Released"), instant(0))).toMatchObject({ id: 3 });
});

test("a storm is cut to the burst and then to the rate", () => {
  const series = new EventSeries(LIMITS, instant(0));
  let written = 0;
  for (let at = 0; at < 500; at++) if (series.record(happening(`a${at}`), instant(at)) !== undefined) written++;
  expect(written).toBe(3 + 9);
  expect(series.dropped).toBe(500 - 12);
});

test("a count that found no token is told later, whole", () => {
  const series = new EventSeries({ ...LIMITS, refillMilliseconds: 10_000 }, instant(0));
  for (const name of ["a", "b", "c"]) series.record(happening(name), instant(0));
  series.record(happening("a"), instant(10));
  expect(series.due(instant(100))).toEqual([]);
  expect(series.nextDeadline()).toBe(200);
  expect(series.due(instant(10_000))).toEqual([{ type: "count", id: 1, count: 2 }]);
});

test("what is remembered is bounded", () => {
  const series = new EventSeries({ ...LIMITS, refillMilliseconds: 1 }, instant(0));
  for (let at = 0; at < 50; at++) series.record(happening(`a${at}`), instant(at * 2));
  // The first is forgotten, so it is new again, within the quiet time.
  expect(series.record(happening("a0"), instant(101))).toMatchObject({ type: "create" });
});

import fc from "fast-check";
import { expect, test } from "vitest";
import type { Condition } from "../api/meta.ts";
import { mergeConditions, trouble, type Verdict, verdict, type Writing } from "./condition.ts";

const BEFORE = "2026-01-01T00:00:00Z";
const NOW = "2026-01-02T00:00:00Z";

const condition = (type: string, more: Partial<Condition> = {}): Condition => ({
  type,
  status: "True",
  observedGeneration: 1,
  lastTransitionTime: BEFORE,
  reason: "Well",
  message: "",
  ...more,
});

const says = (type: string, more: Partial<Verdict> = {}): Verdict => ({
  type,
  status: "True",
  reason: "Well",
  message: "",
  ...more,
});

const writing = (more: Partial<Writing> = {}): Writing => ({ owned: ["A", "B"], generation: 1, now: NOW, ...more });

test("a first verdict is written with all its fields", () => {
  expect(mergeConditions(undefined, [says("A", { reason: "R", message: "m" })], writing({ generation: 4 }))).toEqual([
    { type: "A", status: "True", observedGeneration: 4, lastTransitionTime: NOW, reason: "R", message: "m" },
  ]);
});

test("an object without generation gets a condition without observedGeneration", () => {
  const [written] = mergeConditions([], [says("A")], writing({ generation: undefined }));
  expect(written).toBeDefined();
  expect(Object.keys(written ?? {})).not.toContain("observedGeneration");
});

test("what is there already is the very same array", () => {
  const current = [condition("Foreign"), condition("A"), condition("B")];
  expect(mergeConditions(current, [says("B"), says("A")], writing())).toBe(current);
});

const transitions: [string, Partial<Verdict>, string][] = [
  ["status", { status: "False" }, NOW],
  ["status to Unknown", { status: "Unknown" }, NOW],
  ["reason", { reason: "Other" }, BEFORE],
  ["message", { message: "other" }, BEFORE],
];

test.each(transitions)("a change of %s moves lastTransitionTime only with the status", (_, change, time) => {
  const [written] = mergeConditions([condition("A")], [says("A", change)], writing());
  expect(written).toEqual({ ...condition("A"), ...change, lastTransitionTime: time });
});

test("a new generation is written without moving lastTransitionTime", () => {
  const [written] = mergeConditions([condition("A")], [says("A")], writing({ generation: 2 }));
  expect(written).toEqual(condition("A", { observedGeneration: 2 }));
});

test("what was decided from a newer generation is left alone", () => {
  const current = [condition("A", { observedGeneration: 5 }), condition("B", { observedGeneration: 5 })];
  expect(mergeConditions(current, [says("A", { status: "False" })], writing({ generation: 4 }))).toBe(current);
});

test("foreign types stay as and where they are, and new ones of ours come last", () => {
  const foreign = condition("Foreign", { status: "Unknown", reason: "Theirs" });
  const merged = mergeConditions([condition("A"), foreign], [says("B"), says("A", { status: "False" })], writing());
  expect(merged.map(({ type, status }) => `${type}=${status}`)).toEqual(["A=False", "Foreign=Unknown", "B=True"]);
  expect(merged[1]).toBe(foreign);
});

test("one of ours without a verdict goes", () => {
  const merged = mergeConditions([condition("A"), condition("Foreign"), condition("B")], [says("B")], writing());
  expect(merged.map(({ type }) => type)).toEqual(["Foreign", "B"]);
});

test("a verdict is of the problem, else of what is well; trouble is there only with a problem", () => {
  const problem = { reason: "Bad", message: "b" };
  expect(verdict("A", problem, { reason: "Well", message: "" })).toEqual(says("A", { status: "False", ...problem }));
  expect(verdict("A", undefined, { reason: "Well", message: "" })).toEqual(says("A"));
  expect(trouble("A", problem)).toEqual([says("A", problem)]);
  expect(trouble("A", undefined)).toEqual([]);
});

test("merging the same twice writes once", () => {
  const text = fc.constantFrom("x", "y");
  const status = fc.constantFrom("True" as const, "False" as const, "Unknown" as const);
  const type = fc.constantFrom("A", "B", "C", "D");
  const conditions = fc.uniqueArray(
    fc.record({
      type,
      status,
      observedGeneration: fc.nat(3),
      lastTransitionTime: fc.constant(BEFORE),
      reason: text,
      message: text,
    }),
    { selector: (each) => each.type },
  );
  const verdicts = fc.uniqueArray(fc.record({ type: fc.constantFrom("A", "B"), status, reason: text, message: text }), {
    selector: (each) => each.type,
  });
  fc.assert(
    fc.property(conditions, verdicts, fc.nat(3), (current, wanted, generation) => {
      const once = mergeConditions(current, wanted, writing({ generation }));
      expect(mergeConditions(once, wanted, writing({ generation, now: "2026-01-03T00:00:00Z" }))).toBe(once);
      const foreign = (all: readonly Condition[]) => all.filter((each) => !["A", "B"].includes(each.type));
      expect(foreign(once)).toEqual(foreign(current));
    }),
  );
});

import fc from "fast-check";
import { expect, test } from "vitest";
import { ReverseIndex } from "./reverse-index.ts";

test("targets are found by each of their sources, and only by those they were last set with", () => {
  const index = new ReverseIndex();
  index.set("route", ["service", "gateway"]);
  index.set("other", ["service"]);
  expect(index.targets("service")).toEqual(["route", "other"]);
  expect(index.set("route", ["gateway", "service2"])).toEqual(["service", "service2"]);
  expect(index.targets("service")).toEqual(["other"]);
  expect(index.targets("service2")).toEqual(["route"]);
  index.set("route", []);
  expect(index.targets("gateway")).toEqual([]);
});

test("the index is the inverse of what was set, after any history", () => {
  const step = fc.record({
    target: fc.constantFrom("t1", "t2", "t3"),
    sources: fc.uniqueArray(fc.constantFrom("s1", "s2", "s3", "s4")),
  });
  fc.assert(
    fc.property(fc.array(step), (steps) => {
      const index = new ReverseIndex();
      const model = new Map<string, string[]>();
      for (const { target, sources } of steps) {
        index.set(target, sources);
        model.set(target, sources);
      }
      for (const source of ["s1", "s2", "s3", "s4"]) {
        const wanted = [...model].filter(([, sources]) => sources.includes(source)).map(([target]) => target);
        expect([...index.targets(source)].sort()).toEqual(wanted.sort());
      }
    }),
  );
});

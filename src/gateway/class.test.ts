import { expect, test } from "vitest";
import { isOurClass, judgeClass, SUPPORTED_FEATURES } from "./class.ts";

const ours = { metadata: { name: "any" }, spec: { controllerName: "belfry.dev/load-balancer" } };

test("a class is ours by its controllerName alone", () => {
  expect(isOurClass(ours, "belfry.dev/load-balancer")).toBe(true);
  expect(isOurClass(ours, "example.net/other")).toBe(false);
});

test("a class without parameters is accepted", () => {
  expect(judgeClass(ours)).toBeUndefined();
});

test("parameters are refused by name while there is no kind of them", () => {
  const parametersRef = { group: "example.net", kind: "Knobs", name: "k" };
  const problem = judgeClass({ ...ours, spec: { ...ours.spec, parametersRef } });
  expect(problem?.reason).toBe("InvalidParameters");
  expect(problem?.message).toContain('example.net/Knobs "k"');
});

test("features are sorted, as the Gateway API wants them, and have no HTTPRoute", () => {
  expect([...SUPPORTED_FEATURES]).toEqual([...SUPPORTED_FEATURES].sort());
  expect(SUPPORTED_FEATURES).not.toContain("HTTPRoute");
});

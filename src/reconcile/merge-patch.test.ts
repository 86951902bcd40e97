import fc from "fast-check";
import { expect, test } from "vitest";
import { mergePatchTo } from "./merge-patch.ts";

test("a field that goes is null, one that stays is left out, a list is whole", () => {
  const before = { a: 1, b: { c: [1, 2], d: 2 }, e: { f: 1 } };
  expect(mergePatchTo(before, { a: 1, b: { c: [2], d: 2 }, e: {} })).toEqual({ b: { c: [2] }, e: { f: null } });
  expect(mergePatchTo(before, structuredClone(before))).toEqual({});
});

test("the patch, applied as RFC 7396 says, makes the wanted value of the present one", () => {
  const json = fc.letrec<{ value: unknown; fields: Record<string, unknown> }>((tie) => ({
    value: fc.oneof({ depthSize: "small" }, fc.integer(), fc.array(fc.integer(), { maxLength: 2 }), tie("fields")),
    fields: fc.dictionary(fc.constantFrom("a", "b", "c"), tie("value"), { noNullPrototype: true }),
  })).fields;
  fc.assert(
    fc.property(json, json, (current, wanted) => {
      expect(applied(current, mergePatchTo(current, wanted))).toEqual(wanted);
    }),
  );
});

/** RFC 7396 section 2. */
function applied(target: unknown, patch: unknown): unknown {
  if (typeof patch !== "object" || patch === null || Array.isArray(patch)) return patch;
  const result: Record<string, unknown> =
    typeof target === "object" && target !== null && !Array.isArray(target) ? { ...target } : {};
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) delete result[name];
    else result[name] = applied(result[name], value);
  }
  return result;
}

import fc from "fast-check";
import { expect, test } from "vitest";
import { Multimap } from "./multimap.ts";

test("property: it holds what a plain list of pairs holds", () => {
  const values = [{ n: 0 }, { n: 1 }, { n: 2 }];
  const act = fc.record({ add: fc.boolean(), key: fc.constantFrom("a", "b"), value: fc.constantFrom(...values) });
  fc.assert(
    fc.property(fc.array(act), (acts) => {
      const map = new Multimap<string, { n: number }>();
      const plain = new Map<string, Set<{ n: number }>>([
        ["a", new Set()],
        ["b", new Set()],
      ]);
      for (const { add, key, value } of acts) {
        if (add) map.add(key, value);
        else map.delete(key, value);
        if (add) plain.get(key)?.add(value);
        else plain.get(key)?.delete(value);
      }
      for (const key of ["a", "b", "c"]) expect(new Set(map.of(key))).toEqual(plain.get(key) ?? new Set());
    }),
  );
});

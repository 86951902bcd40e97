import fc from "fast-check";
import { expect, test } from "vitest";
import { firstByName, type Vip } from "./vip.ts";

const named = (name: string): Vip => ({ object: { metadata: { name } } }) as Vip;

test("the first by name are those that sorting all of them would give", () => {
  fc.assert(
    fc.property(fc.uniqueArray(fc.string()), fc.integer({ min: 1, max: 8 }), (names, count) => {
      const first = firstByName(names.map(named), count).map((vip) => vip.object.metadata.name);
      expect(first).toEqual([...names].sort().slice(0, count));
    }),
  );
});

import fc from "fast-check";
import { expect, test } from "vitest";
import { instant } from "../core/instant.ts";
import { AlarmHeap } from "./alarm-heap.ts";

test("alarms come out in the order of their times, in whatever order they went in", () => {
  fc.assert(
    fc.property(fc.array(fc.oneof(fc.nat(1_000), fc.constant("pop" as const))), (steps) => {
      const heap = new AlarmHeap();
      const model: number[] = [];
      for (const step of steps) {
        if (step === "pop") {
          model.sort((a, b) => a - b);
          expect(heap.pop()?.at).toBe(model.shift());
        } else {
          heap.push({ key: String(step), at: instant(step) });
          model.push(step);
        }
        expect(heap.first?.at).toBe(model.length === 0 ? undefined : Math.min(...model));
      }
    }),
  );
});

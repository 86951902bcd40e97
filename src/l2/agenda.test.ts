import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { instant } from "../core/instant.ts";
import { Agenda } from "./agenda.ts";

describe("the agenda", () => {
  it("gives what is due, soonest first, equals in the order of their coming", () => {
    fc.assert(
      fc.property(fc.array(fc.nat(20), { maxLength: 60 }), fc.nat(20), (instants, now) => {
        const agenda = new Agenda<number>();
        for (const [i, at] of instants.entries()) agenda.add(instant(at), i);
        const expected = instants
          .map((at, i) => ({ at, item: i }))
          .sort((a, b) => a.at - b.at || a.item - b.item)
          .filter(({ at }) => at <= now);
        const taken = [];
        for (let entry = agenda.take(instant(now)); entry !== undefined; entry = agenda.take(instant(now))) {
          taken.push({ at: entry.at, item: entry.item });
        }
        expect(taken).toEqual(expected);
        const left = instants.filter((at) => at > now);
        expect(agenda.nextAt).toBe(left.length === 0 ? undefined : Math.min(...left));
      }),
    );
  });
});

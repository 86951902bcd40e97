import fc from "fast-check";
import { expect, test } from "vitest";
import type { Address } from "../net/address.ts";
import { matchHoldings, slotsOf } from "./adopt.ts";
import { request, vip, wanting } from "./fixture.ts";

const holder = request("a").holder;
const before = { ...holder, uid: "uid-of-before" };
const addresses = (match: ReturnType<typeof matchHoldings>) => ({
  slots: match.slots.map(({ vip }) => vip?.spec.address),
  extras: match.extras.map(({ vip, familyWanted }) => [vip.spec.address, familyWanted]),
});

test("a VIP of the family is kept, whatever pool it is from", () => {
  const match = matchHoldings(request("a", { pool: "another" }), [vip("192.0.2.1", holder)]);
  expect(addresses(match)).toEqual({ slots: ["192.0.2.1"], extras: [] });
});

test("of two VIPs of one family the one that the status shows stays, else the oldest", () => {
  const young = vip("192.0.2.1", holder, { creationTimestamp: "2026-03-01T00:00:00Z" });
  const old = vip("192.0.2.2", holder, { creationTimestamp: "2026-02-01T00:00:00Z" });
  expect(addresses(matchHoldings(request("a"), [young, old]))).toEqual({
    slots: ["192.0.2.2"],
    extras: [["192.0.2.1", true]],
  });
  const shown = request("a", { shown: ["192.0.2.1" as Address] });
  expect(addresses(matchHoldings(shown, [young, old])).slots).toEqual(["192.0.2.1"]);
});

test("a VIP of this uid goes before one that was bound to an older uid", () => {
  const old = vip("192.0.2.1", before, { creationTimestamp: "2026-01-01T00:00:00Z" });
  const own = vip("192.0.2.2", holder, { creationTimestamp: "2026-02-01T00:00:00Z" });
  expect(addresses(matchHoldings(request("a"), [old, own]))).toEqual({
    slots: ["192.0.2.2"],
    extras: [["192.0.2.1", true]],
  });
  expect(addresses(matchHoldings(request("a"), [old])).slots).toEqual(["192.0.2.1"]);
});

test("a family that is not asked for any more leaves an extra of an unwanted family", () => {
  const match = matchHoldings(request("a"), [vip("192.0.2.1", holder), vip("2001:db8::1", holder)]);
  expect(addresses(match)).toEqual({ slots: ["192.0.2.1"], extras: [["2001:db8::1", false]] });
});

test("a requested address takes exactly that VIP, and another of the family is an extra", () => {
  const wanted = request("a", { addresses: ["192.0.2.9" as Address] });
  expect(addresses(matchHoldings(wanted, [vip("192.0.2.1", holder)]))).toEqual({
    slots: [undefined],
    extras: [["192.0.2.1", true]],
  });
  expect(addresses(matchHoldings(wanted, [vip("192.0.2.9", holder)])).slots).toEqual(["192.0.2.9"]);
});

test("families beside requested addresses have slots of their own, in the order of the request", () => {
  const wanted = request("a", {
    ...wanting("IPv6", "IPv4"),
    addresses: ["192.0.2.9", "192.0.2.8"] as Address[],
  });
  expect(slotsOf(wanted).map(({ families, requested }) => [families[0], requested])).toEqual([
    ["IPv6", undefined],
    ["IPv4", "192.0.2.9"],
    ["IPv4", "192.0.2.8"],
  ]);
});

test("the order in which VIPs are listed changes nothing, and none is lost or used twice", () => {
  const one = fc.record({
    n: fc.integer({ min: 1, max: 6 }),
    v6: fc.boolean(),
    own: fc.boolean(),
    day: fc.integer({ min: 1, max: 3 }),
  });
  fc.assert(
    fc.property(
      fc.uniqueArray(one, { selector: ({ n, v6 }) => `${n}/${v6}`, maxLength: 6 }),
      fc.boolean(),
      fc.array(fc.integer({ min: 1, max: 6 })),
      (all, dual, shown) => {
        const vips = all.map(({ n, v6, own, day }) =>
          vip(v6 ? `2001:db8::${n}` : `192.0.2.${n}`, own ? holder : before, {
            creationTimestamp: `2026-01-0${day}T00:00:00Z`,
          }),
        );
        const wanted = request("a", {
          ...(dual ? wanting("IPv4", "IPv6") : wanting("IPv4")),
          shown: shown.map((n) => `192.0.2.${n}` as Address),
        });
        const match = addresses(matchHoldings(wanted, vips));
        expect(addresses(matchHoldings(wanted, [...vips].reverse()))).toEqual(match);
        const used = [...match.slots.filter((each) => each !== undefined), ...match.extras.map(([address]) => address)];
        expect(used.sort()).toEqual(vips.map(({ spec }) => spec.address).sort());
      },
    ),
  );
});

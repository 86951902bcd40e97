import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type Address, addressOf, numberOf } from "./address.ts";
import { type Prefix, parsePrefix, partsOf, prefixHolds, prefixOf } from "./prefix.ts";

describe("a prefix", () => {
  it.each([
    ["192.0.2.0/24", { ok: true, prefix: "192.0.2.0/24" }],
    ["0.0.0.0/0", { ok: true, prefix: "0.0.0.0/0" }],
    ["2001:DB8::/32", { ok: true, prefix: "2001:db8::/32" }],
    ["2001:db8::1/128", { ok: true, prefix: "2001:db8::1/128" }],
    ["192.0.2.1/24", { ok: false, refusal: { type: "hostBits", masked: "192.0.2.0/24" } }],
    ["2001:db8::1/64", { ok: false, refusal: { type: "hostBits", masked: "2001:db8::/64" } }],
    ["192.0.2.0/33", { ok: false, refusal: { type: "lengthTooLong", family: "IPv4", most: 32 } }],
    ["2001:db8::/129", { ok: false, refusal: { type: "lengthTooLong", family: "IPv6", most: 128 } }],
    ["192.0.2.0", { ok: false, refusal: { type: "notAPrefix" } }],
    ["192.0.2.0/", { ok: false, refusal: { type: "notAPrefix" } }],
    ["192.0.2.0/08", { ok: false, refusal: { type: "notAPrefix" } }],
    ["192.0.2.0/+8", { ok: false, refusal: { type: "notAPrefix" } }],
    ["/24", { ok: false, refusal: { type: "notAPrefix" } }],
    ["192.0.2.0/24/24", { ok: false, refusal: { type: "notAPrefix" } }],
  ])("written %s", (text, outcome) => {
    expect(parsePrefix(text)).toEqual(outcome);
  });

  it("holds its first and last address, and neither neighbour", () => {
    fc.assert(
      fc.property(fc.bigInt(0n, 2n ** 128n - 1n), fc.integer({ min: 1, max: 128 }), (value, length) => {
        const prefix = prefixOf(addressOf(value, "IPv6"), length);
        const { first, last } = partsOf(prefix);
        expect(last - first + 1n).toBe(2n ** BigInt(128 - length));
        expect(prefixHolds(prefix, addressOf(value, "IPv6"))).toBe(true);
        expect(prefixHolds(prefix, addressOf(first, "IPv6"))).toBe(true);
        expect(prefixHolds(prefix, addressOf(last, "IPv6"))).toBe(true);
        if (first > 0n) expect(prefixHolds(prefix, addressOf(first - 1n, "IPv6"))).toBe(false);
        if (last < 2n ** 128n - 1n) expect(prefixHolds(prefix, addressOf(last + 1n, "IPv6"))).toBe(false);
        expect(parsePrefix(prefix)).toEqual({ ok: true, prefix });
      }),
    );
  });

  it("never holds an address of the other family", () => {
    expect(prefixHolds("::/0" as Prefix, "192.0.2.1" as Address)).toBe(false);
    expect(prefixHolds("0.0.0.0/0" as Prefix, addressOf(numberOf("192.0.2.1" as Address), "IPv6"))).toBe(false);
  });
});

import fc from "fast-check";
import { normalizeIp, parseIp } from "ip-bigint";
import { describe, expect, it } from "vitest";
import {
  type Address,
  addressFromBytes,
  addressOf,
  bytesOf,
  compareAddresses,
  familyOf,
  numberOf,
  parseAddress,
} from "./address.ts";

const v4 = fc.bigInt(0n, 2n ** 32n - 1n);
/** Groups that are often zero, so that runs of zeros of every length and place come up. */
const v6 = fc
  .array(fc.oneof(fc.constant(0n), fc.bigInt(0n, 0xffffn)), { minLength: 8, maxLength: 8 })
  .map((groups) => groups.reduce((value, group) => (value << 16n) | group, 0n));
const address = fc.oneof(
  v4.map((value) => addressOf(value, "IPv4")),
  v6.map((value) => addressOf(value, "IPv6")),
);

describe("an address", () => {
  it.each([
    ["192.0.2.1", "192.0.2.1"],
    ["0.0.0.0", "0.0.0.0"],
    ["255.255.255.255", "255.255.255.255"],
    ["2001:DB8::A", "2001:db8::a"],
    ["2001:db8:0:0:1:0:0:1", "2001:db8::1:0:0:1"],
    ["2001:db8:0:1:1:1:1:1", "2001:db8:0:1:1:1:1:1"],
    ["2001:0db8::0001", "2001:db8::1"],
    ["::", "::"],
    ["::1", "::1"],
    ["1::", "1::"],
    ["::ffff:192.0.2.1", "::ffff:192.0.2.1"],
    ["::ffff:c000:201", "::ffff:192.0.2.1"],
    ["64:ff9b::192.0.2.33", "64:ff9b::c000:221"],
  ])("written %s reads %s", (text, canonical) => {
    expect(parseAddress(text)).toBe(canonical);
  });

  it.each([
    "",
    "192.0.2",
    "192.0.2.256",
    "192.0.2.01",
    "192.0.2.1 ",
    "192.0.2.-1",
    "0x7f.0.0.1",
    "1.2.3.4.5",
    ":",
    ":::",
    "1::2::3",
    "1:2:3:4:5:6:7",
    "1:2:3:4:5:6:7:8:9",
    "1:2:3:4:5:6:7::8:9",
    "12345::",
    "g::",
    "fe80::1%eth0",
    "192.0.2.1::",
    "::192.0.2.1:1",
    "::ffff:192.0.2.256",
  ])("is not written %j", (text) => {
    expect(parseAddress(text)).toBeUndefined();
  });

  it("has the number and the text that another implementation gives it", () => {
    fc.assert(
      fc.property(address, (each) => {
        expect(parseIp(each).number).toBe(numberOf(each));
        expect(normalizeIp(each)).toBe(each);
      }),
    );
  });

  it("survives text, number and bytes", () => {
    fc.assert(
      fc.property(address, (each) => {
        expect(parseAddress(each)).toBe(each);
        expect(addressOf(numberOf(each), familyOf(each))).toBe(each);
        expect(addressFromBytes(bytesOf(each))).toBe(each);
      }),
    );
  });

  it("is never read from odd text with an exception", () => {
    const odd = fc.string({ unit: fc.constantFrom("0", "1", "9", "f", ":", "."), maxLength: 45 });
    fc.assert(
      fc.property(odd, (text) => {
        const read = parseAddress(text);
        if (read !== undefined) expect(parseAddress(read)).toBe(read);
      }),
    );
  });

  it("sorts by family and then by number, not by text", () => {
    const sorted = ["9.0.0.0", "10.0.0.0", "::9", "::10", "2001:db8::"] as Address[];
    expect([...sorted].reverse().sort(compareAddresses)).toEqual(sorted);
  });

  it("is not made of any other number of bytes", () => {
    expect(() => addressFromBytes(new Uint8Array(5))).toThrow("4 or 16 bytes");
  });
});

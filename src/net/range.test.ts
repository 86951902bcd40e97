import fc from "fast-check";
import { normalizeIp, parseIp, stringifyIp } from "ip-bigint";
import { describe, expect, it } from "vitest";
import { parseAddress } from "./address.ts";
import { parseRange, printRange, rangeHolds, rangesOverlap, sizeOfRange } from "./range.ts";

const rangeOf = (text: string) => {
  const parsed = parseRange(text);
  if (!parsed.ok) throw new Error(parsed.problem.message);
  return parsed.range;
};

describe("an entry that is a range", () => {
  it.each([
    ["IP-08, I-03", "192.0.2.10-192.0.2.10", 1n, "192.0.2.10/32"],
    ["I-03", "192.0.2.10 - 192.0.2.12", 3n, "192.0.2.10-192.0.2.12"],
    ["I-03", "2001:DB8::A/128", 1n, "2001:db8::a/128"],
    ["I-03", "2001:db8::1-2001:db8::ffff", 65535n, "2001:db8::1-2001:db8::ffff"],
    ["I-03", "192.0.2.0/31", 2n, "192.0.2.0-192.0.2.1"],
    ["I-03", "192.0.2.4/32", 1n, "192.0.2.4/32"],
    ["I-03", "2001:db8::2/127", 2n, "2001:db8::2-2001:db8::3"],
    ["I-03", "192.0.2.0/24", 256n, "192.0.2.0-192.0.2.255"],
    ["I-03", "198.51.100.0/23", 512n, "198.51.100.0-198.51.101.255"],
    ["I-02", "192.0.2.200/32", 1n, "192.0.2.200/32"],
    ["I-02", "192.0.2.192/28", 16n, "192.0.2.192-192.0.2.207"],
    ["IP-10", "2001:db8::/64", 2n ** 64n, "2001:db8::-2001:db8::ffff:ffff:ffff:ffff"],
  ])("%s: %s has %i addresses and shows as %s", (_case, text, size, shown) => {
    expect(sizeOfRange(rangeOf(text))).toBe(size);
    expect(printRange(rangeOf(text))).toBe(shown);
  });
});

describe("an entry that is refused says what is wrong with it", () => {
  it.each([
    ["IP-06, I-02", "192.0.2.200/28", "HostBits", ["192.0.2.192/28", "192.0.2.192-192.0.2.207"]],
    ["IP-06, I-02", "198.51.100.3/24", "HostBits", ["198.51.100.0/24", "198.51.100.0-198.51.100.255"]],
    ["I-02", "2001:db8:0:1::5/64", "HostBits", ["2001:db8:0:1::/64"]],
    ["IP-08, I-03", "192.0.2.20-192.0.2.10", "ReversedRange", ["ends before it starts", "192.0.2.10-192.0.2.20"]],
    ["I-03", "2001:db8::2-2001:db8::1", "ReversedRange", ["2001:db8::1-2001:db8::2"]],
    ["IP-08, I-03", "192.0.2.259", "NotARange", ["259 is more than 255"]],
    ["I-03", "192.0.2.259/32", "NotARange", ["259 is more than 255"]],
    ["I-03", "192.0.2.1-192.0.2.300", "NotARange", ['"192.0.2.300"', "300 is more than 255"]],
    ["I-03", "192.0.2.010-192.0.2.020", "NotARange", ['"192.0.2.010"', "010 has a leading zero"]],
    ["I-03", "192.0.2.10", "NotARange", ["192.0.2.10/32"]],
    ["I-03", "2001:db8::a", "NotARange", ["2001:db8::a/128"]],
    ["I-03", "192.0.2.1-2001:db8::1", "MixedFamilies", ["two families"]],
    ["I-03", "::ffff:192.0.2.10/128", "NotAssignable", ["IPv4 written as IPv6"]],
    ["I-03", "fe80::10/128", "NotAssignable", ["fe80::/10 is link-local"]],
    ["I-03", "127.0.0.0/8", "NotAssignable", ["loopback"]],
    ["I-03", "224.0.0.0/4", "NotAssignable", ["multicast"]],
    ["I-03", "0.0.0.0/0", "NotAssignable", ["0.0.0.0/8 is this network"]],
    ["I-03", "192.0.2.0-255.255.255.255", "NotAssignable", ["multicast"]],
    ["I-03", "::/0", "NotAssignable", ["unspecified"]],
    ["I-03", "10.0.0.0/33", "PrefixTooLong", ["IPv4 lengths end at 32"]],
    ["I-03", "2001:db8::/129", "PrefixTooLong", ["IPv6 lengths end at 128"]],
    ["I-03", "", "NotARange", ["neither"]],
    ["I-03", "-", "NotARange", ["not an address"]],
    ["I-03", "192.0.2.1-192.0.2.2-192.0.2.3", "NotARange", ['"192.0.2.2-192.0.2.3"']],
    ["I-03", "192.0.2.0/24-192.0.3.0/24", "NotARange", ['"192.0.2.0/24"']],
    ["I-03", "192.0.2.0/024", "NotARange", ["neither"]],
  ])("%s: %j is %s", (_case, text, reason, parts) => {
    const parsed = parseRange(text);
    if (parsed.ok) throw new Error(`accepted: ${printRange(parsed.range)}`);
    expect(parsed.problem.reason).toBe(reason);
    for (const part of [text, ...parts]) expect(parsed.problem.message).toContain(part);
  });
});

describe("a range", () => {
  it("IP-07: holds exactly its own addresses, not those of a block around it", () => {
    const range = rangeOf("192.0.2.5-192.0.2.37");
    const inside = ["192.0.2.5", "192.0.2.20", "192.0.2.37"];
    const outside = ["192.0.2.2", "192.0.2.4", "192.0.2.38", "2001:db8::5"];
    const holds = (text: string) => rangeHolds(range, parseAddress(text) as never);
    expect(inside.filter(holds)).toEqual(inside);
    expect(outside.filter(holds)).toEqual([]);
  });

  it("overlaps another one exactly when they share an address", () => {
    const overlap = (a: string, b: string) => rangesOverlap(rangeOf(a), rangeOf(b));
    expect(overlap("192.0.2.0/25", "192.0.2.127-192.0.2.130")).toBe(true);
    expect(overlap("192.0.2.0/25", "192.0.2.128/25")).toBe(false);
    expect(overlap("192.0.2.0/24", "2001:db8::/32")).toBe(false);
  });

  it("means what another implementation reads, in both families, and prints what parses to itself", () => {
    const value = fc.oneof(
      fc.tuple(fc.constant(4 as const), fc.bigInt(2n ** 24n, 2n ** 24n + 2n ** 30n)),
      fc.tuple(fc.constant(6 as const), fc.bigInt(2n ** 125n, 2n ** 126n - 2n ** 30n)),
    );
    fc.assert(
      fc.property(value, fc.bigInt(0n, 2n ** 29n), ([version, first], more) => {
        const text = `${stringifyIp({ number: first, version })} - ${stringifyIp({ number: first + more, version })}`;
        const parsed = parseRange(text);
        if (!parsed.ok) return /loopback/.test(parsed.problem.message);
        expect(parsed.range).toEqual({ family: version === 4 ? "IPv4" : "IPv6", first, last: first + more });
        expect(parseRange(printRange(parsed.range))).toEqual(parsed);
        return true;
      }),
    );
  });

  it("never makes parsing throw, whatever the text is", () => {
    const odd = fc.string({ unit: fc.constantFrom("0", "1", "9", "f", ":", ".", "/", "-", " "), maxLength: 60 });
    fc.assert(fc.property(fc.oneof(odd, fc.string()), (text) => void parseRange(text)));
  });

  it("is read from a prefix as another implementation reads its ends", () => {
    fc.assert(
      fc.property(fc.bigInt(2n ** 125n, 2n ** 126n - 1n), fc.integer({ min: 8, max: 128 }), (bits, length) => {
        const host = BigInt(128 - length);
        const first = (bits >> host) << host;
        const text = `${normalizeIp(stringifyIp({ number: first, version: 6 }))}/${length}`;
        expect(rangeOf(text).first).toBe(parseIp(text.split("/")[0] as string).number);
        expect(sizeOfRange(rangeOf(text))).toBe(2n ** host);
      }),
    );
  });
});

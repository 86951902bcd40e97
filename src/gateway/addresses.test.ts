import { expect, test } from "vitest";
import type { Gateway } from "../api/foreign.ts";
import { type AddressesResolution, resolveAddresses } from "./addresses.ts";
import { gateway, listener } from "./gateway.fixture.ts";

const resolve = (addresses: Gateway["spec"]["addresses"]): AddressesResolution =>
  resolveAddresses(gateway([listener("a", "TCP", 80)], addresses === undefined ? {} : { addresses }));

/** `IPv4? IPv6?` are preferred families, `!` needed ones; then the addresses by name, then the most in all. */
function print(resolution: AddressesResolution): string {
  if (resolution.type !== "wanted") return `${resolution.type} ${resolution.problem.reason}`;
  const { families, addresses, atMost } = resolution.wanted;
  const wanted = families.map(({ family, need }) => `${family}${need === "Required" ? "!" : "?"}`);
  return [...wanted, ...addresses, ...(atMost === undefined ? [] : [`<=${atMost}`])].join(" ");
}

const rows: [string, Gateway["spec"]["addresses"], string][] = [
  ["none", undefined, "IPv4? IPv6?"],
  ["an empty list", [], "IPv4? IPv6?"],
  ["I-24 GW-08: one without value", [{ type: "IPAddress" }], "IPv4? IPv6? <=1"],
  ["I-24 GW-08: one with an empty value", [{ type: "IPAddress", value: "" }], "IPv4? IPv6? <=1"],
  ["two without value", [{ type: "IPAddress" }, {}], "IPv4! IPv6!"],
  ["three without value", [{}, {}, {}], "unusable AddressNotAssigned"],
  ["I-24 GW-05: one value", [{ type: "IPAddress", value: "192.0.2.30" }], "IPv4! 192.0.2.30"],
  ["I-24 GW-06: a value, the type left out", [{ value: "192.0.2.30" }], "IPv4! 192.0.2.30"],
  ["I-24: both families", [{ value: "192.0.2.30" }, { value: "2001:db8::30" }], "IPv4! IPv6! 192.0.2.30 2001:db8::30"],
  ["IPv6 first", [{ value: "2001:db8::30" }, { value: "192.0.2.30" }], "IPv4! IPv6! 2001:db8::30 192.0.2.30"],
  ["two of one family", [{ value: "192.0.2.30" }, { value: "192.0.2.31" }], "IPv4! 192.0.2.30 192.0.2.31"],
  ["one spelled twice", [{ value: "2001:db8::1" }, { value: "2001:DB8:0::1" }], "IPv6! 2001:db8::1"],
  ["a value and one without", [{ value: "192.0.2.30" }, {}], "IPv4! IPv6! 192.0.2.30"],
  [
    "both families and one without",
    [{ value: "192.0.2.30" }, { value: "2001:db8::30" }, {}],
    "unusable AddressNotAssigned",
  ],
  ["no address at all", [{ value: "192.0.2.300" }], "unusable AddressNotUsable"],
  ["I-24 GW-07: a foreign type", [{ type: "test/fake", value: "x" }], "unsupported UnsupportedAddress"],
  ["I-24: a host name", [{ type: "Hostname", value: "a.example.net" }], "unsupported UnsupportedAddress"],
  [
    "a foreign type beside a good one",
    [{ value: "192.0.2.30" }, { type: "Hostname", value: "a" }],
    "unsupported UnsupportedAddress",
  ],
];

test.each(rows)("spec.addresses with %s", (_, addresses, expected) => {
  expect(print(resolve(addresses))).toBe(expected);
});

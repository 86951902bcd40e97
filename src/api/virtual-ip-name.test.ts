import fc from "fast-check";
import { expect, it } from "vitest";
import { type Address, addressOf } from "../net/address.ts";
import { addressOfName, virtualIPName } from "./virtual-ip-name.ts";

it.each([
  ["192.0.2.5", "192.0.2.5"],
  ["2001:db8::5", "2001-db8--5"],
  ["2001:db8::", "2001-db8--0"],
  ["::1", "0--1"],
  ["::", "0--0"],
  ["2001:db8:0:1:1:1:1:1", "2001-db8-0-1-1-1-1-1"],
])("the VirtualIP of %s is called %s", (address, name) => {
  expect(virtualIPName(address as Address)).toBe(name);
  expect(addressOfName(name)).toBe(address);
});

it.each(["web", "2001-DB8--5", "2001-db8-0-0-0-0-0-5", "192.0.2.05", "--1", "0--01", "2001-db8--", ""])(
  "no VirtualIP is called %j",
  (name) => {
    expect(addressOfName(name)).toBeUndefined();
  },
);

it("every address has a name that the API server takes and that leads back to it alone", () => {
  const group = fc.oneof(fc.constant(0n), fc.bigInt(0n, 0xffffn));
  const v6 = fc
    .array(group, { minLength: 8, maxLength: 8 })
    .map((groups) => groups.reduce((value, each) => (value << 16n) | each, 0n))
    .filter((value) => value >> 32n !== 0xffffn);
  fc.assert(
    fc.property(v6, (value) => {
      const address = addressOf(value, "IPv6");
      const name = virtualIPName(address);
      expect(name).toMatch(/^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/);
      expect(addressOfName(name)).toBe(address);
    }),
  );
});

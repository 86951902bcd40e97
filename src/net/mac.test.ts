import { expect, it } from "vitest";
import { macBytes, macFromBytes, parseMac } from "./mac.ts";

it.each([
  ["02:00:00:00:00:0a", "02:00:00:00:00:0a"],
  ["02:00:5E:10:00:FF", "02:00:5e:10:00:ff"],
  ["02:00:00:00:00", undefined],
  ["02-00-00-00-00-0a", undefined],
  ["2:0:0:0:0:a", undefined],
  ["02:00:00:00:00:0g", undefined],
])("a MAC written %s reads %s", (text, mac) => {
  expect(parseMac(text)).toBe(mac);
});

it("a MAC survives its bytes", () => {
  const bytes = Uint8Array.of(0x02, 0x00, 0x5e, 0x10, 0x00, 0xff);
  expect(macFromBytes(bytes)).toBe("02:00:5e:10:00:ff");
  expect(macBytes(macFromBytes(bytes))).toEqual(bytes);
});

import { expect, test } from "vitest";
import { instant } from "../core/instant.ts";
import { Expectations } from "./expectations.ts";

const make = () => new Expectations({ timeoutMilliseconds: 1_000 });

test("a key is held until the informer shows the version that was written, or a later one", () => {
  const expectations = make();
  expectations.expect("gateway", "vip", "99", instant(0));
  expect(expectations.seen("vip", "98")).toEqual([]);
  expect(expectations.holds("gateway")).toBe(true);
  // Decimals, not texts: 100 is later than 99.
  expect(expectations.seen("vip", "100")).toEqual(["gateway"]);
  expect(expectations.holds("gateway")).toBe(false);
});

test("a key that wrote two objects waits for both", () => {
  const expectations = make();
  expectations.expect("gateway", "vip", "5", instant(0));
  expectations.expect("gateway", "status", "6", instant(0));
  expect(expectations.seen("vip", "5")).toEqual([]);
  expect(expectations.seen("status", "6")).toEqual(["gateway"]);
});

test("an object that is gone meets any expectation, and an awaited delete is met by nothing else", () => {
  const expectations = make();
  expectations.expect("a", "vip", "5", instant(0));
  expect(expectations.seen("vip", "gone")).toEqual(["a"]);
  expectations.expect("a", "vip", "gone", instant(0));
  expect(expectations.seen("vip", "7")).toEqual([]);
  expect(expectations.seen("vip", "gone")).toEqual(["a"]);
});

test("an expectation that is never met is dropped after its time", () => {
  const expectations = make();
  expectations.expect("a", "vip", "5", instant(0));
  expect(expectations.nextDeadline()).toBe(1_000);
  expect(expectations.expire(instant(999))).toEqual([]);
  expect(expectations.expire(instant(1_000))).toEqual(["a"]);
  expect(expectations.nextDeadline()).toBe(undefined);
});

test("versions that are no decimals are met by whatever comes", () => {
  const expectations = make();
  expectations.expect("a", "vip", "v5", instant(0));
  expect(expectations.seen("vip", "v9")).toEqual(["a"]);
});

import { expect, test } from "vitest";
import type { Lease } from "../api/foreign.ts";
import { instant } from "../core/instant.ts";
import { LeaseWatcher } from "./lease-watcher.ts";

const lease = (name: string, version: number, spec: Lease["spec"] = {}): Lease => ({
  metadata: { name, uid: name, resourceVersion: String(version) },
  spec: { holderIdentity: name, leaseDurationSeconds: 6, ...spec },
});

test("a Lease lives for its own duration after the last change that was seen", () => {
  const watcher = new LeaseWatcher();
  watcher.observe(lease("a", 1), instant(1_000));
  watcher.observe(lease("b", 2, { leaseDurationSeconds: 20 }), instant(1_000));
  expect([watcher.expired("a", instant(6_999)), watcher.expired("a", instant(7_000))]).toEqual([false, true]);
  expect(watcher.expired("b", instant(7_000))).toBe(false);
  expect(watcher.nextDeadline(instant(1_000))).toBe(7_000);
  expect(watcher.nextDeadline(instant(7_000))).toBe(21_000);
  expect(watcher.nextDeadline(instant(21_000))).toBeUndefined();
});

test("the same version seen again is not a sign of life", () => {
  const watcher = new LeaseWatcher();
  watcher.observe(lease("a", 1), instant(0));
  watcher.observe(lease("a", 1), instant(5_000));
  expect(watcher.expired("a", instant(6_000))).toBe(true);
  watcher.observe(lease("a", 2), instant(6_001));
  expect(watcher.expired("a", instant(6_001))).toBe(false);
});

test("times written on the Lease count for nothing", () => {
  const watcher = new LeaseWatcher();
  watcher.observe(lease("a", 1, { renewTime: "1999-01-01T00:00:00.000000Z" }), instant(0));
  expect(watcher.expired("a", instant(5_999))).toBe(false);
});

test("a Lease that was given back, or promises nothing, is expired at once", () => {
  const watcher = new LeaseWatcher();
  watcher.observe(lease("a", 1, { holderIdentity: "" }), instant(0));
  watcher.observe(lease("b", 1, { leaseDurationSeconds: null }), instant(0));
  expect([watcher.expired("a", instant(0)), watcher.expired("b", instant(0))]).toEqual([true, true]);
});

test("a Lease that is not known has not expired", () => {
  const watcher = new LeaseWatcher();
  watcher.observe(lease("a", 1), instant(0));
  watcher.forget("a");
  expect(watcher.get("a")).toBeUndefined();
  expect(watcher.expired("a", instant(60_000))).toBe(false);
});

test("undecided until renewed since, or expired: the first sight of a Lease is no renewal", () => {
  const watcher = new LeaseWatcher();
  watcher.observe(lease("a", 1), instant(0));
  watcher.observe(lease("b", 2), instant(0));
  watcher.observe(lease("c", 3), instant(0));
  watcher.observe(lease("a", 4), instant(2_000));
  expect(watcher.undecided(instant(0), instant(2_000))).toEqual(["b", "c"]);
  expect(watcher.undecided(instant(2_001), instant(2_001))).toEqual(["a", "b", "c"]);
  watcher.observe(lease("b", 5), instant(5_000));
  expect(watcher.undecided(instant(0), instant(6_000))).toEqual([]);
  expect(watcher.renewedSince("c", instant(0))).toBe(false);
});

test("while the watch is broken nobody expires, and after it everybody gets the whole duration and a grace", () => {
  const watcher = new LeaseWatcher();
  watcher.observe(lease("a", 1), instant(0));
  watcher.observe(lease("dead", 2), instant(0));
  watcher.observe(lease("a", 3), instant(4_000));
  watcher.observe(lease("given-back", 4, { holderIdentity: "" }), instant(4_000));
  expect(watcher.frozen).toBe(false);
  watcher.freeze(instant(7_000));
  expect(watcher.frozen).toBe(true);
  expect(watcher.expired("a", instant(60_000))).toBe(false);
  expect(watcher.nextDeadline(instant(7_000))).toBeUndefined();
  watcher.thaw(instant(60_000), 6_000);
  expect(watcher.frozen).toBe(false);
  expect([watcher.expired("a", instant(71_999)), watcher.expired("a", instant(72_000))]).toEqual([false, true]);
  expect(watcher.expired("dead", instant(60_000))).toBe(true);
  expect(watcher.expired("given-back", instant(60_000))).toBe(true);
  watcher.observe(lease("dead", 5), instant(61_000));
  expect(watcher.expired("dead", instant(61_000))).toBe(false);
});

test("what a list shows after a broken watch is no renewal: in a store that was put back every Lease has changed", () => {
  const watcher = new LeaseWatcher();
  watcher.observe(lease("a", 8), instant(0));
  watcher.observe(lease("a", 9), instant(2_000));
  expect(watcher.renewedSince("a", instant(0))).toBe(true);
  watcher.freeze(instant(3_000));
  watcher.observe(lease("a", 5), instant(20_000));
  expect(watcher.renewedSince("a", instant(0))).toBe(false);
  watcher.thaw(instant(20_000), 6_000);
  expect(watcher.renewedSince("a", instant(0))).toBe(false);
  watcher.observe(lease("a", 6), instant(21_000));
  expect(watcher.renewedSince("a", instant(20_000))).toBe(true);
});

import { expect, test } from "vitest";
import type { Address } from "../net/address.ts";
import { parseAddress } from "../net/address.ts";
import { parsePrefix } from "../net/prefix.ts";
import { rangeOfAddress, rangeOfPrefix } from "../net/range.ts";
import { bookOf, pool } from "./fixture.ts";
import { printRanges, type Reservation, rangesOf, resolvePools } from "./pool.ts";

const node = (text: string, of: string): Reservation => ({
  range: rangeOfAddress(parseAddress(text) as Address),
  why: "NodeAddress",
  of,
});

/** I-03: what `addresses` means in sizes, with and without avoidBuggyIPs. */
test.each([
  [["192.0.2.0/31"], 2n, 1n],
  [["192.0.2.4/32"], 1n, 1n],
  [["192.0.2.0/24"], 256n, 254n],
  [["198.51.100.0/23"], 512n, 508n],
  [["192.0.2.0/32"], 1n, 0n],
  [["192.0.2.10 - 192.0.2.12"], 3n, 3n],
  [["192.0.2.0/24", "192.0.2.0/24"], 256n, 254n],
  [["192.0.2.0/24", "192.0.2.0/25"], 256n, 254n],
  [["192.0.2.254-192.0.3.1"], 4n, 2n],
])("%j has %d IPv4 addresses, and %d without buggy ones", (addresses, size, withoutBuggy) => {
  const sizeOf = (avoidBuggyIPs: boolean) =>
    resolvePools([pool("one", addresses, { avoidBuggyIPs })], []).get("one")?.usable.IPv4.size;
  expect([sizeOf(false), sizeOf(true)]).toEqual([size, withoutBuggy]);
});

test("avoidBuggyIPs leaves IPv6 alone", () => {
  const resolved = resolvePools([pool("one", ["2001:db8::2/127"], { avoidBuggyIPs: true })], []);
  expect(resolved.get("one")?.usable.IPv6.size).toBe(2n);
});

test("excludes are taken out, wherever they reach beyond the pool", () => {
  const resolved = resolvePools([pool("one", ["192.0.2.0/28"], { excludes: ["192.0.2.8-192.0.2.100"] })], []);
  expect(printRanges(rangesOf(resolved.get("one")?.usable.IPv4 ?? fail(), "IPv4"))).toBe("192.0.2.0-192.0.2.7");
});

test("a bad entry of addresses costs itself, a bad exclude the whole pool", () => {
  const resolved = resolvePools(
    [pool("a", ["192.0.2.200/28", "198.51.100.0/30"]), pool("b", ["203.0.113.0/30"], { excludes: ["203.0.113.2"] })],
    [],
  );
  expect(resolved.get("a")?.usable.IPv4.size).toBe(4n);
  expect(resolved.get("a")?.problems).toMatchObject([{ reason: "HostBits" }]);
  expect(resolved.get("b")?.usable.IPv4.size).toBe(0n);
  expect(resolved.get("b")?.problems[0]?.message).toMatch(/^excludes: /);
});

test("of two pools that overlap the older one has the addresses, in whatever order they are listed", () => {
  const old = pool("z-old", ["192.0.2.0/28"], {}, "2026-01-01T00:00:00Z");
  const young = pool("a-young", ["192.0.2.8/29", "192.0.2.16/29"], {}, "2026-02-01T00:00:00Z");
  for (const pools of [
    [old, young],
    [young, old],
  ]) {
    const resolved = resolvePools(pools, []);
    expect(resolved.get("z-old")?.lost).toEqual([]);
    expect(resolved.get("z-old")?.usable.IPv4.size).toBe(16n);
    expect(resolved.get("a-young")?.usable.IPv4.size).toBe(8n);
    expect(resolved.get("a-young")?.lost).toMatchObject([{ pool: "z-old" }]);
  }
});

/** I-02, the rows about nodes. */
test.each([
  { range: "192.0.2.192/28", node: "192.0.2.201", overlap: true, size: 15n },
  { range: "192.0.2.5-192.0.2.37", node: "192.0.2.2", overlap: false, size: 33n },
  { range: "192.0.2.200/32", node: "192.0.2.11", overlap: false, size: 1n },
])("IP-07: pool $range with node $node: only exact hits are taken out", ({ range, node: address, overlap, size }) => {
  const resolved = resolvePools([pool("one", [range])], [node(address, "n1")]).get("one");
  expect(resolved?.reserved.length).toBe(overlap ? 1 : 0);
  expect(resolved?.usable.IPv4.size).toBe(size);
});

test("addresses of nodes and ServiceCIDRs are declared, and never usable", () => {
  const parsed = parsePrefix("192.0.2.128/25");
  if (!parsed.ok) throw new Error("not a prefix");
  const reservations: Reservation[] = [
    node("192.0.2.1", "n1"),
    { range: rangeOfPrefix(parsed.prefix), why: "ServiceCIDR", of: "kubernetes" },
  ];
  const resolved = resolvePools([pool("one", ["192.0.2.0/24"])], reservations).get("one");
  expect(resolved?.declared.IPv4.size).toBe(256n);
  expect(resolved?.usable.IPv4.size).toBe(127n);
});

test("IP-10: a /64 costs one interval, and its counters are exact", () => {
  const book = bookOf([pool("one", ["2001:db8::/64"])]);
  expect(book.pools.get("one")?.usable.IPv6.intervals.length).toBe(1);
  expect(book.free("one", "IPv6")).toBe(2n ** 64n);
  for (let i = 1; i <= 1000; i++) book.occupy(`2001:db8::${i.toString(16)}` as Address, "x");
  expect(book.free("one", "IPv6")).toBe(2n ** 64n - 1000n);
  expect(book.assigned("one", "IPv6")).toBe(1000);
});

test("IP-10: 192.0.2.0/32 without buggy addresses has 0 free, never -1, also while .0 is in use", () => {
  const book = bookOf([pool("one", ["192.0.2.0/32"], { avoidBuggyIPs: true })]);
  book.occupy("192.0.2.0" as Address, "x");
  expect(book.free("one", "IPv4")).toBe(0n);
  book.vacate("192.0.2.0" as Address);
  expect(book.free("one", "IPv4")).toBe(0n);
});

function fail(): never {
  throw new Error("no such pool");
}

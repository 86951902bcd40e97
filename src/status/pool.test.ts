import { expect, test } from "vitest";
import { type IPAddressPool, IPAddressPoolSpec } from "../api/ip-address-pool.ts";
import { AddressBook } from "../ipam/address-book.ts";
import { type Reservation, resolvePools } from "../ipam/pool.ts";
import { type Address, parseAddress } from "../net/address.ts";
import { rangeOfAddress } from "../net/range.ts";
import { poolStatus } from "./pool.ts";

const NOW = "2026-01-02T00:00:00Z";

const pool = (name: string, spec: Partial<IPAddressPoolSpec>, day = 1): IPAddressPool => ({
  metadata: { name, generation: 2, creationTimestamp: `2026-01-0${day}T00:00:00Z` },
  spec: IPAddressPoolSpec.parse({ addresses: ["192.0.2.0/28"], ...spec }),
});

const address = (text: string): Address => {
  const parsed = parseAddress(text);
  if (parsed === undefined) throw new Error(text);
  return parsed;
};

const node = (text: string): Reservation => ({
  range: rangeOfAddress(address(text)),
  why: "NodeAddress",
  of: "node-a",
});

function statusOf(
  of: IPAddressPool,
  others: IPAddressPool[] = [],
  reservations: Reservation[] = [],
  used: string[] = [],
  now = NOW,
) {
  const book = new AddressBook();
  book.setPools(resolvePools([of, ...others], reservations));
  for (const each of used) book.occupy(address(each), "t1/web");
  const { name } = of.metadata;
  const resolved = book.pools.get(name);
  if (resolved === undefined) throw new Error("no such pool");
  return poolStatus({
    pool: of,
    resolved,
    assigned: { IPv4: book.assigned(name, "IPv4"), IPv6: book.assigned(name, "IPv6") },
    free: { IPv4: book.free(name, "IPv4"), IPv6: book.free(name, "IPv6") },
    now,
  });
}

const conditionsOf = (status: ReturnType<typeof statusOf>): string[] =>
  (status.conditions ?? []).map(({ type, status: is, reason }) => `${type}=${is}/${reason}`);

test("a pool shows what its text came to and how much is in use", () => {
  const of = pool("edge", { addresses: ["192.0.2.10-192.0.2.12", "192.0.2.20/32", "2001:db8::/127"] });
  const status = statusOf(of, [], [], ["192.0.2.11"]);
  expect(status.ranges).toEqual([
    { range: "192.0.2.10-192.0.2.12", size: "3" },
    { range: "192.0.2.20/32", size: "1" },
    { range: "2001:db8::-2001:db8::1", size: "2" },
  ]);
  expect(status).toMatchObject({ assignedIPv4: 1, availableIPv4: 3, assignedIPv6: 0, availableIPv6: 2 });
  expect(conditionsOf(status)).toEqual(["Accepted=True/Accepted"]);
});

test("IP-10: the counts of a /64 saturate and never go below 0", () => {
  const status = statusOf(pool("six", { addresses: ["2001:db8::/64"] }), [], [], ["2001:db8::1"]);
  expect(status.availableIPv6).toBe(Number.MAX_SAFE_INTEGER);
  expect(status.ranges?.[0]?.size).toBe("18446744073709551616");
  const full = statusOf(pool("one", { addresses: ["192.0.2.10/32"] }), [], [], ["192.0.2.10"]);
  expect(full).toMatchObject({ assignedIPv4: 1, availableIPv4: 0 });
});

test("I-02 IP-07: a node's address inside is told and not available", () => {
  const status = statusOf(pool("edge", { addresses: ["192.0.2.192/28"] }), [], [node("192.0.2.201")]);
  expect(conditionsOf(status)).toEqual(["Accepted=True/Accepted", "NodeAddressOverlap=True/Reserved"]);
  expect(status.availableIPv4).toBe(15);
  expect(status.conditions?.[1]?.message).toContain("192.0.2.201/32 (node node-a)");
  expect(
    conditionsOf(statusOf(pool("edge", { addresses: ["192.0.2.5-192.0.2.37"] }), [], [node("192.0.2.2")])),
  ).toEqual(["Accepted=True/Accepted"]);
});

test("of two pools that overlap the younger one says so, naming the older", () => {
  const [old, young] = [
    pool("old", { addresses: ["192.0.2.0/28"] }),
    pool("young", { addresses: ["192.0.2.8/29"] }, 2),
  ];
  expect(conditionsOf(statusOf(old, [young]))).toEqual(["Accepted=True/Accepted"]);
  const status = statusOf(young, [old]);
  expect(conditionsOf(status)).toContain("Conflicted=True/Overlap");
  expect(status.conditions?.find(({ type }) => type === "Conflicted")?.message).toContain('pool "old"');
});

test("IP-08: a bad entry is told; with good ones beside it the pool goes on", () => {
  const good = statusOf(pool("edge", { addresses: ["192.0.2.10-192.0.2.12", "192.0.2.20-192.0.2.10"] }));
  expect(conditionsOf(good)[0]).toBe("Accepted=True/Accepted");
  expect(conditionsOf(good)[1]).toMatch(/^PartiallyInvalid=True\//);
  expect(good.conditions?.[1]?.message).toContain("192.0.2.20-192.0.2.10");
  const bad = statusOf(pool("edge", { addresses: ["192.0.2.259/32"] }));
  expect(conditionsOf(bad)).toEqual([expect.stringMatching(/^Accepted=False\//)]);
  expect(bad).toMatchObject({ availableIPv4: 0, ranges: [] });
});

test("a status that is right is the very same one, whatever the time", () => {
  const of = pool("edge", {});
  const status = statusOf(of, [], [], ["192.0.2.3"]);
  expect(statusOf({ ...of, status }, [], [], ["192.0.2.3"], "2026-02-01T00:00:00Z")).toBe(status);
});

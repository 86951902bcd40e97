import fc from "fast-check";
import { expect, test } from "vitest";
import { type Address, addressOf, numberOf } from "../net/address.ts";
import { seedOf } from "./address-book.ts";
import { bookOf, pool } from "./fixture.ts";
import type { ResolvedPool } from "./pool.ts";

const v4 = (n: number) => addressOf(numberOf("192.0.2.0" as Address) + BigInt(n), "IPv4");

test("a pick is never an occupied or an excluded address, and is found while one is free", () => {
  fc.assert(
    fc.property(
      fc.uniqueArray(fc.nat(31)),
      fc.uniqueArray(fc.nat(31)),
      fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
      (excluded, occupied, seed) => {
        const book = bookOf([pool("one", ["192.0.2.0/27"], { excludes: excluded.map((n) => `${v4(n)}/32`) })]);
        for (const n of occupied) book.occupy(v4(n), "x");
        const free = Array.from({ length: 32 }, (_, n) => n).filter(
          (n) => !excluded.includes(n) && !occupied.includes(n),
        );
        const picked = book.pick(book.pools.get("one") as ResolvedPool, "IPv4", seed);
        expect(book.free("one", "IPv4")).toBe(BigInt(free.length));
        if (free.length === 0) expect(picked).toBe(undefined);
        else expect(free.map(v4)).toContain(picked);
      },
    ),
  );
});

test("two books with different news try the same address first for one holder", () => {
  const seed = seedOf("0b5d6f8e-9d7b-4f63-8a5e-000000000001", "IPv4");
  const [a, b] = [bookOf([pool("one", ["192.0.2.0/24"])]), bookOf([pool("one", ["192.0.2.0/24"])])];
  const first = a.pick(a.pools.get("one") as ResolvedPool, "IPv4", seed);
  b.occupy(v4(7), "another");
  if (first !== v4(7)) expect(b.pick(b.pools.get("one") as ResolvedPool, "IPv4", seed)).toBe(first);
});

test("holders with neighbouring uids begin all over the pool", () => {
  const book = bookOf([pool("one", ["192.0.2.0/24"])]);
  const resolved = book.pools.get("one") as ResolvedPool;
  const firsts = new Set(
    Array.from({ length: 256 }, (_, n) => book.pick(resolved, "IPv4", seedOf(`uid-${n}`, "IPv4"))),
  );
  // 256 throws into 256 places hit 162 on average.
  expect(firsts.size).toBeGreaterThan(130);
});

test("occupy and vacate count once each, and a changed pool counts what is in use anew", () => {
  const book = bookOf([pool("one", ["192.0.2.0/28"])]);
  book.occupy(v4(1), "a");
  book.occupy(v4(1), "b");
  book.occupy(v4(200), "outside");
  expect([book.assigned("one", "IPv4"), book.free("one", "IPv4")]).toEqual([1, 15n]);
  book.setPools(bookOf([pool("two", ["192.0.2.0/24"])]).pools);
  expect([book.assigned("two", "IPv4"), book.free("two", "IPv4")]).toEqual([2, 254n]);
  book.vacate(v4(1));
  book.vacate(v4(1));
  expect([book.assigned("two", "IPv4"), book.free("two", "IPv4")]).toEqual([1, 255n]);
});

test("a full pool is allocated to the last address, each one once", () => {
  const book = bookOf([pool("one", ["198.18.0.0/20"])]);
  const resolved = book.pools.get("one") as ResolvedPool;
  const seen = new Set<string>();
  for (let n = 0; n < 4096; n++) {
    const address = book.pick(resolved, "IPv4", seedOf(`uid-${n}`, "IPv4"));
    if (address === undefined) throw new Error(`none at ${n}`);
    seen.add(address);
    book.occupy(address, "x");
  }
  expect(seen.size).toBe(4096);
  expect(book.pick(resolved, "IPv4", 0n)).toBe(undefined);
});

import { expect, test } from "vitest";
import type { Address } from "../net/address.ts";
import { Claims } from "./claims.ts";
import { bookOf, pool } from "./fixture.ts";

const A = "192.0.2.1" as Address;
const make = (cached: boolean) => {
  const book = bookOf([pool("one", ["192.0.2.0/30"])]);
  return { book, claims: new Claims(book, () => cached) };
};

test("a claimed address is occupied until it is dropped", () => {
  const { book, claims } = make(false);
  claims.make("Gateway/a", A, "Gateway demo/a");
  expect([book.occupant(A), [...claims.of("Gateway/a")]]).toEqual(["Gateway demo/a", [A]]);
  claims.drop("Gateway/a", A);
  expect([book.occupant(A), [...claims.all()]]).toEqual([undefined, []]);
});

test("dropping a claim does not free an address whose VirtualIP is there", () => {
  const { book, claims } = make(true);
  claims.make("Gateway/a", A, "Gateway demo/a");
  claims.drop("Gateway/a", A);
  expect(book.occupant(A)).toBe("Gateway demo/a");
});

test("a claim that another won stays occupied by the winner", () => {
  const { book, claims } = make(false);
  claims.make("Gateway/a", A, "Gateway demo/a");
  claims.lose("Gateway/a", A, "Service t1/b");
  expect([book.occupant(A), [...claims.all()]]).toEqual(["Service t1/b", []]);
});

test("a claim ends when its VirtualIP is seen, and the address stays occupied", () => {
  const { book, claims } = make(false);
  claims.make("Gateway/a", A, "Gateway demo/a");
  claims.seen("Gateway/a", A);
  expect([book.occupant(A), [...claims.all()]]).toEqual(["Gateway demo/a", []]);
});

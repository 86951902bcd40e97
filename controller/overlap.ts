import type { VirtualIP } from "../src/api/virtual-ip.ts";
import type { Problem } from "../src/core/trouble.ts";
import type { AddressBook } from "../src/ipam/address-book.ts";
import { reservationOf } from "../src/ipam/pool.ts";
import type { Address } from "../src/net/address.ts";

/** The VIP's address has become a node's own, or a gateway's, since it was given out: it stays, and somebody must act. */
export function overlapOf(book: AddressBook, vip: VirtualIP): Problem | undefined {
  const address = vip.spec.address as Address;
  const pool = book.poolOf(address);
  const reservation = pool === undefined ? undefined : reservationOf(pool, address);
  if (reservation === undefined) return undefined;
  return {
    reason: "NodeAddressOverlap",
    message: `${address} is ${reservation} as well: ask for another address, or change that one`,
  };
}

import type { Address } from "../net/address.ts";
import type { AddressBook } from "./address-book.ts";

/**
 * Addresses that a holder tries to create a VirtualIP for, from the choice until the informer shows the VirtualIP or
 * the address turns out to be another's. A claim whose create got no answer stays: the object may be there, so its
 * holder comes back to that name before any other.
 */
export class Claims {
  readonly #book: AddressBook;
  readonly #isCached: (address: Address) => boolean;
  readonly #ofHolder = new Map<string, Set<Address>>();

  /** `isCached`: the informer has the address's VirtualIP. */
  constructor(book: AddressBook, isCached: (address: Address) => boolean) {
    this.#book = book;
    this.#isCached = isCached;
  }

  of(holder: string): ReadonlySet<Address> {
    return this.#ofHolder.get(holder) ?? NONE;
  }

  /** The holder tries this one; `label` is what others read who ask for it. */
  make(holder: string, address: Address, label: string): void {
    this.#book.occupy(address, label);
    const claims = this.#ofHolder.get(holder) ?? new Set();
    claims.add(address);
    this.#ofHolder.set(holder, claims);
  }

  /** Another has it. */
  lose(holder: string, address: Address, winner: string): void {
    this.#forget(holder, address);
    this.#book.occupy(address, winner);
  }

  /** The holder does not want it any more. */
  drop(holder: string, address: Address): void {
    this.#forget(holder, address);
    if (!this.#isCached(address)) this.#book.vacate(address);
  }

  /** The informer shows a VirtualIP of the holder at this address. */
  seen(holder: string, address: Address): void {
    this.#forget(holder, address);
  }

  /** Every claimed address. */
  *all(): Iterable<Address> {
    for (const claims of this.#ofHolder.values()) yield* claims;
  }

  #forget(holder: string, address: Address): void {
    const claims = this.#ofHolder.get(holder);
    claims?.delete(address);
    if (claims?.size === 0) this.#ofHolder.delete(holder);
  }
}

const NONE: ReadonlySet<Address> = new Set();

import type { Address } from "../net/address.ts";
import type { AddressRecord, LinkRecord, NextHop, RouteMessage } from "./rtnetlink.ts";

/** A link with what is on it. */
export type LinkView = LinkRecord & {
  readonly addresses: readonly Omit<AddressRecord, "linkIndex">[];
  readonly defaultGateways: readonly Address[];
};

/** What can't be known from the message alone and has to be asked for. */
export type Question = { readonly type: "routes" } | { readonly type: "link"; readonly index: number };

/** Links, addresses and default routes as the messages told them. */
export class LinkTable {
  readonly #links = new Map<number, LinkRecord>();
  readonly #addresses = new Map<string, AddressRecord>();
  #hops: readonly NextHop[] = [];

  /** Takes one message of a group; gives what to ask for next. */
  take(message: RouteMessage): Question[] {
    switch (message.type) {
      case "link": {
        const before = this.#links.get(message.link.index);
        this.#links.set(message.link.index, message.link);
        // IPv4 routes of a link that goes down go without a word.
        return before?.up === message.link.up ? [] : [{ type: "routes" }];
      }
      case "linkGone":
        this.#links.delete(message.index);
        for (const [key, address] of this.#addresses) {
          if (address.linkIndex === message.index) this.#addresses.delete(key);
        }
        return [{ type: "routes" }];
      case "address":
        this.#addresses.set(keyOf(message.address), message.address);
        return this.#afterAddress(message.address);
      case "addressGone":
        this.#addresses.delete(keyOf(message.address));
        return this.#afterAddress(message.address);
      case "defaultRoute":
        // One route may stand behind another, and its end may be told by halves: the table itself knows.
        return [{ type: "routes" }];
      default:
        return [];
    }
  }

  /** Replaces everything by a whole dump. */
  replace(links: readonly LinkRecord[], addresses: readonly AddressRecord[]): void {
    this.#links.clear();
    this.#addresses.clear();
    for (const link of links) this.#links.set(link.index, link);
    for (const address of addresses) this.#addresses.set(keyOf(address), address);
  }

  replaceHops(hops: readonly NextHop[]): void {
    this.#hops = hops;
  }

  /** All links by index. */
  view(): LinkView[] {
    const addresses = Map.groupBy(this.#addresses.values(), (address) => address.linkIndex);
    return [...this.#links.values()]
      .sort((a, b) => a.index - b.index)
      .map((link) => ({
        ...link,
        addresses: (addresses.get(link.index) ?? []).map(({ address, prefixLength, tentative }) => ({
          address,
          prefixLength,
          tentative,
        })),
        defaultGateways: [
          ...new Set(this.#hops.filter((hop) => hop.linkIndex === link.index).map((hop) => hop.gateway)),
        ],
      }));
  }

  /** disable_ipv6 takes the addresses away and says nothing else. */
  #afterAddress(address: AddressRecord): Question[] {
    return address.address.includes(":") ? [{ type: "link", index: address.linkIndex }] : [];
  }
}

const keyOf = (address: AddressRecord): string => `${address.linkIndex} ${address.address}/${address.prefixLength}`;

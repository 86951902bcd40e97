/** What the rest of Belfry sees of the Linux kernel. */

import type { Instant } from "../core/instant.ts";
import type { Address } from "../net/address.ts";
import type { Mac } from "../net/mac.ts";

/** Now on CLOCK_MONOTONIC, the same in all threads of the process. */
export type Clock = { now(): Instant };

/** A link as rtnetlink tells it. */
export type HostLink = {
  readonly index: number;
  readonly name: string;
  readonly mac: Mac | undefined;
  /** IFF_UP and lower up (carrier). */
  readonly up: boolean;
  /** Index of the bridge, bond or VRF that it is a port of. */
  readonly master: number | undefined;
  /** IFLA_INFO_KIND: `veth`, `bridge`, `macvlan`, …; undefined for a plain device. */
  readonly kind: string | undefined;
  readonly noArp: boolean;
  readonly loopback: boolean;
  /** True where disable_ipv6 is set; undefined where the kernel does not say or the link has no IPv6 at all. */
  readonly ipv6Disabled?: boolean | undefined;
  /** Addresses with prefix length; link-local ones too. */
  readonly addresses: readonly {
    readonly address: Address;
    readonly prefixLength: number;
    readonly tentative: boolean;
  }[];
  /** Next hops of default routes over this link. */
  readonly defaultGateways: readonly Address[];
};

/** Links, addresses and default routes of this network namespace, followed through rtnetlink. */
export type LinkObserver = {
  links(): readonly HostLink[];
  /** Called after each change, with the whole state known by then. Returns the function that ends it. */
  onChange(listener: () => void): () => void;
  close(): void;
};

/** A netlink socket that carries one request after another. Bytes out are whole messages (a batch is one send). */
export type NetlinkPort = {
  /**
   * Sends the bytes in one sendmsg and gathers every reply message (header and payload, one array each) whose sequence
   * number lies in [firstSequence, lastSequence], until `done` says that the last one came.
   */
  exchange(bytes: Uint8Array, done: (message: Uint8Array) => boolean): Promise<Uint8Array[]>;
  /** The port id the kernel gave us. */
  readonly portId: number;
  close(): void;
};

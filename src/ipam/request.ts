/** What a Gateway or Service asks of the address pools: what `gateway` and `service` resolve and `ipam` answers. */
import type { Holder } from "../api/virtual-ip.ts";
import type { Address, Family } from "../net/address.ts";

export type AddressRequest = {
  readonly holder: Holder;
  /** Labels of the holder, for pool and advertisement selectors. */
  readonly labels: Readonly<Record<string, string>>;
  /** GatewayClass name; undefined for a Service. */
  readonly gatewayClass: string | undefined;
  /** Families wanted, the first first. `Required`: without it nothing is given; `Preferred`: given where a pool offers it. */
  readonly families: readonly { readonly family: Family; readonly need: "Required" | "Preferred" }[];
  /** Addresses asked for by name; each is used exactly or the request fails. Families beside them are drawn freely. */
  readonly addresses: readonly Address[];
  /** Give no more than this many addresses in all; absent: one of each family, beside those asked for by name. */
  readonly atMost?: number;
  /** Pool asked for by name. */
  readonly pool: string | undefined;
  /** Addresses that the holder's status shows, to choose between two VIPs of one holder and family. Never an input to allocation. */
  readonly shown: readonly Address[];
  /** metadata.creationTimestamp of the holder (RFC 3339): who waits longest is served first. */
  readonly createdAt: string;
};

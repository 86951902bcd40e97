/** For tests: pools, requests and VirtualIPs with as few words as possible. */
import type { IPAddressPool, IPAddressPoolSpec } from "../api/ip-address-pool.ts";
import type { VirtualIP } from "../api/virtual-ip.ts";
import { virtualIPName } from "../api/virtual-ip-name.ts";
import type { Address, Family } from "../net/address.ts";
import { AddressBook } from "./address-book.ts";
import type { Surroundings } from "./allocate.ts";
import { type Reservation, resolvePools } from "./pool.ts";
import type { AddressRequest } from "./request.ts";

export const pool = (
  name: string,
  addresses: string[],
  spec: Partial<IPAddressPoolSpec> = {},
  creationTimestamp = "2026-01-01T00:00:00Z",
): IPAddressPool => ({
  metadata: { name, creationTimestamp },
  spec: { addresses, excludes: [], autoAssign: true, avoidBuggyIPs: false, disabled: false, ...spec },
});

export function bookOf(pools: IPAddressPool[], reservations: Reservation[] = []): AddressBook {
  const book = new AddressBook();
  book.setPools(resolvePools(pools, reservations));
  return book;
}

export const request = (name: string, changes: Partial<AddressRequest> = {}): AddressRequest => ({
  holder: { kind: "Gateway", namespace: "demo", name, uid: `uid-${name}` },
  labels: {},
  gatewayClass: "belfry",
  families: [{ family: "IPv4", need: "Required" }],
  addresses: [],
  pool: undefined,
  shown: [],
  createdAt: "2026-01-01T00:00:00Z",
  ...changes,
});

export const wanting = (...families: Family[]): Pick<AddressRequest, "families"> => ({
  families: families.map((family) => ({ family, need: "Required" })),
});

export const vip = (
  address: string,
  holder: AddressRequest["holder"],
  changes: Partial<VirtualIP["metadata"]> = {},
): VirtualIP => ({
  metadata: {
    name: virtualIPName(address as Address),
    uid: `vip-${address}`,
    resourceVersion: "100",
    creationTimestamp: "2026-01-01T00:00:00Z",
    ...changes,
  },
  spec: {
    address,
    scope: "External",
    pool: "one",
    holders: [holder],
    advertisements: { l2: [] },
    forwards: [],
  },
});

export const SURROUNDINGS: Surroundings = { namespaceLabels: () => ({}), releasing: () => false };

import type { Address } from "../net/address.ts";
import type { Mac } from "../net/mac.ts";

export const ETHERNET_HEADER_BYTES = 14;
export const ETHERTYPE_ARP = 0x0806;
export const ETHERTYPE_IPV6 = 0x86dd;

export const BROADCAST_MAC = "ff:ff:ff:ff:ff:ff" as Mac;
export const ZERO_MAC = "00:00:00:00:00:00" as Mac;

const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"));
const hex = (bytes: Uint8Array, at: number): string => HEX[bytes[at] ?? 0] ?? "00";

/** The MAC in the six bytes at `at`. On the path of every frame, so without an array in between. */
export const macAt = (bytes: Uint8Array, at: number): Mac =>
  `${hex(bytes, at)}:${hex(bytes, at + 1)}:${hex(bytes, at + 2)}:${hex(bytes, at + 3)}:${hex(bytes, at + 4)}:${hex(bytes, at + 5)}` as Mac;

/** The IPv4 address in the four bytes at `at`; numbers print without leading zeros, so the text is canonical. */
export const v4At = (bytes: Uint8Array, at: number): Address =>
  `${bytes[at] ?? 0}.${bytes[at + 1] ?? 0}.${bytes[at + 2] ?? 0}.${bytes[at + 3] ?? 0}` as Address;

/** The 16 bits at `at` in network order. */
export const u16At = (bytes: Uint8Array, at: number): number => ((bytes[at] ?? 0) << 8) | (bytes[at + 1] ?? 0);

/** True for broadcast and multicast: the group bit of IEEE 802. */
export const isGroupMac = (mac: Mac): boolean => (Number.parseInt(mac.slice(0, 2), 16) & 1) === 1;

/** A MAC that one station can have: not a group, not all zeros. */
export const isStationMac = (mac: Mac): boolean => mac !== ZERO_MAC && !isGroupMac(mac);

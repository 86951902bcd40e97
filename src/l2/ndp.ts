import { fromHex, toHex } from "../core/bytes.ts";
import type { Malformed } from "../core/trouble.ts";
import { type Address, addressFromBytes, bytesOf } from "../net/address.ts";
import { type Mac, macBytes } from "../net/mac.ts";
import { ETHERNET_HEADER_BYTES, ETHERTYPE_IPV6, isStationMac, macAt, u16At } from "./ethernet.ts";

/** A neighbour solicitation with its Ethernet and IPv6 headers (RFC 4861 4.3). */
export type NeighborSolicitation = {
  readonly type: "solicitation";
  readonly destination: Mac;
  readonly source: Mac;
  readonly sourceAddress: Address;
  readonly destinationAddress: Address;
  readonly target: Address;
  /** Option 1. */
  readonly sourceLinkLayer?: Mac;
  /** Option 14 (RFC 3971 5.3.2, used by RFC 7527), in hex. */
  readonly nonce?: string;
};

/** A neighbour advertisement with its Ethernet and IPv6 headers (RFC 4861 4.4). */
export type NeighborAdvertisement = {
  readonly type: "advertisement";
  readonly destination: Mac;
  readonly source: Mac;
  readonly sourceAddress: Address;
  readonly destinationAddress: Address;
  readonly target: Address;
  readonly router: boolean;
  readonly solicited: boolean;
  readonly override: boolean;
  /** Option 2. */
  readonly targetLinkLayer?: Mac;
};

export type NdpPacket = NeighborSolicitation | NeighborAdvertisement;

export type NdpDecoded =
  | { readonly ok: true; readonly packet: NdpPacket }
  | { readonly ok: false; readonly malformed: Malformed };

export const UNSPECIFIED = "::" as Address;
export const ALL_NODES = "ff02::1" as Address;
const ALL_NODES_MAC = "33:33:00:00:00:01" as Mac;

const IPV6_BYTES = 40;
const ICMPV6 = 58;
const SOLICITATION = 135;
const ADVERTISEMENT = 136;
const IPV6_AT = ETHERNET_HEADER_BYTES;
const ICMP_AT = IPV6_AT + IPV6_BYTES;
const TARGET_AT = ICMP_AT + 8;
const FIXED_BYTES = 24;
const OPTION = { sourceLinkLayer: 1, targetLinkLayer: 2, nonce: 14 } as const;

/**
 * Reads a whole Ethernet frame; bytes after the IPv6 payload are padding. The checks are those of RFC 4861 7.1.1 and 7.1.2;
 * an extension header is refused too, a fragment among them (RFC 6980).
 * Refused as `truncated`, `notIpv6`, `ipVersion`, `nextHeader`, `payloadLength`, `hopLimit`, `icmpType`, `icmpCode`,
 * `checksum`, `targetMulticast`, `sourceMulticast`, `optionLength`, `linkLayerAddress`, `duplicateTest`, `solicitedMulticast`.
 */
export function decodeNdp(frame: Uint8Array): NdpDecoded {
  if (frame.length < ICMP_AT) return refused("truncated");
  if (u16At(frame, 12) !== ETHERTYPE_IPV6) return refused("notIpv6");
  if ((frame[IPV6_AT] ?? 0) >> 4 !== 6) return refused("ipVersion");
  if (frame[IPV6_AT + 6] !== ICMPV6) return refused("nextHeader");
  const payloadLength = u16At(frame, IPV6_AT + 4);
  if (payloadLength < FIXED_BYTES) return refused("payloadLength");
  const end = ICMP_AT + payloadLength;
  if (end > frame.length) return refused("truncated");
  if (frame[IPV6_AT + 7] !== 255) return refused("hopLimit");
  const type = frame[ICMP_AT];
  if (type !== SOLICITATION && type !== ADVERTISEMENT) return refused("icmpType");
  if (frame[ICMP_AT + 1] !== 0) return refused("icmpCode");
  if (checksumOf(frame, payloadLength) !== 0) return refused("checksum");
  if (frame[TARGET_AT] === 0xff) return refused("targetMulticast");
  if (frame[IPV6_AT + 8] === 0xff) return refused("sourceMulticast");

  const options = readOptions(frame, TARGET_AT + 16, end);
  if (typeof options === "string") return refused(options);
  const common = {
    destination: macAt(frame, 0),
    source: macAt(frame, 6),
    sourceAddress: addressFromBytes(frame.subarray(IPV6_AT + 8, IPV6_AT + 24)),
    destinationAddress: addressFromBytes(frame.subarray(IPV6_AT + 24, IPV6_AT + 40)),
    target: addressFromBytes(frame.subarray(TARGET_AT, TARGET_AT + 16)),
  };
  if (type === SOLICITATION) {
    // RFC 4861 7.1.1: duplicate address detection goes to the solicited-node group and names no link-layer address.
    const duplicateTest = common.sourceAddress === UNSPECIFIED;
    if (duplicateTest && options.sourceLinkLayer !== undefined) return refused("duplicateTest");
    if (duplicateTest && !isSolicitedNode(common.destinationAddress)) return refused("duplicateTest");
    const { sourceLinkLayer, nonce } = options;
    return {
      ok: true,
      packet: {
        type: "solicitation",
        ...common,
        ...(sourceLinkLayer === undefined ? {} : { sourceLinkLayer }),
        ...(nonce === undefined ? {} : { nonce }),
      },
    };
  }
  const flags = frame[ICMP_AT + 4] ?? 0;
  const solicited = (flags & 0x40) !== 0;
  if (solicited && frame[IPV6_AT + 24] === 0xff) return refused("solicitedMulticast");
  const { targetLinkLayer } = options;
  return {
    ok: true,
    packet: {
      type: "advertisement",
      ...common,
      router: (flags & 0x80) !== 0,
      solicited,
      override: (flags & 0x20) !== 0,
      ...(targetLinkLayer === undefined ? {} : { targetLinkLayer }),
    },
  };
}

/** The Ethernet frame with hop limit 255 and the ICMPv6 checksum. */
export function encodeNdp(packet: NdpPacket): Uint8Array {
  const options = packet.type === "solicitation" ? solicitationOptions(packet) : advertisementOptions(packet);
  const payloadLength = FIXED_BYTES + options.reduce((sum, option) => sum + option.length, 0);
  const frame = new Uint8Array(ICMP_AT + payloadLength);
  const view = new DataView(frame.buffer);
  frame.set(macBytes(packet.destination), 0);
  frame.set(macBytes(packet.source), 6);
  view.setUint16(12, ETHERTYPE_IPV6);
  view.setUint8(IPV6_AT, 0x60);
  view.setUint16(IPV6_AT + 4, payloadLength);
  view.setUint8(IPV6_AT + 6, ICMPV6);
  view.setUint8(IPV6_AT + 7, 255);
  frame.set(bytesOf(packet.sourceAddress), IPV6_AT + 8);
  frame.set(bytesOf(packet.destinationAddress), IPV6_AT + 24);
  view.setUint8(ICMP_AT, packet.type === "solicitation" ? SOLICITATION : ADVERTISEMENT);
  if (packet.type === "advertisement") {
    view.setUint8(
      ICMP_AT + 4,
      (packet.router ? 0x80 : 0) | (packet.solicited ? 0x40 : 0) | (packet.override ? 0x20 : 0),
    );
  }
  frame.set(bytesOf(packet.target), TARGET_AT);
  let at = TARGET_AT + 16;
  for (const option of options) {
    frame.set(option, at);
    at += option.length;
  }
  view.setUint16(ICMP_AT + 2, checksumOf(frame, payloadLength));
  return frame;
}

/** The answer to a solicitation: solicited and unicast, or to all nodes when a host tests the address (RFC 4861 7.2.4). */
export function solicitedAdvertisement(asked: NeighborSolicitation, mac: Mac): NeighborAdvertisement {
  if (asked.sourceAddress === UNSPECIFIED) return unsolicitedAdvertisement(asked.target, mac);
  return {
    type: "advertisement",
    // RFC 4861 7.2.4 would resolve the asker first; the frame's own source is what that would find (metallb#2920).
    destination: asked.sourceLinkLayer ?? asked.source,
    source: mac,
    sourceAddress: asked.target,
    destinationAddress: asked.sourceAddress,
    target: asked.target,
    router: false,
    solicited: true,
    override: true,
    targetLinkLayer: mac,
  };
}

/** RFC 4861 7.2.6: tells all nodes the address's MAC; override makes caches replace an older one. */
export const unsolicitedAdvertisement = (address: Address, mac: Mac): NeighborAdvertisement => ({
  type: "advertisement",
  destination: ALL_NODES_MAC,
  source: mac,
  sourceAddress: address,
  destinationAddress: ALL_NODES,
  target: address,
  router: false,
  solicited: false,
  override: true,
  targetLinkLayer: mac,
});

/** RFC 4862 5.4.2 with the nonce of RFC 7527: asks who has the address without claiming it. */
export const duplicateTest = (address: Address, mac: Mac, nonce: string): NeighborSolicitation => {
  const group = solicitedNodeGroup(address);
  return {
    type: "solicitation",
    destination: multicastMac(group),
    source: mac,
    sourceAddress: UNSPECIFIED,
    destinationAddress: group,
    target: address,
    nonce,
  };
};

/** The solicited-node group of an IPv6 address: ff02::1:ff and its last 24 bits (RFC 4291 2.7.1). */
export function solicitedNodeGroup(address: Address): Address {
  const group = Uint8Array.from([0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0, 0, 0]);
  group.set(bytesOf(address).subarray(13), 13);
  return addressFromBytes(group);
}

/** The Ethernet group of an IPv6 multicast address: 33:33 and its last 32 bits (RFC 2464 7). */
export const multicastMac = (group: Address): Mac => `33:33:${macAt(bytesOf(group), 10).slice(6)}` as Mac;

type Options = { sourceLinkLayer?: Mac; targetLinkLayer?: Mac; nonce?: string };

/** The options we act on, or why the packet is refused. Unknown ones are skipped (RFC 4861 4.6). */
function readOptions(frame: Uint8Array, start: number, end: number): Options | "optionLength" | "linkLayerAddress" {
  const options: Options = {};
  for (let at = start; at < end; ) {
    const length = (frame[at + 1] ?? 0) * 8;
    // RFC 4861 4.6: a length of zero must be discarded, and would be a loop without end.
    if (length === 0 || at + length > end) return "optionLength";
    const type = frame[at];
    if (type === OPTION.sourceLinkLayer || type === OPTION.targetLinkLayer) {
      const mac = macAt(frame, at + 2);
      if (length !== 8 || !isStationMac(mac)) return "linkLayerAddress";
      if (type === OPTION.sourceLinkLayer) options.sourceLinkLayer ??= mac;
      else options.targetLinkLayer ??= mac;
    } else if (type === OPTION.nonce) {
      options.nonce ??= toHex(frame.subarray(at + 2, at + length));
    }
    at += length;
  }
  return options;
}

const solicitationOptions = (packet: NeighborSolicitation): Uint8Array[] => [
  ...(packet.sourceLinkLayer === undefined ? [] : [option(OPTION.sourceLinkLayer, macBytes(packet.sourceLinkLayer))]),
  ...(packet.nonce === undefined ? [] : [option(OPTION.nonce, fromHex(packet.nonce))]),
];

const advertisementOptions = (packet: NeighborAdvertisement): Uint8Array[] =>
  packet.targetLinkLayer === undefined ? [] : [option(OPTION.targetLinkLayer, macBytes(packet.targetLinkLayer))];

/** Type, length in units of eight bytes, value; a value fills the option, or zeros do. */
function option(type: number, value: Uint8Array): Uint8Array {
  const units = Math.ceil((value.length + 2) / 8);
  const bytes = new Uint8Array(units * 8);
  bytes[0] = type;
  bytes[1] = units;
  bytes.set(value, 2);
  return bytes;
}

/** Internet checksum over pseudo-header and payload (RFC 8200 8.1); zero for a packet that carries the right one. */
function checksumOf(frame: Uint8Array, payloadLength: number): number {
  let sum = payloadLength + ICMPV6;
  for (let at = IPV6_AT + 8; at < ICMP_AT; at += 2) sum += u16At(frame, at);
  const end = ICMP_AT + payloadLength;
  for (let at = ICMP_AT; at + 1 < end; at += 2) sum += u16At(frame, at);
  if (payloadLength % 2 === 1) sum += (frame[end - 1] ?? 0) << 8;
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >>> 16);
  return ~sum & 0xffff;
}

const isSolicitedNode = (address: Address): boolean => solicitedNodeGroup(address) === address;

const refused = (reason: string): NdpDecoded => ({ ok: false, malformed: { reason } });

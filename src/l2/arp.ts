import type { Malformed } from "../core/trouble.ts";
import { type Address, bytesOf } from "../net/address.ts";
import { type Mac, macBytes } from "../net/mac.ts";
import { BROADCAST_MAC, ETHERNET_HEADER_BYTES, ETHERTYPE_ARP, macAt, u16At, v4At, ZERO_MAC } from "./ethernet.ts";

/** An ARP packet for IPv4 over Ethernet with the Ethernet header that carries it (RFC 826). */
export type ArpPacket = {
  readonly destination: Mac;
  readonly source: Mac;
  readonly operation: "request" | "reply";
  readonly senderMac: Mac;
  readonly senderAddress: Address;
  readonly targetMac: Mac;
  readonly targetAddress: Address;
};

export type ArpDecoded =
  | { readonly ok: true; readonly packet: ArpPacket }
  | { readonly ok: false; readonly malformed: Malformed };

const ARP_BYTES = 28;
const HARDWARE_ETHERNET = 1;
const PROTOCOL_IPV4 = 0x0800;
const UNSPECIFIED = "0.0.0.0" as Address;

/**
 * Reads a whole Ethernet frame; bytes after the packet are padding. The checks follow the order of RFC 826.
 * Refused as `truncated`, `notArp`, `hardwareType`, `protocolType`, `addressLength`, `operation`.
 */
export function decodeArp(frame: Uint8Array): ArpDecoded {
  if (frame.length < ETHERNET_HEADER_BYTES + ARP_BYTES) return refused("truncated");
  if (u16At(frame, 12) !== ETHERTYPE_ARP) return refused("notArp");
  if (u16At(frame, 14) !== HARDWARE_ETHERNET) return refused("hardwareType");
  if (u16At(frame, 16) !== PROTOCOL_IPV4) return refused("protocolType");
  if (frame[18] !== 6 || frame[19] !== 4) return refused("addressLength");
  const operation = u16At(frame, 20);
  if (operation !== 1 && operation !== 2) return refused("operation");
  return {
    ok: true,
    packet: {
      destination: macAt(frame, 0),
      source: macAt(frame, 6),
      operation: operation === 1 ? "request" : "reply",
      senderMac: macAt(frame, 22),
      senderAddress: v4At(frame, 28),
      targetMac: macAt(frame, 32),
      targetAddress: v4At(frame, 38),
    },
  };
}

/** The Ethernet frame, 42 bytes without padding (the device pads). */
export function encodeArp(packet: ArpPacket): Uint8Array {
  const frame = new Uint8Array(ETHERNET_HEADER_BYTES + ARP_BYTES);
  const view = new DataView(frame.buffer);
  frame.set(macBytes(packet.destination), 0);
  frame.set(macBytes(packet.source), 6);
  view.setUint16(12, ETHERTYPE_ARP);
  view.setUint16(14, HARDWARE_ETHERNET);
  view.setUint16(16, PROTOCOL_IPV4);
  view.setUint8(18, 6);
  view.setUint8(19, 4);
  view.setUint16(20, packet.operation === "request" ? 1 : 2);
  frame.set(macBytes(packet.senderMac), 22);
  frame.set(bytesOf(packet.senderAddress), 28);
  frame.set(macBytes(packet.targetMac), 32);
  frame.set(bytesOf(packet.targetAddress), 38);
  return frame;
}

/** The answer to a request or probe: unicast to who asked, with the MAC of the interface it came in on. */
export const arpReply = (request: ArpPacket, mac: Mac): ArpPacket => ({
  destination: request.senderMac,
  source: mac,
  operation: "reply",
  senderMac: mac,
  senderAddress: request.targetAddress,
  targetMac: request.senderMac,
  targetAddress: request.senderAddress,
});

/**
 * Gratuitous ARP in both forms: some devices take only requests, others only replies.
 * RFC 5227 2.3: an announcement is a request with both addresses equal; RFC 5944 4.6: the reply names our MAC twice.
 */
export const arpAnnouncements = (address: Address, mac: Mac): readonly ArpPacket[] => {
  const common = {
    destination: BROADCAST_MAC,
    source: mac,
    senderMac: mac,
    senderAddress: address,
    targetAddress: address,
  };
  return [
    { ...common, operation: "request", targetMac: ZERO_MAC },
    { ...common, operation: "reply", targetMac: mac },
  ];
};

/** RFC 5227 2.1.1: asks who has the address without claiming it; the sender address is zero so that no cache learns it. */
export const arpProbe = (address: Address, mac: Mac): ArpPacket => ({
  destination: BROADCAST_MAC,
  source: mac,
  operation: "request",
  senderMac: mac,
  senderAddress: UNSPECIFIED,
  targetMac: ZERO_MAC,
  targetAddress: address,
});

const refused = (reason: string): ArpDecoded => ({ ok: false, malformed: { reason } });

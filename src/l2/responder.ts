import { unreachable } from "../core/trouble.ts";
import type { Address } from "../net/address.ts";
import type { Mac } from "../net/mac.ts";
import { type ArpPacket, arpReply, decodeArp, encodeArp } from "./arp.ts";
import { ETHERTYPE_ARP, ETHERTYPE_IPV6, isGroupMac, isStationMac, u16At } from "./ethernet.ts";
import {
  decodeNdp,
  encodeNdp,
  type NeighborAdvertisement,
  type NeighborSolicitation,
  solicitedAdvertisement,
  UNSPECIFIED,
} from "./ndp.ts";

/** What the responder has to know; asked once per frame, never kept. */
export type Station = {
  /** MAC of the interface that the frame came in on. */
  readonly mac: Mac;
  /** True for the MAC of any interface of this node: two of them may be in one segment. */
  isOurs(mac: Mac): boolean;
  /** How this node stands to an address on this interface; undefined for one that is not ours at all. */
  standingOf(address: Address): Standing | undefined;
  /** True for a nonce that we sent in a probe ourselves (RFC 7527). */
  sentNonce(nonce: string): boolean;
};

/** `answering`: owner. `silent`: named to us, but not to be spoken for now. `elsewhere`: ours on other interfaces only. */
export type Standing = "answering" | "silent" | "elsewhere";

/** Why a frame draws nothing. Each is a counter; the decoders add the reasons of `Malformed`. */
export const IGNORE_REASONS = [
  "etherType",
  "otherHost",
  "ownFrame",
  "senderMac",
  "notOurs",
  "interface",
  "silent",
  "notARequest",
] as const;
export type IgnoreReason = (typeof IGNORE_REASONS)[number];

export type Verdict =
  | { readonly type: "reply"; readonly address: Address; readonly frame: Uint8Array }
  /** Another station says that the VIP is its own. It is never answered as a request. */
  | { readonly type: "claim"; readonly address: Address; readonly mac: Mac }
  /** Another station asks whether the VIP is free while we don't speak for it: it may be about to take it. */
  | { readonly type: "rival"; readonly address: Address; readonly mac: Mac }
  | { readonly type: "ignore"; readonly reason: IgnoreReason | string };

/** What a frame is to us: the table of README.md, row by row. Total: any bytes give a verdict. */
export function judge(frame: Uint8Array, station: Station): Verdict {
  const etherType = u16At(frame, 12);
  if (etherType === ETHERTYPE_ARP) {
    const decoded = decodeArp(frame);
    return decoded.ok ? judgeArp(decoded.packet, station) : ignore(decoded.malformed.reason);
  }
  if (etherType === ETHERTYPE_IPV6) {
    const decoded = decodeNdp(frame);
    if (!decoded.ok) return ignore(decoded.malformed.reason);
    const { packet } = decoded;
    switch (packet.type) {
      case "solicitation":
        return judgeSolicitation(packet, station);
      case "advertisement":
        return judgeAdvertisement(packet, station);
      default:
        return unreachable(packet);
    }
  }
  return ignore("etherType");
}

function judgeArp(packet: ArpPacket, station: Station): Verdict {
  if (!isForUs(packet.destination, station)) return ignore("otherHost");
  if (station.isOurs(packet.source) || station.isOurs(packet.senderMac)) return ignore("ownFrame");
  // A sender that names another MAC than the frame came from would have us answer to a third station.
  if (!isStationMac(packet.senderMac) || packet.senderMac !== packet.source) return ignore("senderMac");

  const claimed = station.standingOf(packet.senderAddress);
  if (claimed === "answering" || claimed === "silent") {
    return { type: "claim", address: packet.senderAddress, mac: packet.senderMac };
  }
  if (packet.operation !== "request") return ignore("notARequest");
  const probe = packet.senderAddress === "0.0.0.0";
  return answer(packet.targetAddress, packet.senderMac, probe, station, () => encodeArp(arpReply(packet, station.mac)));
}

function judgeSolicitation(packet: NeighborSolicitation, station: Station): Verdict {
  if (!isForUs(packet.destination, station)) return ignore("otherHost");
  if (station.isOurs(packet.source)) return ignore("ownFrame");
  if (packet.nonce !== undefined && station.sentNonce(packet.nonce)) return ignore("ownFrame");
  if (!isStationMac(packet.source)) return ignore("senderMac");

  // The source of a solicitation enters caches like an ARP sender does.
  const mac = packet.sourceLinkLayer ?? packet.source;
  const claimed = station.standingOf(packet.sourceAddress);
  if (claimed === "answering" || claimed === "silent") return { type: "claim", address: packet.sourceAddress, mac };
  const probe = packet.sourceAddress === UNSPECIFIED;
  return answer(packet.target, mac, probe, station, () => encodeNdp(solicitedAdvertisement(packet, station.mac)));
}

function judgeAdvertisement(packet: NeighborAdvertisement, station: Station): Verdict {
  if (!isForUs(packet.destination, station)) return ignore("otherHost");
  if (station.isOurs(packet.source)) return ignore("ownFrame");
  if (!isStationMac(packet.source)) return ignore("senderMac");
  const mac = packet.targetLinkLayer ?? packet.source;
  if (station.isOurs(mac)) return ignore("ownFrame");
  switch (station.standingOf(packet.target)) {
    case "answering":
    case "silent":
      return { type: "claim", address: packet.target, mac };
    default:
      return ignore("notARequest");
  }
}

function answer(address: Address, asker: Mac, probe: boolean, station: Station, reply: () => Uint8Array): Verdict {
  const standing = station.standingOf(address);
  switch (standing) {
    case "answering":
      return { type: "reply", address, frame: reply() };
    case "silent":
      return probe ? { type: "rival", address, mac: asker } : ignore("silent");
    case "elsewhere":
      return ignore("interface");
    case undefined:
      return ignore("notOurs");
    default:
      return unreachable(standing);
  }
}

/** A frame to another station reaches us when the interface is promiscuous; answering it would be a second answer. */
const isForUs = (destination: Mac, station: Station): boolean => destination === station.mac || isGroupMac(destination);

const ignore = (reason: IgnoreReason | string): Verdict => ({ type: "ignore", reason });

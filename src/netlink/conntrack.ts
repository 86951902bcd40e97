/** Conntrack entries through ctnetlink (linux/netfilter/nfnetlink_conntrack.h): filtered dump and delete. Pure. */
import { type Address, addressFromBytes, bytesOf, type Family } from "../net/address.ts";
import {
  be16Of,
  decodeAttributes,
  decodeMessage,
  type MessageWriter,
  NLM_F_ACK,
  NLM_F_DUMP,
  NLM_F_REQUEST,
} from "./message.ts";
import {
  GENERIC_BYTES,
  genericHeader,
  messageType,
  NFNL_SUBSYS_CTNETLINK,
  NFPROTO_IPV4,
  NFPROTO_IPV6,
} from "./nfnetlink.ts";

const IPCTNL_MSG_CT_NEW = 0;
const IPCTNL_MSG_CT_GET = 1;
const IPCTNL_MSG_CT_DELETE = 2;

const CTA = { tupleOrig: 1, tupleReply: 2, id: 12, zone: 18, filter: 25 } as const;
const CTA_IP_V4_DST = 2;
const CTA_FILTER_ORIG_FLAGS = 1;
/** nf_internals.h: which parts of the tuple the filter compares. */
const FILTER_IP_DST = 1 << 1;
const FILTER_PROTO_NUM = 1 << 3;

/** One direction of a flow. Ports are 0 where the protocol has none. */
export type Tuple = {
  readonly source: Address;
  readonly destination: Address;
  /** IPPROTO_*. */
  readonly protocol: number;
  readonly sourcePort: number;
  readonly destinationPort: number;
};

export type Flow = {
  readonly family: Family;
  readonly original: Tuple;
  readonly reply: Tuple;
  /** What names the entry to the kernel when it is deleted: the attributes as they came. */
  readonly name: {
    readonly original: Uint8Array;
    readonly id: Uint8Array | undefined;
    readonly zone: Uint8Array | undefined;
  };
};

const familyNumber = (family: Family): number => (family === "IPv4" ? NFPROTO_IPV4 : NFPROTO_IPV6);

/**
 * A dump of the family's entries; the kernel (5.8) sifts by original destination and protocol where they are given.
 * The answer is to be sifted again: for IPv6 only the protocol is asked for, since the kernel's comparison of IPv6
 * addresses is the wrong way round (nf_conntrack_netlink.c uses ipv6_addr_cmp as if it were an equality; seen on 6.18).
 */
export function putFlowDump(
  writer: MessageWriter,
  sequence: number,
  family: Family,
  filter: { readonly destination?: Address; readonly protocol?: number },
): void {
  const type = messageType(NFNL_SUBSYS_CTNETLINK, IPCTNL_MSG_CT_GET);
  const at = writer.beginMessage(type, NLM_F_REQUEST | NLM_F_DUMP, sequence);
  writer.raw(genericHeader(familyNumber(family)));
  const destination = family === "IPv4" ? filter.destination : undefined;
  const flags =
    (destination === undefined ? 0 : FILTER_IP_DST) | (filter.protocol === undefined ? 0 : FILTER_PROTO_NUM);
  if (flags !== 0) {
    const tuple = writer.begin(CTA.tupleOrig);
    if (destination !== undefined) {
      const ip = writer.begin(1);
      writer.attribute(CTA_IP_V4_DST, bytesOf(destination));
      writer.end(ip);
    }
    if (filter.protocol !== undefined) {
      const protocol = writer.begin(2);
      writer.u8(1, filter.protocol);
      writer.end(protocol);
    }
    writer.end(tuple);
    const nested = writer.begin(CTA.filter);
    writer.u32(CTA_FILTER_ORIG_FLAGS, flags);
    writer.end(nested);
  }
  writer.endMessage(at);
}

/** Deletes the entry; ENOENT says that it had gone by itself. */
export function putFlowDelete(writer: MessageWriter, sequence: number, flow: Flow): void {
  const type = messageType(NFNL_SUBSYS_CTNETLINK, IPCTNL_MSG_CT_DELETE);
  const at = writer.beginMessage(type, NLM_F_REQUEST | NLM_F_ACK, sequence);
  writer.raw(genericHeader(familyNumber(flow.family)));
  const tuple = writer.begin(CTA.tupleOrig);
  writer.raw(flow.name.original);
  writer.end(tuple);
  if (flow.name.id !== undefined) writer.attribute(CTA.id, flow.name.id);
  if (flow.name.zone !== undefined) writer.attribute(CTA.zone, flow.name.zone);
  writer.endMessage(at);
}

/** The entry that a reply to a dump tells. Total: anything else gives undefined. */
export function decodeFlow(bytes: Uint8Array): Flow | undefined {
  const message = decodeMessage(bytes);
  if (message?.type !== messageType(NFNL_SUBSYS_CTNETLINK, IPCTNL_MSG_CT_NEW)) return undefined;
  const family =
    message.payload[0] === NFPROTO_IPV4 ? "IPv4" : message.payload[0] === NFPROTO_IPV6 ? "IPv6" : undefined;
  const attributes = decodeAttributes(message.payload.subarray(GENERIC_BYTES));
  const originalBytes = attributes?.get(CTA.tupleOrig);
  if (family === undefined || attributes === undefined || originalBytes === undefined) return undefined;
  const original = decodeTuple(originalBytes, family);
  const reply = decodeTuple(attributes.get(CTA.tupleReply), family);
  if (original === undefined || reply === undefined) return undefined;
  return {
    family,
    original,
    reply,
    name: { original: originalBytes, id: attributes.get(CTA.id), zone: attributes.get(CTA.zone) },
  };
}

function decodeTuple(bytes: Uint8Array | undefined, family: Family): Tuple | undefined {
  const attributes = bytes === undefined ? undefined : decodeAttributes(bytes);
  const ip = decodeAttributes(attributes?.get(1) ?? new Uint8Array());
  const l4 = decodeAttributes(attributes?.get(2) ?? new Uint8Array());
  const source = ip?.get(family === "IPv4" ? 1 : 3);
  const destination = ip?.get(family === "IPv4" ? 2 : 4);
  const protocol = l4?.get(1)?.[0];
  const length = family === "IPv4" ? 4 : 16;
  if (source?.length !== length || destination?.length !== length || protocol === undefined) return undefined;
  return {
    source: addressFromBytes(source),
    destination: addressFromBytes(destination),
    protocol,
    sourcePort: be16Of(l4?.get(2)) ?? 0,
    destinationPort: be16Of(l4?.get(3)) ?? 0,
  };
}

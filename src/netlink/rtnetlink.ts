import { type Address, addressFromBytes } from "../net/address.ts";
import { type Mac, macFromBytes } from "../net/mac.ts";
import {
  type Attributes,
  decodeAttributes,
  type Message,
  MessageWriter,
  NLM_F_DUMP,
  NLM_F_REQUEST,
  textOf,
  u32Of,
} from "./message.ts";

/** What the multicast groups and dumps of NETLINK_ROUTE tell us (linux/rtnetlink.h, if_link.h, if_addr.h). */
export type RouteMessage =
  | { readonly type: "link"; readonly link: LinkRecord }
  | { readonly type: "linkGone"; readonly index: number }
  | { readonly type: "address"; readonly address: AddressRecord }
  | { readonly type: "addressGone"; readonly address: AddressRecord }
  /** A default route came or went; one that names no next hop has none. */
  | { readonly type: "defaultRoute"; readonly gone: boolean; readonly hops: readonly NextHop[] };

export type LinkRecord = {
  readonly index: number;
  readonly name: string;
  readonly mac: Mac | undefined;
  readonly up: boolean;
  readonly noArp: boolean;
  readonly loopback: boolean;
  readonly master: number | undefined;
  readonly kind: string | undefined;
  /** net.ipv6.conf.NAME.disable_ipv6; undefined where the link has no IPv6 at all. */
  readonly ipv6Disabled: boolean | undefined;
};

export type AddressRecord = {
  readonly linkIndex: number;
  readonly address: Address;
  readonly prefixLength: number;
  readonly tentative: boolean;
};

export type NextHop = { readonly linkIndex: number; readonly gateway: Address };

/** Multicast groups that tell of links, addresses and routes (RTNLGRP_*). */
export const ROUTE_GROUPS = { link: 1, ipv4Address: 5, ipv4Route: 7, ipv6Address: 9, ipv6Route: 11 } as const;

const RTM = {
  newLink: 16,
  delLink: 17,
  getLink: 18,
  newAddress: 20,
  delAddress: 21,
  getAddress: 22,
  newRoute: 24,
  delRoute: 25,
  getRoute: 26,
} as const;
const AF_INET = 2;
const AF_INET6 = 10;
const IFF = { up: 0x1, loopback: 0x8, noArp: 0x80, lowerUp: 0x10000 } as const;
const IFLA = { address: 1, name: 3, master: 10, linkInfo: 18, afSpec: 26 } as const;
const IFLA_INFO_KIND = 1;
const IFLA_INET6_CONF = 2;
/** Place of disable_ipv6 in the array of IFLA_INET6_CONF (linux/ipv6.h: DEVCONF_DISABLE_IPV6). */
const DEVCONF_DISABLE_IPV6 = 26;
const IFA = { address: 1, local: 2, flags: 8 } as const;
const IFA_F = { dadFailed: 0x08, tentative: 0x40 } as const;
const RTA = { oif: 4, gateway: 5, multipath: 9, via: 18 } as const;
const RTN_UNICAST = 1;
const RT_TABLE_MAIN = 254;

/** The message's meaning, or undefined when it is none of ours (bridge ports, other routes) or no whole message. Total. */
export function decodeRouteMessage(message: Message): RouteMessage | undefined {
  switch (message.type) {
    case RTM.newLink:
      return linkOf(message.payload);
    case RTM.delLink:
      return linkGoneOf(message.payload);
    case RTM.newAddress:
    case RTM.delAddress: {
      const address = addressOf(message.payload);
      if (address === undefined) return undefined;
      return { type: message.type === RTM.newAddress ? "address" : "addressGone", address };
    }
    case RTM.newRoute:
    case RTM.delRoute: {
      const hops = defaultHopsOf(message.payload);
      return hops === undefined ? undefined : { type: "defaultRoute", gone: message.type === RTM.delRoute, hops };
    }
    default:
      return undefined;
  }
}

/** Asks for all links. */
export const dumpLinks = (sequence: number): Uint8Array =>
  request(RTM.getLink, NLM_F_DUMP, sequence, new Uint8Array(16));

/** Asks for one link. */
export function getLink(index: number, sequence: number): Uint8Array {
  const header = new Uint8Array(16);
  new DataView(header.buffer).setInt32(4, index, true);
  return request(RTM.getLink, 0, sequence, header);
}

/** Asks for all addresses of both families. */
export const dumpAddresses = (sequence: number): Uint8Array =>
  request(RTM.getAddress, NLM_F_DUMP, sequence, new Uint8Array(8));

/** Asks for the main table of one family. */
export function dumpRoutes(family: "IPv4" | "IPv6", sequence: number): Uint8Array {
  const header = new Uint8Array(12);
  header[0] = family === "IPv4" ? AF_INET : AF_INET6;
  header[4] = RT_TABLE_MAIN;
  return request(RTM.getRoute, NLM_F_DUMP, sequence, header);
}

function request(type: number, flags: number, sequence: number, header: Uint8Array): Uint8Array {
  const writer = new MessageWriter(64);
  const at = writer.beginMessage(type, NLM_F_REQUEST | flags, sequence);
  writer.raw(header);
  writer.endMessage(at);
  return writer.bytes();
}

const viewOf = (bytes: Uint8Array): DataView => new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);

/** struct ifinfomsg: u8 family, pad, u16 type, i32 index, u32 flags, u32 change. */
function linkOf(payload: Uint8Array): RouteMessage | undefined {
  // A bridge tells of its ports in the same group with its own family, and none of their names and MACs are complete.
  if (payload.length < 16 || payload[0] !== 0) return undefined;
  const attributes = decodeAttributes(payload.subarray(16));
  const name = textOf(attributes?.get(IFLA.name));
  if (attributes === undefined || name === undefined) return undefined;
  const flags = viewOf(payload).getUint32(8, true);
  const mac = attributes.get(IFLA.address);
  return {
    type: "link",
    link: {
      index: viewOf(payload).getInt32(4, true),
      name,
      mac: mac?.length === 6 ? macFromBytes(mac) : undefined,
      up: (flags & IFF.up) !== 0 && (flags & IFF.lowerUp) !== 0,
      noArp: (flags & IFF.noArp) !== 0,
      loopback: (flags & IFF.loopback) !== 0,
      master: u32Of(attributes.get(IFLA.master)),
      kind: textOf(nested(attributes, IFLA.linkInfo)?.get(IFLA_INFO_KIND)),
      ipv6Disabled: ipv6DisabledOf(attributes),
    },
  };
}

function linkGoneOf(payload: Uint8Array): RouteMessage | undefined {
  // With the bridge family it says that a port left its bridge; the link itself is still there.
  if (payload.length < 16 || payload[0] !== 0) return undefined;
  return { type: "linkGone", index: viewOf(payload).getInt32(4, true) };
}

function ipv6DisabledOf(attributes: Attributes): boolean | undefined {
  const inet6 = nested(attributes, IFLA.afSpec)?.get(AF_INET6);
  if (inet6 === undefined) return undefined;
  const conf = decodeAttributes(inet6)?.get(IFLA_INET6_CONF);
  if (conf === undefined || conf.length < 4 * (DEVCONF_DISABLE_IPV6 + 1)) return undefined;
  return viewOf(conf).getInt32(4 * DEVCONF_DISABLE_IPV6, true) !== 0;
}

/** struct ifaddrmsg: u8 family, u8 prefix length, u8 flags, u8 scope, u32 index. */
function addressOf(payload: Uint8Array): AddressRecord | undefined {
  if (payload.length < 8 || (payload[0] !== AF_INET && payload[0] !== AF_INET6)) return undefined;
  const attributes = decodeAttributes(payload.subarray(8));
  // On a point-to-point link IFA_ADDRESS is the other end; IPv6 has no IFA_LOCAL where both are equal.
  const bytes = attributes?.get(IFA.local) ?? attributes?.get(IFA.address);
  if (attributes === undefined || bytes === undefined || bytes.length !== (payload[0] === AF_INET ? 4 : 16)) {
    return undefined;
  }
  const flags = u32Of(attributes.get(IFA.flags)) ?? payload[2] ?? 0;
  return {
    linkIndex: viewOf(payload).getUint32(4, true),
    address: addressFromBytes(bytes),
    prefixLength: payload[1] ?? 0,
    tentative: (flags & (IFA_F.tentative | IFA_F.dadFailed)) !== 0,
  };
}

/**
 * Next hops of a unicast default route of the main table; undefined for any other route.
 * struct rtmsg: u8 family, destination length, source length, tos, table, protocol, scope, type, u32 flags.
 */
function defaultHopsOf(payload: Uint8Array): NextHop[] | undefined {
  if (payload.length < 12 || payload[1] !== 0 || payload[4] !== RT_TABLE_MAIN || payload[7] !== RTN_UNICAST) {
    return undefined;
  }
  if (payload[0] !== AF_INET && payload[0] !== AF_INET6) return undefined;
  const attributes = decodeAttributes(payload.subarray(12));
  if (attributes === undefined) return undefined;
  const multipath = attributes.get(RTA.multipath);
  if (multipath !== undefined) return hopsOfMultipath(multipath);
  return hopOf(u32Of(attributes.get(RTA.oif)), attributes);
}

/** struct rtnexthop: u16 length, u8 flags, u8 hops, i32 index, attributes. */
function hopsOfMultipath(bytes: Uint8Array): NextHop[] {
  const hops: NextHop[] = [];
  const view = viewOf(bytes);
  for (let at = 0; at + 8 <= bytes.length; ) {
    const length = view.getUint16(at, true);
    if (length < 8 || at + length > bytes.length) break;
    const attributes = decodeAttributes(bytes.subarray(at + 8, at + length));
    if (attributes !== undefined) hops.push(...hopOf(view.getInt32(at + 4, true), attributes));
    at += (length + 3) & ~3;
  }
  return hops;
}

function hopOf(linkIndex: number | undefined, attributes: Attributes): NextHop[] {
  // RTA_VIA is an IPv4 route by an IPv6 next hop: u16 family, then the address.
  const gateway = attributes.get(RTA.gateway) ?? attributes.get(RTA.via)?.subarray(2);
  if (linkIndex === undefined || (gateway?.length !== 4 && gateway?.length !== 16)) return [];
  return [{ linkIndex, gateway: addressFromBytes(gateway) }];
}

function nested(attributes: Attributes, type: number): Attributes | undefined {
  const value = attributes.get(type);
  return value === undefined ? undefined : decodeAttributes(value);
}

/**
 * The constant table `inet belfry`, as values. What a VIP needs is elements (element.ts); nothing here ever changes
 * with VIPs. Everything exists once for IPv4 (suffix 4) and once for IPv6 (suffix 6).
 *
 *     nat prerouting, output -105 ──▶ translate4
 *        address . protocol . port ── @frontend4 ──▶ choose4-…       any client, all endpoints
 *                                                 ├▶ split4          clients inside and outside the cluster differ
 *                                                 │    ├ source local or in @cluster4 ──▶ inside4 ── @inside4 ──▶ choose4-…
 *                                                 │    └ else ── @outside4 ──▶ choose4-…-outside │ drop
 *                                                 └▶ range4          has source ranges
 *                                                      ├ not in @range4 ──▶ drop
 *                                                      └ @ranged4 ──▶ choose4-… │ split4
 *        echo request for @vip4 ──▶ dnat to @echo4 of the interface, else redirect
 *     choose4-AFFINITY-M(-outside):  bucket = jhash(source) mod M
 *        address . protocol . port . bucket ── @endpoint4 ──▶ dnat; no element: falls through to the guard
 *
 *     filter prerouting, output -95 (after every dnat): destination still in @vip4 ──▶ guard4
 *        established or related: accept · invalid: drop · neighbour discovery: drop · @pass4: accept · else refuse
 *
 *     nat postrouting 95 ──▶ ours4: original destination in @vip4, or in @node-frontend4 ──▶ masquerade4
 *        @pass4: return · endpoint here (@local4) ──▶ local4: hairpin, or behind a plain bridge: masquerade
 *        source is this node or in @own-pods4: return · else masquerade
 */
import type { Family } from "../net/address.ts";
import {
  type Chain,
  type Expression,
  FULLY_RANDOM,
  type NftSet,
  type Rule,
  type Verdict,
} from "../netlink/nftables.ts";
import type { BucketCount } from "../plan/vip-plan.ts";

export const TABLE = "belfry";

export const BUCKET_COUNTS: readonly BucketCount[] = [1, 16, 64, 256, 1024];
export const FAMILIES: readonly Family[] = ["IPv4", "IPv6"];

/** The same on every node and in every version: a flow that arrives at another node meets the same bucket. */
const HASH_SEED = 0x62656c66;

/** Buckets of clients outside the cluster are numbered from here, in the same map. */
export const OUTSIDE_BUCKETS = 0x10000;

/** Before kube-proxy's dstnat (-100), and after it, but before its srcnat (100). */
const PRIORITY = { translate: -105, guard: -95, masquerade: 95 } as const;

export type SetKind =
  | "vip"
  | "frontend"
  | "range"
  | "ranged"
  | "inside"
  | "outside"
  | "endpoint"
  | "pass"
  | "node-frontend"
  | "local"
  | "own-pods"
  | "cluster"
  | "echo";

const suffix = (family: Family): "4" | "6" => (family === "IPv4" ? "4" : "6");

/** Name of the set of that kind and family. */
export const setName = (kind: SetKind, family: Family): string => `${kind}${suffix(family)}`;

/** Families whose bridges hand no packet to netfilter; the one set that both families share. */
export const PLAIN_BRIDGE = "plain-bridge";

/** Name of the chain that picks a bucket and an endpoint. */
export const chooseChain = (
  family: Family,
  affinity: "None" | "ClientIP",
  buckets: BucketCount,
  side: "inside" | "outside",
): string =>
  `choose${suffix(family)}-${affinity === "None" ? "flow" : "source"}-${buckets}${side === "outside" ? "-outside" : ""}`;

/** Name of the chain where source ranges are looked up. */
export const rangeChain = (family: Family): string => `range${suffix(family)}`;
/** Name of the chain where clients inside and outside the cluster part. */
export const splitChain = (family: Family): string => `split${suffix(family)}`;

/** How the nft program numbers types of keys; six bits for each part of a concatenation. */
const TYPE = { nfproto: 2, ipv4: 7, ipv6: 8, protocol: 12, port: 13, mark: 19, iif: 20 } as const;
const typeOf = (...parts: readonly number[]): number => parts.reduce((whole, part) => (whole << 6) | part, 0);

export const NFPROTO = { IPv4: 2, IPv6: 10 } as const;
const IPPROTO_TCP = 6;
const IPPROTO_ICMP = { IPv4: 1, IPv6: 58 } as const;
const ECHO_REQUEST = { IPv4: 8, IPv6: 128 } as const;
const RTN_LOCAL = 2;
/** Bits of nf_conntrack_common.h: NF_CT_STATE_BIT. */
const CT_STATE = { invalid: 1, establishedOrRelated: 2 | 4 } as const;

const hexByte = (value: number): string => value.toString(16).padStart(2, "0");
/** A 32-bit value as it lies in a register: host order. */
const hexHost32 = (value: number): string =>
  [value, value >>> 8, value >>> 16, value >>> 24].map((part) => hexByte(part & 0xff)).join("");

const go = (chain: string): Expression => ({ type: "verdict", verdict: { type: "goto", chain } });
const verdict = (type: Exclude<Verdict["type"], "goto" | "jump">): Expression => ({
  type: "verdict",
  verdict: { type },
});
const isFamily = (family: Family): Expression[] => [
  { type: "meta", key: "nfproto", into: 0 },
  { type: "compare", from: 0, op: "eq", value: hexByte(NFPROTO[family]) },
];
const isProtocol = (protocol: number): Expression[] => [
  { type: "meta", key: "l4proto", into: 0 },
  { type: "compare", from: 0, op: "eq", value: hexByte(protocol) },
];

/** The expressions of one family: how many registers an address takes, where it lies in the header. */
function partsOf(family: Family) {
  const length = family === "IPv4" ? 4 : 16;
  const words = length / 4;
  const source = (into: number): Expression => ({
    type: "payload",
    base: "network",
    offset: family === "IPv4" ? 12 : 8,
    length,
    into,
  });
  const destination = (into: number): Expression => ({
    type: "payload",
    base: "network",
    offset: family === "IPv4" ? 16 : 24,
    length,
    into,
  });
  const originalDestination = (into: number): Expression => ({
    type: "ct",
    key: family === "IPv4" ? "ip daddr" : "ip6 daddr",
    direction: "original",
    into,
  });
  const protocol = (into: number): Expression => ({ type: "meta", key: "l4proto", into });
  const port = (offset: 0 | 2, into: number): Expression => ({
    type: "payload",
    base: "transport",
    offset,
    length: 2,
    into,
  });
  return {
    length,
    words,
    source,
    destination,
    /** address . protocol . port of this packet, from register 0 on. */
    frontend: [destination(0), protocol(words), port(2, words + 1)],
    sourcePort: (into: number): Expression => port(0, into),
    originalDestination,
    /** address . protocol . port as the flow's first packet named them. */
    originalFrontend: [
      originalDestination(0),
      protocol(words),
      { type: "ct", key: "proto-dst", direction: "original", into: words + 1 } as Expression,
    ],
    in: (kind: SetKind, invert = false): Expression => ({
      type: "lookup",
      set: setName(kind, family),
      from: 0,
      ...(invert && { invert: true as const }),
    }),
    go: (kind: SetKind): Expression => ({ type: "lookup", set: setName(kind, family), from: 0, into: "verdict" }),
  };
}

const fromThisNode: readonly Expression[] = [
  { type: "fibSourceType", into: 0 },
  { type: "compare", from: 0, op: "eq", value: hexHost32(RTN_LOCAL) },
];

/** Sets and maps of the table, in the order in which they are made. */
export const SETS: readonly NftSet[] = [
  ...FAMILIES.flatMap(setsOf),
  { name: PLAIN_BRIDGE, keyType: TYPE.nfproto, keyLength: 1 },
];

function setsOf(family: Family): NftSet[] {
  const address = family === "IPv4" ? TYPE.ipv4 : TYPE.ipv6;
  const length = family === "IPv4" ? 4 : 16;
  const name = (kind: SetKind): string => setName(kind, family);
  const frontend = { keyType: typeOf(address, TYPE.protocol, TYPE.port), keyLength: length + 8 };
  const toVerdict = { data: { type: "verdict" } } as const;
  return [
    { name: name("vip"), keyType: address, keyLength: length },
    { name: name("frontend"), ...frontend, ...toVerdict },
    {
      name: name("range"),
      keyType: typeOf(address, TYPE.protocol, TYPE.port, address),
      keyLength: 2 * length + 8,
      interval: true,
      fields: [length, 1, 2, length],
    },
    { name: name("ranged"), ...frontend, ...toVerdict },
    { name: name("inside"), ...frontend, ...toVerdict },
    { name: name("outside"), ...frontend, ...toVerdict },
    {
      name: name("endpoint"),
      // The bucket is a number in host order; `mark` is the type that the nft program lists as one.
      keyType: typeOf(address, TYPE.protocol, TYPE.port, TYPE.mark),
      keyLength: length + 12,
      data: { type: typeOf(address, TYPE.port), length: length + 4 },
    },
    { name: name("pass"), ...frontend },
    { name: name("node-frontend"), ...frontend },
    { name: name("local"), keyType: typeOf(address, address), keyLength: 2 * length },
    { name: name("own-pods"), keyType: address, keyLength: length, interval: true },
    { name: name("cluster"), keyType: address, keyLength: length, interval: true },
    { name: name("echo"), keyType: TYPE.iif, keyLength: 4, data: { type: address, length } },
  ];
}

/** Chains of the table, in the order in which they are made. */
export const CHAINS: readonly Chain[] = [
  ...FAMILIES.flatMap((family) =>
    [
      ...chooseShapes().map(({ affinity, buckets, side }) => chooseChain(family, affinity, buckets, side)),
      ...["translate", "split", "inside", "range", "guard", "ours", "masquerade", "local"].map(
        (name) => `${name}${suffix(family)}`,
      ),
    ].map((name) => ({ name })),
  ),
  { name: "nat-prerouting", base: { type: "nat", hook: "prerouting", priority: PRIORITY.translate } },
  { name: "nat-output", base: { type: "nat", hook: "output", priority: PRIORITY.translate } },
  { name: "nat-postrouting", base: { type: "nat", hook: "postrouting", priority: PRIORITY.masquerade } },
  { name: "guard-prerouting", base: { type: "filter", hook: "prerouting", priority: PRIORITY.guard } },
  { name: "guard-output", base: { type: "filter", hook: "output", priority: PRIORITY.guard } },
];

/** Rules of the table; those of one chain in their order. */
export const RULES: readonly Rule[] = [
  ...FAMILIES.flatMap((family) =>
    [...chooseRules(family), ...translateRules(family), ...guardRules(family), ...masqueradeRules(family)].map(
      (rule) =>
        // The family is known here; saying it again lets the nft program show `ip daddr` instead of raw offsets.
        rule.expressions.some((expression) => expression.type === "payload" && expression.base === "network")
          ? { ...rule, expressions: [...isFamily(family), ...rule.expressions] }
          : rule,
    ),
  ),
  ...["nat-prerouting", "nat-output"].flatMap((chain) => byFamily(chain, "translate")),
  ...byFamily("nat-postrouting", "ours"),
  ...["guard-prerouting", "guard-output"].flatMap((chain) =>
    FAMILIES.map((family) => {
      const p = partsOf(family);
      return {
        chain,
        expressions: [...isFamily(family), p.destination(0), p.in("vip"), go(`guard${suffix(family)}`)],
      };
    }),
  ),
];

function byFamily(chain: string, target: string): Rule[] {
  return FAMILIES.map((family) => ({
    chain,
    expressions: [...isFamily(family), go(`${target}${suffix(family)}`)],
  }));
}

function chooseShapes(): {
  affinity: "None" | "ClientIP";
  buckets: BucketCount;
  side: "inside" | "outside";
}[] {
  return (["inside", "outside"] as const).flatMap((side) =>
    (["None", "ClientIP"] as const).flatMap((affinity) =>
      BUCKET_COUNTS.map((buckets) => ({ affinity, buckets, side })),
    ),
  );
}

function chooseRules(family: Family): Rule[] {
  const p = partsOf(family);
  const bucketAt = p.words + 2;
  // The hash reads address and port from registers that follow each other, after the key's.
  const hashAt = 8;
  return chooseShapes().map(({ affinity, buckets, side }) => ({
    chain: chooseChain(family, affinity, buckets, side),
    expressions: [
      ...p.frontend,
      p.source(hashAt),
      ...(affinity === "None" ? [p.sourcePort(hashAt + p.words)] : []),
      {
        type: "hash",
        from: hashAt,
        length: affinity === "None" ? p.length + 4 : p.length,
        modulus: buckets,
        seed: HASH_SEED,
        offset: side === "outside" ? OUTSIDE_BUCKETS : 0,
        into: bucketAt,
      },
      { type: "lookup", set: setName("endpoint", family), from: 0, into: 0 },
      { type: "dnat", family, address: 0, port: p.words },
    ],
  }));
}

function translateRules(family: Family): Rule[] {
  const p = partsOf(family);
  const s = suffix(family);
  const echoRequest: Expression[] = [
    ...isProtocol(IPPROTO_ICMP[family]),
    { type: "payload", base: "transport", offset: 0, length: 1, into: 0 },
    { type: "compare", from: 0, op: "eq", value: hexByte(ECHO_REQUEST[family]) },
    p.destination(0),
    p.in("vip"),
  ];
  return [
    { chain: `translate${s}`, expressions: [...p.frontend, p.go("frontend")] },
    {
      chain: `translate${s}`,
      expressions: [
        ...echoRequest,
        { type: "meta", key: "iif", into: 0 },
        { type: "lookup", set: setName("echo", family), from: 0, into: 0 },
        { type: "dnat", family, address: 0 },
      ],
    },
    { chain: `translate${s}`, expressions: [...echoRequest, { type: "redirect" }] },
    {
      chain: `range${s}`,
      expressions: [...p.frontend, p.source(p.words + 2), p.in("range", true), verdict("drop")],
    },
    { chain: `range${s}`, expressions: [...p.frontend, p.go("ranged")] },
    { chain: `split${s}`, expressions: [...fromThisNode, go(`inside${s}`)] },
    { chain: `split${s}`, expressions: [p.source(0), p.in("cluster"), go(`inside${s}`)] },
    { chain: `split${s}`, expressions: [...p.frontend, p.go("outside")] },
    { chain: `inside${s}`, expressions: [...p.frontend, p.go("inside")] },
  ];
}

function guardRules(family: Family): Rule[] {
  const p = partsOf(family);
  const chain = `guard${suffix(family)}`;
  const state = (bits: number): Expression[] => [
    { type: "ct", key: "state", into: 0 },
    { type: "mask", from: 0, into: 0, mask: hexHost32(bits) },
    { type: "compare", from: 0, op: "neq", value: hexHost32(0) },
  ];
  const neighbourDiscovery: Expression[] = [
    ...isProtocol(IPPROTO_ICMP.IPv6),
    { type: "payload", base: "transport", offset: 0, length: 1, into: 0 },
    { type: "compare", from: 0, op: "gte", value: hexByte(133) },
    { type: "compare", from: 0, op: "lte", value: hexByte(137) },
  ];
  return [
    { chain, expressions: [...state(CT_STATE.establishedOrRelated), verdict("accept")] },
    // A late segment of a live connection is invalid and untranslated: refusing it would reset the connection.
    { chain, expressions: [...state(CT_STATE.invalid), verdict("drop")] },
    // The wire thread answers these from its own socket, before netfilter; here they must draw nothing.
    ...(family === "IPv6" ? [{ chain, expressions: [...neighbourDiscovery, verdict("drop")] }] : []),
    { chain, expressions: [...p.frontend, p.in("pass"), verdict("accept")] },
    { chain, expressions: [...isProtocol(IPPROTO_TCP), { type: "reject", with: "tcp-reset" }] },
    { chain, expressions: [{ type: "reject", with: "port-unreachable" }] },
  ];
}

function masqueradeRules(family: Family): Rule[] {
  const p = partsOf(family);
  const s = suffix(family);
  const masquerade: Expression = { type: "masquerade", flags: FULLY_RANDOM };
  const bridge = `${Array.from("bridge", (letter) => hexByte(letter.charCodeAt(0))).join("")}${"00".repeat(10)}`;
  return [
    { chain: `ours${s}`, expressions: [p.originalDestination(0), p.in("vip"), go(`masquerade${s}`)] },
    { chain: `ours${s}`, expressions: [...p.originalFrontend, p.in("node-frontend"), go(`masquerade${s}`)] },
    { chain: `masquerade${s}`, expressions: [...p.originalFrontend, p.in("pass"), verdict("return")] },
    {
      chain: `masquerade${s}`,
      expressions: [p.destination(0), p.destination(p.words), p.in("local"), go(`local${s}`)],
    },
    { chain: `masquerade${s}`, expressions: [...fromThisNode, verdict("return")] },
    { chain: `masquerade${s}`, expressions: [p.source(0), p.in("own-pods"), verdict("return")] },
    { chain: `masquerade${s}`, expressions: [masquerade] },
    // @local holds each address of an endpoint here twice, so this is: source and destination are the same endpoint.
    { chain: `local${s}`, expressions: [p.source(0), p.destination(p.words), p.in("local"), masquerade] },
    {
      chain: `local${s}`,
      expressions: [
        p.source(0),
        p.in("own-pods"),
        { type: "meta", key: "nfproto", into: 0 },
        { type: "lookup", set: PLAIN_BRIDGE, from: 0 },
        { type: "meta", key: "iifkind", into: 0 },
        { type: "compare", from: 0, op: "eq", value: bridge },
        { type: "meta", key: "oifkind", into: 0 },
        { type: "compare", from: 0, op: "eq", value: bridge },
        masquerade,
      ],
    },
  ];
}

/**
 * nftables objects, expressions and set elements (linux/netfilter/nf_tables.h), encoded and decoded. Pure.
 *
 * Values are canonical: bytes are lower-case hex and defaults are left out, so two expressions mean the same exactly
 * when their JSON is the same. An expression that holds more than we speak decodes to `unknown` and equals nothing.
 */
import { fromHex, toHex } from "../core/bytes.ts";
import {
  type Attributes,
  be32Of,
  decodeAttributes,
  decodeMessage,
  forEachAttribute,
  type Message,
  type MessageWriter,
  NLM_F_APPEND,
  NLM_F_CREATE,
  NLM_F_DUMP,
  NLM_F_REQUEST,
  textOf,
} from "./message.ts";
import {
  type Batch,
  GENERIC_BYTES,
  genericHeader,
  messageType,
  NFNL_SUBSYS_NFTABLES,
  NFPROTO_INET,
} from "./nfnetlink.ts";

export const NFT_MSG = {
  newTable: 0,
  getTable: 1,
  delTable: 2,
  newChain: 3,
  getChain: 4,
  delChain: 5,
  newRule: 6,
  getRule: 7,
  delRule: 8,
  newSet: 9,
  getSet: 10,
  delSet: 11,
  newSetElem: 12,
  getSetElem: 13,
  delSetElem: 14,
  newGen: 15,
  getGen: 16,
} as const;

export const NFT_TABLE_F_OWNER = 2;
export const NFT_TABLE_F_PERSIST = 4;

export type Table = {
  readonly name: string;
  /** NFT_TABLE_F_*. */
  readonly flags: number;
  /** Port id of the netlink socket that owns it; 0 for none. Only in what the kernel tells. */
  readonly owner?: number;
};

export type Hook = "prerouting" | "input" | "forward" | "output" | "postrouting";

/** NF_INET_* in the order of their numbers. */
const HOOKS: readonly Hook[] = ["prerouting", "input", "forward", "output", "postrouting"];

export type Chain = {
  readonly name: string;
  readonly base?: { readonly type: "nat" | "filter"; readonly hook: Hook; readonly priority: number };
};

export type Verdict =
  | { readonly type: "accept" | "drop" | "return" }
  | { readonly type: "goto" | "jump"; readonly chain: string };

const VERDICT_CODES = { drop: 0, accept: 1, jump: -3, goto: -4, return: -5 } as const;

/** A set, or a map when it has data. */
export type NftSet = {
  readonly name: string;
  /** Number of the key's type as the nft program numbers them; six bits per part of a concatenation. Informational. */
  readonly keyType: number;
  /** Bytes of a key; each part of a concatenation is padded to four. */
  readonly keyLength: number;
  /** Intervals instead of single keys. With `fields` each part may be an interval. */
  readonly interval?: boolean;
  /** Bytes of each part before padding: needed for intervals over a concatenation. */
  readonly fields?: readonly number[];
  readonly data?: { readonly type: "verdict" } | { readonly type: number; readonly length: number };
  /** How many elements it holds. Only in what the kernel tells, and only newer ones do (NFTA_SET_COUNT). */
  readonly count?: number;
};

const NFTA_SET_COUNT = 20;
const NFT_SET_INTERVAL = 0x4;
const NFT_SET_MAP = 0x8;
const NFT_SET_CONCAT = 0x80;
const NFT_DATA_VERDICT = 0xffffff00;

export type Element = {
  readonly key: Uint8Array;
  /** Last key of an interval over a concatenation. */
  readonly keyEnd?: Uint8Array;
  /** This key is the first one after an interval (intervals over a single part). */
  readonly intervalEnd?: boolean;
  readonly data?: Uint8Array | Verdict;
};

/** A 32-bit register, 0 to 15. Longer values take those that follow. */
export type Register = number;

/** nft_meta_keys. */
const META_KEYS = { iif: 4, oif: 5, nfproto: 15, l4proto: 16, iifkind: 26, oifkind: 27 } as const;
/** nft_ct_keys. */
const CT_KEYS = { state: 0, "proto-dst": 12, "ip daddr": 20, "ip6 daddr": 22 } as const;
const COMPARISONS = ["eq", "neq", "lt", "lte", "gt", "gte"] as const;

/** NF_NAT_RANGE_PROTO_RANDOM_FULLY. */
export const FULLY_RANDOM = 1 << 4;
/** NF_NAT_RANGE_MAP_IPS and _PROTO_SPECIFIED: the kernel sets them where registers are given. */
const NAT_IMPLIED_FLAGS = 3;

export type Expression =
  | {
      readonly type: "payload";
      readonly base: "network" | "transport";
      readonly offset: number;
      readonly length: number;
      readonly into: Register;
    }
  | { readonly type: "meta"; readonly key: keyof typeof META_KEYS; readonly into: Register }
  | {
      readonly type: "ct";
      readonly key: keyof typeof CT_KEYS;
      readonly direction?: "original" | "reply";
      readonly into: Register;
    }
  /** `fib saddr type`: an RTN_* number in host order. */
  | { readonly type: "fibSourceType"; readonly into: Register }
  | {
      readonly type: "compare";
      readonly from: Register;
      readonly op: (typeof COMPARISONS)[number];
      readonly value: string;
    }
  | { readonly type: "mask"; readonly from: Register; readonly into: Register; readonly mask: string }
  | {
      readonly type: "lookup";
      readonly set: string;
      readonly from: Register;
      readonly into?: Register | "verdict";
      /** Goes on where the set does not hold the key. */
      readonly invert?: true;
    }
  | {
      readonly type: "hash";
      readonly from: Register;
      readonly length: number;
      readonly modulus: number;
      readonly seed: number;
      readonly offset: number;
      readonly into: Register;
    }
  | { readonly type: "verdict"; readonly verdict: Verdict }
  | {
      readonly type: "dnat";
      readonly family: "IPv4" | "IPv6";
      readonly address: Register;
      readonly port?: Register;
    }
  | { readonly type: "masquerade"; readonly flags: number }
  | { readonly type: "redirect" }
  | { readonly type: "reject"; readonly with: "tcp-reset" | "port-unreachable" }
  | { readonly type: "unknown"; readonly name: string };

export type Rule = { readonly chain: string; readonly expressions: readonly Expression[] };

// ---------------------------------------------------------------- requests

/**
 * A dump request of everything of a kind in a table (and, for elements, in a set). Family NFPROTO_UNSPEC asks for tables
 * and chains of every family.
 */
export function putDump(
  writer: MessageWriter,
  sequence: number,
  what: "table" | "chain" | "rule" | "set" | "element",
  table: string,
  set?: string,
  family = NFPROTO_INET,
): void {
  const type = {
    table: NFT_MSG.getTable,
    chain: NFT_MSG.getChain,
    rule: NFT_MSG.getRule,
    set: NFT_MSG.getSet,
    element: NFT_MSG.getSetElem,
  }[what];
  // GETTABLE and GETCHAIN dump every table: the answer is sifted by name.
  const at = writer.beginMessage(messageType(NFNL_SUBSYS_NFTABLES, type), NLM_F_REQUEST | NLM_F_DUMP, sequence);
  writer.raw(genericHeader(family));
  if (what === "rule" || what === "set" || what === "element") writer.text(1, table);
  if (set !== undefined) writer.text(2, set);
  writer.endMessage(at);
}

/**
 * Asks for one element by its key, at the end of what the writer holds. The answer is a NEWSETELEM, or the error ENOENT;
 * the map is not gone through, so it costs the same in a large one.
 */
export function putElementQuery(
  writer: MessageWriter,
  sequence: number,
  table: string,
  set: string,
  key: Uint8Array,
  family = NFPROTO_INET,
): void {
  const type = messageType(NFNL_SUBSYS_NFTABLES, NFT_MSG.getSetElem);
  const at = writer.beginMessage(type, NLM_F_REQUEST, sequence);
  writer.raw(genericHeader(family));
  writer.text(1, table);
  writer.text(2, set);
  const list = writer.begin(3);
  putElement(writer, { key }, false);
  writer.end(list);
  writer.endMessage(at);
}

const begin = (batch: Batch, message: number, flags: number): number =>
  batch.begin(NFNL_SUBSYS_NFTABLES, message, flags, NFPROTO_INET);

/** NFT_MSG_NEWTABLE: creates the table, or claims the one that is there. */
export function putTable(batch: Batch, table: Table): void {
  const at = begin(batch, NFT_MSG.newTable, NLM_F_CREATE);
  batch.writer.text(1, table.name);
  batch.writer.be32(2, table.flags);
  batch.writer.endMessage(at);
}

/** NFT_MSG_DELTABLE, with everything in it. */
export function putTableDelete(batch: Batch, name: string): void {
  const at = begin(batch, NFT_MSG.delTable, 0);
  batch.writer.text(1, name);
  batch.writer.endMessage(at);
}

export function putChain(batch: Batch, table: string, chain: Chain): void {
  const { writer } = batch;
  const at = begin(batch, NFT_MSG.newChain, NLM_F_CREATE);
  writer.text(1, table);
  writer.text(3, chain.name);
  if (chain.base !== undefined) {
    const hook = writer.begin(4);
    writer.be32(1, HOOKS.indexOf(chain.base.hook));
    writer.be32(2, chain.base.priority);
    writer.end(hook);
    writer.be32(5, VERDICT_CODES.accept);
    writer.text(7, chain.base.type);
  }
  writer.endMessage(at);
}

export function putSet(batch: Batch, table: string, set: NftSet, id: number): void {
  const { writer } = batch;
  const at = begin(batch, NFT_MSG.newSet, NLM_F_CREATE);
  writer.text(1, table);
  writer.text(2, set.name);
  writer.be32(3, setFlags(set));
  writer.be32(4, set.keyType);
  writer.be32(5, set.keyLength);
  if (set.data !== undefined) {
    if (set.data.type === "verdict") {
      writer.be32(6, NFT_DATA_VERDICT);
    } else {
      writer.be32(6, set.data.type);
      writer.be32(7, "length" in set.data ? set.data.length : 0);
    }
  }
  if (set.fields !== undefined && set.interval) {
    const description = writer.begin(9);
    const concatenation = writer.begin(2);
    for (const length of set.fields) {
      const field = writer.begin(1);
      writer.be32(1, length);
      writer.end(field);
    }
    writer.end(concatenation);
    writer.end(description);
  }
  writer.be32(10, id);
  writer.endMessage(at);
}

const setFlags = (set: NftSet): number =>
  (set.data === undefined ? 0 : NFT_SET_MAP) |
  (set.interval ? NFT_SET_INTERVAL : 0) |
  (set.interval && set.fields !== undefined ? NFT_SET_CONCAT : 0);

export function putRule(batch: Batch, table: string, rule: Rule): void {
  const { writer } = batch;
  const at = begin(batch, NFT_MSG.newRule, NLM_F_CREATE | NLM_F_APPEND);
  writer.text(1, table);
  writer.text(2, rule.chain);
  const list = writer.begin(4);
  for (const expression of rule.expressions) putExpression(writer, expression);
  writer.end(list);
  writer.endMessage(at);
}

/** Bytes of elements in one message: the attribute that holds them all has a 16-bit length. */
const ELEMENTS_BYTES = 60_000;

/** Adds or deletes elements of one set, in as many messages as they need. An empty list writes nothing. */
export function putElements(
  batch: Batch,
  change: "add" | "delete",
  table: string,
  set: string,
  elements: Iterable<Element>,
): void {
  const { writer } = batch;
  let message = -1;
  let list = -1;
  const close = (): void => {
    if (message < 0) return;
    writer.end(list);
    writer.endMessage(message);
    message = -1;
  };
  for (const element of elements) {
    if (message >= 0 && writer.length - list > ELEMENTS_BYTES) close();
    if (message < 0) {
      message = change === "add" ? begin(batch, NFT_MSG.newSetElem, NLM_F_CREATE) : begin(batch, NFT_MSG.delSetElem, 0);
      writer.text(1, table);
      writer.text(2, set);
      list = writer.begin(3);
    }
    putElement(writer, element, change === "add");
  }
  close();
}

function putElement(writer: MessageWriter, element: Element, withData: boolean): void {
  const at = writer.begin(1);
  putValue(writer, 1, element.key);
  if (element.intervalEnd) writer.be32(3, 1);
  if (withData && element.data !== undefined) {
    if (element.data instanceof Uint8Array) putValue(writer, 2, element.data);
    else {
      const data = writer.begin(2);
      putVerdict(writer, element.data);
      writer.end(data);
    }
  }
  if (element.keyEnd !== undefined) putValue(writer, 10, element.keyEnd);
  writer.end(at);
}

/** nft_data_attributes: a value of bytes. */
function putValue(writer: MessageWriter, type: number, value: Uint8Array): void {
  const at = writer.begin(type);
  writer.attribute(1, value);
  writer.end(at);
}

/** nft_data_attributes: a verdict. */
function putVerdict(writer: MessageWriter, verdict: Verdict): void {
  const at = writer.begin(2);
  writer.be32(1, VERDICT_CODES[verdict.type]);
  if (verdict.type === "goto" || verdict.type === "jump") writer.text(2, verdict.chain);
  writer.end(at);
}

const NFT_REG_VERDICT = 0;
const NFT_REG32_00 = 8;

function putExpression(writer: MessageWriter, expression: Expression): void {
  const at = writer.begin(1);
  writer.text(1, KERNEL_NAMES[expression.type] ?? failUnknown(expression));
  const data = writer.begin(2);
  const register = (type: number, value: Register): void => writer.be32(type, NFT_REG32_00 + value);
  switch (expression.type) {
    case "payload":
      register(1, expression.into);
      writer.be32(2, expression.base === "network" ? 1 : 2);
      writer.be32(3, expression.offset);
      writer.be32(4, expression.length);
      break;
    case "meta":
      register(1, expression.into);
      writer.be32(2, META_KEYS[expression.key]);
      break;
    case "ct":
      register(1, expression.into);
      writer.be32(2, CT_KEYS[expression.key]);
      if (expression.direction !== undefined) writer.u8(3, expression.direction === "original" ? 0 : 1);
      break;
    case "fibSourceType":
      register(1, expression.into);
      writer.be32(2, FIB_RESULT_ADDRTYPE);
      writer.be32(3, FIB_F_SADDR);
      break;
    case "compare":
      register(1, expression.from);
      writer.be32(2, COMPARISONS.indexOf(expression.op));
      putValue(writer, 3, fromHex(expression.value));
      break;
    case "mask": {
      const mask = fromHex(expression.mask);
      register(1, expression.from);
      register(2, expression.into);
      writer.be32(3, mask.length);
      putValue(writer, 4, mask);
      putValue(writer, 5, new Uint8Array(mask.length));
      break;
    }
    case "lookup":
      writer.text(1, expression.set);
      register(2, expression.from);
      if (expression.into === "verdict") writer.be32(3, NFT_REG_VERDICT);
      else if (expression.into !== undefined) register(3, expression.into);
      if (expression.invert) writer.be32(5, 1);
      break;
    case "hash":
      register(1, expression.from);
      register(2, expression.into);
      writer.be32(3, expression.length);
      writer.be32(4, expression.modulus);
      writer.be32(5, expression.seed);
      if (expression.offset !== 0) writer.be32(6, expression.offset);
      writer.be32(7, 0);
      break;
    case "verdict": {
      writer.be32(1, NFT_REG_VERDICT);
      const value = writer.begin(2);
      putVerdict(writer, expression.verdict);
      writer.end(value);
      break;
    }
    case "dnat":
      writer.be32(1, NAT_DNAT);
      writer.be32(2, expression.family === "IPv4" ? 2 : 10);
      register(3, expression.address);
      if (expression.port !== undefined) register(5, expression.port);
      break;
    case "masquerade":
      if (expression.flags !== 0) writer.be32(1, expression.flags);
      break;
    case "redirect":
      break;
    case "reject":
      writer.be32(1, expression.with === "tcp-reset" ? REJECT_TCP_RST : REJECT_ICMPX_UNREACH);
      if (expression.with !== "tcp-reset") writer.u8(2, ICMPX_PORT_UNREACH);
      break;
    case "unknown":
      failUnknown(expression);
  }
  writer.end(data);
  writer.end(at);
}

function failUnknown(expression: Expression): never {
  throw new Error(`an expression that was read and not understood can't be written: ${JSON.stringify(expression)}`);
}

const FIB_RESULT_ADDRTYPE = 3;
const FIB_F_SADDR = 1;
const NAT_DNAT = 1;
const REJECT_TCP_RST = 1;
const REJECT_ICMPX_UNREACH = 2;
const ICMPX_PORT_UNREACH = 1;

const KERNEL_NAMES: Readonly<Record<string, string>> = {
  payload: "payload",
  meta: "meta",
  ct: "ct",
  fibSourceType: "fib",
  compare: "cmp",
  mask: "bitwise",
  lookup: "lookup",
  hash: "hash",
  verdict: "immediate",
  dnat: "nat",
  masquerade: "masq",
  redirect: "redir",
  reject: "reject",
};

// ---------------------------------------------------------------- replies

/** What the kernel tells of nftables: a reply to a dump or a message of the group. Other messages give undefined. */
export type Told =
  | { readonly type: "table"; readonly table: Table }
  | { readonly type: "chain"; readonly table: string; readonly chain: Chain }
  | { readonly type: "set"; readonly table: string; readonly set: NftSet }
  | { readonly type: "rule"; readonly table: string; readonly rule: Rule };

/** Decodes one message about a table, chain, set or rule. Total: anything else gives undefined. */
export function decodeTold(bytes: Uint8Array): Told | undefined {
  const message = decodeMessage(bytes);
  const attributes = message === undefined ? undefined : attributesOf(message);
  if (message === undefined || attributes === undefined) return undefined;
  const name = textOf(attributes.get(1));
  if (name === undefined) return undefined;
  switch (message.type & 0xff) {
    case NFT_MSG.newTable: {
      const owner = be32Of(attributes.get(7)) ?? 0;
      return {
        type: "table",
        table: { name, flags: be32Of(attributes.get(2)) ?? 0, ...(owner !== 0 && { owner }) },
      };
    }
    case NFT_MSG.newChain: {
      const chain = decodeChain(attributes);
      return chain && { type: "chain", table: name, chain };
    }
    case NFT_MSG.newSet: {
      const set = decodeSet(attributes);
      return set && { type: "set", table: name, set };
    }
    case NFT_MSG.newRule: {
      const chain = textOf(attributes.get(2));
      if (chain === undefined) return undefined;
      return { type: "rule", table: name, rule: { chain, expressions: decodeExpressions(attributes.get(4)) } };
    }
    default:
      return undefined;
  }
}

/** The table that a message of the group is about, whatever else it says; undefined for other messages. */
export function tableOf(bytes: Uint8Array): string | undefined {
  const message = decodeMessage(bytes);
  if (message === undefined || message.type >> 8 !== NFNL_SUBSYS_NFTABLES) return undefined;
  // NEWGEN has the generation's number in attribute 1; everything else its table.
  if ((message.type & 0xff) >= NFT_MSG.newGen) return undefined;
  return textOf(attributesOf(message)?.get(1));
}

function attributesOf(message: Message): Attributes | undefined {
  if (message.type >> 8 !== NFNL_SUBSYS_NFTABLES || message.payload.length < GENERIC_BYTES) return undefined;
  return decodeAttributes(message.payload.subarray(GENERIC_BYTES));
}

function decodeChain(attributes: Attributes): Chain | undefined {
  const name = textOf(attributes.get(3));
  if (name === undefined) return undefined;
  const hookBytes = attributes.get(4);
  if (hookBytes === undefined) return { name };
  const hookAttributes = decodeAttributes(hookBytes);
  const hook = HOOKS[be32Of(hookAttributes?.get(1)) ?? -1];
  const priority = be32Of(hookAttributes?.get(2));
  const type = textOf(attributes.get(7));
  // A base chain that drops by policy, or hangs elsewhere, is not one of ours: it equals none that we want.
  const accepts = (be32Of(attributes.get(5)) ?? VERDICT_CODES.accept) === VERDICT_CODES.accept;
  if (hook === undefined || priority === undefined || !accepts || (type !== "nat" && type !== "filter"))
    return { name };
  return { name, base: { type, hook, priority: priority | 0 } };
}

function decodeSet(attributes: Attributes): NftSet | undefined {
  const name = textOf(attributes.get(2));
  const flags = be32Of(attributes.get(3)) ?? 0;
  const keyType = be32Of(attributes.get(4)) ?? 0;
  const keyLength = be32Of(attributes.get(5));
  if (name === undefined || keyLength === undefined) return undefined;
  const fields: number[] = [];
  const concatenation = decodeAttributes(attributes.get(9) ?? new Uint8Array())?.get(2);
  if (concatenation !== undefined) {
    forEachAttribute(concatenation, (_, field) => fields.push(be32Of(decodeAttributes(field)?.get(1)) ?? 0));
  }
  const dataType = be32Of(attributes.get(6)) ?? 0;
  return {
    name,
    keyType,
    keyLength,
    ...((flags & NFT_SET_INTERVAL) !== 0 && { interval: true }),
    ...(fields.length > 0 && { fields }),
    ...((flags & NFT_SET_MAP) !== 0 && {
      data:
        dataType === NFT_DATA_VERDICT
          ? { type: "verdict" as const }
          : { type: dataType, length: be32Of(attributes.get(7)) ?? 0 },
    }),
    ...(attributes.has(NFTA_SET_COUNT) && { count: be32Of(attributes.get(NFTA_SET_COUNT)) ?? 0 }),
  };
}

function decodeExpressions(list: Uint8Array | undefined): Expression[] {
  const expressions: Expression[] = [];
  const whole = forEachAttribute(list ?? new Uint8Array(), (_, bytes) => {
    const attributes = decodeAttributes(bytes);
    const name = textOf(attributes?.get(1)) ?? "?";
    const data = decodeAttributes(attributes?.get(2) ?? new Uint8Array());
    expressions.push((data === undefined ? undefined : decodeExpression(name, data)) ?? { type: "unknown", name });
  });
  return whole ? expressions : [...expressions, { type: "unknown", name: "?" }];
}

/** The expression, or undefined when it holds anything that we don't speak. */
function decodeExpression(name: string, a: Attributes): Expression | undefined {
  const number = (type: number): number | undefined => be32Of(a.get(type));
  const register = (type: number): Register | undefined => registerOf(number(type));
  const only = (...types: number[]): boolean => [...a.keys()].every((type) => types.includes(type));
  switch (name) {
    case "payload": {
      const [into, base, offset, length] = [register(1), number(2), number(3), number(4)];
      if (into === undefined || offset === undefined || length === undefined || !only(1, 2, 3, 4)) return undefined;
      if (base !== 1 && base !== 2) return undefined;
      return { type: "payload", base: base === 1 ? "network" : "transport", offset, length, into };
    }
    case "meta": {
      const [into, key] = [register(1), keyOf(META_KEYS, number(2))];
      return into === undefined || key === undefined || !only(1, 2) ? undefined : { type: "meta", key, into };
    }
    case "ct": {
      const [into, key] = [register(1), keyOf(CT_KEYS, number(2))];
      if (into === undefined || key === undefined || !only(1, 2, 3)) return undefined;
      const direction = a.get(3)?.[0];
      return {
        type: "ct",
        key,
        ...(direction !== undefined && { direction: direction === 0 ? ("original" as const) : ("reply" as const) }),
        into,
      };
    }
    case "fib": {
      const into = register(1);
      if (into === undefined || number(2) !== FIB_RESULT_ADDRTYPE || number(3) !== FIB_F_SADDR) return undefined;
      return { type: "fibSourceType", into };
    }
    case "cmp": {
      const [from, op, value] = [register(1), COMPARISONS[number(2) ?? -1], bytesIn(a.get(3))];
      if (from === undefined || op === undefined || value === undefined) return undefined;
      return { type: "compare", from, op, value: toHex(value) };
    }
    case "bitwise": {
      const [from, into, mask, xor] = [register(1), register(2), bytesIn(a.get(4)), bytesIn(a.get(5))];
      if (from === undefined || into === undefined || mask === undefined || xor === undefined) return undefined;
      if (xor.some((byte) => byte !== 0) || (number(6) ?? 0) !== 0 || !only(1, 2, 3, 4, 5, 6)) return undefined;
      return { type: "mask", from, into, mask: toHex(mask) };
    }
    case "lookup": {
      const [set, from, flags] = [textOf(a.get(1)), register(2), number(5) ?? 0];
      if (set === undefined || from === undefined || flags > 1) return undefined;
      const into = !a.has(3) ? undefined : number(3) === NFT_REG_VERDICT ? ("verdict" as const) : register(3);
      return {
        type: "lookup",
        set,
        from,
        ...(into !== undefined && { into }),
        ...(flags === 1 && { invert: true as const }),
      };
    }
    case "hash": {
      const [from, into, length, modulus, seed] = [register(1), register(2), number(3), number(4), number(5)];
      if (from === undefined || into === undefined || length === undefined) return undefined;
      if (modulus === undefined || seed === undefined || (number(7) ?? 0) !== 0) return undefined;
      return { type: "hash", from, length, modulus, seed, offset: number(6) ?? 0, into };
    }
    case "immediate": {
      if (number(1) !== NFT_REG_VERDICT) return undefined;
      const verdict = verdictOf(decodeAttributes(a.get(2) ?? new Uint8Array())?.get(2));
      return verdict && { type: "verdict", verdict };
    }
    case "nat": {
      const [family, address, port] = [number(2), register(3), register(5)];
      if (number(1) !== NAT_DNAT || address === undefined || ((number(7) ?? 0) & ~NAT_IMPLIED_FLAGS) !== 0) {
        return undefined;
      }
      // The kernel tells the end of a range even where only its start was given.
      if ((register(4) ?? address) !== address || register(6) !== (a.has(6) ? port : undefined)) return undefined;
      return {
        type: "dnat",
        family: family === 10 ? "IPv6" : "IPv4",
        address,
        ...(port !== undefined && { port }),
      };
    }
    case "masq":
      return only(1) ? { type: "masquerade", flags: number(1) ?? 0 } : undefined;
    case "redir":
      return [...a.keys()].length === 0 || (only(3) && number(3) === 0) ? { type: "redirect" } : undefined;
    case "reject": {
      if (number(1) === REJECT_TCP_RST) return { type: "reject", with: "tcp-reset" };
      const portUnreachable = number(1) === REJECT_ICMPX_UNREACH && a.get(2)?.[0] === ICMPX_PORT_UNREACH;
      return portUnreachable ? { type: "reject", with: "port-unreachable" } : undefined;
    }
    default:
      return undefined;
  }
}

function keyOf<K extends string>(keys: Readonly<Record<K, number>>, number: number | undefined): K | undefined {
  for (const key in keys) if (keys[key] === number) return key;
  return undefined;
}

/** The kernel tells a register that begins one of the four old 128-bit ones by the old number. */
function registerOf(number: number | undefined): Register | undefined {
  if (number === undefined || number === NFT_REG_VERDICT || number > NFT_REG32_00 + 15) return undefined;
  if (number >= NFT_REG32_00) return number - NFT_REG32_00;
  return number <= 4 ? (number - 1) * 4 : undefined;
}

/** The bytes of nft_data_attributes, or undefined when they hold a verdict or nothing. */
const bytesIn = (bytes: Uint8Array | undefined): Uint8Array | undefined =>
  bytes === undefined ? undefined : decodeAttributes(bytes)?.get(1);

function verdictOf(bytes: Uint8Array | undefined): Verdict | undefined {
  const attributes = bytes === undefined ? undefined : decodeAttributes(bytes);
  const code = be32Of(attributes?.get(1));
  if (code === undefined) return undefined;
  const type = keyOf(VERDICT_CODES, code | 0);
  if (type === "goto" || type === "jump") {
    const chain = textOf(attributes?.get(2));
    return chain === undefined ? undefined : { type, chain };
  }
  return type && { type };
}

/**
 * Calls `visit` with every element of a reply to an element dump (or of a message of the group). Total; false when
 * the message is something else or holds an element that we could not have written (a timeout, a catch-all).
 */
export function forEachElement(bytes: Uint8Array, visit: (element: Element) => void): boolean {
  const message = decodeMessage(bytes);
  const attributes = message === undefined ? undefined : attributesOf(message);
  if (message === undefined || attributes === undefined) return false;
  const type = message.type & 0xff;
  if (type !== NFT_MSG.newSetElem && type !== NFT_MSG.delSetElem) return false;
  let ours = true;
  const whole = forEachAttribute(attributes.get(3) ?? new Uint8Array(), (_, one) => {
    const element = decodeElement(one);
    if (element === undefined) ours = false;
    else visit(element);
  });
  return whole && ours;
}

function decodeElement(bytes: Uint8Array): Element | undefined {
  const attributes = decodeAttributes(bytes);
  const key = bytesIn(attributes?.get(1));
  const flags = be32Of(attributes?.get(3)) ?? 0;
  if (attributes === undefined || key === undefined || flags > 1) return undefined;
  if (attributes.has(NFTA_SET_ELEM_TIMEOUT) || attributes.has(NFTA_SET_ELEM_OBJREF)) return undefined;
  const dataBytes = attributes.get(2);
  const data = bytesIn(dataBytes) ?? verdictOf(decodeAttributes(dataBytes ?? new Uint8Array())?.get(2));
  const keyEnd = bytesIn(attributes.get(10));
  return {
    key,
    ...(data !== undefined && { data }),
    ...(keyEnd !== undefined && { keyEnd }),
    ...(flags === 1 && { intervalEnd: true }),
  };
}

const NFTA_SET_ELEM_TIMEOUT = 4;
const NFTA_SET_ELEM_OBJREF = 9;

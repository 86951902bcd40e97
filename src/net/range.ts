import type { Problem } from "../core/trouble.ts";
import { type Address, addressOf, bitsOf, type Family, familyOf, numberOf, parseAddress } from "./address.ts";
import { type Prefix, parsePrefix, partsOf } from "./prefix.ts";

/** Consecutive addresses of one family, both ends inside. */
export type Range = { readonly family: Family; readonly first: bigint; readonly last: bigint };

/** What a text came to: a range, or what is wrong with it in words for the person who wrote it. */
export type ParsedRange =
  | { readonly ok: true; readonly range: Range }
  | { readonly ok: false; readonly problem: Problem };

/**
 * The range that an entry of a pool means: a prefix without host bits (`192.0.2.0/24`) or `first-last`, blanks around
 * the dash allowed. Every address in it is unicast and can be given to a host; see `UNASSIGNABLE`.
 * Problems by reason: NotARange, PrefixTooLong, HostBits, MixedFamilies, ReversedRange, NotAssignable.
 */
export function parseRange(text: string): ParsedRange {
  const dash = text.indexOf("-");
  const parsed =
    dash >= 0 ? parseEnds(text, text.slice(0, dash).trim(), text.slice(dash + 1).trim()) : parseBlock(text);
  if (!parsed.ok) return parsed;
  const taboo = unassignablePartOf(parsed.range);
  if (taboo === undefined) return parsed;
  return refuse("NotAssignable", `${text} is not assignable: ${taboo.block} is ${taboo.why}`);
}

/** Addresses that are never a host's own, with the reason: RFC 1122 3.2.1.3, RFC 3927, RFC 5771, RFC 4291 2.4. */
export const UNASSIGNABLE: readonly { readonly block: Prefix; readonly why: string }[] = [
  { block: "0.0.0.0/8" as Prefix, why: "this network" },
  { block: "127.0.0.0/8" as Prefix, why: "loopback" },
  { block: "169.254.0.0/16" as Prefix, why: "link-local" },
  { block: "224.0.0.0/4" as Prefix, why: "multicast" },
  { block: "255.255.255.255/32" as Prefix, why: "broadcast" },
  { block: "::/127" as Prefix, why: "unspecified and loopback" },
  { block: "::ffff:0.0.0.0/96" as Prefix, why: "IPv4 written as IPv6" },
  { block: "fe80::/10" as Prefix, why: "link-local" },
  { block: "ff00::/8" as Prefix, why: "multicast" },
];

/** The first of `UNASSIGNABLE` that shares an address with the range, or `undefined` when every address is a host's. */
export const unassignablePartOf = (range: Range) =>
  UNASSIGNABLE.find(({ block }) => rangesOverlap(rangeOfPrefix(block), range));

/** The range of all addresses in the prefix. */
export function rangeOfPrefix(prefix: Prefix): Range {
  const { family, first, last } = partsOf(prefix);
  return { family, first, last };
}

/** The range that holds this one address. */
export function rangeOfAddress(address: Address): Range {
  const value = numberOf(address);
  return { family: familyOf(address), first: value, last: value };
}

/** `first-last`, or the one address as a prefix of full length: `192.0.2.10/32`. */
export function printRange(range: Range): string {
  return range.first === range.last
    ? `${addressOf(range.first, range.family)}/${bitsOf(range.family)}`
    : printEnds(range);
}

/** Number of addresses in the range. */
export const sizeOfRange = (range: Range): bigint => range.last - range.first + 1n;

/** True when the address lies in the range; one of the other family never does. */
export function rangeHolds(range: Range, address: Address): boolean {
  if (familyOf(address) !== range.family) return false;
  const value = numberOf(address);
  return range.first <= value && value <= range.last;
}

/** True when the ranges share an address. */
export const rangesOverlap = (a: Range, b: Range): boolean =>
  a.family === b.family && a.first <= b.last && b.first <= a.last;

function parseBlock(text: string): ParsedRange {
  const parsed = parsePrefix(text);
  if (parsed.ok) return { ok: true, range: rangeOfPrefix(parsed.prefix) };
  const { refusal } = parsed;
  switch (refusal.type) {
    case "hostBits": {
      const meant = `${refusal.masked} (${printEnds(rangeOfPrefix(refusal.masked))})`;
      return refuse(
        "HostBits",
        `${text} has host bits: it would mean ${meant}; write ${refusal.masked} if you want that`,
      );
    }
    case "lengthTooLong":
      return refuse("PrefixTooLong", `${text} is not a prefix; ${refusal.family} lengths end at ${refusal.most}`);
    case "notAPrefix": {
      const address = parseAddress(text);
      if (address !== undefined) {
        const bits = bitsOf(familyOf(address));
        return refuse("NotARange", `${text} is an address, not a range; write ${text}/${bits} for this one address`);
      }
      const why = whyNoAddress(text.split("/", 1)[0] ?? "");
      return refuse("NotARange", `${text} is neither a prefix nor a range first-last${why}`);
    }
  }
}

function parseEnds(text: string, firstText: string, lastText: string): ParsedRange {
  const [first, last] = [parseAddress(firstText), parseAddress(lastText)];
  if (first === undefined || last === undefined) {
    const wrong = first === undefined ? firstText : lastText;
    return refuse("NotARange", `${text} is not a range: "${wrong}" is not an address${whyNoAddress(wrong)}`);
  }
  const family = familyOf(first);
  if (family !== familyOf(last)) {
    return refuse("MixedFamilies", `${text} has ends of two families; write one range for each`);
  }
  const range = { family, first: numberOf(first), last: numberOf(last) };
  if (range.last < range.first) {
    return refuse("ReversedRange", `${text} ends before it starts; ${last}-${first} would be a range`);
  }
  return { ok: true, range };
}

/** For a text that looks like IPv4: which octet is wrong. Readers outside our code read 010 as octal, so we don't guess. */
function whyNoAddress(text: string): string {
  const octets = text.split(".");
  if (octets.length !== 4) return "";
  const padded = octets.find((octet) => /^0[0-9]+$/.test(octet));
  if (padded !== undefined) return `: ${padded} has a leading zero`;
  const large = octets.find((octet) => /^[0-9]+$/.test(octet) && Number(octet) > 255);
  return large === undefined ? "" : `: ${large} is more than 255`;
}

const printEnds = (range: Range): string =>
  `${addressOf(range.first, range.family)}-${addressOf(range.last, range.family)}`;

const refuse = (reason: string, message: string): ParsedRange => ({ ok: false, problem: { reason, message } });

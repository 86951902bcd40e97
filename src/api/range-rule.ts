import { type Address, addressOf, bitsOf, familyOf, numberOf, parseAddress } from "../net/address.ts";
import { type Prefix, parsePrefix, partsOf } from "../net/prefix.ts";
import { type Range, rangeOfAddress, rangeOfPrefix, rangesOverlap, UNASSIGNABLE } from "../net/range.ts";
import { type Rule, rule } from "./rule.ts";

/** Two addresses around one dash. */
const IS_ENDS = "(self.split('-').size() == 2 && self.split('-').all(end, isIP(end.trim())))";

/** CEL's `isIP` and `isCIDR` read no IPv4-mapped address, so this block can't come up there. */
const TABOO = UNASSIGNABLE.map(({ block }) => block).filter((block) => !block.startsWith("::ffff:"));

/** Of two prefixes that meet, one holds the other: this is the half that the prefix's own first address does not tell. */
const HOLDS_NO_TABOO = TABOO.map((block) => `!cidr(self).containsCIDR('${block}')`).join(" && ");

const MASKED = "string(cidr(self).masked())";

/** The first and the last address of an IPv4 prefix as eight numbers, octet by octet: CEL can't print the last address. */
const V4_ENDS = (() => {
  const octets = [0, 1, 2, 3].map((i) => {
    /** 2 to the number of bits of this octet that the prefix leaves open, 0 to 8. */
    const step = `[1, 2, 4, 8, 16, 32, 64, 128, 256][[0, [8, ${8 * (i + 1)} - cidr(self).prefixLength()].min()].max()]`;
    const first = `int(self.split('/')[0].split('.')[${i}]) / ${step} * ${step}`;
    return { first, last: `${first} + ${step} - 1` };
  });
  return [...octets.map(({ first }) => first), ...octets.map(({ last }) => last)].join(", ");
})();

/** The IPv4 address at one end of the dash as a number. */
const numberAt = (end: 0 | 1): string =>
  [16777216, 65536, 256, 1]
    .map((times, i) => `int(self.split('-')[${end}].trim().split('.')[${i}]) * ${times}`)
    .join(" + ");

const NOT_A_RANGE =
  " is neither a prefix nor a range first-last of addresses (leading zeros and IPv4 written as IPv6 are not read)";
const MIXED = " has ends of two families; write one range for each";
const NOT_ASSIGNABLE =
  " is not assignable: it has addresses that no host can have (this network, loopback, link-local, multicast, broadcast)";

/**
 * What an API server can say of an entry of a pool (`192.0.2.0/24`, `192.0.2.1-192.0.2.9`). CEL reads addresses and
 * prefixes but can neither compare IPv6 addresses nor count with them: `parseRange` knows the rest and a condition says it.
 */
export const rangeRules = (at: string): Rule[] => [
  rule<string>({
    at,
    cel: `isCIDR(self) || ${IS_ENDS}`,
    message: "must be a prefix (192.0.2.0/24) or a range first-last (192.0.2.1-192.0.2.9)",
    messageExpression:
      "isIP(self) ? self + ' is an address, not a range; write ' + self + (ip(self).family() == 4 ? '/32' : '/128') + " +
      `' for this one address' : self + '${NOT_A_RANGE}'`,
    twin: (self) => {
      if (readPrefix(self) !== undefined || readEnds(self) !== undefined) return undefined;
      const address = readAddress(self);
      if (address === undefined) return `${self}${NOT_A_RANGE}`;
      const whole = `${self}/${bitsOf(familyOf(address))}`;
      return `${self} is an address, not a range; write ${whole} for this one address`;
    },
  }),
  rule<string>({
    at,
    cel: "!isCIDR(self) || cidr(self) == cidr(self).masked()",
    message: "a prefix must have no host bits",
    // `format` and not `+`: the cost of joining texts of unknown length can't be estimated.
    messageExpression:
      `self.contains(':') ? '%s has host bits: it would mean %s; write %s if you want that'.format([self, ${MASKED}, ${MASKED}]) : ` +
      "'%s has host bits: it would mean %s (%d.%d.%d.%d-%d.%d.%d.%d); write %s if you want that'" +
      `.format([self, ${MASKED}, ${V4_ENDS}, ${MASKED}])`,
    twin: (self) => {
      const read = readPrefix(self);
      if (read === undefined || read.ok) return undefined;
      const { masked } = read;
      const { family, first, last } = partsOf(masked);
      const ends = family === "IPv4" ? ` (${addressOf(first, family)}-${addressOf(last, family)})` : "";
      return `${self} has host bits: it would mean ${masked}${ends}; write ${masked} if you want that`;
    },
  }),
  rule<string>({
    at,
    cel: `!${IS_ENDS} || ip(self.split('-')[0].trim()).family() == ip(self.split('-')[1].trim()).family()`,
    message: "a range must have two ends of one family",
    messageExpression: `self + '${MIXED}'`,
    twin: (self) => {
      const ends = readEnds(self);
      return ends === undefined || familyOf(ends[0]) === familyOf(ends[1]) ? undefined : `${self}${MIXED}`;
    },
  }),
  rule<string>({
    at,
    cel: `!${IS_ENDS} || self.contains(':') || ${numberAt(0)} <= ${numberAt(1)}`,
    message: "a range must not end before it starts",
    messageExpression:
      "self + ' ends before it starts; ' + self.split('-')[1].trim() + '-' + self.split('-')[0].trim() + ' would be a range'",
    twin: (self) => {
      const ends = readEnds(self);
      if (ends === undefined || self.includes(":") || numberOf(ends[0]) <= numberOf(ends[1])) return undefined;
      return `${self} ends before it starts; ${ends[1]}-${ends[0]} would be a range`;
    },
  }),
  rule<string>({
    at,
    cel:
      `(!isCIDR(self) || (cidr(self).masked().ip().isGlobalUnicast() && !self.startsWith('0.') && ${HOLDS_NO_TABOO})) && ` +
      `(!${IS_ENDS} || self.split('-').all(end, ip(end.trim()).isGlobalUnicast() && !end.trim().startsWith('0.')))`,
    message: "must hold only addresses that a host can have",
    messageExpression: `self + '${NOT_ASSIGNABLE}'`,
    twin: (self) => {
      const isTaboo = (range: Range) => TABOO.some((block) => rangesOverlap(rangeOfPrefix(block), range));
      const prefix = readPrefix(self);
      const block = prefix === undefined || prefix.ok ? prefix?.prefix : prefix.masked;
      const ranges = block === undefined ? (readEnds(self) ?? []).map(rangeOfAddress) : [rangeOfPrefix(block)];
      return ranges.some(isTaboo) ? `${self}${NOT_ASSIGNABLE}` : undefined;
    },
  }),
];

/** What CEL's `isCIDR` takes: a prefix, or an address with a length whose host bits are `masked` off. */
function readPrefix(text: string): { ok: true; prefix: Prefix } | { ok: false; masked: Prefix } | undefined {
  if (readAddress(text.split("/", 1)[0] ?? "") === undefined) return undefined;
  const parsed = parsePrefix(text);
  if (parsed.ok) return parsed;
  return parsed.refusal.type === "hostBits" ? { ok: false, masked: parsed.refusal.masked } : undefined;
}

/** What CEL's `isIP` takes: any address but an IPv4 one written as IPv6. */
function readAddress(text: string): Address | undefined {
  const address = parseAddress(text);
  return address?.startsWith("::ffff:") && address.includes(".") ? undefined : address;
}

function readEnds(text: string): [Address, Address] | undefined {
  const [first, last, ...more] = text.split("-").map((end) => readAddress(end.trim()));
  return first === undefined || last === undefined || more.length > 0 ? undefined : [first, last];
}

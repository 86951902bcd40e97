import { type Address, addressOf, bitsOf, type Family, familyOf, numberOf, parseAddress } from "./address.ts";

/** A prefix in canonical text without host bits, such as `192.0.2.0/24` or `2001:db8::/32`. */
export type Prefix = string & { readonly __prefix: never };

/** Why a text is not a prefix. `hostBits` carries the prefix that it would mean with them masked off. */
export type PrefixRefusal =
  | { readonly type: "notAPrefix" }
  | { readonly type: "lengthTooLong"; readonly family: Family; readonly most: number }
  | { readonly type: "hostBits"; readonly masked: Prefix };

/** The prefix that the text means, or why it means none. */
export function parsePrefix(text: string): { ok: true; prefix: Prefix } | { ok: false; refusal: PrefixRefusal } {
  const slash = text.indexOf("/");
  const address = parseAddress(text.slice(0, Math.max(slash, 0)));
  const lengthText = text.slice(slash + 1);
  if (slash < 0 || address === undefined || !/^(0|[1-9][0-9]{0,2})$/.test(lengthText)) {
    return { ok: false, refusal: { type: "notAPrefix" } };
  }
  const family = familyOf(address);
  const length = Number(lengthText);
  if (length > bitsOf(family)) {
    return { ok: false, refusal: { type: "lengthTooLong", family, most: bitsOf(family) } };
  }
  const masked = prefixOf(address, length);
  return masked.startsWith(`${address}/`)
    ? { ok: true, prefix: masked }
    : { ok: false, refusal: { type: "hostBits", masked } };
}

/** The prefix of that length which holds the address. */
export function prefixOf(address: Address, length: number): Prefix {
  const hostBits = BigInt(bitsOf(familyOf(address)) - length);
  return `${addressOf((numberOf(address) >> hostBits) << hostBits, familyOf(address))}/${length}` as Prefix;
}

/** First address, last address (both inside), family and length in bits of a prefix. */
export function partsOf(prefix: Prefix): { first: bigint; last: bigint; family: Family; length: number } {
  const slash = prefix.indexOf("/");
  const address = prefix.slice(0, slash) as Address;
  const family = familyOf(address);
  const length = Number(prefix.slice(slash + 1));
  const first = numberOf(address);
  return { first, last: first | ((1n << BigInt(bitsOf(family) - length)) - 1n), family, length };
}

/** True when the address lies in the prefix. An address of the other family never does. */
export function prefixHolds(prefix: Prefix, address: Address): boolean {
  const { first, last, family } = partsOf(prefix);
  if (familyOf(address) !== family) return false;
  const value = numberOf(address);
  return first <= value && value <= last;
}

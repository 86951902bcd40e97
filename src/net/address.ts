/** IPv4 or IPv6, as Kubernetes numbers them in text: `IPv4`, `IPv6`. */
export type Family = "IPv4" | "IPv6";

/**
 * A unicast or other IP address in canonical text: dotted decimal without leading zeros, or RFC 5952.
 * Two addresses are equal exactly when their texts are, so `===`, `Map` keys and JSON just work.
 */
export type Address = string & { readonly __address: never };

/** The family of a canonical address. */
export const familyOf = (address: Address): Family => (address.includes(":") ? "IPv6" : "IPv4");

/** Bits in an address of the family: 32 or 128. */
export const bitsOf = (family: Family): 32 | 128 => (family === "IPv4" ? 32 : 128);

/**
 * The address that the text means, canonical, or `undefined`. Strict: four decimal octets without leading zeros,
 * or any RFC 4291 form without zone. An IPv4-mapped address stays IPv6 here.
 */
export function parseAddress(text: string): Address | undefined {
  const value = text.includes(":") ? parseV6(text) : parseV4(text);
  return value === undefined ? undefined : addressOf(value, text.includes(":") ? "IPv6" : "IPv4");
}

/** The address whose bits, read as one unsigned number, are `value`. */
export function addressOf(value: bigint, family: Family): Address {
  return (family === "IPv4" ? printV4(Number(value)) : printV6(value)) as Address;
}

/** The bits of the address as one unsigned number. */
export function numberOf(address: Address): bigint {
  const value = familyOf(address) === "IPv6" ? parseV6(address) : parseV4(address);
  if (value === undefined) throw new Error(`not an address: ${address}`);
  return value;
}

/** The 4 or 16 bytes of the address in network order. */
export function bytesOf(address: Address): Uint8Array {
  if (familyOf(address) === "IPv4") return bytesOfV4(address);
  const length = 16;
  const bytes = new Uint8Array(length);
  let rest = numberOf(address);
  for (let i = length - 1; i >= 0; i--) {
    bytes[i] = Number(rest & 0xffn);
    rest >>= 8n;
  }
  return bytes;
}

/** Each octet straight into its byte: thousands of VIPs are written at once. */
function bytesOfV4(address: Address): Uint8Array {
  const bytes = new Uint8Array(4);
  let [octet, place] = [0, 0];
  for (let i = 0; i < address.length; i++) {
    const digit = address.charCodeAt(i) - 48;
    if (digit >= 0) {
      octet = octet * 10 + digit;
      continue;
    }
    bytes[place++] = octet;
    octet = 0;
  }
  bytes[place] = octet;
  return bytes;
}

/** The address in 4 or 16 bytes of network order; throws on any other length. */
export function addressFromBytes(bytes: Uint8Array): Address {
  if (bytes.length !== 4 && bytes.length !== 16) throw new Error(`an address has 4 or 16 bytes, not ${bytes.length}`);
  let value = 0n;
  for (const byte of bytes) value = (value << 8n) | BigInt(byte);
  return addressOf(value, bytes.length === 4 ? "IPv4" : "IPv6");
}

/** Orders IPv4 before IPv6, then by number. */
export function compareAddresses(a: Address, b: Address): number {
  const [left, right] = [familyOf(a), familyOf(b)];
  if (left !== right) return left === "IPv4" ? -1 : 1;
  const [x, y] = [numberOf(a), numberOf(b)];
  return x < y ? -1 : x > y ? 1 : 0;
}

function parseV4(text: string): bigint | undefined {
  const octets = text.split(".");
  if (octets.length !== 4) return undefined;
  let value = 0;
  for (const octet of octets) {
    if (!/^(0|[1-9][0-9]{0,2})$/.test(octet) || Number(octet) > 255) return undefined;
    value = value * 256 + Number(octet);
  }
  return BigInt(value);
}

function parseV6(text: string): bigint | undefined {
  const halves = text.split("::");
  if (halves.length > 2) return undefined;
  const head = groupsOf(halves[0] ?? "", halves.length === 1);
  const tail = halves.length === 2 ? groupsOf(halves[1] ?? "", true) : [];
  if (head === undefined || tail === undefined) return undefined;
  const missing = 8 - head.length - tail.length;
  if (halves.length === 2 ? missing < 1 : missing !== 0) return undefined;
  let value = 0n;
  for (const group of [...head, ...Array<number>(missing).fill(0), ...tail]) value = (value << 16n) | BigInt(group);
  return value;
}

/** The 16-bit groups of one side of `::`; only the end of the text may hold a dotted IPv4 part (RFC 4291 2.2). */
function groupsOf(side: string, mayEndInV4: boolean): number[] | undefined {
  if (side === "") return [];
  const groups: number[] = [];
  const parts = side.split(":");
  for (const [i, part] of parts.entries()) {
    if (part.includes(".") && mayEndInV4 && i === parts.length - 1) {
      const v4 = parseV4(part);
      if (v4 === undefined) return undefined;
      groups.push(Number(v4 >> 16n), Number(v4 & 0xffffn));
    } else {
      if (!/^[0-9a-fA-F]{1,4}$/.test(part)) return undefined;
      groups.push(Number.parseInt(part, 16));
    }
  }
  return groups;
}

const printV4 = (value: number): string =>
  `${Math.floor(value / 2 ** 24) % 256}.${Math.floor(value / 2 ** 16) % 256}.${Math.floor(value / 256) % 256}.${value % 256}`;

/** RFC 5952: lower case, the longest run of two or more zero groups (the first, if equal) becomes `::`. */
function printV6(value: bigint): string {
  const groups = Array.from({ length: 8 }, (_, i) => Number((value >> BigInt(112 - 16 * i)) & 0xffffn));
  // RFC 5952 section 5: the one prefix that is recognisable by itself, ::ffff:0:0/96, shows its IPv4 part dotted.
  if (value >> 32n === 0xffffn) return `::ffff:${printV4(Number(value & 0xffffffffn))}`;
  let best = { start: -1, length: 1 };
  for (let i = 0; i < 8; i++) {
    let length = 0;
    while (i + length < 8 && groups[i + length] === 0) length++;
    if (length > best.length) best = { start: i, length };
  }
  const hex = groups.map((group) => group.toString(16));
  if (best.start < 0) return hex.join(":");
  return `${hex.slice(0, best.start).join(":")}::${hex.slice(best.start + best.length).join(":")}`;
}

/**
 * Netlink messages and attributes (linux/netlink.h): written straight into one growing array, read by a total decoder.
 * Headers are in host order (little-endian on x64 and arm64); the order inside attributes is each family's own.
 */

export const NLM_F_REQUEST = 0x1;
export const NLM_F_ACK = 0x4;
export const NLM_F_DUMP = 0x300;
export const NLM_F_REPLACE = 0x100;
export const NLM_F_EXCL = 0x200;
export const NLM_F_CREATE = 0x400;
export const NLM_F_APPEND = 0x800;
/** In a reply of a dump: something changed while it was made, so it may be inconsistent. */
export const NLM_F_DUMP_INTR = 0x10;
/** In an NLMSG_ERROR: the original message was cut to its header. */
export const NLM_F_CAPPED = 0x100;
/** In an NLMSG_ERROR: attributes follow. */
export const NLM_F_ACK_TLVS = 0x200;

export const NLMSG_ERROR = 2;
export const NLMSG_DONE = 3;

export const HEADER_BYTES = 16;
const NLA_F_NESTED = 0x8000;
const NLA_TYPE_MASK = 0x3fff;

const encoder = new TextEncoder();
const decoder = new TextDecoder();

const pad4 = (length: number): number => (length + 3) & ~3;

/** Writes messages one after another. `beginMessage` and `begin` give the place that `end…` closes. */
export class MessageWriter {
  #bytes: Uint8Array<ArrayBuffer>;
  #view: DataView<ArrayBuffer>;
  #length = 0;

  constructor(capacity = 4096) {
    this.#bytes = new Uint8Array(capacity);
    this.#view = new DataView(this.#bytes.buffer);
  }

  get length(): number {
    return this.#length;
  }

  /** What was written, without a copy: valid until the next write. */
  bytes(): Uint8Array {
    return this.#bytes.subarray(0, this.#length);
  }

  /** Forgets what was written. Memory beyond `keep` bytes goes back at once; V8 alone would hold it for long. */
  clear(keep = 256 * 1024): void {
    if (this.#bytes.length > keep) {
      this.#resize(keep, 0);
    } else {
      this.#bytes.fill(0, 0, this.#length);
    }
    this.#length = 0;
  }

  /** Opens a message: its length is filled in by `endMessage`. The port id stays 0 (the kernel knows ours). */
  beginMessage(type: number, flags: number, sequence: number): number {
    const at = this.#reserve(HEADER_BYTES);
    this.#view.setUint16(at + 4, type, true);
    this.#view.setUint16(at + 6, flags, true);
    this.#view.setUint32(at + 8, sequence, true);
    return at;
  }

  endMessage(at: number): void {
    this.#view.setUint32(at, this.#length - at, true);
    this.#reserve(pad4(this.#length) - this.#length);
  }

  /** Adds flags to a message that was written before. */
  addFlags(at: number, flags: number): void {
    this.#view.setUint16(at + 6, this.#view.getUint16(at + 6, true) | flags, true);
  }

  /** Opens an attribute that holds attributes. */
  begin(type: number): number {
    const at = this.#reserve(4);
    this.#view.setUint16(at + 2, type | NLA_F_NESTED, true);
    return at;
  }

  /** Closes an attribute. Its length is 16 bits: a longer one is a bug of the caller. */
  end(at: number): void {
    const length = this.#length - at;
    if (length > 0xffff) throw new Error(`a netlink attribute of ${length} bytes; 65535 are the most`);
    this.#view.setUint16(at, length, true);
    this.#reserve(pad4(this.#length) - this.#length);
  }

  /** An attribute with these bytes. */
  attribute(type: number, value: Uint8Array): void {
    const at = this.#header(type, value.length);
    this.#bytes.set(value, at);
  }

  u8(type: number, value: number): void {
    const at = this.#header(type, 1);
    this.#view.setUint8(at, value);
  }

  /** 16 bits in network order. */
  be16(type: number, value: number): void {
    const at = this.#header(type, 2);
    this.#view.setUint16(at, value, false);
  }

  /** 32 bits in network order. */
  be32(type: number, value: number): void {
    const at = this.#header(type, 4);
    this.#view.setUint32(at, value >>> 0, false);
  }

  /** 32 bits in host order. */
  u32(type: number, value: number): void {
    const at = this.#header(type, 4);
    this.#view.setUint32(at, value >>> 0, true);
  }

  /** 64 bits in network order. */
  be64(type: number, value: bigint): void {
    const at = this.#header(type, 8);
    this.#view.setBigUint64(at, value, false);
  }

  /** Text with the terminating zero. */
  text(type: number, value: string): void {
    this.attribute(type, encoder.encode(`${value}\0`));
  }

  /** Bytes as they are: the fixed header after the netlink one. */
  raw(value: Uint8Array): void {
    const at = this.#reserve(value.length);
    this.#bytes.set(value, at);
  }

  /** Room for an attribute: gives where its value goes. May replace the array, so it comes before any use of it. */
  #header(type: number, length: number): number {
    const at = this.#reserve(pad4(4 + length));
    this.#view.setUint16(at, 4 + length, true);
    this.#view.setUint16(at + 2, type, true);
    return at + 4;
  }

  /** Place of so many zero bytes at the end. */
  #reserve(count: number): number {
    const at = this.#length;
    if (at + count > this.#bytes.length) this.#resize(Math.max(this.#bytes.length * 2, at + count), at);
    this.#length = at + count;
    return at;
  }

  /** Another size, with the first bytes kept; what is new is zero. The old memory is free from here on. */
  #resize(capacity: number, kept: number): void {
    const { buffer } = this.#bytes;
    const moved = kept === 0 ? new ArrayBuffer(capacity) : buffer.transfer(capacity);
    if (kept === 0) buffer.transfer(0);
    this.#bytes = new Uint8Array(moved);
    this.#view = new DataView(moved);
  }
}

/** A netlink message without the meaning of its payload. */
export type Message = {
  readonly type: number;
  readonly flags: number;
  readonly sequence: number;
  readonly portId: number;
  readonly payload: Uint8Array;
};

const viewOf = (bytes: Uint8Array): DataView => new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);

/** The message that begins the bytes, or undefined when they hold no whole one. */
export function decodeMessage(bytes: Uint8Array): Message | undefined {
  if (bytes.length < HEADER_BYTES) return undefined;
  const view = viewOf(bytes);
  const length = view.getUint32(0, true);
  if (length < HEADER_BYTES || length > bytes.length) return undefined;
  return {
    type: view.getUint16(4, true),
    flags: view.getUint16(6, true),
    sequence: view.getUint32(8, true),
    portId: view.getUint32(12, true),
    payload: bytes.subarray(HEADER_BYTES, length),
  };
}

/** All whole messages in the bytes of one datagram; what follows the last whole one is ignored. */
export function decodeMessages(bytes: Uint8Array): Message[] {
  const messages: Message[] = [];
  for (let at = 0; at < bytes.length; ) {
    const message = decodeMessage(bytes.subarray(at));
    if (message === undefined) break;
    messages.push(message);
    at += pad4(HEADER_BYTES + message.payload.length);
  }
  return messages;
}

/**
 * Calls `visit` with type and value of each attribute. False when the bytes are not a list of attributes; what came
 * before the fault was visited. The flag bits of the type are taken off.
 */
export function forEachAttribute(bytes: Uint8Array, visit: (type: number, value: Uint8Array) => void): boolean {
  let at = 0;
  while (at + 4 <= bytes.length) {
    const length = (bytes[at] ?? 0) | ((bytes[at + 1] ?? 0) << 8);
    if (length < 4 || at + length > bytes.length) return false;
    visit(((bytes[at + 2] ?? 0) | ((bytes[at + 3] ?? 0) << 8)) & NLA_TYPE_MASK, bytes.subarray(at + 4, at + length));
    at += pad4(length);
  }
  // The last attribute may come without its padding.
  return at >= bytes.length;
}

/** Attributes by type; of equal types the last counts. */
export type Attributes = ReadonlyMap<number, Uint8Array>;

/** The attributes in the bytes, or undefined when they are not a list of attributes. */
export function decodeAttributes(bytes: Uint8Array): Attributes | undefined {
  const attributes = new Map<number, Uint8Array>();
  return forEachAttribute(bytes, (type, value) => attributes.set(type, value)) ? attributes : undefined;
}

/** 32 bits in network order, or undefined when there are not exactly four bytes. */
export const be32Of = (value: Uint8Array | undefined): number | undefined =>
  value?.length === 4 ? viewOf(value).getUint32(0, false) : undefined;

/** 16 bits in network order, or undefined when there are not exactly two bytes. */
export const be16Of = (value: Uint8Array | undefined): number | undefined =>
  value?.length === 2 ? viewOf(value).getUint16(0, false) : undefined;

/** 32 bits in host order, or undefined when there are not exactly four bytes. */
export const u32Of = (value: Uint8Array | undefined): number | undefined =>
  value?.length === 4 ? viewOf(value).getUint32(0, true) : undefined;

/** Text up to the terminating zero, if there is one. */
export function textOf(value: Uint8Array | undefined): string | undefined {
  if (value === undefined) return undefined;
  const zero = value.indexOf(0);
  return decoder.decode(zero < 0 ? value : value.subarray(0, zero));
}

/** What an NLMSG_ERROR says. `errno` is 0 for an acknowledgement; `text` is the kernel's own explanation, if it gave one. */
export type Acknowledgement = {
  readonly sequence: number;
  readonly errno: number;
  readonly text: string | undefined;
};

const NLMSGERR_ATTR_MSG = 1;

/** The NLMSG_ERROR, or undefined when the message is another one or too short. */
export function decodeAcknowledgement(message: Message): Acknowledgement | undefined {
  if (message.type !== NLMSG_ERROR || message.payload.length < 4 + HEADER_BYTES) return undefined;
  const view = viewOf(message.payload);
  const errno = -view.getInt32(0, true);
  const originalLength = view.getUint32(4, true);
  let text: string | undefined;
  if ((message.flags & NLM_F_ACK_TLVS) !== 0) {
    const at = (message.flags & NLM_F_CAPPED) !== 0 ? 4 + HEADER_BYTES : 4 + pad4(originalLength);
    if (at <= message.payload.length) {
      text = textOf(decodeAttributes(message.payload.subarray(at))?.get(NLMSGERR_ATTR_MSG));
    }
  }
  return { sequence: message.sequence, errno, text };
}

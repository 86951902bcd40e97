/** nfnetlink (linux/netfilter/nfnetlink.h): message types of subsystems, and batches that are applied whole or not at all. */
import type { Fault } from "../core/trouble.ts";
import {
  decodeAcknowledgement,
  decodeMessage,
  type Message,
  type MessageWriter,
  NLM_F_ACK,
  NLM_F_REQUEST,
  NLMSG_DONE,
} from "./message.ts";

export const NFNL_SUBSYS_CTNETLINK = 1;
export const NFNL_SUBSYS_NFTABLES = 10;
/** Multicast group that tells every change of nftables. */
export const NFNLGRP_NFTABLES = 7;

export const NFPROTO_UNSPEC = 0;
export const NFPROTO_INET = 1;
export const NFPROTO_IPV4 = 2;
export const NFPROTO_IPV6 = 10;

const NFNL_MSG_BATCH_BEGIN = 0x10;
const NFNL_MSG_BATCH_END = 0x11;

/** Bytes of struct nfgenmsg. */
export const GENERIC_BYTES = 4;

/** nlmsg_type of a subsystem's message. */
export const messageType = (subsystem: number, message: number): number => (subsystem << 8) | message;

/** struct nfgenmsg: family, version 0, resource id in network order. */
export const genericHeader = (family: number, resource = 0): Uint8Array =>
  Uint8Array.of(family, 0, resource >> 8, resource & 0xff);

/**
 * A batch under construction: every message between its begin and its end is one transaction. The last message asks
 * for the acknowledgement of the whole.
 */
export type Batch = {
  /** Opens a message of the batch and gives its place; close it with `writer.endMessage`. */
  begin(subsystem: number, message: number, flags: number, family: number): number;
  /** Closes the batch; gives the sequence numbers that its replies carry. */
  end(): { first: number; last: number };
  readonly writer: MessageWriter;
  /** Messages so far, begin and end not counted. */
  readonly count: () => number;
};

/** Begins a batch for the subsystem at the end of what the writer holds; its messages are numbered from `sequence`. */
export function beginBatch(writer: MessageWriter, subsystem: number, sequence: number): Batch {
  let next = sequence;
  let lastAt = -1;
  let count = 0;
  const marker = (type: number): void => {
    const at = writer.beginMessage(type, NLM_F_REQUEST, next++);
    writer.raw(genericHeader(NFPROTO_UNSPEC, subsystem));
    writer.endMessage(at);
  };
  marker(NFNL_MSG_BATCH_BEGIN);
  return {
    writer,
    count: () => count,
    begin(messageSubsystem, message, flags, family) {
      lastAt = writer.beginMessage(messageType(messageSubsystem, message), NLM_F_REQUEST | flags, next++);
      writer.raw(genericHeader(family));
      count++;
      return lastAt;
    },
    end() {
      if (lastAt < 0) throw new Error("an empty batch is not worth a transaction");
      writer.addFlags(lastAt, NLM_F_ACK);
      const last = next - 1;
      marker(NFNL_MSG_BATCH_END);
      return { first: sequence, last };
    },
  };
}

/** True when this reply is the last one to a batch: the last message's acknowledgement, or the refusal of the whole. */
export function endsBatch(bytes: Uint8Array, sequences: { first: number; last: number }): boolean {
  const message = decodeMessage(bytes);
  const acknowledgement = message === undefined ? undefined : decodeAcknowledgement(message);
  if (acknowledgement === undefined) return false;
  // The begin's own number carries what befell the batch as a whole: no permission, no memory, a failed commit.
  return (
    acknowledgement.sequence === sequences.last ||
    (acknowledgement.sequence === sequences.first && acknowledgement.errno !== 0)
  );
}

/** One message of a batch that the kernel refused. */
export type Refusal = { readonly sequence: number; readonly errno: number; readonly text: string | undefined };

/** Every refusal among the replies to a batch; empty when it was applied. */
export function refusalsOf(replies: readonly Uint8Array[]): Refusal[] {
  const refusals: Refusal[] = [];
  for (const reply of replies) {
    const message = decodeMessage(reply);
    const acknowledgement = message === undefined ? undefined : decodeAcknowledgement(message);
    if (acknowledgement !== undefined && acknowledgement.errno !== 0) refusals.push(acknowledgement);
  }
  return refusals;
}

/** True when this reply is the last one to a dump. */
export function endsDump(bytes: Uint8Array): boolean {
  const message = decodeMessage(bytes);
  if (message === undefined) return false;
  if (message.type === NLMSG_DONE) return true;
  const acknowledgement = decodeAcknowledgement(message);
  return acknowledgement !== undefined;
}

/** The first error among the replies to a dump or a single request; 0 for none. NLMSG_DONE carries one, too. */
export function errnoOf(replies: readonly Uint8Array[]): number {
  for (const reply of replies) {
    const message = decodeMessage(reply);
    if (message === undefined) continue;
    const errno = decodeAcknowledgement(message)?.errno ?? doneErrno(message);
    if (errno !== 0) return errno;
  }
  return 0;
}

function doneErrno(message: Message): number {
  if (message.type !== NLMSG_DONE || message.payload.length < 4) return 0;
  const view = new DataView(message.payload.buffer, message.payload.byteOffset, message.payload.byteLength);
  return -Math.min(view.getInt32(0, true), 0);
}

/** Linux error numbers (asm-generic/errno.h) that the kernel answers here, in words. */
const ERRNO_NAMES: Readonly<Record<number, string>> = {
  1: "EPERM: not permitted",
  2: "ENOENT: no such object",
  12: "ENOMEM: no memory",
  16: "EBUSY: in use",
  17: "EEXIST: exists already",
  22: "EINVAL: invalid",
  28: "ENOSPC: no space",
  34: "ERANGE: out of range",
  95: "EOPNOTSUPP: not supported by this kernel",
  105: "ENOBUFS: no buffer space",
};

/** An errno in words. */
export const errnoText = (errno: number): string => ERRNO_NAMES[errno] ?? `errno ${errno}`;

/** Refusals of a batch as one Fault. */
export function faultOf(what: string, refusals: readonly Refusal[]): Fault {
  const [first] = refusals;
  if (first === undefined) return { what, message: "refused without a reason" };
  const more = refusals.length > 1 ? ` (and ${refusals.length - 1} more)` : "";
  const text = first.text === undefined ? "" : ` (${first.text})`;
  return { what, message: `${errnoText(first.errno)}${text}${more}` };
}

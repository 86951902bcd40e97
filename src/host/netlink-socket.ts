import type { NetlinkPort } from "./port.ts";
import {
  AF_NETLINK,
  attachFilter,
  type BpfInstruction,
  bind,
  close,
  EAGAIN,
  EINTR,
  ENOBUFS,
  getsockname,
  orThrow,
  recv,
  SO_RCVBUFFORCE,
  SO_SNDBUFFORCE,
  SOCK_CLOEXEC,
  SOCK_NONBLOCK,
  SOCK_RAW,
  SOL_NETLINK,
  SOL_SOCKET,
  SystemError,
  send,
  setsockopt,
  socket,
  watchReadable,
} from "./sysnet.ts";

/** NETLINK_ROUTE and NETLINK_NETFILTER of linux/netlink.h. */
export const NETLINK_ROUTE = 0;
export const NETLINK_NETFILTER = 12;

export type NetlinkOptions = {
  readonly protocol: typeof NETLINK_ROUTE | typeof NETLINK_NETFILTER;
  /** Multicast groups to join, by number: RTNLGRP_*, NFNLGRP_*. */
  readonly groups?: readonly number[];
  /** Port id of the socket whose doings the groups shall not tell: one's own, which would only fill the buffer. */
  readonly ignoreSender?: number;
  /** Called for every message that answers no request of ours: what the groups tell. */
  readonly onMessage?: (message: Uint8Array) => void;
  /** Called when the kernel dropped messages because we read too slowly: what was told is incomplete, dump again. */
  readonly onOverrun?: () => void;
  /** Called with what a listener threw: a bug of ours, but not a reason to fall silent. */
  readonly onTrouble?: (trouble: unknown) => void;
};

export type NetlinkSocket = NetlinkPort & {
  /** Times the kernel dropped messages for this socket. */
  readonly overruns: () => number;
};

const NETLINK_ADD_MEMBERSHIP = 1;
const NETLINK_CAP_ACK = 10;
const NETLINK_EXT_ACK = 11;
const NETLINK_GET_STRICT_CHK = 12;

/** A dump message is at most 32 KiB (af_netlink.c: netlink_dump); a single reply is never longer than our buffer. */
const RECEIVE_BYTES = 64 * 1024;
/** One batch is one send, and its copy in the kernel is charged to the send buffer. */
const SEND_BUFFER_BYTES = 32 * 1024 * 1024;
const RECEIVE_BUFFER_BYTES = 8 * 1024 * 1024;
/** Messages that are taken before other work of the thread gets a turn. */
const TURN = 16;

/**
 * Opens a netlink socket in the network namespace of this thread, for as long as the process lives: closing a socket
 * of nfnetlink costs 16 ms, and an nftables table with an owner would lose it.
 * Throws SystemError where the kernel has no such protocol.
 */
export function openNetlink(options: NetlinkOptions): NetlinkSocket {
  const fd = orThrow(
    `netlink socket of protocol ${options.protocol}`,
    socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, options.protocol),
  );
  const address = new Uint8Array(12);
  address[0] = AF_NETLINK;
  orThrow("bind of a netlink socket", bind(fd, address));
  orThrow("getsockname of a netlink socket", getsockname(fd, address));
  const portId = new DataView(address.buffer).getUint32(4, true);
  // FORCE needs CAP_NET_ADMIN; without it every later request is refused anyhow, with a better message.
  setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, SEND_BUFFER_BYTES);
  setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, RECEIVE_BUFFER_BYTES);
  setsockopt(fd, SOL_NETLINK, NETLINK_EXT_ACK, 1);
  setsockopt(fd, SOL_NETLINK, NETLINK_CAP_ACK, 1);
  setsockopt(fd, SOL_NETLINK, NETLINK_GET_STRICT_CHK, 1);
  if (options.ignoreSender !== undefined) {
    orThrow("filter of a netlink socket", attachFilter(fd, everyoneBut(options.ignoreSender)));
  }
  for (const group of options.groups ?? []) {
    orThrow(`joining netlink group ${group}`, setsockopt(fd, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, group));
  }
  return new Socket(fd, portId, options);
}

/** nlmsg_pid of the (first) message is not the port. It is in host order there, and BPF loads words in network order. */
function everyoneBut(port: number): BpfInstruction[] {
  const swapped = new DataView(new ArrayBuffer(4));
  swapped.setUint32(0, port, true);
  return [
    [0x20, 0, 0, 12], // A = word at 12
    [0x15, 0, 1, swapped.getUint32(0, false)], // A == port? go on : skip one
    [0x06, 0, 0, 0], // drop
    [0x06, 0, 0, 0xffffffff], // take
  ];
}

type Exchange = {
  readonly bytes: Uint8Array;
  readonly first: number;
  readonly last: number;
  readonly done: (message: Uint8Array) => boolean;
  readonly replies: Uint8Array[];
  readonly resolve: (replies: Uint8Array[]) => void;
  readonly reject: (error: Error) => void;
};

class Socket implements NetlinkSocket {
  readonly portId: number;
  readonly #fd: number;
  readonly #options: NetlinkOptions;
  readonly #buffer = new Uint8Array(RECEIVE_BYTES);
  readonly #watch: { close(): void };
  readonly #waiting: Exchange[] = [];
  #current: Exchange | undefined;
  #advancing = false;
  #overruns = 0;
  #closed = false;

  constructor(fd: number, portId: number, options: NetlinkOptions) {
    this.#fd = fd;
    this.portId = portId;
    this.#options = options;
    this.#watch = watchReadable(
      fd,
      () => this.#drain(),
      (trouble) => options.onTrouble?.(trouble),
    );
  }

  overruns = (): number => this.#overruns;

  exchange(bytes: Uint8Array, done: (message: Uint8Array) => boolean): Promise<Uint8Array[]> {
    return new Promise((resolve, reject) => {
      if (this.#closed) return reject(new Error("the netlink socket is closed"));
      this.#waiting.push({ bytes, ...sequencesOf(bytes), done, replies: [], resolve, reject });
      this.#advance();
    });
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#watch.close();
    close(this.#fd);
    const closed = new Error("the netlink socket was closed");
    this.#current?.reject(closed);
    for (const exchange of this.#waiting.splice(0)) exchange.reject(closed);
  }

  /** Sends the next request when none is under way. The kernel acts inside send, so the replies are mostly there at once. */
  #advance(): void {
    if (this.#advancing) return;
    this.#advancing = true;
    while (this.#current === undefined && !this.#closed) {
      const next = this.#waiting.shift();
      if (next === undefined) break;
      const sent = send(this.#fd, next.bytes);
      if (sent < 0) {
        next.reject(new SystemError(`netlink send of ${next.bytes.length} bytes`, sent));
        continue;
      }
      this.#current = next;
      this.#drain();
    }
    this.#advancing = false;
  }

  #drain(): void {
    for (let taken = 0; taken < TURN && !this.#closed; taken++) {
      const length = recv(this.#fd, this.#buffer);
      if (length === -EINTR) continue;
      if (length === -EAGAIN || length === 0) return;
      if (length === -ENOBUFS) this.#overrun();
      else if (length < 0) this.#finish((exchange) => exchange.reject(new SystemError("netlink receive", length)));
      else this.#deliver(this.#buffer.slice(0, length));
      // A dump goes on in later turns through the watch, which is level-triggered.
    }
  }

  #overrun(): void {
    this.#overruns++;
    this.#finish((exchange) => exchange.reject(new SystemError("netlink receive", -ENOBUFS)));
    this.#options.onOverrun?.();
  }

  #finish(how: (exchange: Exchange) => void): void {
    const exchange = this.#current;
    if (exchange === undefined) return;
    this.#current = undefined;
    how(exchange);
    this.#advance();
  }

  /** A listener's bug must neither end this drain nor be met by whoever happens to exchange something. */
  #tell(message: Uint8Array): void {
    try {
      this.#options.onMessage?.(message);
    } catch (trouble) {
      this.#options.onTrouble?.(trouble);
    }
  }

  #deliver(datagram: Uint8Array): void {
    const view = new DataView(datagram.buffer, datagram.byteOffset, datagram.byteLength);
    for (let at = 0; at + 16 <= datagram.length; ) {
      const length = view.getUint32(at, true);
      if (length < 16 || at + length > datagram.length) return;
      const sequence = view.getUint32(at + 8, true);
      const port = view.getUint32(at + 12, true);
      const message = datagram.subarray(at, at + length);
      const exchange = this.#current;
      if (exchange !== undefined && port === this.portId && sequence >= exchange.first && sequence <= exchange.last) {
        exchange.replies.push(message);
        if (exchange.done(message)) this.#finish((finished) => finished.resolve(finished.replies));
      } else {
        this.#tell(message);
      }
      at += (length + 3) & ~3;
    }
  }
}

/** Sequence numbers of the first and the last message in the bytes. */
function sequencesOf(bytes: Uint8Array): { first: number; last: number } {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const first = view.getUint32(8, true);
  let last = first;
  for (let at = 0; at + 16 <= bytes.length; at += (view.getUint32(at, true) + 3) & ~3) {
    last = view.getUint32(at + 8, true);
    if (view.getUint32(at, true) < 16) throw new Error("not a netlink message: its length is less than its header's");
  }
  return { first, last };
}

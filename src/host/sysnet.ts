/**
 * The system calls that Node has no door to, each as thin as the call it wraps. The only importer of koffi.
 *
 * Every call gives what the kernel gives: a value of 0 or more, or `-errno`. Nothing throws, nothing is interpreted.
 * Structures are laid out for 64-bit little-endian Linux (x64, arm64).
 */
import koffi from "koffi";

const libc = koffi.load("libc.so.6");
const calls = {
  socket: libc.func("int socket(int, int, int)"),
  bind: libc.func("int bind(int, const void*, int)"),
  connect: libc.func("int connect(int, const void*, int)"),
  getsockname: libc.func("int getsockname(int, void*, void*)"),
  setsockopt: libc.func("int setsockopt(int, int, int, const void*, int)"),
  getsockopt: libc.func("int getsockopt(int, int, int, void*, void*)"),
  recv: libc.func("long recv(int, void*, size_t, int)"),
  recvmsg: libc.func("long recvmsg(int, void*, int)"),
  send: libc.func("long send(int, const void*, size_t, int)"),
  sendto: libc.func("long sendto(int, const void*, size_t, int, const void*, int)"),
  open: libc.func("int open(const char*, int)"),
  close: libc.func("int close(int)"),
  setns: libc.func("int setns(int, int)"),
  unshare: libc.func("int unshare(int)"),
  schedSetscheduler: libc.func("int sched_setscheduler(int, int, const void*)"),
  mallocTrim: libc.func("int malloc_trim(size_t)"),
  madvise: libc.func("int madvise(uintptr_t, size_t, int)"),
  flock: libc.func("int flock(int, int)"),
  ifNametoindex: libc.func("unsigned int if_nametoindex(const char*)"),
};

/** A descriptor, or `-errno`. */
export type Fd = number;

const settled = (result: number | bigint): number => (Number(result) < 0 ? -koffi.errno() : Number(result));

/** `socket(2)`. Add SOCK_NONBLOCK and SOCK_CLOEXEC to the type, or a call may block the thread. */
export const socket = (domain: number, type: number, protocol: number): Fd =>
  settled(calls.socket(domain, type, protocol));

/** `bind(2)` with the bytes of a sockaddr. */
export const bind = (fd: Fd, address: Uint8Array): number => settled(calls.bind(fd, address, address.length));

/** `connect(2)` with the bytes of a sockaddr. */
export const connect = (fd: Fd, address: Uint8Array): number => settled(calls.connect(fd, address, address.length));

/** `getsockname(2)` into `address`; gives its length. */
export function getsockname(fd: Fd, address: Uint8Array): number {
  const length = new Int32Array([address.length]);
  const result = settled(calls.getsockname(fd, address, length));
  return result < 0 ? result : (length[0] ?? 0);
}

/** `setsockopt(2)` with the bytes as they are, or a number as one int. */
export function setsockopt(fd: Fd, level: number, option: number, value: Uint8Array | number): number {
  const bytes = typeof value === "number" ? new Uint8Array(new Int32Array([value]).buffer) : value;
  return settled(calls.setsockopt(fd, level, option, bytes, bytes.length));
}

/** `getsockopt(2)` into `value`; gives the length that was written. */
export function getsockopt(fd: Fd, level: number, option: number, value: Uint8Array): number {
  const length = new Int32Array([value.length]);
  const result = settled(calls.getsockopt(fd, level, option, value, length));
  return result < 0 ? result : (length[0] ?? 0);
}

/** `recv(2)` into `buffer`; gives the number of bytes (with MSG_TRUNC the true length, which may be more). */
export const recv = (fd: Fd, buffer: Uint8Array, flags = MSG_DONTWAIT): number =>
  settled(calls.recv(fd, buffer, buffer.length, flags));

/** `send(2)`; gives the number of bytes taken. */
export const send = (fd: Fd, bytes: Uint8Array, flags = MSG_DONTWAIT): number =>
  settled(calls.send(fd, bytes, bytes.length, flags));

/** `sendto(2)`; gives the number of bytes taken. */
export const sendto = (fd: Fd, bytes: Uint8Array, address: Uint8Array, flags = MSG_DONTWAIT): number =>
  settled(calls.sendto(fd, bytes, bytes.length, flags, address, address.length));

/** What `recvmsg(2)` needs, made once and used again for every message of a socket. */
export type Receiver = {
  /** Receives one message; gives the number of bytes in `data`, or `-errno`. */
  receive(flags?: number): number;
  readonly data: Uint8Array;
  /** Source address of the last message: a sockaddr. */
  readonly name: Uint8Array;
  readonly nameLength: () => number;
  /** Control messages (cmsghdr: u64 length, i32 level, i32 type, bytes, padded to 8) of the last message. */
  readonly control: Uint8Array;
  readonly controlLength: () => number;
  /** msg_flags of the last message: MSG_TRUNC and the like. */
  readonly flags: () => number;
};

/** A receiver for the socket with buffers of these sizes in bytes. */
export function makeReceiver(fd: Fd, dataSize: number, controlSize: number): Receiver {
  const data = new Uint8Array(dataSize);
  const name = new Uint8Array(128);
  const control = new Uint8Array(Math.max(controlSize, 8));
  const vector = new DataView(new ArrayBuffer(16));
  const header = new DataView(new ArrayBuffer(56));
  vector.setBigUint64(0, BigInt(koffi.address(data)), true);
  vector.setBigUint64(8, BigInt(dataSize), true);
  header.setBigUint64(0, BigInt(koffi.address(name)), true);
  header.setBigUint64(16, BigInt(koffi.address(new Uint8Array(vector.buffer))), true);
  header.setBigUint64(24, 1n, true);
  header.setBigUint64(32, BigInt(koffi.address(control)), true);
  const headerBytes = new Uint8Array(header.buffer);
  return {
    data,
    name,
    control,
    receive(flags = MSG_DONTWAIT) {
      header.setUint32(8, name.length, true);
      header.setBigUint64(40, BigInt(controlSize), true);
      header.setInt32(48, 0, true);
      // The vector is named here so that it lives as long as the pointer to it.
      return vector.byteLength === 16 ? settled(calls.recvmsg(fd, headerBytes, flags)) : -EINVAL;
    },
    nameLength: () => header.getUint32(8, true),
    controlLength: () => Number(header.getBigUint64(40, true)),
    flags: () => header.getInt32(48, true),
  };
}

/** `open(2)` of an existing file. */
export const open = (path: string, flags: number): Fd => settled(calls.open(path, flags | O_CLOEXEC));

/** `close(2)`. Close the watch of the descriptor first. */
export const close = (fd: Fd): number => settled(calls.close(fd));

/** `malloc_trim(3)`: gives free memory of the C heap back to the kernel. True when there was some. */
export const mallocTrim = (): boolean => calls.mallocTrim(0) === 1;

/** `madvise(2)` on memory of this process; address and length are of whole pages. */
export const madvise = (address: bigint, length: number, advice: number): number =>
  settled(calls.madvise(address, length, advice));

/** `flock(2)`. */
export const flock = (fd: Fd, operation: number): number => settled(calls.flock(fd, operation));

/** `setns(2)`: moves this thread alone into the namespace of the descriptor. */
export const setns = (fd: Fd, type: number): number => settled(calls.setns(fd, type));

/** `unshare(2)`: gives this thread alone new namespaces. */
export const unshare = (flags: number): number => settled(calls.unshare(flags));

/** `if_nametoindex(3)`: the index, or `-errno`. */
export const interfaceIndex = (name: string): number => {
  const index = calls.ifNametoindex(name);
  return index === 0 ? -koffi.errno() : index;
};

/** `sched_setscheduler(2)` of this thread to SCHED_RR. Needs CAP_SYS_NICE. */
export const setRoundRobin = (priority: number): number =>
  settled(calls.schedSetscheduler(0, 2, new Uint8Array(new Int32Array([priority]).buffer)));

/** One classic BPF instruction: code, jump if true, jump if false, operand. */
export type BpfInstruction = readonly [code: number, jt: number, jf: number, k: number];

/** SO_ATTACH_FILTER (linux/filter.h: struct sock_filter, struct sock_fprog). */
export function attachFilter(fd: Fd, program: readonly BpfInstruction[]): number {
  const filter = new Uint8Array(program.length * 8);
  const view = new DataView(filter.buffer);
  for (const [i, [code, jt, jf, k]] of program.entries()) {
    view.setUint16(i * 8, code, true);
    view.setUint8(i * 8 + 2, jt);
    view.setUint8(i * 8 + 3, jf);
    view.setUint32(i * 8 + 4, k >>> 0, true);
  }
  const pointer = new DataView(new ArrayBuffer(16));
  pointer.setUint16(0, program.length, true);
  pointer.setBigUint64(8, BigInt(koffi.address(filter)), true);
  return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, new Uint8Array(pointer.buffer));
}

/** Ends a watch. Being called twice is dull. */
export type Watch = { close(): void };

// koffi closes a poll handle that is garbage-collected, and the socket falls silent: every live one is held here.
const live = new Set<ReturnType<typeof koffi.node.poll>>();

/**
 * Calls `onReadable` whenever the descriptor has something to read; it should take at most a few dozen messages and return.
 * What it throws goes to `onTrouble`, since koffi would show it only at some later call.
 *
 * When a link goes down, libuv stops the poll of its packet socket for ever (UV_EBADF); the watch is then started
 * again after 100 ms, and `onReadable` is called so that the socket's pending error is seen.
 */
export function watchReadable(fd: Fd, onReadable: () => void, onTrouble: (trouble: unknown) => void): Watch {
  let again: NodeJS.Timeout | undefined;
  const callback = (status: unknown) => {
    try {
      onReadable();
    } catch (trouble) {
      onTrouble(trouble);
    }
    if (typeof status === "number" && status < 0 && live.has(handle)) {
      again = setTimeout(() => live.has(handle) && handle.start({ readable: true }, callback), 100);
    }
  };
  const handle = koffi.node.poll(fd, { readable: true }, callback);
  live.add(handle);
  return {
    close() {
      if (!live.delete(handle)) return;
      clearTimeout(again);
      handle.close();
    },
  };
}

/** Ends every watch of this thread, which is about to end: a callback into a thread that is being ended aborts the process. */
export function endWatches(): void {
  for (const handle of live) handle.close();
  live.clear();
}

/** `EPERM` and the like for an errno, to be shown to people. */
export function errnoName(errno: number): string {
  const positive = Math.abs(errno);
  for (const [name, number] of Object.entries(koffi.os.errno)) if (number === positive) return name;
  return `errno ${positive}`;
}

/** The kernel refused a system call. */
export class SystemError extends Error {
  readonly errno: number;
  constructor(what: string, result: number) {
    super(`${what}: ${errnoName(result)}`);
    this.name = "SystemError";
    this.errno = Math.abs(result);
  }
}

/** The value, or a SystemError that says what was tried. */
export function orThrow(what: string, result: number): number {
  if (result < 0) throw new SystemError(what, result);
  return result;
}

export const EPERM = 1;
export const ENOENT = 2;
export const EINTR = 4;
export const EAGAIN = 11;
export const EINVAL = 22;
export const ENETDOWN = 100;
export const ENOBUFS = 105;

export const AF_INET = 2;
export const AF_INET6 = 10;
export const AF_NETLINK = 16;
export const AF_PACKET = 17;
export const SOCK_STREAM = 1;
export const SOCK_DGRAM = 2;
export const SOCK_RAW = 3;
export const SOCK_NONBLOCK = 0o4000;
export const SOCK_CLOEXEC = 0o2000000;
export const SOL_SOCKET = 1;
export const SOL_PACKET = 263;
export const SOL_NETLINK = 270;
export const SO_ATTACH_FILTER = 26;
export const SO_SNDBUFFORCE = 32;
export const SO_RCVBUFFORCE = 33;
export const MSG_PEEK = 2;
export const MSG_TRUNC = 0x20;
export const MSG_DONTWAIT = 0x40;
export const O_RDONLY = 0;
export const O_CLOEXEC = 0o2000000;
export const CLONE_NEWNET = 0x40000000;

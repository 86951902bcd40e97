import { type Address, bytesOf } from "../net/address.ts";
import {
  AF_INET6,
  close,
  ENOBUFS,
  errnoName,
  SOCK_CLOEXEC,
  SOCK_DGRAM,
  SOCK_NONBLOCK,
  setsockopt,
  socket,
} from "./sysnet.ts";

const IPPROTO_IPV6 = 41;
const IPV6_JOIN_GROUP = 20;
const IPV6_LEAVE_GROUP = 21;
const ENOMEM = 12;

type Member = { readonly fd: number; count: number };

/**
 * Memberships of one interface in IPv6 multicast groups, held by sockets that are never bound: the kernel then sets the
 * device's filter and sends MLD reports, so that snooping switches pass the group on (cilium#44311, #46274).
 * Counted, since addresses with equal last 24 bits share a solicited-node group.
 */
export class Multicast {
  readonly #interface: number;
  readonly #onTrouble: (message: string) => void;
  readonly #members = new Map<Address, Member>();
  readonly #fds: number[] = [];

  /** `interface` is an index; `onTrouble` hears in words that a group could not be joined. */
  constructor(options: { readonly interface: number; readonly onTrouble: (message: string) => void }) {
    this.#interface = options.interface;
    this.#onTrouble = options.onTrouble;
  }

  join(group: Address): void {
    const member = this.#members.get(group);
    if (member !== undefined) {
      member.count++;
      return;
    }
    const fd = this.#joinAnew(group);
    if (fd !== undefined) this.#members.set(group, { fd, count: 1 });
  }

  leave(group: Address): void {
    const member = this.#members.get(group);
    if (member === undefined || --member.count > 0) return;
    this.#members.delete(group);
    // An interface that is gone took the membership along; what is left to do then is nothing.
    setsockopt(member.fd, IPPROTO_IPV6, IPV6_LEAVE_GROUP, this.#request(group));
  }

  /** Leaves all groups. */
  close(): void {
    this.#members.clear();
    for (const fd of this.#fds.splice(0)) close(fd);
  }

  /** The socket that holds the membership. Each has room for a few hundred (net.core.optmem_max), then there is another. */
  #joinAnew(group: Address): number | undefined {
    const request = this.#request(group);
    const last = this.#fds.at(-1);
    let result = last === undefined ? -ENOBUFS : setsockopt(last, IPPROTO_IPV6, IPV6_JOIN_GROUP, request);
    if (last !== undefined && result >= 0) return last;
    if (result === -ENOBUFS || result === -ENOMEM) {
      const fd = socket(AF_INET6, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
      if (fd >= 0) this.#fds.push(fd);
      result = fd < 0 ? fd : setsockopt(fd, IPPROTO_IPV6, IPV6_JOIN_GROUP, request);
      if (result >= 0) return fd;
    }
    this.#onTrouble(`could not join ${group}: ${errnoName(result)}`);
    return undefined;
  }

  /** struct ipv6_mreq: the group, then the interface's index. */
  #request(group: Address): Uint8Array {
    const bytes = new Uint8Array(20);
    bytes.set(bytesOf(group));
    new DataView(bytes.buffer).setInt32(16, this.#interface, true);
    return bytes;
  }
}

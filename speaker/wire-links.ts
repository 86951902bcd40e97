import type { Instant } from "../src/core/instant.ts";
import { after } from "../src/core/instant.ts";
import { Multicast } from "../src/host/multicast.ts";
import { PacketSocket } from "../src/host/packet-socket.ts";
import type { HostLink } from "../src/host/port.ts";
import { EPERM, SystemError } from "../src/host/sysnet.ts";
import type { OpenLink } from "../src/l2/session.ts";
import { type Address, type Family, familyOf } from "../src/net/address.ts";
import type { Mac } from "../src/net/mac.ts";
import type { FromWire } from "./wire-protocol.ts";

/** What an interface of this name allows for one family. */
export type Usable =
  | { readonly type: "usable"; readonly index: number; readonly mac: Mac }
  | { readonly type: "unusable"; readonly message: string };

/** Devices that take the frames of their ports for themselves: a socket on the port hears nothing (metallb#692). */
const SWALLOWING: readonly (string | undefined)[] = ["bridge", "bond", "team", "openvswitch"];

/** Whether ARP or NDP can be spoken on the link of this name; the message says what to do. */
export function usabilityOf(name: string, family: Family, links: ReadonlyMap<string, HostLink>): Usable {
  const link = links.get(name);
  if (link === undefined) return unusable(`interface ${name} does not exist; taken up when it appears`);
  if (!link.up) return unusable(`interface ${name} is down or has no carrier; taken up when it comes`);
  if (link.loopback || link.noArp || link.mac === undefined) {
    return unusable(`interface ${name} speaks no ARP or NDP; name another one in the L2Advertisement`);
  }
  const master = [...links.values()].find(({ index }) => index === link.master);
  if (master !== undefined && SWALLOWING.includes(master.kind)) {
    return unusable(`interface ${name} is a port of ${master.name}; name ${master.name} in the L2Advertisement`);
  }
  if (family === "IPv6" && link.ipv6Disabled === true) {
    return unusable(`IPv6 is disabled on ${name}; set net.ipv6.conf.${name}.disable_ipv6=0`);
  }
  return { type: "usable", index: link.index, mac: link.mac };
}

const unusable = (message: string): Usable => ({ type: "unusable", message });

/** Sockets of one interface. Another index or a link that went and came is another device. */
type Device = {
  readonly index: number;
  readonly instance: number;
  readonly sockets: Map<Family, PacketSocket>;
  readonly multicast: Multicast;
  mac: Mac;
};

export type WireLinksOptions = {
  readonly onFrame: (link: string, frame: Uint8Array) => void;
  readonly onDropped: (reason: string) => void;
  readonly onTrouble: (trouble: unknown) => void;
  readonly report: (message: FromWire) => void;
};

const RETRY_MILLISECONDS = 5_000;
const PROTOCOL = { IPv4: "ARP", IPv6: "NDP" } as const;

/**
 * Keeps a socket open per interface and family that announcements name, as the links allow, and tells of each that
 * can't be had. Whole states in, whole states out: `follow` may be called as often as anybody likes.
 */
export class WireLinks {
  readonly #options: WireLinksOptions;
  readonly #wanted = new Map<string, Map<Family, number>>();
  readonly #devices = new Map<string, Device>();
  readonly #faults = new Map<string, string>();
  #instances = 0;
  #retryAt: Instant | undefined;

  constructor(options: WireLinksOptions) {
    this.#options = options;
  }

  /** When `follow` should be called again by itself. */
  get retryAt(): Instant | undefined {
    return this.#retryAt;
  }

  /** One announcement more, or one less, names these interfaces. True when that changes which are wanted. */
  want(address: Address, interfaces: readonly string[], by: 1 | -1): boolean {
    const family = familyOf(address);
    let changed = false;
    for (const name of interfaces) {
      const families = this.#wanted.get(name) ?? new Map<Family, number>();
      const count = (families.get(family) ?? 0) + by;
      if (count > 0) families.set(family, count);
      else families.delete(family);
      if (families.size > 0) this.#wanted.set(name, families);
      else this.#wanted.delete(name);
      changed ||= count === 0 || (by === 1 && count === 1);
    }
    return changed;
  }

  /** Opens and closes what the links allow by now; gives the links that are open. */
  follow(links: readonly HostLink[], now: Instant): OpenLink[] {
    this.#retryAt = undefined;
    const byName = new Map(links.map((link) => [link.name, link]));
    for (const name of this.#devices.keys()) if (!this.#wanted.has(name)) this.#closeAll(name);
    for (const key of [...this.#faults.keys()]) {
      const [name = "", family] = key.split(" ");
      if (!this.#wanted.get(name)?.has(family as Family)) this.#clear(name, family as Family);
    }
    const open: OpenLink[] = [];
    for (const [name, families] of this.#wanted) {
      for (const family of ["IPv4", "IPv6"] as const) {
        if (families.has(family)) this.#followFamily(name, byName, family, now);
        else this.#closeFamily(name, family);
      }
      const device = this.#devices.get(name);
      if (device === undefined) continue;
      open.push({ name, instance: device.instance, mac: device.mac, families: [...device.sockets.keys()] });
    }
    return open;
  }

  send(link: string, frame: Uint8Array): boolean {
    const device = this.#devices.get(link);
    // Byte 12 and 13 are the EtherType: 0x0806 or 0x86dd.
    const socket = device?.sockets.get(frame[12] === 0x08 ? "IPv4" : "IPv6");
    return socket?.send(frame) ?? false;
  }

  join(link: string, group: Address): void {
    this.#devices.get(link)?.multicast.join(group);
  }

  leave(link: string, group: Address): void {
    this.#devices.get(link)?.multicast.leave(group);
  }

  /** Reads everything that is queued on any socket. */
  drain(): void {
    for (const device of this.#devices.values()) for (const socket of device.sockets.values()) socket.drain();
  }

  close(): void {
    for (const name of [...this.#devices.keys()]) this.#closeAll(name);
  }

  #followFamily(name: string, links: ReadonlyMap<string, HostLink>, family: Family, now: Instant): void {
    const link = links.get(name);
    const usable = usabilityOf(name, family, links);
    const device = this.#devices.get(name);
    if (device !== undefined && (usable.type === "unusable" || usable.index !== device.index)) {
      // Another device under the name, or none: nothing of the old one is left to either family.
      if (link?.index === device.index && link.up) this.#closeFamily(name, family);
      else this.#closeAll(name);
    }
    if (usable.type === "unusable") {
      this.#fault(name, family, usable.message);
      return;
    }
    const open = this.#devices.get(name) ?? this.#newDevice(name, usable.index, usable.mac);
    open.mac = usable.mac;
    if (!open.sockets.has(family)) this.#openSocket(name, open, family, now);
    if (open.sockets.size === 0) this.#closeAll(name);
  }

  #newDevice(name: string, index: number, mac: Mac): Device {
    const device: Device = {
      index,
      instance: ++this.#instances,
      mac,
      sockets: new Map(),
      multicast: new Multicast({
        interface: index,
        onTrouble: (message) => this.#fault(name, "IPv6", `${name}: ${message}`),
      }),
    };
    this.#devices.set(name, device);
    return device;
  }

  #openSocket(name: string, device: Device, family: Family, now: Instant): void {
    try {
      const socket = new PacketSocket({
        interface: device.index,
        protocol: PROTOCOL[family],
        onFrame: (frame) => this.#options.onFrame(name, frame),
        onDropped: this.#options.onDropped,
        onTrouble: this.#options.onTrouble,
      });
      device.sockets.set(family, socket);
      this.#clear(name, family);
    } catch (trouble) {
      if (!(trouble instanceof SystemError)) throw trouble;
      const advice = trouble.errno === EPERM ? "; give the speaker the capability NET_RAW" : "; tried again";
      this.#fault(name, family, `${name}: ${trouble.message}${advice}`);
      this.#retryAt = after(now, RETRY_MILLISECONDS);
    }
  }

  #closeFamily(name: string, family: Family): void {
    const device = this.#devices.get(name);
    const socket = device?.sockets.get(family);
    if (device === undefined || socket === undefined) return;
    socket.close();
    device.sockets.delete(family);
    if (family === "IPv6") device.multicast.close();
    if (device.sockets.size === 0) this.#closeAll(name);
  }

  #closeAll(name: string): void {
    const device = this.#devices.get(name);
    if (device === undefined) return;
    this.#devices.delete(name);
    for (const socket of device.sockets.values()) socket.close();
    device.multicast.close();
  }

  #fault(name: string, family: Family, message: string): void {
    const key = `${name} ${family}`;
    if (this.#faults.get(key) === message) return;
    this.#faults.set(key, message);
    this.#options.report({ type: "fault", interface: name, family, message });
  }

  #clear(name: string, family: Family): void {
    if (this.#faults.delete(`${name} ${family}`)) this.#options.report({ type: "cleared", interface: name, family });
  }
}

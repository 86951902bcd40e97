import { after, type Instant, instant } from "../core/instant.ts";
import { unreachable } from "../core/trouble.ts";
import { type Address, type Family, familyOf } from "../net/address.ts";
import type { Mac } from "../net/mac.ts";
import { Agenda } from "./agenda.ts";
import { arpAnnouncements, arpProbe, encodeArp } from "./arp.ts";
import { announced, type Herald, refreshEvery, startHerald } from "./herald.ts";
import { duplicateTest, encodeNdp, solicitedNodeGroup, unsolicitedAdvertisement } from "./ndp.ts";
import {
  NEW_OWNER,
  nextDeadline,
  type Ownership,
  type OwnershipEffect,
  type OwnershipInput,
  step,
} from "./ownership.ts";
import { judge, type Station } from "./responder.ts";

/** How this node should speak for one VIP; the announcement of `speaker/wire-protocol.ts`. */
export type L2Announcement = {
  readonly address: Address;
  readonly interfaces: readonly string[];
  readonly term: number;
  readonly refreshIntervalSeconds: number;
};

/** An interface that frames can go through now. */
export type OpenLink = {
  readonly name: string;
  /** Another number for the same name is another device, or the same one opened again: nothing of the old one holds. */
  readonly instance: number;
  readonly mac: Mac;
  readonly families: readonly Family[];
};

export type L2Notice =
  | { readonly type: "announced"; readonly address: Address; readonly term: number; readonly interface: string }
  | { readonly type: "withdrawn"; readonly address: Address }
  | {
      readonly type: "claim";
      readonly address: Address;
      readonly mac: Mac;
      readonly interface: string;
      readonly yielded: boolean;
    }
  | { readonly type: "resumed"; readonly address: Address };

/** What the session needs of the world. */
export type L2Port = {
  /** Sends one whole frame; false when it did not leave. */
  send(link: string, frame: Uint8Array): boolean;
  /** Joins and leaves a solicited-node group; two VIPs may share one, so these are counted. */
  join(link: string, group: Address): void;
  leave(link: string, group: Address): void;
  /** In [0, 1). */
  random(): number;
  notice(notice: L2Notice): void;
};

type Vip = {
  announcement: L2Announcement;
  ownership: Ownership;
  /** By interface; heeded only while this node answers. */
  readonly heralds: Map<string, Herald>;
  /**
   * Interfaces on which its solicited-node group was joined: with the first announcement there, so that ten thousand
   * joins (0.1 ms each) are spread over turns like the announcements are.
   */
  readonly joinedOn: Set<string>;
  /** Interfaces that the first announcement of this term has left on. */
  readonly announcedOn: Set<string>;
};

type Entry = { readonly address: Address; readonly link: string | undefined };

/** Frames of announcements and probes in one turn; between turns questions are answered. */
const TURN_COUNT = 64;
const TURN_GAP_MILLISECONDS = 5;

/**
 * All VIPs of this node on all its interfaces: carries inputs to the machines and their effects to the port.
 * Owns no timer: call `tick` at `nextDeadline` or whenever; early and late calls are harmless.
 */
export class L2Session {
  readonly #port: L2Port;
  readonly #nonce: string;
  readonly #vips = new Map<Address, Vip>();
  readonly #links = new Map<string, OpenLink>();
  readonly #stations = new Map<string, Station>();
  readonly #agenda = new Agenda<Entry>();
  readonly #counters: Record<string, number> = {};
  #macs: ReadonlySet<Mac> = new Set();
  #leaseValidUntil = instant(Number.NEGATIVE_INFINITY);
  #stall = { number: 0, open: false };
  /** VIPs to probe since the API server does not answer; taken in turns. */
  #unconfirmed: Address[] = [];
  #restUntil = instant(Number.NEGATIVE_INFINITY);

  /** `nonce`: six random bytes in hex, by which our own probes are known when a network loops them back (RFC 7527). */
  constructor(port: L2Port, nonce: string) {
    this.#port = port;
    this.#nonce = nonce;
  }

  /** Totals since the start, by event or `ignored_<reason>`. */
  get counters(): Readonly<Record<string, number>> {
    return this.#counters;
  }

  nextDeadline(): Instant | undefined {
    const next = this.#unconfirmed.length > 0 ? this.#restUntil : this.#agenda.nextAt;
    return next !== undefined && next < this.#restUntil ? this.#restUntil : next;
  }

  tick(now: Instant): void {
    if (now < this.#restUntil) return;
    for (let taken = 0; taken < TURN_COUNT; taken++) {
      const address = this.#unconfirmed.pop();
      if (address !== undefined) {
        this.#input(address, { type: "unconfirmed" }, now);
        continue;
      }
      const entry = this.#agenda.take(now);
      if (entry === undefined) return;
      this.#due(entry.item, entry.at, now);
    }
    this.#restUntil = after(now, TURN_GAP_MILLISECONDS);
  }

  /** Answers for the VIP from now on, and announces it if that is news. */
  announce(announcement: L2Announcement, now: Instant): void {
    const vip = this.#vips.get(announcement.address);
    if (vip === undefined) this.#begin(announcement, now);
    else this.#change(vip, announcement, now);
  }

  /** Speaks for the VIP no more. */
  withdraw(address: Address): void {
    const vip = this.#vips.get(address);
    if (vip !== undefined) {
      for (const link of vip.joinedOn) this.#leave(vip, link);
      this.#vips.delete(address);
    }
    this.#port.notice({ type: "withdrawn", address });
  }

  /** The Lease of this node is provably valid until then. */
  renewed(validUntil: Instant): void {
    this.#leaseValidUntil = validUntil;
  }

  /** The process stood still: falls silent for every VIP until `confirmed` or `unconfirmed`. Gives the stall's number. */
  stalled(now: Instant): number {
    this.#stall = { number: this.#stall.number + 1, open: true };
    this.#unconfirmed = [];
    for (const address of this.#vips.keys()) this.#input(address, { type: "stalled" }, now);
    return this.#stall.number;
  }

  /** A consistent read made after the stall, or after a renewal that followed a yielding, names this node for these. */
  confirmed(stall: number, addresses: readonly Address[], now: Instant): void {
    if (stall !== this.#stall.number) return;
    const answersStall = this.#stall.open;
    this.#stall = { number: stall, open: false };
    const named = new Set(addresses);
    for (const address of this.#vips.keys()) {
      if (named.has(address)) this.#input(address, { type: "named" }, now);
      else if (answersStall) this.#input(address, { type: "unnamed" }, now);
    }
  }

  /** The API server does not answer: each VIP is probed and listened for. */
  unconfirmed(stall: number, now: Instant): void {
    if (stall !== this.#stall.number || !this.#stall.open) return;
    this.#stall = { number: stall, open: false };
    this.#unconfirmed = [...this.#vips.keys()];
    this.tick(now);
  }

  /** All links that are open now, and the MACs of every interface of this node. */
  setLinks(links: readonly OpenLink[], ourMacs: ReadonlySet<Mac>, now: Instant): void {
    this.#macs = ourMacs;
    const wanted = new Map(links.map((link) => [link.name, link]));
    for (const old of [...this.#links.values()]) this.#close(old, lostFamilies(old, wanted.get(old.name)));
    for (const link of links) {
      const old = this.#links.get(link.name);
      this.#links.set(link.name, link);
      this.#stations.set(link.name, this.#stationOn(link));
      this.#open(link, lostFamilies(link, old), now);
      if (old?.instance === link.instance && old.mac !== link.mac) this.#heraldAllOn(link, now);
    }
  }

  /** A frame that came in on the link. */
  receive(link: string, frame: Uint8Array, now: Instant, deafTo?: Address): void {
    const station = this.#stations.get(link);
    if (station === undefined) return;
    this.#count("received");
    const verdict = judge(frame, station);
    switch (verdict.type) {
      case "reply":
        if (verdict.address === deafTo || !this.#vips.get(verdict.address)?.announcedOn.has(link)) {
          this.#count("ignored_beforeTakeOver");
          return;
        }
        if (this.#send(link, verdict.frame)) this.#count("replied");
        return;
      case "claim":
        this.#count("claims");
        this.#input(
          verdict.address,
          { type: "claim", mac: verdict.mac, leaseValidUntil: this.#leaseValidUntil },
          now,
          link,
        );
        return;
      case "rival":
        this.#count("rival_probes");
        this.#input(verdict.address, { type: "rival", mac: verdict.mac, ours: station.mac }, now, link);
        return;
      case "ignore":
        this.#count(`ignored_${verdict.reason}`);
        return;
      default:
        unreachable(verdict);
    }
  }

  /** Adds to a counter that belongs with these: frames that never came this far. */
  count(name: string, by = 1): void {
    this.#counters[name] = (this.#counters[name] ?? 0) + by;
  }

  #count(name: string): void {
    this.count(name);
  }

  #begin(announcement: L2Announcement, now: Instant): void {
    const { address } = announcement;
    const vip: Vip = {
      announcement,
      ownership: NEW_OWNER,
      heralds: new Map(),
      joinedOn: new Set(),
      announcedOn: new Set(),
    };
    this.#vips.set(address, vip);
    // What the main thread said while it may itself have been asleep counts only once it has looked again.
    this.#input(address, { type: this.#stall.open ? "stalled" : "takenOver" }, now);
  }

  #change(vip: Vip, announcement: L2Announcement, now: Instant): void {
    const { address } = announcement;
    const old = vip.announcement;
    const before = new Set(this.#openLinksOf(vip).map((link) => link.name));
    vip.announcement = announcement;
    const open = this.#openLinksOf(vip).map((link) => link.name);
    for (const link of before) {
      if (open.includes(link)) continue;
      this.#leave(vip, link);
      vip.heralds.delete(link);
    }
    for (const link of open) if (!before.has(link)) this.#linkCame(vip, link, before.size === 0, now);

    const newTerm = announcement.term > old.term;
    if (newTerm) vip.announcedOn.clear();
    if (!this.#stall.open && (newTerm || vip.ownership.type === "disowned")) {
      this.#input(address, { type: "takenOver" }, now);
    } else if (announcement.refreshIntervalSeconds !== old.refreshIntervalSeconds) {
      for (const [link, herald] of vip.heralds) {
        this.#schedule(vip, link, refreshEvery(herald, announcement.refreshIntervalSeconds, this.#port.random(), now));
      }
    }
  }

  #open(link: OpenLink, families: readonly Family[], now: Instant): void {
    if (families.length === 0) return;
    for (const vip of this.#vips.values()) {
      if (!speaksOn(vip, link) || !families.includes(familyOf(vip.announcement.address))) continue;
      this.#linkCame(vip, link.name, this.#openLinksOf(vip).length === 1, now);
    }
  }

  #linkCame(vip: Vip, link: string, isOnly: boolean, now: Instant): void {
    const { address } = vip.announcement;
    if (isOnly) this.#input(address, { type: "returned", leaseValidUntil: this.#leaseValidUntil }, now);
    else if (vip.ownership.type === "answering") this.#schedule(vip, link, startHerald(now));
  }

  #close(link: OpenLink, families: readonly Family[]): void {
    if (families.length === 0) return;
    const left = link.families.filter((family) => !families.includes(family));
    if (left.length > 0) {
      this.#links.set(link.name, { ...link, families: left });
    } else {
      this.#links.delete(link.name);
      this.#stations.delete(link.name);
    }
    for (const [address, vip] of this.#vips) {
      if (!families.includes(familyOf(address))) continue;
      vip.heralds.delete(link.name);
      vip.joinedOn.delete(link.name);
    }
  }

  #heraldAllOn(link: OpenLink, now: Instant): void {
    for (const vip of this.#vips.values()) {
      if (speaksOn(vip, link) && vip.ownership.type === "answering") this.#schedule(vip, link.name, startHerald(now));
    }
  }

  #due(entry: Entry, at: Instant, now: Instant): void {
    const vip = this.#vips.get(entry.address);
    if (vip === undefined) return;
    if (entry.link === undefined) {
      if (nextDeadline(vip.ownership) === at) this.#input(entry.address, { type: "tick" }, now);
      return;
    }
    const herald = vip.heralds.get(entry.link);
    // An entry whose herald has since been started anew, moved or ended means nothing.
    if (herald === undefined || herald.dueAt !== at || vip.ownership.type !== "answering") return;
    this.#announceOn(vip, entry.link);
    this.#schedule(
      vip,
      entry.link,
      announced(herald, vip.announcement.refreshIntervalSeconds, this.#port.random(), now),
    );
  }

  #input(address: Address, input: OwnershipInput | { readonly type: "tick" }, now: Instant, heardOn = ""): void {
    const vip = this.#vips.get(address);
    if (vip === undefined) return;
    const { state, effects } = step(vip.ownership, input, now);
    const changed = state !== vip.ownership;
    vip.ownership = state;
    const deadline = nextDeadline(state);
    if (changed && deadline !== undefined) this.#agenda.add(deadline, { address, link: undefined });
    for (const effect of effects) this.#apply(vip, effect, now, heardOn);
  }

  #apply(vip: Vip, effect: OwnershipEffect, now: Instant, heardOn: string): void {
    const { address } = vip.announcement;
    switch (effect.type) {
      case "herald":
        for (const link of this.#openLinksOf(vip)) this.#schedule(vip, link.name, startHerald(now));
        return;
      case "defend":
        this.#count("defences");
        for (const link of this.#openLinksOf(vip)) this.#announceOn(vip, link.name);
        return;
      case "probe":
        for (const link of this.#openLinksOf(vip)) this.#probeOn(address, link);
        return;
      case "report":
        if (effect.yielded) this.#count("yields");
        this.#port.notice({ type: "claim", address, mac: effect.mac, interface: heardOn, yielded: effect.yielded });
        return;
      case "resumed":
        this.#count("resumptions");
        this.#port.notice({ type: "resumed", address });
        return;
      default:
        unreachable(effect);
    }
  }

  #schedule(vip: Vip, link: string, herald: Herald): void {
    vip.heralds.set(link, herald);
    if (herald.dueAt !== undefined) this.#agenda.add(herald.dueAt, { address: vip.announcement.address, link });
  }

  #announceOn(vip: Vip, linkName: string): void {
    const link = this.#links.get(linkName);
    if (link === undefined) return;
    const { address, term } = vip.announcement;
    this.#join(vip, linkName);
    const frames =
      familyOf(address) === "IPv4"
        ? arpAnnouncements(address, link.mac).map(encodeArp)
        : [encodeNdp(unsolicitedAdvertisement(address, link.mac))];
    let left = true;
    for (const frame of frames) left = this.#send(linkName, frame) && left;
    if (!left) return;
    this.#count("announcements");
    if (vip.announcedOn.has(linkName)) return;
    vip.announcedOn.add(linkName);
    this.#port.notice({ type: "announced", address, term, interface: linkName });
  }

  #probeOn(address: Address, link: OpenLink): void {
    const frame =
      familyOf(address) === "IPv4"
        ? encodeArp(arpProbe(address, link.mac))
        : encodeNdp(duplicateTest(address, link.mac, this.#nonce));
    if (this.#send(link.name, frame)) this.#count("probes");
  }

  #send(link: string, frame: Uint8Array): boolean {
    const left = this.#port.send(link, frame);
    if (!left) this.#count("unsent");
    return left;
  }

  #join(vip: Vip, link: string): void {
    const { address } = vip.announcement;
    if (familyOf(address) !== "IPv6" || vip.joinedOn.has(link)) return;
    vip.joinedOn.add(link);
    this.#port.join(link, solicitedNodeGroup(address));
  }

  #leave(vip: Vip, link: string): void {
    if (vip.joinedOn.delete(link)) this.#port.leave(link, solicitedNodeGroup(vip.announcement.address));
  }

  #openLinksOf(vip: Vip): OpenLink[] {
    const links: OpenLink[] = [];
    for (const name of vip.announcement.interfaces) {
      const link = this.#links.get(name);
      if (link !== undefined && speaksOn(vip, link)) links.push(link);
    }
    return links;
  }

  #stationOn(link: OpenLink): Station {
    return {
      mac: link.mac,
      isOurs: (mac) => mac === link.mac || this.#macs.has(mac),
      sentNonce: (nonce) => nonce === this.#nonce,
      standingOf: (address) => {
        const vip = this.#vips.get(address);
        if (vip === undefined) return undefined;
        if (!vip.announcement.interfaces.includes(link.name)) return "elsewhere";
        return vip.ownership.type === "answering" ? "answering" : "silent";
      },
    };
  }
}

const speaksOn = (vip: Vip, link: OpenLink): boolean =>
  link.families.includes(familyOf(vip.announcement.address)) && vip.announcement.interfaces.includes(link.name);

/** Families of `link` that `other`, the same link before or after, does not have. */
const lostFamilies = (link: OpenLink, other: OpenLink | undefined): readonly Family[] =>
  other?.instance === link.instance
    ? link.families.filter((family) => !other.families.includes(family))
    : link.families;

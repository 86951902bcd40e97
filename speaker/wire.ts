/**
 * The wire worker: answers ARP and NDP, and keeps every protocol timer away from the main thread's JSON and GC.
 * Wiring only: messages and frames go into the session, what it wants goes out through the sockets.
 */
import { randomBytes } from "node:crypto";
import { flushCompileCache } from "node:module";
import { type MessagePort, parentPort } from "node:worker_threads";
import type { Instant } from "../src/core/instant.ts";
import { unreachable } from "../src/core/trouble.ts";
import { clock } from "../src/host/clock.ts";
import { observeLinks } from "../src/host/link-observer.ts";
import { releaseMemory } from "../src/host/memory.ts";
import type { HostLink, LinkObserver } from "../src/host/port.ts";
import { setRoundRobin } from "../src/host/sysnet.ts";
import { L2Session } from "../src/l2/session.ts";
import type { Address } from "../src/net/address.ts";
import type { Mac } from "../src/net/mac.ts";
import { MemoryRelease } from "./memory.ts";
import { WireLinks } from "./wire-links.ts";
import type { Announcement, FromWire, ToWire } from "./wire-protocol.ts";

/** The worker looks at the clock this often; a gap of STALL between two looks means that it stood still. */
const HEARTBEAT_MILLISECONDS = 100;
const STALL_MILLISECONDS = 1_000;
const COUNTERS_MILLISECONDS = 1_000;
const OBSERVER_RETRY_MILLISECONDS = 1_000;
const PRIORITY = 10;

class Wire {
  readonly #main: MessagePort;
  readonly #announcements = new Map<Address, Announcement>();
  readonly #links: WireLinks;
  readonly #session: L2Session;
  readonly #memory = new MemoryRelease();
  /** VIPs whose take-over is under way in this turn. */
  readonly #taken = new Set<Address>();
  #deafTo: Address | undefined;
  #observer: LinkObserver | undefined;
  #lookedAt: Instant = clock.now();
  #timer: NodeJS.Timeout | undefined;
  #wakeAt = Number.POSITIVE_INFINITY;
  #countersAt = 0;
  #countersTold = "{}";
  #stopped = false;

  constructor(main: MessagePort) {
    this.#main = main;
    this.#links = new WireLinks({
      onFrame: (link, frame) => this.#onFrame(link, frame),
      onDropped: (reason) => this.#session.count(`ignored_${reason}`),
      onTrouble: (trouble) => this.#onTrouble(trouble),
      report: (message) => this.#post(message),
    });
    this.#session = new L2Session(
      {
        send: (link, frame) => this.#send(link, frame),
        join: (link, group) => this.#links.join(link, group),
        leave: (link, group) => this.#links.leave(link, group),
        random: Math.random,
        notice: (notice) => this.#post(notice),
      },
      randomBytes(6).toString("hex"),
    );
  }

  start(): void {
    // Without CAP_SYS_NICE the worker shares its core like everybody else; deadlines are generous enough for that.
    setRoundRobin(PRIORITY);
    this.#main.on("message", (message: ToWire) => this.#onMessage(message));
    this.#beat();
    this.#observe();
    this.#post({ type: "ready" });
  }

  #observe(failed = false): void {
    observeLinks((trouble) => this.#onTrouble(trouble)).then(
      (observer) => {
        if (this.#stopped) return observer.close();
        this.#observer = observer;
        if (failed)
          for (const family of ["IPv4", "IPv6"] as const) this.#post({ type: "cleared", interface: "*", family });
        observer.onChange(() => this.#onLinks());
        this.#onLinks();
      },
      (trouble: unknown) => {
        const message = `can't follow interfaces: ${trouble instanceof Error ? trouble.message : trouble}; tried again`;
        for (const family of ["IPv4", "IPv6"] as const) this.#post({ type: "fault", interface: "*", family, message });
        setTimeout(() => this.#stopped || this.#observe(true), OBSERVER_RETRY_MILLISECONDS);
      },
    );
  }

  #onMessage(message: ToWire): void {
    const now = this.#look();
    switch (message.type) {
      case "announce":
        this.#announce(message.announcement, now);
        break;
      case "withdraw":
        this.#withdraw(message.address, now);
        break;
      case "lease":
        this.#session.renewed(message.validUntil);
        break;
      case "confirmed":
        this.#links.drain();
        this.#session.confirmed(message.stall, message.addresses, now);
        break;
      case "unconfirmed":
        this.#links.drain();
        this.#session.unconfirmed(message.stall, now);
        break;
      case "stop":
        this.#stop();
        return;
      default:
        unreachable(message);
    }
    this.#session.tick(now);
    if (message.type === "announce") this.#passOver(message.announcement.address);
    this.#arm();
  }

  #announce(announcement: Announcement, now: Instant): void {
    const { address, interfaces } = announcement;
    const known = this.#announcements.get(address);
    // What was asked before this take-over was for the owner before us, who may have answered it: read it as a bystander.
    if (known?.term !== announcement.term) {
      this.#links.drain();
      this.#taken.add(address);
    }
    const before = known?.interfaces ?? [];
    this.#announcements.set(address, announcement);
    this.#memory.worked(1, now);
    const came = this.#links.want(address, interfaces, 1);
    const went = this.#links.want(address, before, -1);
    if (came || went) this.#follow(now);
    this.#session.announce(announcement, now);
  }

  /** What came in until the announcement had left was for the owner before us, too. */
  #passOver(address: Address): void {
    if (!this.#taken.delete(address)) return;
    this.#deafTo = address;
    this.#links.drain();
    this.#deafTo = undefined;
  }

  #withdraw(address: Address, now: Instant): void {
    const announcement = this.#announcements.get(address);
    this.#announcements.delete(address);
    this.#session.withdraw(address);
    if (announcement !== undefined && this.#links.want(address, announcement.interfaces, -1)) this.#follow(now);
  }

  #onFrame(link: string, frame: Uint8Array): void {
    const now = this.#look();
    this.#session.receive(link, frame, now, this.#deafTo);
  }

  #onLinks(): void {
    const now = this.#look();
    this.#follow(now);
    this.#session.tick(now);
    this.#arm();
  }

  #follow(now: Instant): void {
    const links = this.#observer?.links() ?? [];
    this.#session.setLinks(this.#links.follow(links, now), macsOf(links), now);
  }

  /** Sends, unless the process stood still since the clock was last looked at (invariant 6). */
  #send(link: string, frame: Uint8Array): boolean {
    return clock.now() - this.#lookedAt <= STALL_MILLISECONDS && this.#links.send(link, frame);
  }

  /**
   * The time by now. Everything that happens to the worker begins with this, so a stall is seen before anything is said:
   * what was queued meanwhile finds the session suspended, and is read to its end before the main thread's answer counts.
   */
  #look(): Instant {
    const before = this.#lookedAt;
    this.#lookedAt = clock.now();
    const milliseconds = this.#lookedAt - before;
    if (milliseconds > STALL_MILLISECONDS) {
      const stall = this.#session.stalled(this.#lookedAt);
      this.#session.count("stalls");
      this.#post({ type: "stalled", stall, milliseconds });
    }
    return this.#lookedAt;
  }

  #beat(): void {
    this.#wakeAt = Number.POSITIVE_INFINITY;
    const now = this.#look();
    const deadline = this.#session.nextDeadline();
    if (deadline !== undefined && deadline <= now) {
      // Timers come before sockets in a turn: what was said before a deadline may still be unread.
      this.#links.drain();
      this.#session.tick(now);
    }
    if (this.#links.retryAt !== undefined && this.#links.retryAt <= now) this.#follow(now);
    this.#tellCounters(now);
    if (this.#memory.due(now)) void releaseMemory();
    this.#arm();
  }

  /** One timer: the session's next deadline, or the heartbeat. */
  #arm(): void {
    if (this.#stopped) return;
    const now = clock.now();
    const wakeAt = Math.min(this.#session.nextDeadline() ?? Number.POSITIVE_INFINITY, now + HEARTBEAT_MILLISECONDS);
    if (wakeAt >= this.#wakeAt) return;
    clearTimeout(this.#timer);
    this.#wakeAt = wakeAt;
    this.#timer = setTimeout(() => this.#beat(), Math.max(wakeAt - now, 0));
  }

  #tellCounters(now: Instant): void {
    if (now < this.#countersAt) return;
    this.#countersAt = now + COUNTERS_MILLISECONDS;
    const { counters } = this.#session;
    const told = JSON.stringify(counters);
    if (told === this.#countersTold) return;
    this.#countersTold = told;
    this.#post({ type: "counters", counters: { ...counters } });
  }

  #onTrouble(trouble: unknown): void {
    // A failed dump is tried again by itself; anything else is a bug, and a speaker that restarts is safer than one that limps.
    if (trouble instanceof Error && trouble.name === "SystemError") this.#session.count("link_dump_failures");
    // Outside the callback of the socket, where it would be seen only at some later call.
    else
      setImmediate(() => {
        throw trouble;
      });
  }

  #post(message: FromWire): void {
    if (!this.#stopped) this.#main.postMessage(message);
  }

  #stop(): void {
    this.#stopped = true;
    clearTimeout(this.#timer);
    this.#links.close();
    this.#observer?.close();
    this.#main.close();
  }
}

const macsOf = (links: readonly HostLink[]): ReadonlySet<Mac> =>
  new Set(links.flatMap((link) => (link.mac === undefined ? [] : [link.mac])));

if (parentPort === null) throw new Error("speaker/wire.ts is a worker; start speaker/main.ts");
new Wire(parentPort).start();
// Each thread keeps its own share of the compile cache (bin/belfry.js); a speaker that is killed should have written it.
setTimeout(flushCompileCache, 3000).unref();

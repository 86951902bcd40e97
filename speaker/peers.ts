import type { Lease } from "../src/api/foreign.ts";
import { speakerLeaseName } from "../src/api/names.ts";
import { after, type Instant, instant } from "../src/core/instant.ts";
import { LeaseWatcher } from "../src/kube/lease-watcher.ts";

/** What a speaker needs to come back after an outage: connect, list, let go, renew. */
const GRACE_MILLISECONDS = 6000;
/** A watch that was opened again within this is no outage: nobody missed a renewal for it. */
const BLINK_MILLISECONDS = 1000;
const PREFIX = speakerLeaseName("");

export type PeersPorts = {
  readonly me: string;
  /** Reads the Lease consistently: is it still as we saw it? Undefined when the server does not answer. */
  isStill(lease: Lease): Promise<boolean | undefined>;
  /** A speaker came to life or died, as far as this node may say. */
  changed(node: string, live: boolean): void;
};

/**
 * Which speakers live, told by their Leases. A Lease is called expired only when this node is sure of itself, has seen
 * no renewal for the Lease's own duration, and a consistent read made after that proves that there was none.
 */
export class Peers {
  readonly #ports: PeersPorts;
  #watcher = new LeaseWatcher();
  readonly #live = new Set<string>();
  readonly #asking = new Set<string>();
  #sure = false;
  /** Set while this node is not sure of itself; it begins so. */
  #unsureSince: Instant | undefined = instant(Number.NEGATIVE_INFINITY);

  constructor(ports: PeersPorts) {
    this.#ports = ports;
  }

  observe(lease: Lease, now: Instant): void {
    const node = nodeOf(lease);
    if (node === undefined) return;
    this.#watcher.observe(lease, now);
    if (!this.#watcher.expired(lease.metadata.name, now)) this.#set(node, true);
  }

  forget(lease: Lease): void {
    const node = nodeOf(lease);
    if (node === undefined) return;
    this.#watcher.forget(lease.metadata.name);
    this.#set(node, false);
  }

  /** Seen to be renewed since then, or known to be gone: what a restored store has to show of each (docs/life-of-a-vip.md, Restore). */
  renewedSince(node: string, since: Instant): boolean {
    const name = speakerLeaseName(node);
    return this.#watcher.get(name) === undefined || this.#watcher.renewedSince(name, since);
  }

  /** Nodes that have a Lease. */
  *nodes(): Iterable<string> {
    for (const name of this.#watcher.names()) yield name.slice(PREFIX.length);
  }

  /**
   * `sure`: this node's own renewals succeed and its watches are fresh. When that comes back after an outage, the others
   * may just be about to list and renew too: each Lease gets its whole duration and a grace anew, so that an outage moves
   * nothing.
   */
  tick(sure: boolean, now: Instant): void {
    if (!sure) this.#unsureSince ??= now;
    else if (this.#unsureSince !== undefined) {
      if (now - this.#unsureSince >= BLINK_MILLISECONDS) this.#startOver(now);
      this.#unsureSince = undefined;
    }
    this.#sure = sure;
    if (!sure) return;
    for (const name of this.#watcher.names()) {
      const node = name.slice(PREFIX.length);
      if (node === this.#ports.me || !this.#live.has(node) || this.#asking.has(name)) continue;
      if (this.#watcher.expired(name, now)) void this.#ask(name, node);
    }
  }

  nextDeadline(now: Instant): Instant | undefined {
    return this.#sure ? this.#watcher.nextDeadline(now) : undefined;
  }

  #startOver(now: Instant): void {
    const before = this.#watcher;
    this.#watcher = new LeaseWatcher();
    for (const name of before.names()) {
      const lease = before.get(name);
      // Those that are known to be dead stay dead: their Lease has to change to bring them back.
      const node = name.slice(PREFIX.length);
      if (lease !== undefined)
        this.#watcher.observe(lease, this.#live.has(node) ? after(now, GRACE_MILLISECONDS) : (0 as Instant));
    }
  }

  async #ask(name: string, node: string): Promise<void> {
    const lease = this.#watcher.get(name);
    if (lease === undefined) return;
    this.#asking.add(name);
    const still = await this.#ports.isStill(lease);
    this.#asking.delete(name);
    if (still === true && this.#sure && this.#watcher.get(name) === lease) this.#set(node, false);
  }

  #set(node: string, live: boolean): void {
    if (this.#live.has(node) === live) return;
    if (live) this.#live.add(node);
    else this.#live.delete(node);
    this.#ports.changed(node, live);
  }
}

function nodeOf(lease: Lease): string | undefined {
  const { name } = lease.metadata;
  return name.startsWith(PREFIX) && name.length > PREFIX.length ? name.slice(PREFIX.length) : undefined;
}

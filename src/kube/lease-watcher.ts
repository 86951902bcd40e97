import type { Lease } from "../api/foreign.ts";
import { after, earlier, type Instant } from "../core/instant.ts";
import { durationMillisecondsOf, holderOf, leaseIdentity } from "./lease.ts";

type Watched = {
  readonly lease: Lease;
  readonly identity: string;
  /** When this version was first seen here: its holder wrote it no later. */
  readonly seenAt: Instant;
  /** When a change of it was last seen; undefined while only one version is known. */
  readonly renewedAt: Instant | undefined;
};

/**
 * Which Leases have expired, by our own clock: a Lease lives for the duration in its own spec after the last change that
 * we saw, whatever times it carries. Feed it from an informer of Leases. A Lease that is seen for the first time gets
 * its whole duration.
 */
export class LeaseWatcher {
  readonly #watched = new Map<string, Watched>();
  /** Set while the watch is broken. */
  #frozenAt: Instant | undefined;

  /**
   * The watch broke. Until `thaw` nobody expires, since nobody could be seen to renew; and no renewal counts, since the
   * server that answers next may have a store that was put back, in which every old Lease looks like a change.
   */
  freeze(now: Instant): void {
    this.#frozenAt ??= now;
  }

  get frozen(): boolean {
    return this.#frozenAt !== undefined;
  }

  /**
   * The watch speaks again, or a consistent list was observed. Holders may just be coming back as well: each Lease that
   * had not expired when the watch broke gets its whole duration and the grace anew, and has to be seen renewed anew.
   */
  thaw(now: Instant, graceMilliseconds: number): void {
    const brokeAt = this.#frozenAt ?? now;
    this.#frozenAt = undefined;
    for (const [name, watched] of this.#watched) {
      const isDead = brokeAt >= expiryOf(watched);
      const seenAt = isDead
        ? watched.seenAt
        : after(now, holderOf(watched.lease) === undefined ? 0 : graceMilliseconds);
      this.#watched.set(name, { ...watched, seenAt, renewedAt: undefined });
    }
  }

  /** An upsert of the informer, or the answer of a get. Being told the same version twice changes nothing. */
  observe(lease: Lease, now: Instant): void {
    const { name } = lease.metadata;
    const identity = leaseIdentity(lease);
    const known = this.#watched.get(name);
    if (known?.identity === identity) return;
    this.#watched.set(name, { lease, identity, seenAt: now, renewedAt: known === undefined ? undefined : now });
  }

  /** A delete of the informer. */
  forget(name: string): void {
    this.#watched.delete(name);
  }

  get(name: string): Lease | undefined {
    return this.#watched.get(name)?.lease;
  }

  names(): IterableIterator<string> {
    return this.#watched.keys();
  }

  /** True for a Lease that ran out or was given back. False for one that is not known: ask `get` first. */
  expired(name: string, now: Instant): boolean {
    const watched = this.#watched.get(name);
    return watched !== undefined && (earlier(now, this.#frozenAt) ?? now) >= expiryOf(watched);
  }

  /** True when a change of it was seen at or after `since`: its holder lived then. */
  renewedSince(name: string, since: Instant): boolean {
    if (this.#frozenAt !== undefined) return false;
    const renewedAt = this.#watched.get(name)?.renewedAt;
    return renewedAt !== undefined && renewedAt >= since;
  }

  /**
   * Names of the Leases that were neither seen renewed since then nor seen to expire. Who starts without memory, or saw
   * the store change, waits until there are none (docs/life-of-a-vip.md, Restore; after a change an expiry does not count).
   */
  undecided(since: Instant, now: Instant): string[] {
    return [...this.#watched.keys()].filter((name) => !this.renewedSince(name, since) && !this.expired(name, now));
  }

  /** When the next of them expires, if none is renewed. */
  nextDeadline(now: Instant): Instant | undefined {
    if (this.#frozenAt !== undefined) return undefined;
    let next: Instant | undefined;
    for (const watched of this.#watched.values()) {
      const expiry = expiryOf(watched);
      if (expiry > now) next = earlier(next, expiry);
    }
    return next;
  }
}

const expiryOf = (watched: Watched): Instant =>
  holderOf(watched.lease) === undefined ? watched.seenAt : after(watched.seenAt, durationMillisecondsOf(watched.lease));

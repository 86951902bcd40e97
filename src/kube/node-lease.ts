import type { Lease } from "../api/foreign.ts";
import type { OwnerReference } from "../api/meta.ts";
import { LEASE } from "../api/resource.ts";
import { after, type Instant } from "../core/instant.ts";
import type { Log } from "../core/log.ts";
import { isOlder } from "../core/resource-version.ts";
import type { Clock } from "../host/port.ts";
import { pause } from "./backoff.ts";
import { holderOf, LEASE_DURATION_SECONDS, LEASE_RENEW_MILLISECONDS, microTime } from "./lease.ts";
import type { Answer, ApiClient, ApiFailure, Key } from "./port.ts";

/** Our own Lease is not as we last wrote it (docs/life-of-a-vip.md, Restore). */
export type LeaseChange = {
  readonly what: /** It is gone, or another one (new uid) is in its place. */
    | "Replaced"
    /** It has an older resourceVersion than we were told. */
    | "WentBack"
    /** Its content is not ours: a restored one, or another process renews it too. */
    | "Rewritten";
  readonly holder: string | undefined;
};

export type NodeLeaseOptions = {
  /** A client of its own, with `LEASE_CLIENT_LIMITS`. */
  readonly client: ApiClient;
  readonly key: Key;
  readonly identity: string;
  readonly clock: Clock;
  readonly log: Log;
  /** Firing it stops renewing; the Lease stays, for the next life of this node's speaker. */
  readonly signal: AbortSignal;
  /**
   * Asked before the Lease is created: what it goes with, as the garbage collector sees it. Not before that is there.
   */
  readonly owner?: () => Promise<Answer<OwnerReference>>;
  /**
   * Asked before each write, the first successful one excepted. False, or not yet answered, holds the renewal back: a renewed Lease
   * says that this node holds nothing but what the last consistent list has (docs/life-of-a-vip.md, Join).
   */
  readonly beforeRenew?: () => Promise<boolean>;
  /** After each success: the Lease is provably ours until then. */
  readonly onRenewed: (validUntil: Instant) => void;
  /** Called before the next write: `beforeRenew` is asked once more in between. */
  readonly onStoreChanged?: (change: LeaseChange) => void;
  readonly durationSeconds?: number;
  readonly renewMilliseconds?: number;
  readonly retryMilliseconds?: number;
  readonly wallClock?: () => Date;
};

/** What we know of our Lease. */
type Memory = {
  readonly lease: Lease;
  /** renewTimes of writes since, of which we don't know whether they were carried out. */
  readonly attempts: readonly string[];
};

/** Compares our Lease as found with what we remember. Undefined: as we left it. */
export function judgeOwnLease(memory: Memory, found: Lease | undefined): LeaseChange | undefined {
  const { lease, attempts } = memory;
  if (found === undefined) return { what: "Replaced", holder: undefined };
  const holder = holderOf(found);
  if (found.metadata.uid !== lease.metadata.uid) return { what: "Replaced", holder };
  if (isOlder(found.metadata.resourceVersion ?? "", lease.metadata.resourceVersion ?? "")) {
    return { what: "WentBack", holder };
  }
  const renewTime = found.spec?.renewTime ?? "";
  const isOurs =
    holder === holderOf(lease) && (renewTime === (lease.spec?.renewTime ?? "") || attempts.includes(renewTime));
  return isOurs ? undefined : { what: "Rewritten", holder };
}

/** Creates and renews this node's Lease until the signal fires. */
export function holdNodeLease(options: NodeLeaseOptions): { readonly validUntil: Instant | undefined } {
  const { client, key, identity, clock, log, signal, wallClock = () => new Date() } = options;
  const { durationSeconds = LEASE_DURATION_SECONDS, renewMilliseconds = LEASE_RENEW_MILLISECONDS } = options;
  const { retryMilliseconds = 250 } = options;
  let memory: Memory | undefined;
  let doubtful = true;
  let validUntil: Instant | undefined;
  let failing = false;

  async function run(): Promise<void> {
    while (!signal.aborted) {
      if (validUntil !== undefined && options.beforeRenew !== undefined && !(await options.beforeRenew())) {
        await pause(retryMilliseconds, signal);
        continue;
      }
      if (signal.aborted) return;
      const startedAt = clock.now();
      const failure = await renew();
      if (signal.aborted) return;
      if (failure === "changed") continue;
      if (failure === undefined) {
        validUntil = after(startedAt, durationSeconds * 1000);
        if (failing) log.info({ lease: key.name }, "the Lease is renewed again");
        failing = false;
        options.onRenewed(validUntil);
        await pause(startedAt + renewMilliseconds - clock.now(), signal);
      } else {
        if (!failing) {
          log.warn({ lease: key.name, status: failure.status, message: failure.message }, "the Lease is not renewed");
        }
        failing = true;
        await pause(Math.max(retryMilliseconds, (failure.retryAfterSeconds ?? 0) * 1000), signal);
      }
    }
  }

  /** "changed": nothing is written, since the store may be another one than `beforeRenew` was asked about. */
  async function renew(): Promise<ApiFailure | "changed" | undefined> {
    if (doubtful) {
      const found = await client.get<Lease>(LEASE, key);
      if (!found.ok && found.failure.status !== 404) return found.failure;
      const lease = found.ok ? found.object : undefined;
      const change = memory === undefined ? undefined : judgeOwnLease(memory, lease);
      // A write without an answer may still be under way there.
      memory = lease === undefined ? undefined : { lease, attempts: memory?.attempts ?? [] };
      doubtful = false;
      if (change !== undefined) {
        report(change);
        return "changed";
      }
    }
    const written = await write(memory?.lease);
    if (!written.ok) {
      // 404 and 409: someone else wrote or deleted it. Anything else may have been carried out all the same.
      doubtful = true;
      return written.failure;
    }
    if (memory !== undefined && memory.lease.metadata.uid === written.object.metadata.uid) {
      const before = { lease: { ...written.object, metadata: memory.lease.metadata }, attempts: [] };
      const change = judgeOwnLease(before, written.object);
      if (change !== undefined) report(change);
    }
    memory = { lease: written.object, attempts: [] };
    return undefined;
  }

  async function write(over: Lease | undefined): Promise<Answer<Lease>> {
    const renewTime = microTime(wallClock());
    if (memory !== undefined) memory = { ...memory, attempts: [...memory.attempts.slice(-63), renewTime] };
    const takes = over === undefined || holderOf(over) !== identity;
    const spec = {
      ...over?.spec,
      holderIdentity: identity,
      leaseDurationSeconds: durationSeconds,
      renewTime,
      ...(takes ? { acquireTime: renewTime } : {}),
    };
    if (over !== undefined) return client.update<Lease>(LEASE, { ...over, spec });
    const owner = await options.owner?.();
    if (owner?.ok === false) return owner;
    const ownerReferences = owner === undefined ? {} : { ownerReferences: [owner.object] };
    return client.create<Lease>(LEASE, { metadata: { ...key, ...ownerReferences }, spec });
  }

  function report(change: LeaseChange): void {
    log.warn({ lease: key.name, ...change }, "our Lease is not as we last wrote it");
    options.onStoreChanged?.(change);
  }

  void run();
  return {
    get validUntil() {
      return validUntil;
    },
  };
}

import type { KubeObject } from "../api/meta.ts";
import type { Resource } from "../api/resource.ts";
import type { Instant } from "../core/instant.ts";
import type { Log } from "../core/log.ts";
import type { Clock } from "../host/port.ts";
import { type BackoffLimits, backoffMilliseconds, DEFAULT_BACKOFF, pause } from "./backoff.ts";
import { ObjectCache, type StoreChange } from "./cache.ts";
import type { WatchClient, WatchEnd } from "./client.ts";
import { type KubeMetrics, NO_METRICS } from "./metrics.ts";
import type { ApiFailure, Informer, InformerEvent } from "./port.ts";

export type InformerLimits = {
  /** A stream that says nothing for so long is broken. The API server sends a bookmark about each minute. */
  readonly idleMilliseconds: number;
  /** The server ends each watch cleanly after a time between these, so that not all end at once. */
  readonly watchSeconds: { readonly least: number; readonly most: number };
  readonly backoff: BackoffLimits;
  /** A watch that lived this long was healthy: the next failure counts as the first. */
  readonly healthyMilliseconds: number;
  /** So many lists in a row that are older than what was seen: not the list is stale, the store went back. */
  readonly staleListsOfRestore: number;
};

export const DEFAULT_INFORMER_LIMITS: InformerLimits = {
  idleMilliseconds: 90_000,
  watchSeconds: { least: 300, most: 600 },
  backoff: DEFAULT_BACKOFF,
  healthyMilliseconds: 5_000,
  staleListsOfRestore: 3,
};

export type InformerOptions<T extends KubeObject> = {
  readonly client: WatchClient;
  readonly resource: Resource;
  readonly namespace?: string;
  readonly labelSelector?: string;
  readonly fieldSelector?: string;
  /**
   * Cuts an object down to the fields that are used; may reuse parts of it. Keeps metadata.name, namespace, uid and
   * resourceVersion. managedFields and last-applied are gone before.
   */
  readonly project: (object: KubeObject) => T;
  /**
   * Called synchronously, the cache already changed. `receivedAt`: when the bytes of the event were read. What it throws
   * is a bug and ends the process.
   */
  readonly onEvent: (event: InformerEvent<T>, receivedAt: Instant) => void;
  /**
   * True after each consistent list was delivered, false when the watch breaks. Between them nothing is known of the
   * server: what is cached may be gone.
   */
  readonly onFresh?: (fresh: boolean) => void;
  /** Called before the events of the list that shows it. */
  readonly onStoreChanged?: (change: StoreChange) => void;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
  readonly limits?: Partial<InformerLimits>;
  readonly metrics?: KubeMetrics;
};

const LONGEST_SOON_MILLISECONDS = 1_000;
/** As many failures as it takes to wait that long. What comes after an outage begins to back off from there. */
const MOST_SOON_FAILURES = 4;

/** Why the loop goes round again, and how. */
type Next =
  | { readonly type: "resume" }
  | {
      readonly type: "list";
      readonly why: string;
      readonly blame: boolean;
      /**
       * Not to be waited for long: without an answer the client has its own back-off, and when there is a connection
       * again all informers must be; and who saw a stale list has to know soon whether the store went back.
       */
      readonly soon?: true;
      readonly retryAfterSeconds?: number;
    };

/**
 * Keeps a cache true until the signal fires.
 *
 *     list ──▶ deliver ──▶ watch ──▶ clean end, same connection: resume
 *      ▲                     │
 *      └──── back off ◀──────┴── anything else
 *
 * A watch is resumed only when it ended cleanly, had told something, and its connection still lives, which proves that
 * neither the server nor the way to it went away. After everything else a consistent list comes before anything is acted
 * upon (docs/life-of-a-vip.md, Join).
 */
export function startInformer<T extends KubeObject>(options: InformerOptions<T>): Informer<T> {
  const { client, resource, clock, log, signal, metrics = NO_METRICS } = options;
  const limits: InformerLimits = { ...DEFAULT_INFORMER_LIMITS, ...options.limits };
  const cache = new ObjectCache<T>(options.project);
  const name = resource.plural;
  let synced = false;
  let fresh = false;
  let lastHeardAt: Instant | undefined;
  let failures = 0;
  let staleLists = 0;

  function setFresh(value: boolean): void {
    if (fresh === value) return;
    fresh = value;
    options.onFresh?.(value);
  }

  async function run(): Promise<void> {
    while (!signal.aborted) {
      let next = await list();
      while (next.type === "resume" && !signal.aborted) next = await watch();
      if (signal.aborted || next.type !== "list") break;
      setFresh(false);
      metrics.watchEnded(name, next.why);
      if (next.blame && !(next.soon && failures >= MOST_SOON_FAILURES)) failures++;
      await pause(waitBeforeList(next), signal);
    }
    setFresh(false);
  }

  function waitBeforeList(next: Next & { type: "list" }): number {
    // Even without anybody's fault: a server that goes away ends the watches of all clients in the same moment.
    const whole = backoffMilliseconds(limits.backoff, Math.max(1, failures), Math.random());
    const own = next.soon ? Math.min(whole, LONGEST_SOON_MILLISECONDS * (0.5 + Math.random() / 2)) : whole;
    const asked = (next.retryAfterSeconds ?? 0) * 1000;
    return asked > own ? asked + own * Math.random() : own;
  }

  /** "resume" means that the list is delivered and a watch may begin. */
  async function list(): Promise<Next> {
    const items: T[] = [];
    const answer = await client.readList(
      resource,
      {
        ...(options.namespace === undefined ? {} : { namespace: options.namespace }),
        ...(options.labelSelector === undefined ? {} : { labelSelector: options.labelSelector }),
        ...(options.fieldSelector === undefined ? {} : { fieldSelector: options.fieldSelector }),
        signal,
      },
      (object) => void items.push(cache.project(object)),
    );
    if (signal.aborted) return { type: "list", why: "stopped", blame: false };
    if (!answer.ok) return refused("list", answer.failure);
    return deliver(answer.object.resourceVersion, items, answer.object.receivedAt)
      ? { type: "resume" }
      : { type: "list", why: "stale list", blame: true, soon: true };
  }

  /** Tells what a consistent list brings. False when it is stale: then nothing of it is told. */
  function deliver(resourceVersion: string, items: readonly T[], receivedAt: Instant): boolean {
    const verdict = cache.applyList(resourceVersion, items, staleLists + 1 >= limits.staleListsOfRestore);
    if (verdict.type === "stale") {
      staleLists++;
      log.warn({ resource: name, listed: resourceVersion, seen: verdict.seen }, "a list older than what was seen");
      return false;
    }
    staleLists = 0;
    lastHeardAt = receivedAt;
    for (const change of verdict.changes) {
      log.warn({ resource: name, ...change }, "the store changed under us, as after a restore");
      options.onStoreChanged?.(change);
    }
    for (const event of verdict.events) options.onEvent(event, receivedAt);
    if (!synced) {
      synced = true;
      options.onEvent({ type: "synced" }, receivedAt);
    }
    setFresh(true);
    return true;
  }

  /** Follows the server from where the cache stands. */
  async function watch(): Promise<Next> {
    const openedAt = clock.now();
    const { least, most } = limits.watchSeconds;
    const ending = new AbortController();
    let distrust: string | undefined;
    let told = false;
    const giveUp = (why: string) => {
      distrust ??= why;
      ending.abort();
    };
    giveUpWatch = giveUp;
    const stop = () => ending.abort();
    signal.addEventListener("abort", stop);
    let heardAt = openedAt;
    const watchdog = setInterval(() => {
      if (clock.now() - heardAt > limits.idleMilliseconds) giveUp("silent");
    }, limits.idleMilliseconds / 4);
    const resumed = connection;
    const end = await client.watch(
      resource,
      {
        namespace: options.namespace,
        labelSelector: options.labelSelector,
        fieldSelector: options.fieldSelector,
        resourceVersion: cache.position ?? "",
        timeoutSeconds: Math.round(least + (most - least) * Math.random()),
        ...(resumed === undefined ? {} : { onConnection: resumed }),
        signal: ending.signal,
      },
      {
        opened(number) {
          connection = number;
        },
        heard(at) {
          heardAt = at;
          lastHeardAt = at;
        },
        event(type, object, receivedAt) {
          if (distrust !== undefined || signal.aborted) return;
          const verdict = cache.applyEvent(type, object);
          if (verdict.type === "broken") return giveUp(verdict.message);
          told = true;
          if (verdict.type === "applied") for (const event of verdict.events) options.onEvent(event, receivedAt);
        },
      },
    );
    clearInterval(watchdog);
    signal.removeEventListener("abort", stop);
    giveUpWatch = undefined;
    if (signal.aborted) return { type: "list", why: "stopped", blame: false };
    if (clock.now() - openedAt >= limits.healthyMilliseconds) failures = 0;
    if (distrust !== undefined) return broke(distrust);
    return afterWatch(end, told);
  }

  /** Ends the watch that runs, if one does. */
  let giveUpWatch: ((why: string) => void) | undefined;

  /** Connection of the watch that is resumed; undefined before the first after a list. */
  let connection: number | undefined;

  function afterWatch(end: WatchEnd, told: boolean): Next {
    switch (end.type) {
      case "ended":
        // Some servers close instead of answering 410; one that told nothing may be one of them.
        if (told) return { type: "resume" };
        connection = undefined;
        return { type: "list", why: "ended", blame: true };
      case "refused":
        return refused("watch", end.failure);
      case "broken":
        return broke(end.message);
    }
  }

  function broke(message: string): Next & { type: "list" } {
    connection = undefined;
    log.info({ resource: name, message }, "a watch broke, listing again");
    return { type: "list", why: message === "silent" ? message : "broken", blame: true };
  }

  function refused(what: string, failure: ApiFailure): Next {
    connection = undefined;
    if (failure.status === 410) {
      log.debug({ resource: name }, "the history is gone, listing again");
      return { type: "list", why: "expired", blame: true };
    }
    if (failure.status === 0) {
      log.debug({ resource: name, what, message: failure.message }, "no answer, trying again");
      return { type: "list", why: "no answer", blame: true, soon: true };
    }
    log.warn({ resource: name, what, status: failure.status, message: failure.message }, "refused, trying again");
    return {
      type: "list",
      why: "refused",
      blame: true,
      ...(failure.retryAfterSeconds === undefined ? {} : { retryAfterSeconds: failure.retryAfterSeconds }),
    };
  }

  const informer: Informer<T> = {
    resource,
    get: (key) => cache.objects.get(key),
    values: () => cache.objects.values(),
    get size() {
      return cache.objects.size;
    },
    get synced() {
      return synced;
    },
    get lastEventVersion() {
      return cache.eventVersion;
    },
    get lastHeardAt() {
      return lastHeardAt;
    },
    get fresh() {
      return fresh;
    },
    doubt(why) {
      giveUpWatch?.(why);
      setFresh(false);
    },
  };
  metrics.follow({
    name,
    now: () => clock.now(),
    get size() {
      return cache.objects.size;
    },
    get fresh() {
      return fresh;
    },
    get lastHeardAt() {
      return lastHeardAt;
    },
  });
  void run();
  return informer;
}

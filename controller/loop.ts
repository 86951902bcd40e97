/** The controller while it leads: informers mark keys, workers take them. */
import type { Gateway, Namespace, Node, Service } from "../src/api/foreign.ts";
import type { KubeObject } from "../src/api/meta.ts";
import { apiVersionOf } from "../src/api/resource.ts";
import type { ServiceRoute } from "../src/api/service-route.ts";
import type { SpeakerStatus } from "../src/api/speaker-status.ts";
import type { DataPath, VirtualIP } from "../src/api/virtual-ip.ts";
import { virtualIPName } from "../src/api/virtual-ip-name.ts";
import { after, earlier, type Instant } from "../src/core/instant.ts";
import type { Log } from "../src/core/log.ts";
import { reaches } from "../src/core/resource-version.ts";
import { same } from "../src/core/same.ts";
import type { Clock } from "../src/host/port.ts";
import { AddressBook } from "../src/ipam/address-book.ts";
import { advertisementsOf } from "../src/ipam/advertise.ts";
import { Claims } from "../src/ipam/claims.ts";
import { type Reservation, resolvePools } from "../src/ipam/pool.ts";
import { alsoWaitingFor, SETTLED, type Settling, settle, type Unsettled, unsettle } from "../src/ipam/settle.ts";
import { pause } from "../src/kube/backoff.ts";
import type { WatchClient } from "../src/kube/client.ts";
import type { EventRecorder } from "../src/kube/events.ts";
import { type InformerLimits, startInformer } from "../src/kube/informer.ts";
import type { LeaseWatcher } from "../src/kube/lease-watcher.ts";
import type { KubeMetrics } from "../src/kube/metrics.ts";
import { type InformerEvent, keyOf } from "../src/kube/port.ts";
import type { Address } from "../src/net/address.ts";
import type { NodeView } from "../src/plan/elect.ts";
import { Expectations } from "../src/reconcile/expectations.ts";
import { DirtyQueue, type Lane } from "../src/reconcile/queue.ts";
import { reconcileL2Advertisement } from "./advertisement.ts";
import { reconcileGatewayClass } from "./class.ts";
import { type Desk, RequestFailed, type Waiter } from "./desk.ts";
import { gatewayHolder } from "./gateway.ts";
import { reconcileHolder } from "./holder.ts";
import { overlapOf } from "./overlap.ts";
import { reconcilePool } from "./pool.ts";
import { reconcileServiceRoute } from "./route.ts";
import { serviceHolder } from "./service.ts";
import { Speakers, sightOf } from "./speakers.ts";
import { reservationsIn, viewNodes } from "./surroundings.ts";
import { reconcileVirtualIP } from "./vip.ts";
import {
  gatewayBrief,
  type KindName,
  type Kinds,
  routeBrief,
  serviceBrief,
  splitKey,
  vipBrief,
  WATCHED,
  type WorkKey,
  World,
  workKey,
} from "./world.ts";

export type LoopOptions = {
  readonly client: WatchClient;
  readonly clock: Clock;
  /** Wall clock, for conditions only: no decision is made from it. */
  readonly wallClock: () => Date;
  readonly random: () => number;
  readonly log: Log;
  readonly namespace: string;
  readonly controllerName: string;
  readonly claimClassless: boolean;
  readonly serviceDataPath: DataPath;
  /** Fed by an informer that outlives the loop, so that a standby knows which speakers live when it takes over. */
  readonly leases: LeaseWatcher;
  /** Called before each look at `leases`: a watch that is silent freezes them. */
  readonly listen: () => void;
  /** When `leases` began to be fed: renewals count from there. */
  readonly leasesSince: Instant;
  /** The store changed under this process before this term began, and not every speaker was heard since. */
  readonly doubt?: Unsettled | undefined;
  readonly onSettled?: () => void;
  readonly events?: EventRecorder;
  readonly kubeMetrics?: KubeMetrics;
  readonly informerLimits?: Partial<InformerLimits>;
  /** Writes and reads under way at once. */
  readonly parallel?: number;
  readonly signal: AbortSignal;
};

/** What others may look at. */
export type Loop = {
  /** Kinds that are not listed yet; none means ready. */
  missing(): readonly KindName[];
  readonly world: World;
  readonly book: AddressBook;
  readonly depth: number;
  readonly backingOff: number;
  readonly errors: number;
  /** Resolves when no key is ready, in flight or expecting: for tests. */
  readonly idle: boolean;
  readonly settling: Settling;
  /** Told when `leases` was. */
  leasesChanged(): void;
  /** The Leases show that the store was put back. */
  storeChanged(doubt: Unsettled): void;
};

/** Enough for a thousand writes a second where each takes 20 ms; more would only queue at a small API server, Leases behind them. */
const PARALLEL = 24;
/**
 * While addresses are being given out, one report is under way at a time and no more than ten begin in a second: they take from
 * the same API server, and nobody's traffic waits for them.
 */
const REPORTS_MEANWHILE = 1;
const REPORT_MILLISECONDS = 100;
/** After the last address was given out, until reports have the way to themselves: a burst has gaps. */
const LULL_MILLISECONDS = 100;
const SLICE_MILLISECONDS = 10;
const OPTIONAL_RETRY_MILLISECONDS = 10_000;
/** Pool counters may lag this much: a burst of a thousand VIPs is a handful of writes to the pool. */
const POOL_STATUS_MILLISECONDS = 500;

export function startLoop(options: LoopOptions): Loop {
  const { client, clock, log, leases, signal } = options;
  const now = (): Instant => clock.now();
  const world = new World();
  const book = new AddressBook();
  const claims = new Claims(book, (address) => world.get("VirtualIP", virtualIPName(address)) !== undefined);
  const queue = new DirtyQueue({ backoffMilliseconds: 50, mostBackoffMilliseconds: 30_000, random: options.random });
  const expectations = new Expectations({ timeoutMilliseconds: 15_000 });
  const speakers = new Speakers({ client, world, leases, namespace: options.namespace, now });
  const waiters = new Map<WorkKey, Waiter>();
  const deleting = new Set<string>();
  const ownerless = new Set<string>();
  const confirmed = new Set<string>();
  const absent = new Set<KindName>();
  const synced = new Set<KindName>();
  let settling: Settling = SETTLED;
  let { doubt } = options;
  let started = false;
  let reservations: readonly Reservation[] = [];
  let views: ReadonlyMap<string, NodeView> | undefined;
  let live = 0;
  let errors = 0;
  let timer: NodeJS.Timeout | undefined;
  let timerAt: Instant | undefined;
  let turning = false;
  /** When work of the first lane was last seen. */
  let urgentAt: Instant | undefined;
  /** When work of the other lane was last taken. */
  let reportedAt: Instant | undefined;

  const desk: Desk = {
    client,
    world,
    book,
    log,
    claims,
    confirmed,
    speakers,
    controllerName: options.controllerName,
    claimClassless: options.claimClassless,
    serviceDataPath: options.serviceDataPath,
    namespace: options.namespace,
    now,
    timestamp,
    wrote(key, kind, object) {
      const name = workKey(kind, keyOf(object));
      const version = object.metadata.resourceVersion ?? "";
      // The event may have come before the answer, and its deletion after it: the object is not asked, the informer is.
      if (reaches(world.cache(kind).lastEventVersion, version)) return;
      expectations.expect(key, name, version, now());
    },
    again: (key, milliseconds) => queue.markAt(key, after(now(), milliseconds), "later"),
    mark,
    unsettled: () => (settling.type === "settled" ? undefined : settling),
    liveSpeakers: () => live,
    nodeViews: () => (views ??= viewNodes(world, speakers)),
    waits(key, waiter) {
      if (waiter === undefined) waiters.delete(key);
      else waiters.set(key, waiter);
    },
    warn: (object, kind, reason, message) => event("Warning", object, kind, reason, message),
    tell: (object, kind, reason, message) => event("Normal", object, kind, reason, message),
  };

  function event(type: "Normal" | "Warning", object: KubeObject, kind: KindName, reason: string, note: string): void {
    const regarding = { apiVersion: apiVersionOf(WATCHED[kind].resource), kind, metadata: object.metadata };
    options.events?.record({ regarding, type, reason, action: "Reconcile", note });
  }

  /** The same text for a whole second: printing a date costs as much as judging a status. */
  let printed = { second: Number.NaN, text: "" };
  function timestamp(): string {
    const wall = options.wallClock();
    const second = Math.floor(wall.getTime() / 1000);
    if (second !== printed.second) printed = { second, text: `${wall.toISOString().slice(0, 19)}Z` };
    return printed.text;
  }

  // --- events -------------------------------------------------------------------------------------------------------

  /** Before the start everything is going to be marked anyway, in an order of its own. */
  function mark(key: WorkKey, lane: Lane = laneOf(key)): void {
    if (!started) return;
    queue.mark(key, lane);
    turn();
  }

  function onEvent<K extends KindName>(kind: K, event: InformerEvent<Kinds[K]>): void {
    if (event.type === "synced") {
      synced.add(kind);
      begin();
      return;
    }
    const { object } = event;
    const key = keyOf(object);
    const gone = event.type === "delete";
    world.index(kind, object, gone);
    const name = workKey(kind, key);
    for (const free of expectations.seen(name, gone ? "gone" : (object.metadata.resourceVersion ?? ""))) {
      // Who sees its own status again has what it wanted.
      queue.mark(free, free === name ? "later" : laneOf(free));
    }
    const previous = event.type === "upsert" ? event.previous : undefined;
    switch (kind) {
      case "Gateway":
        gatewayChanged(key, object as Gateway, previous as Gateway | undefined, gone);
        break;
      case "GatewayClass":
        mark(name);
        if (gone || saysAnew(object, previous)) classChanged(key);
        break;
      case "ServiceRoute":
        routeChanged(key, object as ServiceRoute, previous as ServiceRoute | undefined, gone);
        break;
      case "Service":
        serviceChanged(key, object as Service, previous as Service | undefined, gone);
        break;
      case "VirtualIP":
        vipChanged(key, object as VirtualIP, previous as VirtualIP | undefined, gone);
        break;
      case "IPAddressPool":
      case "ServiceCIDR":
        if (kind === "IPAddressPool") mark(name);
        if (gone || saysAnew(object, previous)) poolsChanged();
        break;
      case "L2Advertisement":
        mark(name);
        if (gone || saysAnew(object, previous)) advertisementsChanged();
        break;
      case "Node":
        nodeChanged(object as Node, gone);
        break;
      case "Namespace":
        namespaceChanged(object as Namespace, previous as Namespace | undefined);
        break;
      case "SpeakerStatus":
        speakerChanged(object as SpeakerStatus, previous as SpeakerStatus | undefined);
        break;
      default:
    }
    turn();
  }

  function gatewayChanged(key: string, gateway: Gateway, previous: Gateway | undefined, gone: boolean): void {
    mark(workKey("Gateway", key), isReport(gateway, previous) ? "later" : "first");
    markDeletingOf(workKey("Gateway", key));
    const before = previous === undefined ? undefined : gatewayBrief(previous).className;
    const { className } = gatewayBrief(gateway);
    if (gone || before !== className) {
      mark(workKey("GatewayClass", className));
      if (before !== undefined) mark(workKey("GatewayClass", before));
    }
    if (gone || previous?.metadata.generation !== gateway.metadata.generation) {
      for (const route of world.routesOf(key)) mark(workKey("ServiceRoute", keyOf(route)));
    }
  }

  function classChanged(name: string): void {
    for (const gateway of world.gatewayKeysOfClass(name)) {
      mark(workKey("Gateway", gateway));
      for (const route of world.routesOf(gateway)) mark(workKey("ServiceRoute", keyOf(route)));
    }
  }

  function routeChanged(key: string, route: ServiceRoute, previous: ServiceRoute | undefined, gone: boolean): void {
    mark(workKey("ServiceRoute", key));
    if (!gone && previous !== undefined && previous.metadata.generation === route.metadata.generation) return;
    const parents = new Set([
      ...routeBrief(route).parents,
      ...(previous === undefined ? [] : routeBrief(previous).parents),
    ]);
    for (const parent of parents) {
      mark(workKey("Gateway", parent));
      // Another route may be the oldest on a listener now.
      for (const other of world.routesOf(parent)) mark(workKey("ServiceRoute", keyOf(other)));
    }
  }

  function serviceChanged(key: string, service: Service, previous: Service | undefined, gone: boolean): void {
    const { isLoadBalancer, hasConditions } = serviceBrief(service);
    const self = workKey("Service", key);
    const touched =
      isLoadBalancer || hasConditions || (previous !== undefined && serviceBrief(previous).isLoadBalancer);
    if (touched || world.vipsOf(self).length > 0) mark(self);
    markDeletingOf(self);
    const backend = ({ spec: { type, ports } }: Service) => ({ type: type === "ExternalName", ports });
    if (!gone && previous !== undefined && same(backend(service), backend(previous))) return;
    for (const route of world.routeKeysOfService(key)) {
      mark(workKey("ServiceRoute", route));
      const object = world.get("ServiceRoute", route);
      for (const parent of object === undefined ? [] : routeBrief(object).parents) mark(workKey("Gateway", parent));
    }
  }

  function vipChanged(name: string, vip: VirtualIP, previous: VirtualIP | undefined, gone: boolean): void {
    const { address, holders, owned } = vipBrief(vip);
    for (const key of holders) {
      claims.seen(key, address);
      mark(key, !gone && isReport(vip, previous) ? "later" : "first");
    }
    deleting.delete(name);
    ownerless.delete(name);
    if (gone) {
      book.vacate(address);
      if (vip.metadata.deletionTimestamp === undefined && !confirmed.has(vip.metadata.uid ?? "")) {
        storeChanged(`VirtualIP ${name} is gone without a deletion that was confirmed`);
      }
      confirmed.delete(vip.metadata.uid ?? "");
      wakeWaiters(address);
    } else {
      const [holder] = holders;
      book.occupy(address, holder === undefined ? `VirtualIP ${name}` : holder.replace("/", " "));
      if (vip.metadata.deletionTimestamp !== undefined) deleting.add(name);
      else if (!owned) ownerless.add(name);
      mark(workKey("VirtualIP", name));
    }
    const pool = book.poolOf(address)?.name;
    if (pool !== undefined) {
      queue.markAt(workKey("IPAddressPool", pool), after(now(), POOL_STATUS_MILLISECONDS), "later");
    }
  }

  /** Pools, or what is taken from them, changed. */
  function poolsChanged(): void {
    if (!started) return;
    reservations = reservationsIn(world);
    const before = overlapping();
    book.setPools(resolvePools(world.cache("IPAddressPool").values(), reservations));
    for (const vip of new Set([...before, ...overlapping()])) markAll(vip);
    for (const name of book.pools.keys()) mark(workKey("IPAddressPool", name));
    for (const { metadata } of world.cache("L2Advertisement").values()) mark(workKey("L2Advertisement", metadata.name));
    for (const key of byAge(waiters)) mark(key);
    advertisementsChanged();
  }

  /** VIPs whose address is a node's as well. */
  function overlapping(): VirtualIP[] {
    if (![...book.pools.values()].some(({ reserved }) => reserved.length > 0)) return [];
    return [...world.cache("VirtualIP").values()].filter((vip) => overlapOf(book, vip) !== undefined);
  }

  function advertisementsChanged(): void {
    if (!started) return;
    for (const vip of world.cache("VirtualIP").values()) {
      const holder = vip.spec.holders[0];
      if (holder === undefined) continue;
      const labels = world.get(holder.kind, `${holder.namespace}/${holder.name}`)?.metadata.labels ?? {};
      const pool = { name: vip.spec.pool, labels: book.pools.get(vip.spec.pool)?.labels };
      const wanted = advertisementsOf(pool, labels, world.cache("L2Advertisement").values());
      if (!same(wanted, vip.spec.advertisements.l2)) for (const key of vipBrief(vip).holders) mark(key);
      else if (vip.status?.owner === undefined) mark(workKey("VirtualIP", vip.metadata.name));
    }
  }

  function nodeChanged(node: Node, gone: boolean): void {
    views = undefined;
    if (gone) log.info({ node: node.metadata.name }, "a node is gone");
    look();
    if (!same(reservations, reservationsIn(world))) poolsChanged();
    markUnowned();
  }

  function namespaceChanged(namespace: Namespace, previous: Namespace | undefined): void {
    if (!started || same(namespace.metadata.labels ?? {}, previous?.metadata.labels ?? {})) return;
    const { name } = namespace.metadata;
    for (const route of world.cache("ServiceRoute").values()) {
      if (route.metadata.namespace !== name) continue;
      mark(workKey("ServiceRoute", keyOf(route)));
      for (const parent of routeBrief(route).parents) mark(workKey("Gateway", parent));
    }
    for (const key of byAge(waiters)) if (splitKey(key).key.startsWith(`${name}/`)) mark(key);
  }

  function speakerChanged(status: SpeakerStatus, previous: SpeakerStatus | undefined): void {
    views = undefined;
    for (const name of deleting) mark(workKey("VirtualIP", name));
    if (!same(reservations, reservationsIn(world))) poolsChanged();
    if (!same(status.status?.links, previous?.status?.links)) markUnowned();
    for (const { vip } of [...(status.status?.failing ?? []), ...(previous?.status?.failing ?? [])]) {
      mark(workKey("VirtualIP", vip));
    }
  }

  /** Leases changed, or one of them ran out. */
  function look(): void {
    options.listen();
    const before = settling;
    settling = settle(settling, sightOf(leases), (node) => world.get("Node", node) !== undefined, now());
    if (before.type === "unsettled" && settling.type === "settled") {
      log.info({ why: before.why }, "every speaker was heard, addresses are given out");
      options.onSettled?.();
      for (const key of byAge(waiters)) mark(key);
    }
    const count = speakers.liveCount();
    if (count !== live) {
      const turned = (count === 0) !== (live === 0);
      live = count;
      views = undefined;
      for (const name of deleting) mark(workKey("VirtualIP", name));
      if (turned && started) for (const vip of world.cache("VirtualIP").values()) markAll(vip);
      markUnowned();
    }
  }

  function markAll(vip: VirtualIP): void {
    mark(workKey("VirtualIP", vip.metadata.name));
    for (const key of vipBrief(vip).holders) mark(key);
  }

  function markUnowned(): void {
    for (const name of ownerless) mark(workKey("VirtualIP", name));
    for (const { metadata } of world.cache("L2Advertisement").values()) mark(workKey("L2Advertisement", metadata.name));
  }

  function markDeletingOf(holder: WorkKey): void {
    if (deleting.size === 0) return;
    for (const { metadata } of world.vipsOf(holder)) {
      if (deleting.has(metadata.name)) mark(workKey("VirtualIP", metadata.name));
    }
  }

  /** Everybody who may use the address now, who waits longest first. */
  function wakeWaiters(address: Address): void {
    const family = address.includes(":") ? "IPv6" : "IPv4";
    for (const key of byAge(waiters)) if (waiters.get(key)?.families.includes(family)) mark(key);
  }

  /** The same uid with an older version, or a VIP that nobody let go: what the store says may be older than the world. */
  function storeChanged(message: string): void {
    if (!started) return;
    doubtStore(unsettle("storeChanged", [...speakers.nodes()], message, now()));
  }

  function doubtStore(doubt: Unsettled): void {
    const { message } = doubt;
    log.warn({ message }, "the store changed under us: nothing is allocated until every speaker was heard");
    settling = alsoWaitingFor(doubt, settling);
    look();
  }

  // --- work ---------------------------------------------------------------------------------------------------------

  /** Nothing is decided before everything is known; then every VIP is adopted before the first is allocated. */
  function begin(): void {
    if (started || missing().length > 0) return;
    started = true;
    const nodes = [...speakers.nodes()];
    const unheard = "the speakers are being heard before the first address is given out";
    settling = unsettle("noMemory", nodes, unheard, options.leasesSince);
    if (doubt !== undefined) settling = alsoWaitingFor(doubt, settling);
    reservations = reservationsIn(world);
    book.setPools(resolvePools(world.cache("IPAddressPool").values(), reservations));
    look();
    for (const key of everything()) queue.mark(key, laneOf(key));
    log.info({ vips: world.cache("VirtualIP").size, gateways: world.cache("Gateway").size }, "caches are full");
    turn();
  }

  /**
   * Every key: holders that have nothing before all others, who waits longest first. Every VIP is in the book by now, so
   * nobody can be given what another has.
   */
  function everything(): WorkKey[] {
    const holders: { key: WorkKey; since: string; has: boolean }[] = [];
    for (const kind of ["Gateway", "Service"] as const) {
      for (const object of world.cache(kind).values()) {
        if (kind === "Service" && !concerns(object as Service)) continue;
        const key = workKey(kind, keyOf(object));
        holders.push({ key, since: object.metadata.creationTimestamp ?? "", has: world.vipsOf(key).length > 0 });
      }
    }
    holders.sort((a, b) => Number(a.has) - Number(b.has) || order(a.since, b.since) || order(a.key, b.key));
    const keys = holders.map(({ key }) => key);
    for (const vip of world.cache("VirtualIP").values()) keys.push(...vipBrief(vip).holders);
    for (const kind of ["VirtualIP", "GatewayClass", "IPAddressPool", "L2Advertisement", "ServiceRoute"] as const) {
      for (const object of world.cache(kind).values()) keys.push(workKey(kind, keyOf(object)));
    }
    return keys;
  }

  /** A Service that is of type LoadBalancer, or that has something of us left. */
  const concerns = (service: Service): boolean =>
    serviceBrief(service).isLoadBalancer ||
    serviceBrief(service).hasConditions ||
    world.vipsOf(workKey("Service", keyOf(service))).length > 0;

  const missing = (): KindName[] => KINDS.filter((kind) => !synced.has(kind) && !absent.has(kind));

  /**
   * Starts work on what is ready, and a timer for what is not, in slices: keys that need no request are done within
   * their slice, and ten thousand of them in a row would keep the Lease from being renewed.
   */
  function turn(): void {
    if (turning || !started || signal.aborted) return;
    turning = true;
    setImmediate(() => {
      turning = false;
      if (signal.aborted) return;
      for (const key of expectations.expire(now())) queue.mark(key, laneOf(key));
      const until = after(now(), SLICE_MILLISECONDS);
      while (queue.inFlight < (options.parallel ?? PARALLEL)) {
        if (now() > until) {
          turn();
          break;
        }
        const reports = queue.inFlightIn("later");
        const key = queue.take(now(), mayReport() ? "later" : "first");
        if (key === undefined) break;
        if (queue.inFlightIn("later") > reports) reportedAt = now();
        // The informer's event brings it back.
        if (expectations.holds(key)) queue.succeed(key);
        else void work(key);
      }
      arm();
    });
  }

  /** Reports have few places while the first lane is at work, and for a lull longer. */
  function mayReport(): boolean {
    if (queue.inFlightIn("first") + queue.readyIn("first") > 0) urgentAt = now();
    if (lullAt() === undefined) return true;
    const rested = reportedAt === undefined || now() >= after(reportedAt, REPORT_MILLISECONDS);
    return rested && queue.inFlightIn("later") < REPORTS_MEANWHILE;
  }

  /** When the lull will have lasted; undefined when it has. */
  function lullAt(): Instant | undefined {
    const at = urgentAt === undefined ? undefined : after(urgentAt, LULL_MILLISECONDS);
    return at === undefined || at <= now() ? undefined : at;
  }

  function arm(): void {
    const waits = earlier(earlier(queue.nextDeadline(), expectations.nextDeadline()), leases.nextDeadline(now()));
    const next = queue.readyIn("later") > 0 ? earlier(waits, lullAt()) : waits;
    if (next === timerAt && timer !== undefined) return;
    clearTimeout(timer);
    timerAt = next;
    if (next === undefined) return;
    timer = setTimeout(
      () => {
        timer = undefined;
        look();
        turn();
      },
      Math.max(1, next - now() + 1),
    );
  }

  async function work(key: string): Promise<void> {
    try {
      await reconcile(key);
      queue.succeed(key);
    } catch (error) {
      if (!(error instanceof RequestFailed)) throw error;
      if (signal.aborted) return;
      errors++;
      const { status, retryAfterSeconds = 0 } = error.failure;
      // A conflict says that the cache is behind, which is nobody's fault and over in a moment.
      log[status === 409 ? "debug" : "warn"]({ key, message: error.message }, "will be tried again");
      queue.fail(key, now(), retryAfterSeconds * 1000);
    }
    turn();
  }

  function reconcile(work: string): Promise<void> {
    const { kind, key } = splitKey(work);
    switch (kind) {
      case "Gateway":
        return reconcileHolder(desk, gateways, key);
      case "Service":
        return reconcileHolder(desk, services, key);
      case "GatewayClass":
        return reconcileGatewayClass(desk, key);
      case "ServiceRoute":
        return reconcileServiceRoute(desk, key);
      case "VirtualIP":
        return reconcileVirtualIP(desk, key);
      case "IPAddressPool":
        return reconcilePool(desk, key);
      case "L2Advertisement":
        return reconcileL2Advertisement(desk, key);
      default:
        throw new Error(`no work on ${kind}`);
    }
  }

  const gateways = gatewayHolder(desk);
  const services = serviceHolder(desk);

  // --- informers ----------------------------------------------------------------------------------------------------

  function follow<K extends KindName>(kind: K): void {
    const { resource, project } = WATCHED[kind];
    const informer = startInformer<Kinds[K]>({
      client,
      resource,
      project: project as (object: KubeObject) => Kinds[K],
      onEvent: (event) => onEvent(kind, event),
      onFresh: (fresh) => {
        if (!fresh) return;
        if (kind === "VirtualIP") audit();
        // The API server answers again: what backed off meanwhile need not wait.
        queue.forgive();
        turn();
      },
      onStoreChanged: (change) =>
        storeChanged(`${kind} ${change.key ?? "list"} went back from ${change.seen} to ${change.found}`),
      clock,
      log,
      signal,
      ...(options.informerLimits === undefined ? {} : { limits: options.informerLimits }),
      ...(options.kubeMetrics === undefined ? {} : { metrics: options.kubeMetrics }),
    });
    world.attach(kind, informer);
  }

  /** A VIP that came and went between two lists left its address occupied by nobody. */
  function audit(): void {
    const claimed = new Set(claims.all());
    for (const address of book.occupied()) {
      if (claimed.has(address) || world.get("VirtualIP", virtualIPName(address)) !== undefined) continue;
      book.vacate(address);
      wakeWaiters(address);
    }
  }

  /** A kind whose definition is not installed counts as empty, and is asked for again now and then. */
  async function followOptional(kind: KindName): Promise<void> {
    const { resource } = WATCHED[kind];
    while (!signal.aborted) {
      const answer = await client.list(resource, { fieldSelector: "metadata.name=belfry-asks-whether-this-is-served" });
      if (signal.aborted) return;
      if (answer.ok) {
        if (absent.delete(kind)) log.info({ kind }, "this kind is served now");
        follow(kind);
        return;
      }
      if (answer.failure.status === 404 && !absent.has(kind)) {
        log.info({ kind }, "the cluster does not serve this kind; going on without it");
        absent.add(kind);
        begin();
      }
      const wait = answer.failure.status === 404 ? OPTIONAL_RETRY_MILLISECONDS : 500;
      await pause(wait, signal);
    }
  }

  // All at once: the server makes ready one list while another is read here.
  for (const kind of KINDS) {
    if (WATCHED[kind].optional) void followOptional(kind);
    else follow(kind);
  }
  signal.addEventListener("abort", () => clearTimeout(timer), { once: true });

  return {
    missing,
    world,
    book,
    get depth() {
      return queue.depth;
    },
    get backingOff() {
      return queue.backingOff;
    },
    get errors() {
      return errors;
    },
    get idle() {
      return started && queue.depth === 0 && expectations.size === 0;
    },
    get settling() {
      return settling;
    },
    leasesChanged() {
      if (!started) return;
      look();
      turn();
    },
    storeChanged(found) {
      doubt = found;
      if (started) doubtStore(found);
    },
  };
}

/** Leases are followed outside, by whoever waits for leadership as well. */
const KINDS: readonly KindName[] = [
  "VirtualIP",
  "IPAddressPool",
  "Node",
  "SpeakerStatus",
  "ServiceCIDR",
  "Namespace",
  "L2Advertisement",
  "GatewayClass",
  "Gateway",
  "Service",
  "ServiceRoute",
];

/** Keys of those who wait, who waits longest first. */
const byAge = (waiters: ReadonlyMap<WorkKey, Waiter>): WorkKey[] =>
  [...waiters].sort(([a, x], [b, y]) => order(x.createdAt, y.createdAt) || order(a, b)).map(([key]) => key);

/** Holders are given addresses; all the others are written to only to tell how things stand, or to let an address go. */
function laneOf(key: string): Lane {
  const { kind } = splitKey(key);
  return kind === "Gateway" || kind === "Service" ? "first" : "later";
}

/** Only its status changed, which asks for nothing. For kinds whose generation grows with the spec. */
const isReport = ({ metadata }: KubeObject, previous: KubeObject | undefined): boolean =>
  previous !== undefined &&
  previous.metadata.generation === metadata.generation &&
  previous.metadata.deletionTimestamp === metadata.deletionTimestamp &&
  same(previous.metadata.labels, metadata.labels);

/** Spec or labels differ, or it is new: our own writes of its status are no news. */
function saysAnew(
  object: KubeObject & { spec?: unknown },
  previous: (KubeObject & { spec?: unknown }) | undefined,
): boolean {
  return !same(object.spec, previous?.spec) || !same(object.metadata.labels, previous?.metadata.labels);
}

const order = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

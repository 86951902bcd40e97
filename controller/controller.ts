/** One controller process: it watches the speakers' Leases, runs for the leadership, and works while it leads. */
import type { Lease } from "../src/api/foreign.ts";
import { CONTROLLER_LEASE, LOAD_BALANCER } from "../src/api/names.ts";
import { LEASE } from "../src/api/resource.ts";
import type { DataPath } from "../src/api/virtual-ip.ts";
import type { Log } from "../src/core/log.ts";
import type { Clock } from "../src/host/port.ts";
import { alsoWaitingFor, SETTLED, type Settling, settle, unsettle } from "../src/ipam/settle.ts";
import { createClient, LEASE_CLIENT_LIMITS } from "../src/kube/client.ts";
import type { ApiConfig } from "../src/kube/config.ts";
import type { ElectionSettings } from "../src/kube/election.ts";
import { createEventRecorder } from "../src/kube/events.ts";
import { type InformerLimits, startInformer } from "../src/kube/informer.ts";
import { electLeader } from "../src/kube/leader.ts";
import { LEASE_ECHO_MILLISECONDS } from "../src/kube/lease.ts";
import { LeaseWatcher } from "../src/kube/lease-watcher.ts";
import { createKubeMetrics } from "../src/kube/metrics.ts";
import type { Metrics, Sample } from "../src/observe/metrics.ts";
import { type Loop, startLoop } from "./loop.ts";
import { giveMemoryBack } from "./memory.ts";
import { projectLease } from "./project.ts";
import { nodeOfLease, sightOf } from "./speakers.ts";

/** What a speaker needs to come back after an outage, beyond its Lease: connect, list, let go, renew. */
const RETURN_MILLISECONDS = 12_000;

export type ControllerOptions = {
  readonly config: ApiConfig;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics?: Metrics;
  /** Namespace of our Leases. */
  readonly namespace: string;
  /** Lease that replicas elect their leader by; default `belfry-controller`. */
  readonly leaseName?: string;
  /** Name of this process among the replicas. */
  readonly identity: string;
  /** GatewayClass.spec.controllerName and Service.spec.loadBalancerClass that are ours; default `belfry.dev/load-balancer`. */
  readonly controllerName?: string;
  readonly claimClassless?: boolean;
  /** Who forwards what comes in for Services; default `ServiceProxy`. */
  readonly serviceDataPath?: DataPath;
  readonly informerLimits?: Partial<InformerLimits>;
  readonly election?: Partial<Omit<ElectionSettings, "identity">>;
  /** Firing it stops the work and gives the leadership back. */
  readonly signal: AbortSignal;
};

export type Controller = {
  /** The loop while this process leads. */
  readonly loop: Loop | undefined;
  /** What stands in the way of being ready, in words. A standby is ready when it knows the speakers. */
  notReady(): readonly string[];
  /** Resolves when the signal has fired and the Lease is given back. */
  readonly left: Promise<void>;
};

export function startController(options: ControllerOptions): Controller {
  const { config, clock, log, namespace, signal } = options;
  const kubeMetrics = options.metrics === undefined ? undefined : createKubeMetrics(options.metrics);
  const withMetrics = kubeMetrics === undefined ? {} : { metrics: kubeMetrics };
  const client = createClient(config, { clock, log, ...withMetrics });
  const leaseClient = createClient(config, { clock, log, limits: LEASE_CLIENT_LIMITS });
  const events = createEventRecorder({ client, controller: CONTROLLER_LEASE, instance: options.identity, clock, log });
  const leases = new LeaseWatcher();
  let loop: Loop | undefined;
  /**
   * That the store changed is remembered by the process, not by the term: a restore takes longer than a Lease, and the
   * next term knows nothing of what was before.
   */
  let doubt: Settling = SETTLED;
  const doubted = () => (doubt.type === "unsettled" ? doubt : undefined);

  /**
   * The watch of Leases says nothing, though a leader renews its own there: a server that hangs, or a process that stood
   * still. Until it speaks again nobody could be seen to renew, so nobody expires.
   */
  function listen(): void {
    const { lastHeardAt } = leaseInformer;
    if (leases.frozen || lastHeardAt === undefined || clock.now() - lastHeardAt < LEASE_ECHO_MILLISECONDS) return;
    log.warn({}, "the watch of Leases is silent: no speaker is taken for dead");
    leases.freeze(lastHeardAt);
  }

  // A fresh AbortController, so that the Leases are followed until the leadership is given back.
  const following = new AbortController();
  const leasesSince = clock.now();
  const leaseInformer = startInformer<Lease>({
    client: leaseClient,
    resource: LEASE,
    namespace,
    project: projectLease,
    onEvent(event) {
      if (event.type === "synced") return lead();
      // It speaks again. What a list tells after a broken watch is not that: it is told while the watch is not fresh.
      if (leases.frozen && leaseInformer.fresh) leases.thaw(clock.now(), RETURN_MILLISECONDS);
      const { object } = event;
      if (nodeOfLease(object.metadata.name) === undefined) return;
      if (event.type === "delete") leases.forget(object.metadata.name);
      else leases.observe(object, clock.now());
      // Whether a Node is deleted only the leader knows.
      doubt = settle(doubt, sightOf(leases), () => true, clock.now());
      loop?.leasesChanged();
    },
    // Told before the events of the list that shows it: these are the speakers that were known before.
    onStoreChanged(change) {
      const nodes = [...leases.names()].map(nodeOfLease).filter((node) => node !== undefined);
      const message = `Lease ${change.key ?? "list"} went back from ${change.seen} to ${change.found}`;
      const changed = alsoWaitingFor(unsettle("storeChanged", nodes, message, clock.now()), doubt);
      doubt = changed;
      loop?.storeChanged(changed);
    },
    onFresh(fresh) {
      if (fresh) leases.thaw(clock.now(), RETURN_MILLISECONDS);
      else leases.freeze(clock.now());
      loop?.leasesChanged();
    },
    clock,
    log,
    signal: following.signal,
    ...(options.informerLimits === undefined ? {} : { limits: options.informerLimits }),
    ...withMetrics,
  });

  let left = () => {};
  const leftPromise = new Promise<void>((resolve) => {
    left = resolve;
  });
  let leader: ReturnType<typeof electLeader> | undefined;

  /** Who does not know the speakers yet can't lead: it would have to wait for them anyway. */
  function lead(): void {
    if (signal.aborted) return;
    leader = electLeader({
      client: leaseClient,
      key: { namespace, name: options.leaseName ?? CONTROLLER_LEASE },
      identity: options.identity,
      clock,
      log,
      signal,
      ...(options.election === undefined ? {} : { settings: options.election }),
      onStarted(leading) {
        loop = startLoop({
          client,
          clock,
          wallClock: () => new Date(),
          random: Math.random,
          log,
          namespace,
          controllerName: options.controllerName ?? LOAD_BALANCER,
          claimClassless: options.claimClassless ?? false,
          serviceDataPath: options.serviceDataPath ?? "ServiceProxy",
          leases,
          listen,
          leasesSince,
          doubt: doubted(),
          onSettled: () => {
            doubt = SETTLED;
          },
          events,
          signal: leading,
          ...(kubeMetrics === undefined ? {} : { kubeMetrics }),
          ...(options.informerLimits === undefined ? {} : { informerLimits: options.informerLimits }),
        });
      },
      onStopped() {
        loop = undefined;
      },
    });
    void leader.left.then(end);
  }

  function end(): void {
    following.abort();
    events.close();
    client.close();
    leaseClient.close();
    left();
  }

  giveMemoryBack(() => (loop?.depth ?? 0) > 0, log, signal);
  signal.addEventListener("abort", () => leader === undefined && end(), { once: true });
  if (options.metrics !== undefined) {
    register(
      options.metrics,
      () => loop,
      () => leader?.leading === true,
    );
  }

  return {
    get loop() {
      return loop;
    },
    notReady() {
      if (!leaseInformer.synced) return ["the speakers' Leases are not listed yet"];
      if (!leaseInformer.fresh) return ["the watch of Leases is broken"];
      const missing = loop?.missing() ?? [];
      return missing.length === 0 ? [] : [`not listed yet: ${missing.join(", ")}`];
    },
    left: leftPromise,
  };
}

function register(metrics: Metrics, loop: () => Loop | undefined, leading: () => boolean): void {
  const one = (name: string, help: string, value: () => number) =>
    metrics.gauge(name, help, [], () => [{ labels: {}, value: value() }]);
  one("belfry_controller_leading", "1 while this replica leads.", () => (leading() ? 1 : 0));
  one("belfry_controller_queue_depth", "Keys that are ready or being worked on.", () => loop()?.depth ?? 0);
  one("belfry_controller_backing_off", "Keys that wait after a failure.", () => loop()?.backingOff ?? 0);
  one("belfry_controller_failures", "Attempts that the API server refused, since leading.", () => loop()?.errors ?? 0);
  one("belfry_controller_settled", "0 while nothing is allocated because speakers have to be heard.", () =>
    loop()?.settling.type === "settled" ? 1 : 0,
  );
  const perPool = (name: string, help: string, value: (loop: Loop, pool: string, family: "IPv4" | "IPv6") => number) =>
    metrics.gauge(name, help, ["pool", "family"], function* (): Iterable<Sample> {
      const current = loop();
      if (current === undefined) return;
      for (const pool of current.book.pools.keys()) {
        for (const family of ["IPv4", "IPv6"] as const) {
          yield { labels: { pool, family }, value: value(current, pool, family) };
        }
      }
    });
  perPool("belfry_pool_assigned_addresses", "Addresses of the pool in use.", ({ book }, pool, family) =>
    book.assigned(pool, family),
  );
  perPool("belfry_pool_free_addresses", "Addresses of the pool that are free.", ({ book }, pool, family) =>
    Number(book.free(pool, family)),
  );
}

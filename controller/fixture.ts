/** For tests: a cluster on either API server, controllers in this process, and speakers that only keep the protocol. */
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { Gateway, Lease, Service } from "../src/api/foreign.ts";
import type { KubeObject } from "../src/api/meta.ts";
import { API_VERSION, NAMESPACE, speakerLeaseName } from "../src/api/names.ts";
import {
  apiVersionOf,
  GATEWAY,
  GATEWAYCLASS,
  IPADDRESSPOOL,
  L2ADVERTISEMENT,
  LEASE,
  NODE,
  type Resource,
  SERVICE,
  SERVICEROUTE,
  SPEAKERSTATUS,
  VIRTUALIP,
} from "../src/api/resource.ts";
import type { SpeakerStatus } from "../src/api/speaker-status.ts";
import type { DataPath, VirtualIP } from "../src/api/virtual-ip.ts";
import { silentLog } from "../src/core/log.ts";
import type { Embedded, EmbeddedOptions } from "../src/embedded/embedded.ts";
import { clock } from "../src/host/clock.ts";
import { createClient, type WatchClient } from "../src/kube/client.ts";
import type { ApiConfig } from "../src/kube/config.ts";
import { type InformerLimits, startInformer } from "../src/kube/informer.ts";
import type { Answer, Informer } from "../src/kube/port.ts";
import { type AuditLine, startBackend } from "./backend.fixture.ts";
import { type Controller, startController } from "./controller.ts";

const QUICK: Partial<InformerLimits> = {
  backoff: { firstMilliseconds: 20, lastMilliseconds: 200 },
  idleMilliseconds: 60_000,
};

export type Cluster = {
  /** The embedded API server with its faults and snapshots; throws on a real one. */
  readonly api: Embedded;
  readonly client: WatchClient;
  /** Starts a controller; `stop` gives the Lease back, `kill` leaves everything as it is. */
  controller(options?: ControllerSettings): Promise<RunningController>;
  /** A node with its Node, Lease and SpeakerStatus, and a speaker that answers for what it is told to. */
  speaker(name: string, options?: Partial<SpeakerOptions>): Promise<FakeSpeaker>;
  /** Creates, or throws. */
  create<T extends KubeObject>(resource: Resource, object: T): Promise<T>;
  remove(resource: Resource, name: string, namespace?: string): Promise<void>;
  list<T extends KubeObject>(resource: Resource): T[];
  vips(): VirtualIP[];
  gateway(name: string, namespace?: string): Gateway | undefined;
  service(name: string, namespace?: string): Service | undefined;
  /** Versions of all objects, Leases aside, by kind and key. */
  versions(): Map<string, string>;
  close(): Promise<void>;
};

type ControllerSettings = {
  identity?: string;
  leaseName?: string;
  claimClassless?: boolean;
  serviceDataPath?: DataPath;
};

export type RunningController = Controller & {
  readonly user: string;
  stop(): Promise<void>;
  kill(): void;
  /** Nothing passes between it and the API server until the returned function is called. */
  cut(): () => void;
  /** What it has asked since the last `forgetAudit`. */
  audit(): AuditLine[];
  forgetAudit(): void;
};

type SpeakerOptions = {
  address: string;
  subnets: string[];
  defaultGateways: string[];
  labels: Record<string, string>;
  leaseSeconds: number;
};

export async function startCluster(options: EmbeddedOptions = {}): Promise<Cluster> {
  const backend = await startBackend(options);
  const client = createClient(backend.admin, { clock, log: silentLog });
  const running: RunningController[] = [];
  const speakers: FakeSpeaker[] = [];
  const namespaces = new Set(["default"]);
  let count = 0;

  const find = <T extends KubeObject>(resource: Resource, name: string, namespace: string): T | undefined =>
    backend.list<T>(resource).find(({ metadata }) => metadata.name === name && metadata.namespace === namespace);

  return {
    get api() {
      if (backend.embedded === undefined) throw new Error("a real API server does not fail by order");
      return backend.embedded;
    },
    client,
    async controller({
      identity = `controller-${++count}`,
      leaseName,
      claimClassless = false,
      serviceDataPath = "Belfry",
    } = {}) {
      const { config, cut, audit, forgetAudit } = await backend.controller(identity, leaseName);
      const leaving = new AbortController();
      const controller = startController({
        config,
        clock,
        log: silentLog,
        namespace: NAMESPACE,
        identity,
        claimClassless,
        serviceDataPath,
        ...(leaseName === undefined ? {} : { leaseName }),
        informerLimits: QUICK,
        signal: leaving.signal,
      });
      const handle: RunningController = {
        get loop() {
          return controller.loop;
        },
        notReady: () => controller.notReady(),
        left: controller.left,
        user: identity,
        cut,
        audit,
        forgetAudit,
        async stop() {
          leaving.abort();
          await controller.left;
        },
        kill() {
          // As a SIGKILL looks from the API server: nothing more is ever heard of it.
          cut();
          leaving.abort();
        },
      };
      running.push(handle);
      return handle;
    },
    async speaker(name, speakerOptions = {}) {
      const all = {
        address: "192.0.2.11",
        subnets: ["192.0.2.11/24"],
        defaultGateways: [],
        leaseSeconds: 2,
        labels: {},
        ...speakerOptions,
      };
      await createNode(client, name, all);
      const speaker = await startSpeaker(await backend.speaker(name), name, all);
      speakers.push(speaker);
      return speaker;
    },
    async create(resource, object) {
      const { namespace = "default" } = object.metadata;
      if (resource.namespaced && !namespaces.has(namespace)) {
        namespaces.add(namespace);
        await backend.namespace(namespace);
      }
      return must(
        await client.create(resource, { apiVersion: apiVersionOf(resource), kind: resource.kind, ...object }),
      );
    },
    async remove(resource, name, namespace) {
      must(await client.delete(resource, namespace === undefined ? { name } : { namespace, name }));
    },
    list: backend.list,
    vips: () => backend.list<VirtualIP>(VIRTUALIP),
    gateway: (name, namespace = "default") => find<Gateway>(GATEWAY, name, namespace),
    service: (name, namespace = "default") => find<Service>(SERVICE, name, namespace),
    versions() {
      const versions = new Map<string, string>();
      for (const resource of [
        GATEWAY,
        GATEWAYCLASS,
        IPADDRESSPOOL,
        L2ADVERTISEMENT,
        SERVICE,
        SERVICEROUTE,
        VIRTUALIP,
      ]) {
        for (const { metadata } of backend.list(resource)) {
          versions.set(`${resource.kind}/${metadata.namespace}/${metadata.name}`, metadata.resourceVersion ?? "");
        }
      }
      return versions;
    },
    async close() {
      for (const speaker of speakers) speaker.cut();
      for (const controller of running) controller.kill();
      client.close();
      await backend.close();
    },
  };
}

export function must<T>(answer: Answer<T>): T {
  if (!answer.ok) throw new Error(`${answer.failure.status} ${answer.failure.reason}: ${answer.failure.message}`);
  return answer.object;
}

/** Waits until the claim holds; fails with its words. */
export async function eventually<T>(what: string, look: () => T | undefined | false, milliseconds = 5_000): Promise<T> {
  const until = Date.now() + milliseconds;
  for (;;) {
    const value = look();
    if (value !== undefined && value !== false) return value;
    if (Date.now() > until) throw new Error(`not within ${milliseconds} ms: ${what}`);
    await sleep(10);
  }
}

/**
 * A speaker reduced to what the controller sees of one: a Lease that is renewed, SpeakerStatus, owner and
 * withdrawnThrough. With several, the one whose name sorts first takes every VIP without owner.
 */
export type FakeSpeaker = {
  readonly name: string;
  /** No request leaves any more, as behind a cut cable. */
  cut(): void;
  /** Goes on without renewing its Lease. */
  stopRenewing(): void;
  renewAgain(): void;
  /** Stops telling that it withdrew. */
  holdWithdrawals(hold: boolean): void;
};

async function createNode(client: WatchClient, name: string, { labels, address }: SpeakerOptions): Promise<void> {
  const status = nodeStatus(address);
  must(
    await client.create(NODE, {
      apiVersion: "v1",
      kind: "Node",
      metadata: { name, labels },
      spec: {},
      status,
    } as never),
  );
  // A real server takes the status of a Node from its own subresource alone.
  await client.mergePatch(NODE, { name }, { status }, "status");
}

async function startSpeaker(config: ApiConfig, name: string, options: SpeakerOptions): Promise<FakeSpeaker> {
  const client = createClient(config, { clock, log: silentLog });
  const ending = new AbortController();
  let renewing = true;
  let holding = false;
  const lease: Lease = {
    apiVersion: "coordination.k8s.io/v1",
    kind: "Lease",
    metadata: { name: speakerLeaseName(name), namespace: NAMESPACE },
    spec: { holderIdentity: name, leaseDurationSeconds: options.leaseSeconds, renewTime: microNow() },
  };
  let held = must(await client.create(LEASE, lease));
  let pending = false;
  // As the real one does, by update: a right to patch it does not have.
  const renew = async () => {
    if (!renewing || pending) return;
    pending = true;
    const answer = await client.update(LEASE, { ...held, spec: { ...lease.spec, renewTime: microNow() } });
    if (answer.ok) held = answer.object;
    else if (answer.failure.status === 409 || answer.failure.status === 404) {
      const found = await client.get<Lease>(LEASE, { namespace: NAMESPACE, name: speakerLeaseName(name) });
      if (found.ok) held = found.object;
    }
    pending = false;
  };
  const renewal = setInterval(() => void renew(), 300);
  const status: SpeakerStatus = {
    apiVersion: API_VERSION,
    kind: "SpeakerStatus",
    metadata: { name },
    spec: { nodeName: name },
  };
  must(await client.create(SPEAKERSTATUS, status));
  const links = [
    {
      name: "eth0",
      mac: "02:00:00:00:00:0a",
      up: true,
      subnets: options.subnets,
      defaultGateways: options.defaultGateways,
    },
  ];
  must(await client.mergePatch(SPEAKERSTATUS, { name }, { status: { links } }, "status"));

  const informer: Informer<VirtualIP> = startInformer<VirtualIP>({
    client,
    resource: VIRTUALIP,
    project: (object) => object as VirtualIP,
    onEvent: (event) => void react(event),
    clock,
    log: silentLog,
    signal: ending.signal,
    limits: QUICK,
  });

  async function react(event: { type: string; object?: VirtualIP }): Promise<void> {
    if (event.type === "synced") return;
    await withdraw();
    const vip = event.object;
    if (event.type !== "upsert" || vip === undefined || vip.metadata.deletionTimestamp !== undefined) return;
    if (vip.spec.advertisements.l2.length === 0) return;
    const owner = vip.status?.owner;
    if (owner !== undefined && owner.node !== name) return;
    if (owner?.generation === vip.metadata.generation) return;
    const { resourceVersion } = vip.metadata;
    const written = {
      node: name,
      interface: "eth0",
      since: owner?.since ?? new Date().toISOString(),
      term: owner?.term ?? 1,
      generation: vip.metadata.generation,
    };
    await client.mergePatch(
      VIRTUALIP,
      { name: vip.metadata.name },
      { metadata: { resourceVersion }, status: { owner: written } },
      "status",
    );
  }

  async function withdraw(): Promise<void> {
    if (holding || ending.signal.aborted) return;
    const pending = [...informer.values()].some(({ metadata }) => metadata.deletionTimestamp !== undefined);
    if (!pending) return;
    await client.mergePatch(
      SPEAKERSTATUS,
      { name },
      { status: { withdrawnThrough: informer.lastEventVersion } },
      "status",
    );
  }

  return {
    name,
    cut() {
      clearInterval(renewal);
      ending.abort();
      client.close();
    },
    stopRenewing() {
      renewing = false;
    },
    renewAgain() {
      renewing = true;
    },
    holdWithdrawals(hold) {
      holding = hold;
      void withdraw();
    },
  };
}

const nodeStatus = (address: string) => ({
  addresses: [{ type: "InternalIP", address }],
  conditions: [{ type: "Ready", status: "True" }],
});

const microNow = (): string => new Date().toISOString().replace("Z", "000Z");

// --- objects as a user would write them ----------------------------------------------------------------------------

export const pool = (name: string, ...addresses: string[]) => ({
  metadata: { name },
  spec: { addresses },
});

export const l2 = (name = "lan") => ({ metadata: { name }, spec: {} });

export const gatewayClass = (name = "belfry") => ({
  metadata: { name },
  spec: { controllerName: "belfry.dev/load-balancer" },
});

export const gateway = (name: string, spec: Partial<Gateway["spec"]> = {}, namespace = "default"): Gateway => ({
  metadata: { name, namespace },
  spec: {
    gatewayClassName: "belfry",
    listeners: [{ name: "tcp", port: 80, protocol: "TCP" }],
    ...spec,
  },
});

export const backend = (name: string, namespace = "default"): Service => ({
  metadata: { name, namespace },
  spec: { type: "ClusterIP", ports: [{ name: "web", port: 80, protocol: "TCP" }] },
});

export const route = (name: string, parent: string, service: string, namespace = "default") => ({
  metadata: { name, namespace },
  spec: { parentRefs: [{ name: parent }], ports: [{ protocol: "TCP", port: 80 }], backendRef: { name: service } },
});

export const loadBalancer = (
  name: string,
  spec: Partial<Service["spec"]> = {},
  annotations: Record<string, string> = {},
  namespace = "default",
): Service => ({
  metadata: { name, namespace, annotations },
  spec: {
    type: "LoadBalancer",
    loadBalancerClass: "belfry.dev/load-balancer",
    ports: [{ name: "web", port: 80, protocol: "TCP" }],
    selector: { app: name },
    ...spec,
  },
});

export const uniqueName = (): string => `n${randomUUID().slice(0, 8)}`;

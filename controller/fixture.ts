/** For tests: a cluster on the embedded API, controllers in this process, and speakers that only keep the protocol. */
import { randomUUID } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
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
import { type Embedded, type EmbeddedOptions, startEmbedded } from "../src/embedded/embedded.ts";
import { collectionOf } from "../src/embedded/kind.ts";
import { clock } from "../src/host/clock.ts";
import { createClient, type WatchClient } from "../src/kube/client.ts";
import { type ApiConfig, loadConfig } from "../src/kube/config.ts";
import { type InformerLimits, startInformer } from "../src/kube/informer.ts";
import type { Answer, Informer } from "../src/kube/port.ts";
import { type Controller, startController } from "./controller.ts";

const QUICK: Partial<InformerLimits> = {
  backoff: { firstMilliseconds: 20, lastMilliseconds: 200 },
  idleMilliseconds: 60_000,
};

export type Cluster = {
  readonly api: Embedded;
  readonly client: WatchClient;
  readonly config: ApiConfig;
  /** Starts a controller; `stop` gives the Lease back, `kill` leaves everything as it is. */
  controller(options?: {
    identity?: string;
    leaseName?: string;
    claimClassless?: boolean;
    serviceDataPath?: DataPath;
  }): RunningController;
  /** A node with its Node, Lease and SpeakerStatus, and a speaker that answers for what it is told to. */
  speaker(name: string, options?: Partial<SpeakerOptions>): Promise<FakeSpeaker>;
  /** Creates, or throws. */
  create<T extends KubeObject>(resource: Resource, object: T): Promise<T>;
  remove(resource: Resource, name: string, namespace?: string): Promise<void>;
  vips(): VirtualIP[];
  gateway(name: string, namespace?: string): Gateway | undefined;
  service(name: string, namespace?: string): Service | undefined;
  /** Versions of all objects, Leases aside, by kind and key. */
  versions(): Map<string, string>;
  close(): Promise<void>;
};

export type RunningController = Controller & { stop(): Promise<void>; kill(): void; readonly user: string };

type SpeakerOptions = { address: string; subnets: string[]; defaultGateways: string[]; labels: Record<string, string> };

export async function startCluster(options: EmbeddedOptions = {}): Promise<Cluster> {
  const api = await startEmbedded(options);
  const directory = mkdtempSync(join(tmpdir(), "belfry-controller-"));
  const configFor = (user: string): ApiConfig => {
    const file = join(directory, `${user}.yaml`);
    writeFileSync(file, api.kubeconfigFor(user));
    return loadConfig({ kubeconfig: file });
  };
  const config = configFor("admin");
  const client = createClient(config, { clock, log: silentLog });
  const running: RunningController[] = [];
  const speakers: FakeSpeaker[] = [];
  let count = 0;

  return {
    api,
    client,
    config,
    controller({
      identity = `controller-${++count}`,
      leaseName,
      claimClassless = false,
      serviceDataPath = "Belfry",
    } = {}) {
      const user = identity;
      const leaving = new AbortController();
      const controller = startController({
        config: configFor(user),
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
        user,
        async stop() {
          leaving.abort();
          await controller.left;
        },
        kill() {
          // As a SIGKILL looks from the API server: nothing more is ever heard of it.
          api.faults.inject({ user }, { type: "drop" }, { times: Number.POSITIVE_INFINITY });
          leaving.abort();
        },
      };
      running.push(handle);
      return handle;
    },
    async speaker(name, speakerOptions = {}) {
      const speaker = await startSpeaker(configFor(`speaker-${name}`), name, {
        address: "192.0.2.11",
        subnets: ["192.0.2.11/24"],
        defaultGateways: [],
        labels: {},
        ...speakerOptions,
      });
      speakers.push(speaker);
      return speaker;
    },
    async create(resource, object) {
      return must(
        await client.create(resource, { apiVersion: apiVersionOf(resource), kind: resource.kind, ...object }),
      );
    },
    async remove(resource, name, namespace) {
      must(await client.delete(resource, namespace === undefined ? { name } : { namespace, name }));
    },
    vips: () => listOf<VirtualIP>(api, VIRTUALIP),
    gateway: (name, namespace = "default") => api.read<Gateway>("Gateway", name, namespace),
    service: (name, namespace = "default") => api.read<Service>("Service", name, namespace),
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
        for (const { metadata } of listOf(api, resource)) {
          versions.set(`${resource.kind}/${metadata.namespace}/${metadata.name}`, metadata.resourceVersion ?? "");
        }
      }
      return versions;
    },
    async close() {
      for (const speaker of speakers) speaker.cut();
      for (const controller of running) controller.kill();
      client.close();
      await api.close();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

/** Every object of the kind as it is stored now. */
export function listOf<T extends KubeObject>(api: Embedded, resource: Resource): T[] {
  const collection = collectionOf(resource);
  return api.store.list(collection).map(({ object }) => object as T);
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

async function startSpeaker(config: ApiConfig, name: string, options: SpeakerOptions): Promise<FakeSpeaker> {
  const client = createClient(config, { clock, log: silentLog });
  const ending = new AbortController();
  let renewing = true;
  let holding = false;
  must(
    await client.create(NODE, {
      apiVersion: "v1",
      kind: "Node",
      metadata: { name, labels: options.labels },
      spec: {},
      status: nodeStatus(options.address),
    }),
  );
  await client.mergePatch(NODE, { name }, { status: nodeStatus(options.address) }, "status");
  const lease: Lease = {
    apiVersion: "coordination.k8s.io/v1",
    kind: "Lease",
    metadata: { name: speakerLeaseName(name), namespace: NAMESPACE },
    spec: { holderIdentity: name, leaseDurationSeconds: 2, renewTime: microNow() },
  };
  must(await client.create(LEASE, lease));
  const renewal = setInterval(() => {
    if (!renewing) return;
    const patch = { spec: { renewTime: microNow() } };
    void client.mergePatch(LEASE, { namespace: NAMESPACE, name: speakerLeaseName(name) }, patch);
  }, 300);
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

/**
 * For tests: the API server that a test's cluster is on. The embedded one, made anew for each test; or, where
 * BELFRY_LAB=kube says so, a real one for the whole file, emptied after each test. The same tests hold on both.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll } from "vitest";
import { findKube } from "../e2e/kube/build.ts";
import { claimLab, removeStaleLabs } from "../lab/claim.ts";
import { eventually } from "../lab/eventually.ts";
import { KubeCluster } from "../lab/kube/cluster.ts";
import { buildNetwork } from "../lab/network.ts";
import { openRelay } from "../lab/relay.ts";
import type { KubeObject } from "../src/api/meta.ts";
import { NAMESPACE } from "../src/api/names.ts";
import {
  GATEWAY,
  GATEWAYCLASS,
  IPADDRESSPOOL,
  L2ADVERTISEMENT,
  LEASE,
  NAMESPACES,
  NODE,
  type Resource,
  SERVICE,
  SERVICEROUTE,
  SPEAKERSTATUS,
  VIRTUALIP,
} from "../src/api/resource.ts";
import { silentLog } from "../src/core/log.ts";
import { type Embedded, type EmbeddedOptions, startEmbedded } from "../src/embedded/embedded.ts";
import { collectionOf } from "../src/embedded/kind.ts";
import { clock } from "../src/host/clock.ts";
import { createClient, type WatchClient } from "../src/kube/client.ts";
import { type ApiConfig, loadConfig } from "../src/kube/config.ts";
import { startInformer } from "../src/kube/informer.ts";
import type { Informer } from "../src/kube/port.ts";

export const ON_KUBE = process.env["BELFRY_LAB"] === "kube";

export type AuditLine = { readonly verb: string; readonly resource: string; readonly subresource: string | undefined };

export type Access = {
  readonly config: ApiConfig;
  /** Nothing passes any more in either direction, as behind a cut cable, until the returned function is called. */
  cut(): () => void;
  /** What was asked by this access' user, after the last `forgetAudit`. */
  audit(): AuditLine[];
  forgetAudit(): void;
};

export type Backend = {
  /** Faults by order, snapshots: only what the embedded server has. */
  readonly embedded: Embedded | undefined;
  readonly admin: ApiConfig;
  /** `leaseName`: elected by another Lease than that of `config/`, which the account may then write. */
  controller(user: string, leaseName: string | undefined): Promise<Access> | Access;
  /** The Node exists when this is called: the token names it. */
  speaker(node: string): Promise<ApiConfig>;
  /** Every object of the kind, as the server (or a watch of it) has it now. */
  list<T extends KubeObject>(resource: Resource): T[];
  /** Sees to it that a namespace is there. */
  namespace(name: string): Promise<void>;
  close(): Promise<void>;
};

export const startBackend = (options: EmbeddedOptions): Promise<Backend> =>
  ON_KUBE ? borrowKube() : startEmbeddedBackend(options);

// --- the embedded API server ------------------------------------------------------------------------------------------

async function startEmbeddedBackend(options: EmbeddedOptions): Promise<Backend> {
  const api = await startEmbedded(options);
  const directory = mkdtempSync(join(tmpdir(), "belfry-controller-"));
  const configFor = (user: string): ApiConfig => {
    const file = join(directory, `${user}.yaml`);
    writeFileSync(file, api.kubeconfigFor(user));
    return loadConfig({ kubeconfig: file });
  };
  return {
    embedded: api,
    admin: configFor("admin"),
    controller: (user) => ({
      config: configFor(user),
      cut() {
        const drops = api.faults.inject({ user }, { type: "drop" }, { times: Number.POSITIVE_INFINITY });
        for (const watch of api.faults.watches({ user })) watch.reset();
        return () => drops.remove();
      },
      audit: () => api.audit.filter((line) => line.user === user),
      forgetAudit: () => {
        api.audit.length = 0;
      },
    }),
    speaker: async (node) => configFor(`speaker-${node}`),
    list: <T extends KubeObject>(resource: Resource) =>
      api.store.list(collectionOf(resource)).map(({ object }) => object as T),
    namespace: async () => {},
    async close() {
      await api.close();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

// --- a real one -------------------------------------------------------------------------------------------------------

/** In the order in which they are taken away: what holds addresses first. */
const LEFT_BEHIND = [
  GATEWAY,
  SERVICE,
  SERVICEROUTE,
  VIRTUALIP,
  IPADDRESSPOOL,
  L2ADVERTISEMENT,
  GATEWAYCLASS,
  SPEAKERSTATUS,
  LEASE,
  NODE,
] as const;

type RealServer = {
  readonly cluster: KubeCluster;
  readonly client: WatchClient;
  readonly mirrors: ReadonlyMap<Resource, Informer<KubeObject>>;
};

let real: Promise<RealServer> | undefined;

async function startReal(): Promise<RealServer> {
  const found = await findKube((line) => console.log(line));
  if (found.type === "missing") throw new Error(found.why);
  await removeStaleLabs();
  const claim = claimLab();
  const network = await buildNetwork(claim, 0);
  const cluster = new KubeCluster(claim, network, { binary: found.path, gatewayCrds: found.gatewayCrds });
  const ending = new AbortController();
  afterAllTests.push(async () => {
    ending.abort();
    await cluster.close();
    await claim.release();
  });
  await cluster.start();
  const client = createClient(loadConfig({ kubeconfig: cluster.controlPlane.hostKubeconfig }), {
    clock,
    log: silentLog,
  });
  const mirrors = new Map<Resource, Informer<KubeObject>>();
  for (const resource of LEFT_BEHIND) {
    const informer = startInformer<KubeObject>({
      client,
      resource,
      project: (object) => object,
      onEvent: () => {},
      clock,
      log: silentLog,
      signal: ending.signal,
    });
    mirrors.set(resource, informer);
  }
  await eventually("every kind is watched", 30_000, () => [...mirrors.values()].every(({ synced }) => synced));
  return { cluster, client, mirrors };
}

const afterAllTests: (() => Promise<void>)[] = [];
if (ON_KUBE) {
  afterAll(async () => {
    for (const end of afterAllTests.splice(0)) await end();
    real = undefined;
  });
}

/** Not ours to take away. */
const stays = ({ metadata }: KubeObject): boolean =>
  metadata.name === "kubernetes" || (metadata.namespace ?? "").startsWith("kube-");

async function borrowKube(): Promise<Backend> {
  real ??= startReal();
  const { cluster, client, mirrors } = await real;
  const { controlPlane } = cluster;
  const doors: (() => void)[] = [];
  const objectsOf = (resource: Resource) => [...(mirrors.get(resource)?.values() ?? [])];
  return {
    embedded: undefined,
    admin: loadConfig({ kubeconfig: controlPlane.hostKubeconfig }),
    async controller(user, leaseName) {
      if (leaseName !== undefined)
        await cluster.kubectl(["apply", "--server-side", "-f", "-"], mayWriteLease(leaseName));
      const door = await openRelay({ host: "127.0.0.1", port: controlPlane.hostPort });
      doors.push(door.close);
      const token = await cluster.token("belfry-controller", undefined);
      const kubeconfig = controlPlane.writeKubeconfig(user, { token }, `https://127.0.0.1:${door.port}`);
      let from = 0;
      const lines = () => auditLines(controlPlane.auditLog, "belfry-controller");
      return {
        config: loadConfig({ kubeconfig }),
        cut: door.cut,
        audit: () => lines().slice(from),
        forgetAudit: () => {
          from = lines().length;
        },
      };
    },
    async speaker(node) {
      const token = await cluster.token("belfry-speaker", { name: node });
      const server = `https://127.0.0.1:${controlPlane.hostPort}`;
      return loadConfig({ kubeconfig: controlPlane.writeKubeconfig(`speaker-${node}`, { token }, server) });
    },
    list: <T extends KubeObject>(resource: Resource) => objectsOf(resource).filter((object) => !stays(object)) as T[],
    async namespace(name) {
      await client.create(NAMESPACES, { apiVersion: "v1", kind: "Namespace", metadata: { name } });
      await eventually(`namespace ${name} takes objects`, 10_000, async () => {
        const path = `/api/v1/namespaces/${name}/serviceaccounts/default`;
        return (await controlPlane.admin("GET", path)).status === 200;
      });
    },
    async close() {
      for (const close of doors) close();
      await eventually("everything is taken away", 20_000, async () => {
        let left = 0;
        for (const resource of LEFT_BEHIND) {
          for (const object of objectsOf(resource)) {
            if (stays(object)) continue;
            left++;
            const { name, namespace, finalizers = [] } = object.metadata;
            const key = namespace === undefined ? { name } : { namespace, name };
            if (finalizers.length > 0) await client.mergePatch(resource, key, { metadata: { finalizers: null } });
            await client.delete(resource, key);
          }
        }
        return left === 0;
      });
    },
  };
}

/** The right that `config/rbac` gives for the one Lease of the controllers, for another one. */
function mayWriteLease(name: string): string {
  const metadata = { name: `lease-${name}`, namespace: NAMESPACE };
  const apiVersion = "rbac.authorization.k8s.io/v1";
  const rules = [
    { apiGroups: ["coordination.k8s.io"], resources: ["leases"], resourceNames: [name], verbs: ["get", "update"] },
  ];
  const roleRef = { apiGroup: "rbac.authorization.k8s.io", kind: "Role", name: metadata.name };
  const subjects = [{ kind: "ServiceAccount", name: "belfry-controller", namespace: NAMESPACE }];
  return [
    { apiVersion, kind: "Role", metadata, rules },
    { apiVersion, kind: "RoleBinding", metadata, roleRef, subjects },
  ]
    .map((object) => JSON.stringify(object))
    .join("\n---\n");
}

type LoggedRequest = {
  user: { username: string };
  verb: string;
  objectRef?: { resource?: string; subresource?: string };
};

const auditLines = (file: string, account: string): AuditLine[] =>
  readFileSync(file, "utf8")
    .split("\n")
    .filter((line) => line.endsWith("}"))
    .map((line) => JSON.parse(line) as LoggedRequest)
    .filter(({ user }) => user.username === `system:serviceaccount:${NAMESPACE}:${account}`)
    .map(({ verb, objectRef }) => ({
      verb,
      resource: objectRef?.resource ?? "",
      subresource: objectRef?.subresource,
    }));

/**
 * What stands for a kubelet: it registers its Node, keeps Lease and status, and runs the pods that are bound to it as
 * programs in network namespaces, so that the real controllers see what they see in a cluster.
 *
 * It speaks to the API server from inside the node's namespace, with the rights of `system:node:NAME` alone.
 */
import { setTimeout as delay } from "node:timers/promises";
import type { Node } from "../../src/api/foreign.ts";
import { LEASE, NODE } from "../../src/api/resource.ts";
import { silentLog } from "../../src/core/log.ts";
import { clock } from "../../src/host/clock.ts";
import { createClient, type WatchClient } from "../../src/kube/client.ts";
import { loadConfig } from "../../src/kube/config.ts";
import { startInformer } from "../../src/kube/informer.ts";
import type { Answer } from "../../src/kube/port.ts";
import type { Claim } from "../claim.ts";
import type { LabNode } from "../network.ts";
import { type Resident, startResident } from "../resident.ts";
import { type Container, POD, type Pod } from "./pod.ts";
import { type PodHost, PodRun } from "./pod-run.ts";
import type { Probe } from "./probe.ts";
import type { ProbeActions } from "./probe-resident.ts";
import type { KubeRequest } from "./request.ts";

const LEASE_SECONDS = 40;
const LEASE_RENEW_MILLISECONDS = 10_000;
const RETRY_MILLISECONDS = 300;
/** Room for a pod CIDR's host numbers: .1 is the bridge. */
const NUMBERS = { first: 2, last: 250 };

export type KubeletOptions = {
  readonly claim: Claim;
  readonly node: LabNode;
  /** A kubeconfig with the node's own token. */
  readonly kubeconfig: string;
  readonly request: KubeRequest;
  /** Of the API server: `v1.37.2`. */
  readonly version: string;
  /** Where pods find the API server: the address of the Service `kubernetes`. */
  readonly apiServer: { readonly host: string; readonly port: number };
  namespaceOf(pod: Pod): string;
};

export class Kubelet {
  readonly #options: KubeletOptions;
  readonly #client: WatchClient;
  readonly #stopping = new AbortController();
  readonly #runs = new Map<string, PodRun>();
  /** Ends of pods by name: the next one of that name waits. */
  readonly #leaving = new Map<string, Promise<void>>();
  /** Pods that ended here: a late event must not start them again. */
  readonly #ended = new Set<string>();
  readonly #taken = new Set<number>();
  #next = NUMBERS.first;
  readonly #host: PodHost;

  constructor(options: KubeletOptions) {
    this.#options = options;
    this.#client = createClient(loadConfig({ kubeconfig: options.kubeconfig }), { clock, log: silentLog });
    this.#host = {
      claim: options.claim,
      node: options.node,
      client: this.#client,
      request: options.request,
      namespaceOf: options.namespaceOf,
      environment: {
        KUBERNETES_SERVICE_HOST: options.apiServer.host,
        KUBERNETES_SERVICE_PORT: `${options.apiServer.port}`,
      },
      probe: (probe, container, address) => this.#probe(probe, container, address),
      takeNumber: () => this.#takeNumber(),
      giveNumber: (number) => void this.#taken.delete(number),
    };
  }

  /** Resolves when the Node is registered and Ready. */
  async start(): Promise<void> {
    await this.#register();
    void this.#keepLease();
    startInformer<Pod>({
      client: this.#client,
      resource: POD,
      fieldSelector: `spec.nodeName=${this.#options.node.name}`,
      project: (object) => object as Pod,
      onEvent: (event) => {
        if (event.type === "upsert") this.#see(event.object);
        if (event.type === "delete") this.#gone(event.object);
      },
      clock,
      log: silentLog,
      signal: this.#stopping.signal,
    });
  }

  /** What a readiness probe of a pod would say from now on. */
  setPodReady(name: string, ready: boolean): void {
    this.#runOf(name).setReady(ready);
  }

  /** Does what comes when the tokens in a pod's volumes grow old. */
  async rotateTokens(name: string): Promise<void> {
    await this.#runOf(name).rotateTokens();
  }

  #runOf(name: string): PodRun {
    const run = [...this.#runs.values()].find((each) => each.name === name);
    if (run === undefined) throw new Error(`${this.#options.node.name} runs no pod ${name}`);
    return run;
  }

  /** Power off: pods, Lease and status end at once, and nothing is reported. */
  async kill(): Promise<void> {
    this.#stopping.abort();
    await Promise.all([...this.#runs.values()].map((run) => run.kill()));
    this.#runs.clear();
    await (await this.#prober)?.close();
    this.#client.close();
  }

  #see(pod: Pod): void {
    const uid = pod.metadata.uid ?? "";
    const run = this.#runs.get(uid);
    if (pod.metadata.deletionTimestamp !== undefined) {
      const grace = pod.metadata.deletionGracePeriodSeconds ?? 30;
      if (run !== undefined) void this.#leave(run, () => run.terminate(grace));
      else if (!this.#ended.has(uid)) void this.#leave(new PodRun(this.#host, pod), (stray) => stray.terminate(0));
      return;
    }
    if (run !== undefined) {
      run.compareStatus(pod);
      return;
    }
    if (this.#ended.has(uid)) return;
    if (pod.status?.phase === "Succeeded" || pod.status?.phase === "Failed") return;
    const next = new PodRun(this.#host, pod);
    this.#runs.set(uid, next);
    void Promise.resolve(this.#leaving.get(keyOf(pod))).then(() => next.start());
  }

  #gone(pod: Pod): void {
    const uid = pod.metadata.uid ?? "";
    const run = this.#runs.get(uid);
    this.#runs.delete(uid);
    this.#ended.add(uid);
    if (run !== undefined) void this.#leave(run, () => run.kill());
  }

  /** Notes that the name is taken until this end is over. */
  #leave(run: PodRun, end: (run: PodRun) => Promise<void>): Promise<void> {
    const key = run.key;
    const over = Promise.all([this.#leaving.get(key), end(run)]).then(() => {});
    this.#leaving.set(key, over);
    return over;
  }

  async #register(): Promise<void> {
    const { node } = this.#options;
    await this.#insist("node", () =>
      this.#client.create(NODE, {
        apiVersion: "v1",
        kind: "Node",
        metadata: {
          name: node.name,
          labels: { "kubernetes.io/hostname": node.name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64" },
        },
        spec: { podCIDR: node.podCIDRs[0], podCIDRs: [...node.podCIDRs] },
      } as never),
    );
    await this.#insist("status of the node", () => this.#writeStatus());
  }

  #writeStatus(): Promise<Answer<unknown>> {
    const { node, version } = this.#options;
    return this.#client.mergePatch(NODE, { name: node.name }, { status: nodeStatus(node, version, now()) }, "status");
  }

  /** Says again that the node is Ready where the controllers, after a silence, wrote otherwise. */
  async #mendStatus(): Promise<void> {
    const answer = await this.#client.get<Node>(NODE, { name: this.#options.node.name });
    if (!answer.ok) return;
    const ready = answer.object.status?.conditions?.find(({ type }) => type === "Ready");
    if (ready?.status !== "True") await this.#writeStatus();
  }

  async #keepLease(): Promise<void> {
    const { node } = this.#options;
    const key = { namespace: "kube-node-lease", name: node.name };
    const spec = () => ({
      holderIdentity: node.name,
      leaseDurationSeconds: LEASE_SECONDS,
      renewTime: new Date().toISOString().replace("Z", "000Z"),
    });
    while (!this.#stopping.signal.aborted) {
      const patched = await this.#client.mergePatch(LEASE, key, { spec: spec() });
      if (!patched.ok && patched.failure.status === 404) {
        await this.#client.create(LEASE, {
          apiVersion: "coordination.k8s.io/v1",
          kind: "Lease",
          metadata: { ...key },
          spec: spec(),
        } as never);
      }
      await this.#mendStatus();
      const pause = patched.ok ? LEASE_RENEW_MILLISECONDS : RETRY_MILLISECONDS;
      await delay(pause, undefined, { signal: this.#stopping.signal }).catch(() => {});
    }
  }

  /** Repeats a call until it is carried out; what is there already is good. Throws when the server refuses for good. */
  async #insist(what: string, call: () => Promise<Answer<unknown>>): Promise<void> {
    for (;;) {
      if (this.#stopping.signal.aborted) return;
      const answer = await call();
      if (answer.ok || answer.failure.reason === "AlreadyExists") return;
      const { status, message } = answer.failure;
      // RBAC's own roles come into being shortly after the server is ready.
      if (status >= 400 && status < 500 && ![403, 409, 429].includes(status)) {
        throw new Error(`${what} of ${this.#options.node.name}: ${message}`);
      }
      await delay(RETRY_MILLISECONDS);
    }
  }

  /** The node asks its pods itself; started when the first one wants to be asked. */
  #prober: Promise<Resident<ProbeActions>> | undefined;

  /** One question to a container, from the node; a kubelet that goes has no answer. */
  async #probe(probe: Probe, container: Container, address: string): Promise<boolean> {
    const wanted = (probe.httpGet ?? probe.tcpSocket)?.port;
    const port =
      typeof wanted === "number" ? wanted : container.ports?.find(({ name }) => name === wanted)?.containerPort;
    // A probe of another kind, such as grpc, is taken as good.
    if (port === undefined) return true;
    const timeoutMs = (probe.timeoutSeconds ?? 1) * 1000;
    try {
      const entry = new URL("./probe-resident.ts", import.meta.url);
      this.#prober ??= startResident<ProbeActions>(this.#options.node.namespace, entry);
      const prober = await this.#prober;
      if (probe.httpGet === undefined) return await prober.call("tcp", address, port, timeoutMs);
      return await prober.call("http", probe.httpGet.host ?? address, port, probe.httpGet.path ?? "/", timeoutMs);
    } catch {
      return false;
    }
  }

  #takeNumber(): number {
    // Onwards, so that an address rests before it is used again.
    for (let tries = NUMBERS.first; tries <= NUMBERS.last; tries++) {
      const number = this.#next;
      this.#next = number === NUMBERS.last ? NUMBERS.first : number + 1;
      if (this.#taken.has(number)) continue;
      this.#taken.add(number);
      return number;
    }
    throw new Error(`no pod address is free on ${this.#options.node.name}`);
  }
}

const keyOf = (pod: Pod): string => `${pod.metadata.namespace}/${pod.metadata.name}`;
const now = (): string => new Date().toISOString().replace(/\.\d+Z$/, "Z");

/** The status that a kubelet on a healthy machine writes. */
function nodeStatus(node: LabNode, version: string, at: string) {
  const condition = (type: string, status: string, reason: string, message: string) => ({
    type,
    status,
    reason,
    message,
    lastHeartbeatTime: at,
    lastTransitionTime: at,
  });
  const room = { cpu: "8", memory: "16Gi", pods: "110", "ephemeral-storage": "50Gi" };
  return {
    addresses: [
      { type: "InternalIP", address: node.lanIPv4 },
      { type: "InternalIP", address: node.lanIPv6 },
      { type: "Hostname", address: node.name },
    ],
    capacity: room,
    allocatable: room,
    conditions: [
      condition("MemoryPressure", "False", "KubeletHasSufficientMemory", "the lab has memory"),
      condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "the lab has room"),
      condition("PIDPressure", "False", "KubeletHasSufficientPID", "the lab has processes"),
      condition("Ready", "True", "KubeletReady", "the lab's kubelet runs"),
    ],
    nodeInfo: {
      architecture: "amd64",
      bootID: node.name,
      containerRuntimeVersion: "lab://1",
      kernelVersion: "lab",
      kubeProxyVersion: "",
      kubeletVersion: version,
      machineID: node.name,
      operatingSystem: "linux",
      osImage: "network namespace",
      systemUUID: node.name,
    },
  };
}

/** A whole cluster in network namespaces: the real processes on the embedded API server, pods, a client and a router. */
import { copyFileSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseAllDocuments } from "yaml";
import type { KubeObject } from "../src/api/meta.ts";
import * as resources from "../src/api/resource.ts";
import type { DataPath } from "../src/api/virtual-ip.ts";
import { silentLog } from "../src/core/log.ts";
import { clock } from "../src/host/clock.ts";
import { createClient } from "../src/kube/client.ts";
import { loadConfig } from "../src/kube/config.ts";
import type { ApiClient } from "../src/kube/port.ts";
import { type Capture, startCapture } from "./capture.ts";
import { type Claim, claimLab, removeStaleLabs } from "./claim.ts";
import type { ClientActions } from "./client-resident.ts";
import { type LabPod, put, putEndpoints, putNamespace, putNode, type SlicePort } from "./cluster.ts";
import { run } from "./command.ts";
import { eventually } from "./eventually.ts";
import { KubeCluster, type KubeOptions } from "./kube/cluster.ts";
import { hasSelector, setKubePod, startKubePod } from "./kube/lab-pod.ts";
import {
  attachPod,
  buildNetwork,
  type Host,
  type LabNode,
  type Network,
  setLanCable,
  setManagementCable,
} from "./network.ts";
import type { PodActions } from "./pod-resident.ts";
import { type Program, REPOSITORY, startProgram } from "./program.ts";
import { openRelay, type Relay } from "./relay.ts";
import { type Resident, startResident } from "./resident.ts";

const API_PORT = 6443;

export type LabOptions = {
  readonly nodes?: number;
  /** More flags for every speaker and controller. */
  readonly speakerFlags?: readonly string[];
  readonly controllerFlags?: readonly string[];
  /** Who forwards for Services; Belfry unless said otherwise, since without Kubernetes there is no service proxy. */
  readonly serviceDataPath?: DataPath;
  readonly logLevel?: string;
  /** A real Kubernetes instead of the embedded API server. */
  readonly kube?: KubeOptions | undefined;
};

export class Lab {
  readonly claim: Claim;
  readonly network: Network;
  readonly options: LabOptions;
  /** Kubeconfigs of the API server: as seen from the lab's namespaces, and (after `openHostDoor`) from this machine. */
  readonly kubeconfig: string;
  readonly unixSocket: string;
  api!: ApiClient;
  apiServer!: Program;
  /** The real Kubernetes, where the lab runs on one. */
  readonly kube: KubeCluster | undefined;
  readonly controllers: Program[] = [];
  readonly speakers = new Map<string, Program>();
  readonly pods = new Map<string, LabPod>();
  readonly #residents: { close(): Promise<void> }[] = [];
  readonly #podResidents = new Map<string, Resident<PodActions>>();
  readonly #podNumbers = new Map<string, number>();
  #door: Relay | undefined;
  hostKubeconfig: string | undefined;
  #closed: Promise<void> | undefined;

  constructor(claim: Claim, network: Network, options: LabOptions) {
    this.claim = claim;
    this.network = network;
    this.options = options;
    this.kube = options.kube === undefined ? undefined : new KubeCluster(claim, network, options.kube);
    this.kubeconfig = join(claim.directory, "kubeconfig");
    this.unixSocket = join(claim.directory, "api.sock");
  }

  get nodes(): readonly LabNode[] {
    return this.network.nodes;
  }

  node(name: string): LabNode {
    const node = this.nodes.find((each) => each.name === name);
    if (node === undefined) throw new Error(`the lab has no node ${name}`);
    return node;
  }

  /** Starts the API server, and sees to it that there are Nodes. */
  async startApi(): Promise<void> {
    if (this.kube !== undefined) await this.#startKube(this.kube);
    else await this.#startEmbedded();
  }

  async #startKube(kube: KubeCluster): Promise<void> {
    await kube.start();
    this.hostKubeconfig = kube.controlPlane.hostKubeconfig;
    copyFileSync(kube.controlPlane.kubeconfigs.admin, this.kubeconfig);
    this.apiServer = kube.controlPlane.programs.apiServer;
    this.api = createClient(loadConfig({ kubeconfig: this.hostKubeconfig }), { clock, log: silentLog });
    this.#kubeconfigs.set("controller", await kube.controllerKubeconfig());
    for (const node of this.nodes) this.#kubeconfigs.set(node.name, await kube.speakerKubeconfig(node));
  }

  /** Kubeconfigs of Belfry's processes on a real Kubernetes, by node, and `controller`. */
  readonly #kubeconfigs = new Map<string, string>();

  async #startEmbedded(): Promise<void> {
    this.apiServer = startProgram(this.claim, {
      name: "api",
      namespace: this.network.controlPlane,
      process: "api",
      args: [
        "--listen",
        `${this.network.controlPlaneIPv4}:${API_PORT}`,
        "--unix",
        this.unixSocket,
        "--kubeconfig-out",
        this.kubeconfig,
      ],
    });
    const door = await this.openHostDoor();
    this.hostKubeconfig = join(this.claim.directory, "kubeconfig-host");
    await eventually("the embedded API server listens", 20_000, () => {
      if (!this.apiServer.running) throw new Error(this.apiServer.log());
      return this.apiServer.log().includes("ready");
    });
    const text = readFileSync(this.kubeconfig, "utf8");
    writeFileSync(
      this.hostKubeconfig,
      text.replaceAll(`${this.network.controlPlaneIPv4}:${API_PORT}`, `127.0.0.1:${door}`),
    );
    this.api = createClient(await loadConfig({ kubeconfig: this.hostKubeconfig }), {
      clock: clock,
      log: silentLog,
    });
    await putNamespace(this.api, "belfry-system");
    for (const node of this.nodes) await putNode(this.api, node);
  }

  /** A port on this machine's 127.0.0.1 that leads to the API server, so that kubectl works here. */
  async openHostDoor(): Promise<number> {
    this.#door = await openRelay({ path: this.unixSocket });
    return this.#door.port;
  }

  /** Of a flag that is given twice the last one counts. */
  startController(name: string, flags: readonly string[] = []): Program {
    const program = startProgram(this.claim, {
      name,
      namespace: this.network.controlPlane,
      process: "controller",
      args: [
        "--kubeconfig",
        this.#kubeconfigs.get("controller") ?? this.kubeconfig,
        "--identity",
        name,
        "--metrics-bind",
        `127.0.0.1:${9120 + this.controllers.length}`,
        "--log-level",
        this.options.logLevel ?? "info",
        "--service-data-path",
        this.options.serviceDataPath ?? "Belfry",
        ...(this.options.controllerFlags ?? []),
        ...flags,
      ],
    });
    this.controllers.push(program);
    return program;
  }

  startSpeaker(node: LabNode, flags: readonly string[] = []): Program {
    const program = startProgram(this.claim, {
      name: `speaker-${node.name}`,
      namespace: node.namespace,
      process: "speaker",
      args: [
        "--node-name",
        node.name,
        "--kubeconfig",
        this.#kubeconfigs.get(node.name) ?? this.kubeconfig,
        "--metrics-bind",
        "127.0.0.1:9121",
        "--log-level",
        this.options.logLevel ?? "info",
        ...(this.options.speakerFlags ?? []),
        ...flags,
      ],
    });
    this.speakers.set(node.name, program);
    return program;
  }

  /** The API server, two controllers and a speaker on every node. */
  async startAll(): Promise<void> {
    await this.startApi();
    for (const name of ["controller-a", "controller-b"]) this.startController(name);
    for (const node of this.nodes) this.startSpeaker(node);
  }

  /** Applies all YAML documents of files or directories (in name order), as `kubectl apply --server-side` would. */
  async apply(...paths: readonly string[]): Promise<KubeObject[]> {
    const applied: KubeObject[] = [];
    for (const object of readManifests(paths)) applied.push(await put(this.api, resourceOf(object), object));
    return applied;
  }

  /** Starts a pod that serves its name on a port, TCP and UDP. */
  async startPod(name: string, node: LabNode, port = 8080): Promise<LabPod> {
    if (this.kube !== undefined) {
      const pod = await startKubePod(this.api, { name, node: node.name, port });
      this.pods.set(name, pod);
      return pod;
    }
    const number = (this.#podNumbers.get(node.name) ?? 1) + 1;
    this.#podNumbers.set(node.name, number);
    const namespace = `belfry-${this.claim.id}-pod-${name}`;
    const addresses = await attachPod(this.claim, node, namespace, number);
    const resident = await startResident<PodActions>(namespace, new URL("./pod-resident.ts", import.meta.url));
    this.#residents.push(resident);
    this.#podResidents.set(name, resident);
    await resident.call("serve", name, port);
    const pod: LabPod = { ...addresses, name, node: node.name, state: "Ready" };
    this.pods.set(name, pod);
    return pod;
  }

  /** Says that these pods, in their recorded state, are the endpoints of a Service. */
  async setEndpoints(
    service: { namespace: string; name: string },
    ports: readonly SlicePort[],
    pods: Iterable<LabPod> = this.pods.values(),
  ): Promise<void> {
    const wanted = [...pods];
    if (this.kube === undefined || !(await hasSelector(this.api, service))) {
      return putEndpoints(this.api, service, ports, wanted);
    }
    // The Services of the samples select the same pods; the real controllers write the slices.
    for (const pod of [...this.pods.values()]) {
      const state = wanted.find(({ name }) => name === pod.name)?.state ?? "Absent";
      this.pods.set(pod.name, await setKubePod(this.kube, this.api, pod, state));
    }
  }

  /** The client on the LAN. */
  client(): Promise<Resident<ClientActions>> {
    return this.residentOf(this.network.client.namespace);
  }

  /** Somebody who asks from inside any namespace: a node, a pod. */
  async residentIn(namespace: string): Promise<Resident<ClientActions>> {
    const resident = await startResident<ClientActions>(namespace, new URL("./client-resident.ts", import.meta.url));
    this.#residents.push(resident);
    return resident;
  }

  podNamespace(name: string): string {
    return `belfry-${this.claim.id}-pod-${name}`;
  }

  /** Runs a program inside a namespace. */
  exec(namespace: string, ...command: readonly string[]): Promise<string> {
    return run("ip", ["netns", "exec", namespace, ...command]);
  }

  capture(host: Host, filter: readonly string[] = []): Promise<Capture> {
    return startCapture(this.claim, host.namespace, "eth0", filter);
  }

  /** MAC address that the client's kernel has for an address, or `undefined`. */
  async neighbour(address: string, host: Host = this.network.client): Promise<string | undefined> {
    const text = await run("ip", ["-n", host.namespace, "neigh", "show", address, "dev", "eth0"]);
    return /lladdr ([0-9a-f:]+)/.exec(text)?.[1];
  }

  /** The node whose LAN interface has the MAC. */
  nodeOfMac(mac: string | undefined): LabNode | undefined {
    return this.nodes.find((node) => node.mac === mac);
  }

  /** True when the speaker of a node says that it has synced and serves. */
  async speakerIsReady(node: LabNode): Promise<boolean> {
    const page = await this.scrape(node.namespace, 9121, "/readyz");
    return page.code === 200;
  }

  /** Fetches a page of a process that listens on 127.0.0.1 of its namespace. */
  async scrape(namespace: string, port: number, path = "/metrics"): Promise<{ code: number; body: string }> {
    const resident = await this.residentOf(namespace);
    return resident.call("fetchPage", port, path);
  }

  readonly #observers = new Map<string, Promise<Resident<ClientActions>>>();

  /** One who asks from inside a namespace, shared by all who need one there. */
  residentOf(namespace: string): Promise<Resident<ClientActions>> {
    const known = this.#observers.get(namespace) ?? this.residentIn(namespace);
    this.#observers.set(namespace, known);
    return known;
  }

  /** True when somebody still answers ARP or NDP for the address. */
  async stillAnswered(client: Resident<ClientActions>, address: string): Promise<boolean> {
    await run("ip", ["-n", this.network.client.namespace, "neigh", "flush", "dev", "eth0"]);
    await client.call("ask", "TCP", address, 80, 1500);
    return (await this.neighbour(address)) !== undefined;
  }

  /** Power off: the speaker is gone by SIGKILL, and so are the node's links. */
  async killNode(node: LabNode): Promise<void> {
    // The speaker first: it would tell the others of the lost cable, which a node without power does not.
    const gone = this.speakers.get(node.name)?.end("SIGKILL");
    await setManagementCable(this.network, node, "down");
    await setLanCable(this.network, node, "down");
    await gone;
    await this.kube?.kubelets.get(node.name)?.kill();
  }

  async reviveNode(node: LabNode): Promise<void> {
    await setLanCable(this.network, node, "up");
    await setManagementCable(this.network, node, "up");
    await this.kube?.startKubelet(node);
    this.startSpeaker(node);
  }

  /** Ends every process that this lab started and removes every namespace that it made. */
  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #close(): Promise<void> {
    this.api?.close();
    this.#door?.close();
    await this.kube?.close();
    const programs = [...this.speakers.values(), ...this.controllers, this.apiServer];
    await Promise.all(programs.map((program) => program?.end("SIGKILL")));
    await Promise.all(this.#residents.map((resident) => resident.close()));
    await this.claim.release();
  }
}

/** A lab with its network built and nothing started. */
export async function createLab(options: LabOptions = {}): Promise<Lab> {
  await removeStaleLabs();
  const claim = claimLab();
  try {
    return new Lab(claim, await buildNetwork(claim, options.nodes ?? 3), options);
  } catch (error) {
    await claim.release();
    throw error;
  }
}

export function readManifests(paths: readonly string[]): KubeObject[] {
  return paths.flatMap((path) => {
    const full = join(REPOSITORY, path);
    const files = /\.ya?ml$/.test(path)
      ? [full]
      : readdirSync(full)
          .filter((name) => /\.ya?ml$/.test(name) && name !== "kustomization.yaml")
          .sort()
          .map((name) => join(full, name));
    return files.flatMap((file) =>
      parseAllDocuments(readFileSync(file, "utf8")).flatMap((document) => {
        const object = document.toJS() as KubeObject | null;
        return object === null ? [] : [object];
      }),
    );
  });
}

const KNOWN = Object.values(resources).filter((value): value is resources.Resource => typeof value === "object");

/** The resource of an object by its apiVersion and kind. */
export function resourceOf(object: KubeObject): resources.Resource {
  const resource = KNOWN.find(
    (each) => resources.apiVersionOf(each) === object.apiVersion && each.kind === object.kind,
  );
  if (resource === undefined) throw new Error(`the lab does not know ${object.apiVersion} ${object.kind}`);
  return resource;
}

/**
 * A real Kubernetes on the lab's nodes: control plane, a kubelet and a kube-proxy per node, Belfry's API and rights from
 * `config/default`, and a kubeconfig for each of Belfry's processes with its own ServiceAccount.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseAllDocuments } from "yaml";
import { NAMESPACE } from "../../src/api/names.ts";
import type { Claim } from "../claim.ts";
import { ip, run } from "../command.ts";
import { eventually } from "../eventually.ts";
import type { LabNode, Network } from "../network.ts";
import { type Program, REPOSITORY, startCommand } from "../program.ts";
import { leaveRights } from "./audit.ts";
import { API_PORT, CLUSTER_CIDRS, type ControlPlane, startControlPlane } from "./control-plane.ts";
import { type Door, openDoor } from "./door.ts";
import { Kubelet } from "./kubelet.ts";
import type { Pod } from "./pod.ts";
import { createKubeRequest, type KubeRequest, objectOf } from "./request.ts";

export const SERVICE_PROXIES = ["nftables", "iptables", "none"] as const;
export type ServiceProxy = (typeof SERVICE_PROXIES)[number];

export type KubeOptions = {
  /** One file that is all of Kubernetes; its first argument names the program. */
  readonly binary: string;
  /** Folder with the CRDs of the Gateway API. */
  readonly gatewayCrds: string;
  /** Mode of the kube-proxy beside Belfry; nftables by default. */
  readonly serviceProxy?: ServiceProxy;
};

/** The first address of the first of SERVICE_CIDRS. */
const KUBERNETES_SERVICE = "198.18.255.1";
const TOKEN_SECONDS = 24 * 60 * 60;

export class KubeCluster {
  readonly #claim: Claim;
  readonly #network: Network;
  readonly #options: KubeOptions;
  readonly #doors: Door[] = [];
  readonly #nodeRequests = new Map<string, { request: KubeRequest; kubeconfig: string }>();
  readonly kubelets = new Map<string, Kubelet>();
  readonly serviceProxies = new Map<string, Program>();
  controlPlane!: ControlPlane;

  constructor(claim: Claim, network: Network, options: KubeOptions) {
    this.#claim = claim;
    this.#network = network;
    this.#options = options;
  }

  /** Everything except Belfry's own processes. */
  async start(): Promise<void> {
    this.controlPlane = await startControlPlane(this.#claim, this.#network, this.#options.binary);
    await this.#routePods();
    await Promise.all([
      this.#install(),
      ...this.#network.nodes.map(async (node) => {
        await this.startKubelet(node);
        this.startServiceProxy(node);
      }),
    ]);
    await this.#readyToTake();
  }

  /** The way back to pods that ask the API server. */
  async #routePods(): Promise<void> {
    const routes = this.#network.nodes.map(
      ({ podCIDRs, managementIPv4 }) => `route add ${podCIDRs[0]} via ${managementIPv4}`,
    );
    await ip(this.#network.controlPlane, routes);
  }

  /** Control plane and service proxies, as far as they were started. */
  get programs(): Program[] {
    const { etcd, apiServer, controllers, scheduler } = this.controlPlane?.programs ?? {};
    return [etcd, apiServer, controllers, scheduler, ...this.serviceProxies.values()].filter(
      (program) => program !== undefined,
    );
  }

  /** What a shell runs as kubectl. */
  get kubectlCommand(): string {
    return `${this.#options.binary} kubectl`;
  }

  /** Runs the real kubectl as the admin. */
  kubectl(args: readonly string[], input = ""): Promise<string> {
    const cache = join(this.#claim.directory, "kubectl-cache");
    const common = ["--kubeconfig", this.controlPlane.hostKubeconfig, "--cache-dir", cache];
    return run(this.#options.binary, ["kubectl", ...common, ...args], input);
  }

  /** Of the API server: `v1.37.2`. */
  version(): Promise<string> {
    this.#version ??= this.controlPlane
      .admin("GET", "/version")
      .then((answer) => objectOf<{ gitVersion: string }>("version", answer).gitVersion);
    return this.#version;
  }

  #version: Promise<string> | undefined;

  async startKubelet(node: LabNode): Promise<void> {
    const { request, kubeconfig } = await this.#nodeAccess(node);
    const kubelet = new Kubelet({
      claim: this.#claim,
      node,
      kubeconfig,
      request,
      version: await this.version(),
      apiServer: { host: KUBERNETES_SERVICE, port: 443 },
      namespaceOf: (pod) => podNamespace(this.#claim, pod),
    });
    this.kubelets.set(node.name, kubelet);
    await kubelet.start();
  }

  /** A kube-proxy in the node's namespace, as a cluster runs it beside us; nothing when the lab has none. */
  startServiceProxy(node: LabNode): void {
    const mode = this.#options.serviceProxy ?? "nftables";
    if (mode === "none") return;
    const program = startCommand(this.#claim, {
      name: `kube-proxy-${node.name}`,
      namespace: node.namespace,
      command: [
        this.#options.binary,
        "kube-proxy",
        `--kubeconfig=${this.controlPlane.kubeconfigs.proxy}`,
        `--proxy-mode=${mode}`,
        `--hostname-override=${node.name}`,
        `--cluster-cidr=${CLUSTER_CIDRS.join(",")}`,
        "--metrics-bind-address=127.0.0.1:10249",
        "--healthz-bind-address=127.0.0.1:10256",
        // Limits of the machine, which a network namespace may not change.
        "--conntrack-max-per-core=0",
        "--conntrack-tcp-timeout-established=0",
        "--conntrack-tcp-timeout-close-wait=0",
      ],
      environment: { GOGC: "200" },
    });
    this.serviceProxies.set(node.name, program);
  }

  /** A kubeconfig of Belfry's controller: its ServiceAccount, and only the rights of config/. */
  async controllerKubeconfig(): Promise<string> {
    return this.#belfryKubeconfig("belfry-controller", "belfry-controller", undefined);
  }

  /** A kubeconfig of the speaker on a node; its token names the node, as the token of a pod there would. */
  async speakerKubeconfig(node: LabNode): Promise<string> {
    return this.#belfryKubeconfig(`belfry-speaker-${node.name}`, "belfry-speaker", node);
  }

  /** A token of one of Belfry's ServiceAccounts from the TokenRequest API, bound to a Node if one is given. */
  async token(account: string, node: Pick<LabNode, "name"> | undefined): Promise<string> {
    const { admin } = this.controlPlane;
    let boundObjectRef: unknown;
    if (node !== undefined) {
      const answer = await admin("GET", `/api/v1/nodes/${node.name}`);
      const { metadata } = objectOf<{ metadata: { uid: string } }>(`node ${node.name}`, answer);
      boundObjectRef = { apiVersion: "v1", kind: "Node", name: node.name, uid: metadata.uid };
    }
    const answer = await admin("POST", `/api/v1/namespaces/${NAMESPACE}/serviceaccounts/${account}/token`, {
      apiVersion: "authentication.k8s.io/v1",
      kind: "TokenRequest",
      spec: { audiences: [], expirationSeconds: TOKEN_SECONDS, boundObjectRef },
    });
    return objectOf<{ status: { token: string } }>(`a token of ${account}`, answer).status.token;
  }

  async #belfryKubeconfig(name: string, account: string, node: LabNode | undefined): Promise<string> {
    const directory = join(this.controlPlane.directory, "tokens");
    mkdirSync(directory, { recursive: true });
    const tokenFile = join(directory, name);
    writeFileSync(tokenFile, await this.token(account, node), { mode: 0o600 });
    return this.controlPlane.writeKubeconfig(name, { tokenFile });
  }

  /** CRDs of the Gateway API, and the base that an operator installs, without the workloads: the lab starts those. */
  async #install(): Promise<void> {
    const base = await this.kubectl(["kustomize", join(REPOSITORY, "config/default")]);
    const objects = parseAllDocuments(base).flatMap((document) => {
      const object = document.toJS() as { kind: string } | null;
      return object === null || WORKLOADS.has(object.kind) ? [] : [JSON.stringify(object)];
    });
    const flags = ["apply", "--server-side", "--force-conflicts", "-f"];
    await eventually("config/default is applied", 30_000, async () => {
      // The namespace first, and RBAC's own roles may still be on their way.
      await this.kubectl([...flags, this.#options.gatewayCrds, "-f", "-"], objects.join("\n---\n"));
      return true;
    });
  }

  /** Waits until the new kinds are served and every pod namespace can have pods. */
  async #readyToTake(): Promise<void> {
    await this.kubectl(["wait", "--for=condition=Established", "crd", "--all", "--timeout=30s"]);
  }

  async #nodeAccess(node: LabNode): Promise<{ request: KubeRequest; kubeconfig: string }> {
    const known = this.#nodeRequests.get(node.name);
    if (known !== undefined) return known;
    const path = join(this.#claim.directory, `${node.name}.sock`);
    const door = await openDoor(node.namespace, path, this.#network.controlPlaneIPv4, API_PORT);
    this.#doors.push(door);
    const token = this.controlPlane.nodeToken(node.name);
    const access = {
      request: createKubeRequest({ port: door.port, ca: this.controlPlane.ca, token }),
      kubeconfig: this.controlPlane.writeKubeconfig(
        `kubelet-${node.name}`,
        { token },
        `https://127.0.0.1:${door.port}`,
      ),
    };
    this.#nodeRequests.set(node.name, access);
    return access;
  }

  async close(): Promise<void> {
    await Promise.all([...this.kubelets.values()].map((kubelet) => kubelet.kill()));
    await Promise.all([...this.serviceProxies.values()].map((program) => program.end("SIGKILL")));
    await this.controlPlane?.close();
    if (this.controlPlane !== undefined) leaveRights(this.controlPlane.auditLog);
    await Promise.all(this.#doors.map((door) => door.close()));
  }
}

const WORKLOADS = new Set(["Deployment", "DaemonSet"]);

/** Network namespace of a pod; the lab's own pods live in the namespace `demo`. */
const podNamespace = (claim: Claim, pod: Pod): string => {
  const { namespace, name } = pod.metadata;
  return `belfry-${claim.id}-pod-${namespace === "demo" ? "" : `${namespace}-`}${name}`;
};

/** The real control plane: etcd, API server, controllers and scheduler, as processes in the lab's own namespace. */
import { generateKeyPairSync, randomBytes } from "node:crypto";
import { cpSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { stringify } from "yaml";
import { createAuthority, issueServerCertificate } from "../../src/embedded/certificate.ts";
import type { Claim } from "../claim.ts";
import { eventually } from "../eventually.ts";
import type { Network } from "../network.ts";
import { type Program, startCommand } from "../program.ts";
import { type Door, openDoor } from "./door.ts";
import { createKubeRequest, type KubeRequest } from "./request.ts";

export const API_PORT = 6443;
/** Apart from the lab's LAN, management and pod CIDRs. */
export const SERVICE_CIDRS = ["198.18.255.0/24", "2001:db8:0:ff::/112"] as const;
/** Holds the pod CIDRs of all nodes that a lab can have. */
export const CLUSTER_CIDRS = ["198.18.0.0/17", "2001:db8:0:10::/60"] as const;

/** Controllers that the lab has objects for. The token, certificate, volume and cloud ones would only cost time. */
const CONTROLLERS = [
  "clusterrole-aggregation-controller",
  "daemonset-controller",
  "deployment-controller",
  "disruption-controller",
  "endpoints-controller",
  "endpointslice-controller",
  "endpointslice-mirroring-controller",
  "garbage-collector-controller",
  "namespace-controller",
  "node-lifecycle-controller",
  "pod-garbage-collector-controller",
  "replicaset-controller",
  "root-ca-certificate-publisher-controller",
  "service-cidr-controller",
  "serviceaccount-controller",
  "statefulset-controller",
  "taint-eviction-controller",
  "validatingadmissionpolicy-status-controller",
];

/** Who may come with a static token; RBAC's own roles are bound to these names. */
const SYSTEM_USERS = {
  admin: { user: "admin", groups: ["system:masters"] },
  controllers: { user: "system:kube-controller-manager", groups: [] },
  scheduler: { user: "system:kube-scheduler", groups: [] },
  proxy: { user: "system:kube-proxy", groups: [] },
} as const;

export type ControlPlane = {
  readonly directory: string;
  readonly auditLog: string;
  readonly ca: string;
  readonly programs: {
    etcd: Program;
    apiServer: Program;
    controllers: Program | undefined;
    scheduler: Program | undefined;
  };
  /** Kubeconfigs, as seen from the lab's namespaces, of the admin, of kube-proxy and of the kubelet of each node. */
  readonly kubeconfigs: { readonly admin: string; readonly proxy: string };
  /** A kubeconfig of the admin for this machine. */
  readonly hostKubeconfig: string;
  readonly hostPort: number;
  readonly admin: KubeRequest;
  /** The token of `system:node:NAME`. */
  nodeToken(name: string): string;
  /** Writes a kubeconfig for a token file, as seen from the lab's namespaces; gives its path. */
  writeKubeconfig(name: string, user: Credentials, server?: string): string;
  startEtcd(): Program;
  startApiServer(): Program;
  /** Ends API server and etcd, as a machine does that loses its power. */
  stopStore(): Promise<void>;
  /** Starts them again; resolves when the API server is ready. */
  startStore(): Promise<void>;
  /** Keeps a copy of the stopped etcd's data under a name. */
  saveStore(name: string): void;
  /** Puts such a copy in the place of the stopped etcd's data: revisions and resourceVersions go back with it. */
  putStoreBack(name: string): void;
  /** Starts controllers and scheduler anew, as the manuals ask for after a restore. */
  restartControllers(): Promise<void>;
  /** Resolves when the API server says that it is ready. */
  ready(): Promise<void>;
  close(): Promise<void>;
};

export type Credentials = { readonly token: string } | { readonly tokenFile: string };

export type ControlPlaneOptions = {
  /** False: etcd and the API server alone. */
  readonly controllers?: boolean;
  /** The ranges of ClusterIPs. */
  readonly serviceCidrs?: readonly string[];
};

/** Starts all of it from the one binary, and waits until the API server is ready. */
export async function startControlPlane(
  claim: Claim,
  network: Network,
  binary: string,
  { controllers = true, serviceCidrs = SERVICE_CIDRS }: ControlPlaneOptions = {},
): Promise<ControlPlane> {
  const directory = join(claim.directory, "kube");
  mkdirSync(directory, { recursive: true });
  const file = (name: string, text?: string): string => {
    const path = join(directory, name);
    if (text !== undefined) writeFileSync(path, text, { mode: 0o600 });
    return path;
  };

  const address = network.controlPlaneIPv4;
  const server = `https://${address}:${API_PORT}`;
  const ca = writePki(file, [address, "127.0.0.1", "localhost", "kubernetes.default.svc", "198.18.255.1"]);
  const tokens = Object.fromEntries(
    [...Object.keys(SYSTEM_USERS), ...network.nodes.map(({ name }) => name)].map((name) => [
      name,
      randomBytes(16).toString("hex"),
    ]),
  );
  const tokenOf = (name: string): string => {
    const token = tokens[name];
    if (token === undefined) throw new Error(`nobody is called ${name}`);
    return token;
  };
  file(
    "tokens.csv",
    [
      ...Object.entries(SYSTEM_USERS).map(([name, { user, groups }]) => tokenLine(tokenOf(name), user, groups)),
      ...network.nodes.map(({ name }) => tokenLine(tokenOf(name), `system:node:${name}`, ["system:nodes"])),
    ].join(""),
  );
  file("audit-policy.yaml", stringify(AUDIT_POLICY));
  const auditLog = file("audit.log");
  const writeKubeconfig = (name: string, user: Credentials, at = server) =>
    file(`${name}.kubeconfig`, stringify(kubeconfigOf(name, at, ca, user)));

  const start = (program: string, args: readonly string[]): Program =>
    startCommand(claim, {
      name: program,
      namespace: network.controlPlane,
      command: [binary, program, ...args],
      // The collector of 8 Go processes on 2 cores would run all the time.
      environment: { GOGC: "200" },
    });
  const startEtcd = () =>
    start("etcd", [
      `--data-dir=${join(directory, "etcd")}`,
      "--unsafe-no-fsync",
      "--listen-client-urls=http://127.0.0.1:2379",
      "--advertise-client-urls=http://127.0.0.1:2379",
      "--listen-peer-urls=http://127.0.0.1:2380",
      "--initial-advertise-peer-urls=http://127.0.0.1:2380",
      "--initial-cluster=default=http://127.0.0.1:2380",
      "--log-level=warn",
    ]);
  const startApiServer = () =>
    start("kube-apiserver", [
      "--etcd-servers=http://127.0.0.1:2379",
      `--bind-address=${address}`,
      // The endpoint reconciler refuses loopback.
      `--advertise-address=${address}`,
      `--secure-port=${API_PORT}`,
      `--tls-cert-file=${file("server.crt")}`,
      `--tls-private-key-file=${file("server.key")}`,
      `--service-cluster-ip-range=${serviceCidrs.join(",")}`,
      "--authorization-mode=Node,RBAC",
      "--enable-admission-plugins=NodeRestriction",
      `--token-auth-file=${file("tokens.csv")}`,
      "--service-account-issuer=https://kubernetes.default.svc",
      `--service-account-key-file=${file("service-account.pub")}`,
      `--service-account-signing-key-file=${file("service-account.key")}`,
      `--audit-log-path=${auditLog}`,
      `--audit-policy-file=${file("audit-policy.yaml")}`,
      "--allow-privileged=true",
      "--profiling=false",
    ]);

  const programs: ControlPlane["programs"] = {
    etcd: startEtcd(),
    apiServer: startApiServer(),
    controllers: undefined,
    scheduler: undefined,
  };
  const startControllers = () => {
    programs.controllers = start("kube-controller-manager", [
      `--kubeconfig=${writeKubeconfig("kube-controller-manager", { token: tokenOf("controllers") })}`,
      `--controllers=${CONTROLLERS.join(",")}`,
      `--service-account-private-key-file=${file("service-account.key")}`,
      `--root-ca-file=${file("ca.crt")}`,
      "--use-service-account-credentials=true",
      "--leader-elect=false",
      "--allocate-node-cidrs=false",
      "--bind-address=127.0.0.1",
      // Deployments that are rolled in a test shall not wait for each other.
      "--kube-api-qps=100",
      "--kube-api-burst=200",
    ]);
    programs.scheduler = start("kube-scheduler", [
      `--kubeconfig=${writeKubeconfig("kube-scheduler", { token: tokenOf("scheduler") })}`,
      "--leader-elect=false",
      "--bind-address=127.0.0.1",
    ]);
  };
  const door: Door = await openDoor(network.controlPlane, join(claim.directory, "api.sock"), address, API_PORT);
  const admin = createKubeRequest({ port: door.port, ca, token: tokenOf("admin") });
  const ready = () =>
    eventually("the real API server is ready", 120_000, async () => {
      for (const program of [programs.etcd, programs.apiServer]) {
        if (!program.running) throw new Error(`${program.name} ended: ${lastLines(program)}`);
      }
      const answer = await admin("GET", "/readyz");
      if (answer.status !== 200) throw new Error(`${answer.status}: ${answer.text}`);
      return true;
    });
  const controlPlane: ControlPlane = {
    directory,
    auditLog,
    ca,
    programs,
    kubeconfigs: {
      admin: writeKubeconfig("admin", { token: tokenOf("admin") }),
      proxy: writeKubeconfig("kube-proxy", { token: tokenOf("proxy") }),
    },
    hostKubeconfig: writeKubeconfig("host", { token: tokenOf("admin") }, `https://127.0.0.1:${door.port}`),
    hostPort: door.port,
    admin,
    nodeToken: tokenOf,
    writeKubeconfig,
    startEtcd: () => {
      programs.etcd = startEtcd();
      return programs.etcd;
    },
    startApiServer: () => {
      programs.apiServer = startApiServer();
      return programs.apiServer;
    },
    async stopStore() {
      await Promise.all([programs.apiServer.end("SIGKILL"), programs.etcd.end("SIGKILL")]);
    },
    async startStore() {
      programs.etcd = startEtcd();
      programs.apiServer = startApiServer();
      await ready();
    },
    saveStore(name) {
      cpSync(join(directory, "etcd"), join(directory, `etcd-${name}`), { recursive: true });
    },
    putStoreBack(name) {
      rmSync(join(directory, "etcd"), { recursive: true });
      cpSync(join(directory, `etcd-${name}`), join(directory, "etcd"), { recursive: true });
    },
    async restartControllers() {
      await Promise.all([programs.controllers?.end("SIGKILL"), programs.scheduler?.end("SIGKILL")]);
      startControllers();
    },
    ready: async () => void (await ready()),
    async close() {
      // An API server that is watched takes up to minutes to leave by itself.
      await Promise.all(Object.values(programs).map((program) => program?.end("SIGKILL")));
      await door.close();
    },
  };
  try {
    await ready();
  } catch (error) {
    await controlPlane.close();
    throw error;
  }
  if (!controllers) return controlPlane;
  startControllers();
  return controlPlane;
}

const lastLines = (program: Program): string => program.log().trimEnd().split("\n").slice(-3).join("\n");

/** k8s.io/apiserver: token, user, uid, and the groups as one quoted field. */
const tokenLine = (token: string, user: string, groups: readonly string[]): string =>
  `${token},${user},${user},"${groups.join(",")}"\n`;

/** Belfry's accounts, each request once with its outcome; nobody else. */
const AUDIT_POLICY = {
  apiVersion: "audit.k8s.io/v1",
  kind: "Policy",
  omitStages: ["RequestReceived"],
  rules: [{ level: "Metadata", userGroups: ["system:serviceaccounts:belfry-system"] }, { level: "None" }],
};

/** Writes the authority, the server's certificate and the key of service accounts; gives the authority as PEM. */
function writePki(file: (name: string, text?: string) => string, hosts: readonly string[]): string {
  const name = "belfry-lab-ca";
  const authority = createAuthority(name, new Date());
  const certificate = issueServerCertificate(authority, name, hosts, new Date());
  file("ca.crt", authority.certificatePem);
  file("server.crt", certificate.certificatePem);
  file("server.key", certificate.keyPem);
  const { privateKey, publicKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  file("service-account.key", privateKey.export({ type: "pkcs8", format: "pem" }).toString());
  file("service-account.pub", publicKey.export({ type: "spki", format: "pem" }).toString());
  return authority.certificatePem;
}

const kubeconfigOf = (name: string, server: string, ca: string, user: Credentials) => ({
  apiVersion: "v1",
  kind: "Config",
  clusters: [{ name: "lab", cluster: { server, "certificate-authority-data": Buffer.from(ca).toString("base64") } }],
  users: [{ name, user }],
  contexts: [{ name: "lab", context: { cluster: "lab", user: name } }],
  "current-context": "lab",
});

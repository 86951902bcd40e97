/** From the kubeconfig that kubectl would use to a connection: certificates, tokens, exec plugins, OIDC. */
import { existsSync, readFileSync } from "node:fs";
import { homedir } from "node:os";
import { delimiter, dirname, join, resolve } from "node:path";
import { parse, stringify } from "yaml";
import { type ApiConfig, ConfigError, loadConfig } from "../kube/config.ts";
import { CommandFailed } from "./world.ts";

export type LoginOptions = {
  readonly kubeconfig: string | undefined;
  readonly context: string | undefined;
  readonly environment: Readonly<Record<string, string | undefined>>;
};

export type Login = {
  readonly config: ApiConfig;
  /** Of the context; `default` where it names none. */
  readonly namespace: string;
};

/** Logs in once: a command is over long before a token is. Throws CommandFailed with what to do. */
export async function login(options: LoginOptions): Promise<Login> {
  const files = kubeconfigFiles(options);
  if (files.length === 0) return inCluster(options);
  const merged = merge(files.map(readKubeconfig));
  const name = options.context ?? merged["current-context"];
  const context = merged.contexts.find((each) => each.name === name)?.context;
  const where = files.join(delimiter);
  if (context === undefined) {
    const known = merged.contexts.map((each) => each.name).join(", ") || "none";
    throw new CommandFailed(
      name === undefined || name === ""
        ? `${where}: no current-context; give --context, one of: ${known}`
        : `${where}: there is no context "${name}"; there are: ${known}`,
    );
  }
  if (name !== undefined) merged["current-context"] = name;
  return { config: await connect(merged, where), namespace: context.namespace ?? "default" };
}

/** --kubeconfig, else the files of KUBECONFIG that exist, else ~/.kube/config: as kubectl looks for it. */
function kubeconfigFiles({ kubeconfig, environment }: LoginOptions): string[] {
  if (kubeconfig !== undefined) return [kubeconfig];
  const listed = (environment["KUBECONFIG"] ?? "").split(delimiter).filter((file) => file !== "");
  if (listed.length > 0) {
    const there = listed.filter((file) => existsSync(file));
    if (there.length === 0) throw new CommandFailed(`KUBECONFIG: ${listed.join(", ")}: no such file`);
    return there;
  }
  const usual = join(environment["HOME"] ?? homedir(), ".kube", "config");
  return existsSync(usual) ? [usual] : [];
}

function inCluster({ environment, context }: LoginOptions): Login {
  if (environment["KUBERNETES_SERVICE_HOST"] === undefined || context !== undefined) {
    throw new CommandFailed("no kubeconfig: give --kubeconfig FILE, set KUBECONFIG, or write ~/.kube/config");
  }
  return { config: configOf(() => loadConfig({ environment })), namespace: "default" };
}

type Named<K extends string, T> = { name: string } & { [key in K]: T };
type Exec = {
  apiVersion?: string;
  command?: string;
  env?: { name: string; value: string }[] | null;
  provideClusterInfo?: boolean;
};
type User = Record<string, unknown> & { exec?: Exec; token?: string; tokenFile?: string };
type Kubeconfig = {
  "current-context"?: string | undefined;
  contexts: Named<"context", { cluster: string; user: string; namespace?: string }>[];
  clusters: Named<"cluster", Record<string, unknown>>[];
  users: Named<"user", User>[];
};

/** The file, with paths made absolute: they mean the folder of the file that names them. */
function readKubeconfig(file: string): Partial<Kubeconfig> {
  const text = readText(file);
  let config: Partial<Kubeconfig> | null;
  try {
    config = parse(text) as Partial<Kubeconfig> | null;
  } catch (error) {
    throw new CommandFailed(`${file}: not YAML: ${messageOf(error)}`);
  }
  if (typeof config !== "object" || config === null) throw new CommandFailed(`${file}: this is no kubeconfig`);
  const beside = (path: unknown) => (typeof path === "string" && path !== "" ? resolve(dirname(file), path) : path);
  for (const { cluster } of config.clusters ?? []) {
    if (cluster?.["certificate-authority"]) cluster["certificate-authority"] = beside(cluster["certificate-authority"]);
  }
  for (const { user } of config.users ?? []) {
    if (typeof user !== "object" || user === null) continue;
    for (const key of ["client-certificate", "client-key"]) if (user[key]) user[key] = beside(user[key]);
    // client-go: a token file, where given, is the one that counts. The library knows it only under another name.
    if (user.tokenFile) user.token = readText(String(beside(user.tokenFile))).trim();
    // A bare command is searched in PATH, one with a slash belongs to the file.
    if (user.exec?.command?.includes("/")) user.exec.command = String(beside(user.exec.command));
  }
  return config;
}

/** Of two entries with one name the first counts, as does the first current-context (client-go's rule). */
function merge(configs: readonly Partial<Kubeconfig>[]): Kubeconfig {
  const once = <T extends { name: string }>(entries: readonly T[]): T[] => [
    ...new Map(entries.toReversed().map((each) => [each.name, each])).values(),
  ];
  return {
    "current-context": configs.map((each) => each["current-context"]).find((each) => each !== undefined && each !== ""),
    contexts: once(configs.flatMap((each) => each.contexts ?? [])),
    clusters: once(configs.flatMap((each) => each.clusters ?? [])),
    users: once(configs.flatMap((each) => each.users ?? [])),
  };
}

async function connect(kubeconfig: Kubeconfig, where: string): Promise<ApiConfig> {
  const context = kubeconfig.contexts.find((each) => each.name === kubeconfig["current-context"])?.context;
  const cluster = kubeconfig.clusters.find((each) => each.name === context?.cluster)?.cluster;
  if (cluster === undefined) throw new CommandFailed(`${where}: there is no cluster "${context?.cluster}"`);
  const user = kubeconfig.users.find((each) => each.name === context?.user)?.user;
  refuseUnsupported(cluster, user, where);
  if (user?.exec !== undefined) tellPlugin(user.exec, cluster);
  const url = URL.parse(String(cluster["server"] ?? ""));
  if (url === null) throw new CommandFailed(`${where}: server "${cluster["server"] ?? ""}" is not an https:// address`);

  // Loaded here and not above: it costs most of a second, which --help and completion need not pay.
  const { KubeConfig } = await import("@kubernetes/client-node/dist/config.js");
  const options: Credentials = { headers: {} };
  try {
    const library = new KubeConfig();
    library.loadFromString(stringify(kubeconfig));
    // Runs the plugin, or has the identity provider renew the token.
    await library.applyToHTTPSOptions(options as Parameters<typeof library.applyToHTTPSOptions>[0]);
  } catch (error) {
    throw new CommandFailed(`login as user "${context?.user}" of ${where} failed: ${messageOf(error)}`);
  }
  return configFrom(url, options);
}

/** What applyToHTTPSOptions fills in: node:https options. */
type Credentials = {
  ca?: Buffer | string;
  cert?: Buffer | string;
  key?: Buffer | string;
  servername?: string;
  rejectUnauthorized?: boolean;
  headers: Record<string, string>;
};

function configFrom(url: URL, { ca, cert, key, servername, rejectUnauthorized, headers }: Credentials): ApiConfig {
  const connection = {
    origin: url.origin,
    basePath: url.pathname.replace(/\/+$/, ""),
    ca: ca?.toString(),
    clientCertificate:
      cert === undefined || key === undefined ? undefined : { certificate: cert.toString(), key: key.toString() },
    serverName: servername,
    insecure: rejectUnauthorized === false,
  };
  const token = /^Bearer (.+)$/.exec(headers["Authorization"] ?? "")?.[1];
  return { connection: () => connection, token: () => token, forgetToken() {} };
}

function refuseUnsupported(cluster: Record<string, unknown>, user: User | undefined, where: string): void {
  const refuse = (what: string) => {
    throw new CommandFailed(`${where}: ${what}`);
  };
  if (cluster["proxy-url"]) refuse("proxy-url is not supported; connect without a proxy, or use kubectl");
  if (user?.["as"] || user?.["as-groups"])
    refuse("impersonation (as) is not supported; use the credentials themselves");
  if (user?.["username"]) refuse("Kubernetes takes no user name and password any more; use a token or a certificate");
}

/** What client-go puts into the plugin's environment (client.authentication.k8s.io ExecCredential); the library does not. */
function tellPlugin(exec: Exec, cluster: Record<string, unknown>): void {
  const { server, ...rest } = cluster;
  const info = {
    kind: "ExecCredential",
    apiVersion: exec.apiVersion ?? "client.authentication.k8s.io/v1",
    spec: {
      interactive: false,
      ...(exec.provideClusterInfo === true
        ? { cluster: { server, "certificate-authority-data": rest["certificate-authority-data"] } }
        : {}),
    },
  };
  exec.env = [...(exec.env ?? []), { name: "KUBERNETES_EXEC_INFO", value: JSON.stringify(info) }];
}

function configOf(make: () => ApiConfig): ApiConfig {
  try {
    return make();
  } catch (error) {
    if (error instanceof ConfigError) throw new CommandFailed(error.message);
    throw error;
  }
}

function readText(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    throw new CommandFailed(messageOf(error));
  }
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error)).trim();

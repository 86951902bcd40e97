import { readFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { parse } from "yaml";
import { after, type Instant } from "../core/instant.ts";

/** What one connection attempt needs. Made anew for each attempt, so that rotated files are taken up. */
export type Connection = {
  /** `https://host:port`, or `http://` for tests. */
  readonly origin: string;
  /** Path before `/api`, without a slash at its end; usually empty. */
  readonly basePath: string;
  /** PEM; undefined means the system's authorities. */
  readonly ca: string | undefined;
  readonly clientCertificate: { readonly certificate: string; readonly key: string } | undefined;
  /** Name that the server's certificate must carry, when it is not the host. */
  readonly serverName: string | undefined;
  readonly insecure: boolean;
};

/** Where the API server is and who we are. Throws `ConfigError` when a file is missing or says nothing usable. */
export type ApiConfig = {
  /** Reads the files again. */
  connection(): Connection;
  /** The bearer token, read again when it is older than a minute; undefined when a certificate or nothing is used. */
  token(now: Instant): string | undefined;
  /** After a 401: the next `token` reads the file, whatever its age. */
  forgetToken(): void;
};

/** A configuration that nobody can connect with; the message says which file and what to do. */
export class ConfigError extends Error {}

const SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount";
const TOKEN_LIFETIME_MILLISECONDS = 60_000;

/**
 * From a kubeconfig file, or else from the pod's service account. Throws `ConfigError` at once when that is not usable;
 * later, a file that is broken for a moment makes only that attempt fail.
 */
export function loadConfig(options: {
  kubeconfig?: string | undefined;
  environment?: Readonly<Record<string, string | undefined>>;
  serviceAccountDirectory?: string;
}): ApiConfig {
  const source =
    options.kubeconfig === undefined
      ? () => inCluster(options.environment ?? process.env, options.serviceAccountDirectory ?? SERVICE_ACCOUNT)
      : fromKubeconfig(options.kubeconfig);
  source();
  let cached: { readonly token: string | undefined; readonly until: Instant } | undefined;
  return {
    connection: () => source().connection,
    token(now) {
      if (cached === undefined || now >= cached.until) {
        cached = { token: source().token(), until: after(now, TOKEN_LIFETIME_MILLISECONDS) };
      }
      return cached.token;
    },
    forgetToken() {
      cached = undefined;
    },
  };
}

type Source = { readonly connection: Connection; readonly token: () => string | undefined };

function inCluster(environment: Readonly<Record<string, string | undefined>>, directory: string): Source {
  const host = environment["KUBERNETES_SERVICE_HOST"];
  if (host === undefined || host === "") {
    throw new ConfigError("not in a pod (KUBERNETES_SERVICE_HOST is not set): give --kubeconfig FILE");
  }
  const port = environment["KUBERNETES_SERVICE_PORT"] ?? "443";
  return {
    connection: {
      origin: `https://${host.includes(":") ? `[${host}]` : host}:${port}`,
      basePath: "",
      ca: readText(`${directory}/ca.crt`),
      clientCertificate: undefined,
      serverName: undefined,
      insecure: false,
    },
    token: () => readText(`${directory}/token`).trim(),
  };
}

/** The file is parsed again only when its text has changed. */
function fromKubeconfig(path: string): () => Source {
  let text: string | undefined;
  let source: (() => Source) | undefined;
  return () => {
    const now = readText(path);
    if (source === undefined || now !== text) {
      source = parseKubeconfig(now, path);
      text = now;
    }
    return source();
  };
}

/** Fields of a kubeconfig that we use (k8s.io/client-go tools/clientcmd/api/v1). */
type Kubeconfig = {
  "current-context"?: string;
  contexts?: { name: string; context: { cluster: string; user: string } }[];
  clusters?: {
    name: string;
    cluster: {
      server?: string;
      "certificate-authority"?: string;
      "certificate-authority-data"?: string;
      "insecure-skip-tls-verify"?: boolean;
      "tls-server-name"?: string;
    };
  }[];
  users?: {
    name: string;
    user: {
      token?: string;
      tokenFile?: string;
      "client-certificate"?: string;
      "client-certificate-data"?: string;
      "client-key"?: string;
      "client-key-data"?: string;
      exec?: unknown;
      "auth-provider"?: unknown;
      username?: string;
    };
  }[];
};

function parseKubeconfig(text: string, path: string): () => Source {
  const refuse = (message: string) => new ConfigError(`kubeconfig ${path}: ${message}`);
  let parsed: unknown;
  try {
    parsed = parse(text);
  } catch (error) {
    throw refuse(`not YAML: ${error instanceof Error ? error.message : String(error)}`);
  }
  if (typeof parsed !== "object" || parsed === null) throw refuse("empty");
  // Narrowed field by field below; a field of another shape than expected reads as missing or fails with its name.
  const config = parsed as Kubeconfig;
  const contextName = config["current-context"] ?? "";
  const context = config.contexts?.find(({ name }) => name === contextName)?.context;
  if (context === undefined) throw refuse(`current-context "${contextName}" is not among its contexts`);
  const cluster = config.clusters?.find(({ name }) => name === context.cluster)?.cluster;
  if (cluster === undefined) throw refuse(`no cluster "${context.cluster}"`);
  const user = config.users?.find(({ name }) => name === context.user)?.user ?? {};
  if (user.exec !== undefined || user["auth-provider"] !== undefined || user.username !== undefined) {
    throw refuse(`user "${context.user}" logs in by a plugin or password; use a token or a client certificate`);
  }
  const url = URL.parse(cluster.server ?? "");
  if (url === null || (url.protocol !== "https:" && url.protocol !== "http:")) {
    throw refuse(`server "${cluster.server ?? ""}" is not an https:// address`);
  }
  const beside = (file: string) => resolve(dirname(path), file);
  /** Inline base64 wins over a file, as in client-go. */
  const pem = (inline: string | undefined, file: string | undefined) =>
    inline !== undefined && inline !== ""
      ? Buffer.from(inline, "base64").toString("utf8")
      : file !== undefined && file !== ""
        ? readText(beside(file))
        : undefined;
  return () => {
    const certificate = pem(user["client-certificate-data"], user["client-certificate"]);
    const key = pem(user["client-key-data"], user["client-key"]);
    return {
      connection: {
        origin: url.origin,
        basePath: url.pathname.replace(/\/+$/, ""),
        ca: pem(cluster["certificate-authority-data"], cluster["certificate-authority"]),
        clientCertificate: certificate === undefined || key === undefined ? undefined : { certificate, key },
        serverName: cluster["tls-server-name"],
        insecure: cluster["insecure-skip-tls-verify"] === true,
      },
      // client-go: a token file, where given, is the one that counts.
      token: () =>
        user.tokenFile !== undefined && user.tokenFile !== "" ? readText(beside(user.tokenFile)).trim() : user.token,
    };
  };
}

function readText(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    throw new ConfigError(`${path}: ${error instanceof Error ? error.message : String(error)}`);
  }
}

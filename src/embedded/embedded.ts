/** Starts an embedded API: see README.md for what it speaks and what it leaves out. */
import { randomBytes } from "node:crypto";
import type { KubeObject } from "../api/meta.ts";
import { apiVersionOf, SERVICECIDR } from "../api/resource.ts";
import { createAuthority, issueServerCertificate } from "./certificate.ts";
import { Connections, type ListenAddress } from "./connection.ts";
import { Faults } from "./fault.ts";
import { foreignKinds } from "./foreign-kind.ts";
import { collectionOf } from "./kind.ts";
import { kubeconfigOf } from "./kubeconfig.ts";
import { Listings } from "./listing.ts";
import { ourKinds } from "./our-kind.ts";
import { type AuditEntry, handleRequest } from "./request.ts";
import { viewsOf } from "./route.ts";
import { SERVICE_CIDRS } from "./service-address.ts";
import { type Snapshot, Store, storeKey } from "./store.ts";
import { Verbs } from "./verbs.ts";

export type EmbeddedOptions = {
  /** Default: a free port of 127.0.0.1. All of them serve the same objects. */
  readonly listen?: readonly ListenAddress[];
  /** More names or addresses that the certificate is good for. */
  readonly hosts?: readonly string[];
  /** Seconds between bookmarks of a watch; default 60, about what the real server does. */
  readonly bookmarkSeconds?: number;
  /** Events kept per kind for watches that resume; default 20,000. */
  readonly historyLength?: number;
  readonly now?: () => Date;
};

export type Embedded = {
  /** `https://HOST:PORT` of the first address. */
  readonly url: string;
  readonly addresses: readonly ListenAddress[];
  /** Of the authority that signed the present certificate. */
  readonly caPem: string;
  /** For the user `admin`. */
  readonly kubeconfig: string;
  kubeconfigFor(user: string, server?: string): string;
  /** Bearer token of the user, who exists from then on. */
  token(user: string): string;
  /** The objects. Reading is fine; write through `seed` or `verbs`, or admission is passed by. */
  readonly store: Store;
  readonly verbs: Verbs;
  readonly faults: Faults;
  /** Every request since the start, or since it was emptied. */
  readonly audit: AuditEntry[];
  /** Creates the objects as they are, status included, without a request. */
  seed(...objects: readonly KubeObject[]): void;
  /** The object as it is stored now. */
  read<T extends KubeObject>(kind: string, name: string, namespace?: string): T | undefined;
  /** Compaction: watches that resume and continue tokens get 410. Running watches go on. */
  expireAll(): void;
  snapshot(): Snapshot;
  /** Puts the store back, resourceVersions too, and cuts every connection, as a restore of etcd does. */
  restore(snapshot: Snapshot): void;
  /** Nobody gets in any more, everybody is thrown out; the objects stay. */
  stopListening(): Promise<void>;
  /** Listens on the same ports again, by default with the same certificate. */
  resume(certificate?: "same" | "newCertificate" | "newAuthority"): Promise<void>;
  close(): Promise<void>;
};

const AUTHORITY_NAME = "belfry-embedded-ca";
const ADMIN = "admin";
const MOST_AUDIT_ENTRIES = 200_000;

export async function startEmbedded(options: EmbeddedOptions = {}): Promise<Embedded> {
  const now = options.now ?? (() => new Date());
  const kinds = [...ourKinds(), ...foreignKinds()];
  const views = viewsOf(kinds);
  const store = new Store(options.historyLength);
  const verbs = new Verbs(store, kinds, now);
  const listings = new Listings(store);
  const faults = new Faults();
  const audit: AuditEntry[] = [];
  const tokens = new Map<string, string>();

  const listen = options.listen ?? [{ host: "127.0.0.1", port: 0 }];
  const hosts = ["localhost", "127.0.0.1", "::1", ...hostsOf(listen), ...(options.hosts ?? [])];
  let authority = createAuthority(AUTHORITY_NAME, now());
  const issue = (): { cert: string; key: string } => {
    const { certificatePem, keyPem } = issueServerCertificate(authority, AUTHORITY_NAME, hosts, now());
    return { cert: certificatePem, key: keyPem };
  };

  const context = {
    views,
    store,
    verbs,
    listings,
    faults,
    bookmarkSeconds: options.bookmarkSeconds ?? 60,
    userOf: (token: string) => tokens.get(token),
    audit: (entry: AuditEntry) => {
      audit.push(entry);
      // A server that runs for days forgets the oldest half.
      if (audit.length > MOST_AUDIT_ENTRIES) audit.splice(0, MOST_AUDIT_ENTRIES / 2);
    },
    now,
  };
  const connections = new Connections(listen, issue(), (request, response) => {
    // It answers whatever a client does; what it throws is a bug of ours, and ends the process.
    void handleRequest(context, request, response, connections.of(request));
  });
  prepare(verbs, kinds);
  await connections.listen();

  const token = (user: string): string => {
    for (const [known, name] of tokens) if (name === user) return known;
    const made = randomBytes(18).toString("base64url");
    tokens.set(made, user);
    return made;
  };
  const url = urlOf(connections.addresses);
  const kubeconfigFor = (user: string, server = url): string =>
    kubeconfigOf(server, authority.certificatePem, user, token(user));
  const kindNamed = (name: string) => kinds.find(({ resource }) => resource.kind === name);

  return {
    url,
    addresses: connections.addresses,
    get caPem() {
      return authority.certificatePem;
    },
    get kubeconfig() {
      return kubeconfigFor(ADMIN);
    },
    kubeconfigFor,
    token,
    store,
    verbs,
    faults,
    audit,
    seed(...objects) {
      for (const object of objects) {
        const kind = kindNamed(object.kind ?? "");
        if (kind === undefined) throw new Error(`the embedded API serves no ${object.kind}`);
        const { namespace } = object.metadata;
        const { object: created } = verbs.create(kind, namespace, object, { manager: "seed" });
        const { status } = object as { status?: unknown };
        if (status === undefined || !kind.hasStatus) continue;
        const shown = { ...created, status } as KubeObject;
        verbs.update(kind, namespace, created.metadata.name, shown, { manager: "seed", subresource: "status" });
      }
    },
    read<T extends KubeObject>(kindName: string, name: string, namespace?: string) {
      const kind = kindNamed(kindName);
      if (kind === undefined) throw new Error(`the embedded API serves no ${kindName}`);
      // The caller names the type of the kind that it names.
      return store.get(collectionOf(kind.resource), storeKey(namespace, name))?.object as T | undefined;
    },
    expireAll() {
      store.compact();
      listings.expire();
    },
    snapshot: () => store.snapshot(),
    restore(snapshot) {
      store.restore(snapshot);
      listings.expire();
      connections.resetAll();
    },
    stopListening: () => connections.stop(),
    async resume(certificate = "same") {
      if (certificate === "newAuthority") authority = createAuthority(AUTHORITY_NAME, now());
      if (certificate !== "same") connections.useCertificate(issue());
      await connections.listen();
    },
    close: () => connections.stop(),
  };
}

const hostsOf = (listen: readonly ListenAddress[]): string[] =>
  listen.flatMap((address) => ("host" in address ? [address.host] : []));

function urlOf(addresses: readonly ListenAddress[]): string {
  const [first] = addresses;
  if (first === undefined || "path" in first) throw new Error("the first address must be HOST:PORT");
  return `https://${first.host.includes(":") ? `[${first.host}]` : first.host}:${first.port}`;
}

/** The objects that a cluster has from its first minute. */
function prepare(verbs: Verbs, kinds: ReturnType<typeof foreignKinds>): void {
  for (const name of ["default", "belfry-system"]) verbs.ensureNamespace(name);
  const kind = kinds.find(({ resource }) => resource.kind === SERVICECIDR.kind);
  if (kind === undefined) return;
  const cidrs = Object.values(SERVICE_CIDRS);
  const object = {
    apiVersion: apiVersionOf(SERVICECIDR),
    kind: "ServiceCIDR",
    metadata: { name: "kubernetes" },
    spec: { cidrs },
  };
  verbs.create(kind, undefined, object, { manager: "belfry-embedded" });
}

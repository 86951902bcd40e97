/** What a pod finds in its volumes and takes into its environment: files and variables as values, from objects as values. */
import type { Pod } from "./pod.ts";

type Reference = { readonly name: string; readonly optional?: boolean };
type Item = { readonly key: string; readonly path: string; readonly mode?: number };
type FieldRef = { readonly fieldPath: string };

export type ProjectedSource = {
  readonly configMap?: Reference & { readonly items?: readonly Item[] };
  readonly secret?: Reference & { readonly items?: readonly Item[] };
  readonly downwardAPI?: { readonly items?: readonly { readonly path: string; readonly fieldRef?: FieldRef }[] };
  readonly serviceAccountToken?: TokenSource;
};

export type TokenSource = { readonly path: string; readonly audience?: string; readonly expirationSeconds?: number };

export type Volume = {
  readonly name: string;
  readonly emptyDir?: object;
  readonly hostPath?: { readonly path: string };
  readonly configMap?: Reference & { readonly items?: readonly Item[]; readonly defaultMode?: number };
  readonly secret?: {
    readonly secretName: string;
    readonly optional?: boolean;
    readonly items?: readonly Item[];
    readonly defaultMode?: number;
  };
  readonly downwardAPI?: ProjectedSource["downwardAPI"] & { readonly defaultMode?: number };
  readonly projected?: { readonly sources: readonly ProjectedSource[]; readonly defaultMode?: number };
};

export type EnvVar = {
  readonly name: string;
  readonly value?: string;
  readonly valueFrom?: {
    readonly fieldRef?: FieldRef;
    readonly configMapKeyRef?: Reference & { readonly key: string };
    readonly secretKeyRef?: Reference & { readonly key: string };
  };
};

export type EnvFrom = {
  readonly prefix?: string;
  readonly configMapRef?: Reference;
  readonly secretRef?: Reference;
};

/** The keys of a ConfigMap or Secret. */
export type Keys = ReadonlyMap<string, Uint8Array>;

/** What a pod refers to, as far as it is there. */
export type Material = {
  readonly pod: Pod;
  readonly podIPs: readonly string[];
  configMap(name: string): Keys | undefined;
  secret(name: string): Keys | undefined;
  token(source: TokenSource): string;
};

/** The pod refers to something that is not there, and did not call it optional. */
export class NotThere extends Error {}

export type File = { readonly bytes: Uint8Array; readonly mode: number };
/** By path within the volume, without a slash before it. */
export type Files = ReadonlyMap<string, File>;

export type References = {
  readonly configMaps: ReadonlySet<string>;
  readonly secrets: ReadonlySet<string>;
  readonly tokens: readonly TokenSource[];
};

/** Everything of the API that the pod refers to. */
export function referencesOf(pod: Pod): References {
  const configMaps = new Set<string>();
  const secrets = new Set<string>();
  const tokens: TokenSource[] = [];
  const add = (to: Set<string>, name: string | undefined) => void (name !== undefined && to.add(name));
  for (const source of (pod.spec.volumes ?? []).flatMap(sourcesOf)) {
    add(configMaps, source.configMap?.name);
    add(secrets, source.secret?.name);
    if (source.serviceAccountToken !== undefined) tokens.push(source.serviceAccountToken);
  }
  for (const { env = [], envFrom = [] } of [...(pod.spec.initContainers ?? []), ...pod.spec.containers]) {
    for (const { valueFrom } of env) {
      add(configMaps, valueFrom?.configMapKeyRef?.name);
      add(secrets, valueFrom?.secretKeyRef?.name);
    }
    for (const from of envFrom) {
      add(configMaps, from.configMapRef?.name);
      add(secrets, from.secretRef?.name);
    }
  }
  return { configMaps, secrets, tokens };
}

/** The keys of an object of the API, both its text and its bytes. */
export function keysOf(object: {
  data?: Record<string, string> | null;
  binaryData?: Record<string, string> | null;
  kind?: string;
}): Keys {
  const isSecret = object.kind === "Secret";
  return new Map([
    ...Object.entries(object.data ?? {}).map(([key, text]) => entry(key, text, isSecret)),
    ...Object.entries(object.binaryData ?? {}).map(([key, text]) => entry(key, text, true)),
  ]);
}

const entry = (key: string, text: string, base64: boolean): [string, Uint8Array] => [
  key,
  Buffer.from(text, base64 ? "base64" : "utf8"),
];

/** True for volumes whose files the kubelet writes. */
export const isWritten = (volume: Volume): boolean => sourcesOf(volume).length > 0;

/** Every way to say what is in a volume, as the sources of a projected one. */
function sourcesOf({ configMap, secret, downwardAPI, projected }: Volume): readonly ProjectedSource[] {
  if (projected !== undefined) return projected.sources;
  if (configMap !== undefined) return [{ configMap }];
  if (secret !== undefined) return [{ secret: { ...secret, name: secret.secretName } }];
  return downwardAPI === undefined ? [] : [{ downwardAPI }];
}

/** The files of a volume. Throws NotThere. */
export function filesOf(volume: Volume, material: Material): Files {
  const mode = (volume.projected ?? volume.configMap ?? volume.secret ?? volume.downwardAPI)?.defaultMode ?? 0o644;
  const files = new Map<string, File>();
  for (const source of sourcesOf(volume)) {
    for (const [path, file] of filesOfSource(source, material, mode)) files.set(path, file);
  }
  return files;
}

function filesOfSource(source: ProjectedSource, material: Material, mode: number): [string, File][] {
  const { configMap, secret, downwardAPI, serviceAccountToken } = source;
  if (configMap !== undefined) return pick("ConfigMap", configMap, material.configMap(configMap.name), mode);
  if (secret !== undefined) return pick("Secret", secret, material.secret(secret.name), mode);
  if (serviceAccountToken !== undefined) {
    return [[serviceAccountToken.path, { bytes: Buffer.from(material.token(serviceAccountToken)), mode }]];
  }
  return (downwardAPI?.items ?? []).map(({ path, fieldRef }) => [
    path,
    { bytes: Buffer.from(fieldOf(fieldRef?.fieldPath ?? "", material)), mode },
  ]);
}

function pick(
  kind: string,
  reference: Reference & { readonly items?: readonly Item[] },
  keys: Keys | undefined,
  mode: number,
): [string, File][] {
  const { name, optional = false, items } = reference;
  if (keys === undefined) {
    if (optional) return [];
    throw new NotThere(`${kind} ${name} is not there`);
  }
  if (items === undefined) return [...keys].map(([key, bytes]) => [key, { bytes, mode }]);
  return items.flatMap((item): [string, File][] => {
    const bytes = keys.get(item.key);
    if (bytes !== undefined) return [[item.path, { bytes, mode: item.mode ?? mode }]];
    if (optional) return [];
    throw new NotThere(`${kind} ${name} has no key ${item.key}`);
  });
}

/** Environment of a container, on top of what the kubelet gives every container. Throws NotThere. */
export function environmentOf(
  { env = [], envFrom = [] }: { readonly env?: readonly EnvVar[]; readonly envFrom?: readonly EnvFrom[] },
  material: Material,
  base: Readonly<Record<string, string>> = {},
): Record<string, string> {
  const environment: Record<string, string> = { ...base };
  for (const { prefix = "", configMapRef, secretRef } of envFrom) {
    const files = [
      ...(configMapRef === undefined ? [] : pick("ConfigMap", configMapRef, material.configMap(configMapRef.name), 0)),
      ...(secretRef === undefined ? [] : pick("Secret", secretRef, material.secret(secretRef.name), 0)),
    ];
    for (const [key, { bytes }] of files) environment[prefix + key] = textOf(bytes);
  }
  for (const variable of env) {
    const value = valueOfVariable(variable, environment, material);
    if (value !== undefined) environment[variable.name] = value;
  }
  return environment;
}

/** Undefined: an optional key that is not there makes no variable. */
function valueOfVariable(
  { value, valueFrom }: EnvVar,
  environment: Readonly<Record<string, string>>,
  material: Material,
): string | undefined {
  const { configMapKeyRef: configMap, secretKeyRef: secret, fieldRef } = valueFrom ?? {};
  if (configMap !== undefined) return keyOf("ConfigMap", configMap, material.configMap(configMap.name));
  if (secret !== undefined) return keyOf("Secret", secret, material.secret(secret.name));
  if (fieldRef !== undefined) return fieldOf(fieldRef.fieldPath, material);
  return expand(value ?? "", environment);
}

function keyOf(kind: string, reference: Reference & { readonly key: string }, keys: Keys | undefined) {
  const items = [{ key: reference.key, path: reference.key }];
  const [found] = pick(kind, { ...reference, items }, keys, 0);
  return found === undefined ? undefined : textOf(found[1].bytes);
}

/** What the downward API says of a field; empty for one that it does not know here. */
function fieldOf(fieldPath: string, { pod, podIPs }: Material): string {
  const { name, namespace, uid, labels, annotations } = pod.metadata;
  const one = /^metadata\.(labels|annotations)\['(.*)'\]$/.exec(fieldPath);
  if (one !== null) return (one[1] === "labels" ? labels : annotations)?.[one[2] ?? ""] ?? "";
  switch (fieldPath) {
    case "metadata.name":
      return name;
    case "metadata.namespace":
      return namespace ?? "";
    case "metadata.uid":
      return uid ?? "";
    case "metadata.labels":
      return linesOf(labels);
    case "metadata.annotations":
      return linesOf(annotations);
    case "spec.nodeName":
      return pod.spec.nodeName ?? "";
    case "spec.serviceAccountName":
      return pod.spec.serviceAccountName ?? "default";
    case "status.podIP":
      return podIPs[0] ?? "";
    case "status.podIPs":
      return podIPs.join(",");
    case "status.hostIP":
      return pod.status?.hostIP ?? "";
    default:
      return "";
  }
}

/** `key="value"`, in the order of the keys. */
const linesOf = (map: Readonly<Record<string, string>> | undefined): string =>
  Object.entries(map ?? {})
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, value]) => `${key}=${JSON.stringify(value)}`)
    .join("\n");

const textOf = (bytes: Uint8Array): string => new TextDecoder().decode(bytes);

/** `$(NAME)` takes the variable's value where there is one; `$$` is a dollar. */
export const expand = (text: string, environment: Readonly<Record<string, string>>): string =>
  text.replace(/\$\$|\$\(([A-Za-z_][A-Za-z0-9_]*)\)/g, (found, name: string | undefined) =>
    name === undefined ? "$" : (environment[name] ?? found),
  );

/** A token is fetched anew when four fifths of its life, or a day, are over (k8s.io/kubernetes pkg/kubelet/token). */
export const tokenIsOld = (token: { readonly issuedAt: number; readonly expiresAt: number }, now: number): boolean =>
  now >= token.expiresAt - (token.expiresAt - token.issuedAt) / 5 || now - token.issuedAt >= DAY_MILLISECONDS;

const DAY_MILLISECONDS = 24 * 60 * 60 * 1000;

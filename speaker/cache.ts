/** What the speaker keeps of each object: only the fields that it uses. Memory at 10,000 VIPs is decided here. */
import type { EndpointSlice, Lease, Node } from "../src/api/foreign.ts";
import type { L2Advertisement, L2AdvertisementSpec } from "../src/api/l2-advertisement.ts";
import type { KubeObject, ObjectMeta } from "../src/api/meta.ts";
import type { Link, SpeakerStatus } from "../src/api/speaker-status.ts";
import type { Forward, Owner, VirtualIP } from "../src/api/virtual-ip.ts";
import { type Address, parseAddress } from "../src/net/address.ts";
import { readSlice, type Slice } from "../src/plan/endpoint.ts";
import { hashText } from "../src/plan/hash.ts";
import type { OwnerRecord } from "../src/plan/owner.ts";

export type CachedVip = KubeObject & {
  readonly address: Address;
  readonly scope: "External" | "Cluster" | "Node";
  readonly advertisements: readonly string[];
  readonly forwards: readonly Forward[];
  readonly owner: OwnerRecord | undefined;
  /** Hash of the holders' uids, to see that the VIP was given to another one. */
  readonly holders: number;
};

export type CachedSlice = KubeObject & { readonly slice: Slice | undefined };

export type CachedNode = KubeObject & {
  readonly podCIDRs: readonly string[];
  readonly addresses: readonly string[];
};

export type CachedSpeaker = KubeObject & {
  readonly links: readonly Link[];
  readonly dataPathReady: boolean;
  /** The whole object, where it is this node's own. */
  readonly own?: SpeakerStatus;
};

export type CachedAdvertisement = KubeObject & { readonly spec: L2AdvertisementSpec };

/** Undefined address texts can't come past admission; should one do so, the VIP is skipped and said so in the log. */
export function projectVip(object: KubeObject): CachedVip {
  const { metadata, spec, status } = object as VirtualIP;
  return {
    metadata: { ...bare(metadata), ...pick(metadata, "generation"), ...pick(metadata, "deletionTimestamp") },
    address: addressIn(spec.address, metadata.name),
    scope: intern(spec.scope ?? "External"),
    advertisements: internList(spec.advertisements?.l2 ?? []),
    forwards: (spec.forwards ?? []).map((forward) => ({
      protocol: intern(forward.protocol),
      port: forward.port,
      holder: 0,
      dataPath: intern(forward.dataPath ?? "Belfry"),
      backends: (forward.backends ?? []).map(({ kind, namespace, name, portName, weight }) => ({
        kind: intern(kind),
        namespace: intern(namespace),
        name,
        portName: intern(portName ?? ""),
        weight: weight ?? 1,
      })),
      sessionAffinity: intern(forward.sessionAffinity ?? "None"),
      nodes: intern(forward.nodes ?? "Cluster"),
      sourceIP: intern(forward.sourceIP ?? "MayMasquerade"),
      sourceRanges: internList(forward.sourceRanges ?? []),
      refuseWeight: forward.refuseWeight ?? 0,
    })),
    owner: ownerOf(status?.owner),
    holders: hashText(
      (spec.holders ?? [])
        .map(({ uid }) => uid)
        .sort()
        .join(),
    ),
  };
}

function ownerOf(owner: Owner | undefined): OwnerRecord | undefined {
  if (owner === undefined || owner === null) return undefined;
  return { node: intern(owner.node), term: owner.term, generation: owner.generation };
}

/** The canonical address; an IPv4 one is spelled as the object's name, whose text is shared. */
function addressIn(text: string, name: string): Address {
  const address = parseAddress(text);
  return address === name ? (name as Address) : (address ?? ("" as Address));
}

export function projectSlice(object: KubeObject): CachedSlice {
  const slice = readSlice(object as EndpointSlice);
  return {
    metadata: bare(object.metadata),
    slice:
      slice === undefined
        ? undefined
        : {
            ...slice,
            ports: internPorts(slice.ports),
            endpoints: slice.endpoints.map((endpoint) => ({
              ...endpoint,
              node: endpoint.node === undefined ? undefined : intern(endpoint.node),
            })),
          },
  };
}

export function projectNode(object: KubeObject): CachedNode {
  const { metadata, spec, status } = object as Node;
  const podCIDRs = spec?.podCIDRs ?? (spec?.podCIDR === undefined ? [] : [spec.podCIDR]);
  return {
    metadata: { ...bare(metadata), labels: metadata.labels ?? {} },
    podCIDRs,
    addresses: (status?.addresses ?? [])
      .filter(({ type }) => type === "InternalIP" || type === "ExternalIP")
      .map(({ address }) => address),
  };
}

export function projectLease(object: KubeObject): Lease {
  const { metadata, spec } = object as Lease;
  return {
    metadata: bare(metadata),
    spec: {
      holderIdentity: spec?.holderIdentity ?? null,
      leaseDurationSeconds: spec?.leaseDurationSeconds ?? null,
    },
  };
}

export function projectSpeaker(object: KubeObject): CachedSpeaker {
  const { metadata, status } = object as SpeakerStatus;
  return {
    metadata: bare(metadata),
    links: status?.links ?? [],
    dataPathReady: (status?.conditions ?? []).some(({ type, status: it }) => type === "DataPathReady" && it === "True"),
  };
}

export function projectAdvertisement(object: KubeObject): CachedAdvertisement {
  const { metadata, spec } = object as L2Advertisement;
  return { metadata: bare(metadata), spec };
}

function bare(metadata: ObjectMeta): ObjectMeta {
  const { name, namespace, uid, resourceVersion } = metadata;
  return {
    name,
    ...(namespace === undefined ? {} : { namespace: intern(namespace) }),
    ...(uid === undefined ? {} : { uid }),
    ...(resourceVersion === undefined ? {} : { resourceVersion }),
  };
}

function pick<K extends keyof ObjectMeta>(metadata: ObjectMeta, key: K): Partial<ObjectMeta> {
  return metadata[key] === undefined ? {} : { [key]: metadata[key] };
}

const lists = new Map<string, readonly string[]>();

/** One list of the texts that many objects share. */
function internList(texts: readonly string[]): string[] {
  const key = texts.join("\n");
  const known = lists.get(key);
  if (known !== undefined) return known as string[];
  if (lists.size > 10_000) lists.clear();
  const list = texts.map((text) => intern(text));
  lists.set(key, list);
  return list;
}

const portLists = new Map<string, Slice["ports"]>();

function internPorts(ports: Slice["ports"]): Slice["ports"] {
  const key = JSON.stringify(ports);
  const known = portLists.get(key);
  if (known !== undefined) return known;
  if (portLists.size > 10_000) portLists.clear();
  portLists.set(key, ports);
  return ports;
}

const interned = new Map<string, string>();

/** One copy of a text that many objects share (node names, namespaces, port names). */
function intern<T extends string>(text: T): T {
  const known = interned.get(text);
  if (known !== undefined) return known as T;
  if (interned.size > 10_000) interned.clear();
  interned.set(text, text);
  return text;
}

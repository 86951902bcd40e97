/** The Gateway and the Service that are there ten thousand times, and what differs from copy to copy. */
import type { Gateway, Service } from "../src/api/foreign.ts";
import type { IPAddressPool } from "../src/api/ip-address-pool.ts";
import type { KubeObject } from "../src/api/meta.ts";
import { API_VERSION } from "../src/api/names.ts";
import { virtualIPName } from "../src/api/virtual-ip-name.ts";
import type { Address } from "../src/net/address.ts";
import type { Template } from "./bench-assign-etcd.ts";
import { type BenchKind, newObject } from "./bench-assign-object.ts";

export const FILL_NAMESPACE = "fill";

/** The template is the last, and no copy has its number. */
export const TEMPLATE = 4999;
/** Has room for the cluster addresses of the copies and of all others. */
export const FILL_SERVICE_CIDR = "198.18.128.0/17";

const nameOf = (i: number): string => `fill-${100_000 + i}`;

/** 198.19.100.100 to 198.19.199.199: all of one length. Gateways have the even half of the networks, Services the odd. */
const addressOf = (kind: BenchKind, i: number): string =>
  `198.19.${100 + 2 * Math.floor(i / 100) + (kind === "Gateway" ? 0 : 1)}.${100 + (i % 100)}`;
const clusterAddressOf = (i: number): string => `198.18.${130 + Math.floor(i / 100)}.${100 + (i % 100)}`;
const poolOf = (address: string): string => (Number(address.split(".")[2]) < 150 ? "fill-a" : "fill-b");

/**
 * Two pools for the copies, since one takes 64 ranges, and one for the templates, with the two addresses that no copy has. All
 * are for the namespace of the copies alone.
 */
export const fillPools = (): IPAddressPool[] => {
  const ofTemplates = (["Gateway", "Service"] as const).map((kind) => `${addressOf(kind, TEMPLATE)}/32`);
  const ofCopies = (from: number) =>
    Array.from({ length: 50 }, (_, i) => `198.19.${from + i}.100-198.19.${from + i}.${from + i < 198 ? 199 : 198}`);
  return [
    pool("fill-t", 1, ofTemplates),
    ...[100, 150].map((from) => pool(poolOf(`198.19.${from}.100`), 2, ofCopies(from))),
  ];
};

const pool = (name: string, priority: number, addresses: readonly string[]): IPAddressPool => ({
  apiVersion: API_VERSION,
  kind: "IPAddressPool",
  metadata: { name },
  spec: { addresses, serviceAllocation: { priority, namespaces: [FILL_NAMESPACE] } } as IPAddressPool["spec"],
});

export function templateObject(kind: BenchKind): KubeObject {
  const { spec } = newObject(kind, "belfry", "") as Gateway | Service;
  const metadata = { name: nameOf(TEMPLATE), namespace: FILL_NAMESPACE };
  return kind === "Gateway"
    ? ({ metadata, spec } as Gateway)
    : ({ metadata, spec: { ...spec, clusterIP: clusterAddressOf(TEMPLATE) } } as Service);
}

/** What the cluster made of a template. */
export type Given = {
  readonly kind: BenchKind;
  readonly uid: string;
  readonly address: string;
  readonly pool: string;
  readonly vipUid: string;
  /** Of the core IPAddress of a Service's cluster address. */
  readonly ipAddressUid: string | undefined;
};

export function templateOf({ kind, uid, address, pool, vipUid, ipAddressUid }: Given): Template {
  const name = nameOf(TEMPLATE);
  const vip = `/registry/belfry.dev/virtualips/${virtualIPName(address as Address)}`;
  const own =
    kind === "Gateway"
      ? `/registry/gateway.networking.k8s.io/gateways/${FILL_NAMESPACE}/${name}`
      : `/registry/services/specs/${FILL_NAMESPACE}/${name}`;
  const texts = [
    { text: name, of: nameOf },
    { text: address, of: (i: number) => addressOf(kind, i) },
    { text: `"pool":"${pool}"`, of: (i: number) => `"pool":"${poolOf(addressOf(kind, i))}"` },
    { text: uid, of: (i: number) => numbered(uid, i) },
    { text: vipUid, of: (i: number) => numbered(vipUid, i) },
  ];
  if (ipAddressUid === undefined) return { keys: [own, vip], texts };
  return {
    keys: [own, vip, `/registry/ipaddresses/${clusterAddressOf(TEMPLATE)}`],
    texts: [
      ...texts,
      { text: clusterAddressOf(TEMPLATE), of: clusterAddressOf },
      { text: ipAddressUid, of: (i: number) => numbered(ipAddressUid, i) },
    ],
  };
}

const numbered = (uid: string, i: number): string => uid.slice(0, -6) + String(i).padStart(6, "0");

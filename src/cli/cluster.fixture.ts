/** For tests: a small cluster in which everything works, to be spoilt one thing at a time. */
import type { EndpointSlice, Gateway, GatewayClass, Lease, Node, Service } from "../api/foreign.ts";
import type { IPAddressPool } from "../api/ip-address-pool.ts";
import type { L2Advertisement } from "../api/l2-advertisement.ts";
import type { Condition, KubeObject } from "../api/meta.ts";
import { SERVICE_NAME_LABEL } from "../api/names.ts";
import type { ServiceRoute } from "../api/service-route.ts";
import type { SpeakerStatus } from "../api/speaker-status.ts";
import type { Forward, VirtualIP } from "../api/virtual-ip.ts";
import { virtualIPName } from "../api/virtual-ip-name.ts";
import type { Address } from "../net/address.ts";
import { type ClusterObjects, ReadModel } from "../status/read-model.ts";

export const CREATED = "2026-01-01T00:00:00Z";

/** Copies, so that a test may change what it likes. */
export type Cluster = { -readonly [List in keyof ClusterObjects]: ClusterObjects[List][number][] } & {
  liveLeases: Set<string>;
};

export const condition = (type: string, status: Condition["status"], reason = "Because", message = ""): Condition => ({
  type,
  status,
  reason,
  message,
  lastTransitionTime: CREATED,
});

const gatewayClass = (name: string, controllerName: string): GatewayClass => ({
  apiVersion: "gateway.networking.k8s.io/v1",
  kind: "GatewayClass",
  metadata: { name },
  spec: { controllerName },
});

const gateway = (): Gateway => ({
  apiVersion: "gateway.networking.k8s.io/v1",
  kind: "Gateway",
  metadata: { name: "web", namespace: "demo", uid: "uid-web", generation: 1, creationTimestamp: CREATED },
  spec: { gatewayClassName: "belfry", listeners: [{ name: "http", protocol: "TCP", port: 80 }] },
  status: {
    addresses: [{ type: "IPAddress", value: "192.0.2.10" }],
    conditions: [condition("Accepted", "True"), condition("Programmed", "True", "Programmed", "served")],
  },
});

export const route = (name = "web"): ServiceRoute => ({
  apiVersion: "belfry.dev/v1alpha1",
  kind: "ServiceRoute",
  metadata: { name, namespace: "demo", creationTimestamp: CREATED },
  spec: {
    parentRefs: [{ group: "gateway.networking.k8s.io", kind: "Gateway", name: "web" }],
    ports: [{ protocol: "TCP", port: 80 }],
    backendRef: { group: "", kind: "Service", name: "web" },
  },
});

const backend = (): Service => ({
  apiVersion: "v1",
  kind: "Service",
  metadata: { name: "web", namespace: "demo", uid: "uid-backend", creationTimestamp: CREATED },
  spec: { type: "ClusterIP", ports: [{ name: "http", protocol: "TCP", port: 80 }] },
});

const loadBalancer = (): Service => ({
  apiVersion: "v1",
  kind: "Service",
  metadata: { name: "legacy", namespace: "demo", uid: "uid-legacy", creationTimestamp: CREATED },
  spec: {
    type: "LoadBalancer",
    loadBalancerClass: "belfry.dev/load-balancer",
    ipFamilies: ["IPv4"],
    ports: [{ name: "http", protocol: "TCP", port: 80 }],
  },
  status: {
    loadBalancer: { ingress: [{ ip: "192.0.2.11", ipMode: "Proxy" }] },
    conditions: [condition("belfry.dev/Programmed", "True", "Programmed", "served")],
  },
});

const forwardTo = (name: string): Forward => ({
  protocol: "TCP",
  port: 80,
  holder: 0,
  dataPath: "Belfry",
  backends: [{ kind: "Service", namespace: "demo", name, portName: "http", weight: 1 }],
  sessionAffinity: "None",
  nodes: "Cluster",
  sourceIP: "MayMasquerade",
  sourceRanges: [],
  refuseWeight: 0,
});

export const vip = (
  address: string,
  kind: "Gateway" | "Service",
  name: string,
  uid: string,
  to: string,
): VirtualIP => ({
  apiVersion: "belfry.dev/v1alpha1",
  kind: "VirtualIP",
  metadata: {
    name: virtualIPName(address as Address),
    uid: `uid-${address}`,
    resourceVersion: "100",
    generation: 2,
    creationTimestamp: CREATED,
    finalizers: ["belfry.dev/withdraw"],
  },
  spec: {
    address,
    scope: "External",
    pool: "lan",
    holders: [{ kind, namespace: "demo", name, uid }],
    advertisements: { l2: ["lan"] },
    forwards: [forwardTo(to)],
  },
  status: {
    owner: { node: "node-1", interface: "eth0", since: CREATED, term: 1, generation: 2 },
    announcers: { count: 1, names: ["node-1"] },
    conditions: [condition("Programmed", "True"), condition("Announced", "True")],
  },
});

const pool = (): IPAddressPool => ({
  apiVersion: "belfry.dev/v1alpha1",
  kind: "IPAddressPool",
  metadata: { name: "lan", creationTimestamp: CREATED },
  spec: { addresses: ["192.0.2.10-192.0.2.20"], excludes: [], autoAssign: true, avoidBuggyIPs: false, disabled: false },
  status: {
    assignedIPv4: 2,
    assignedIPv6: 0,
    availableIPv4: 9,
    availableIPv6: 0,
    conditions: [condition("Accepted", "True")],
  },
});

const advertisement = (): L2Advertisement => ({
  apiVersion: "belfry.dev/v1alpha1",
  kind: "L2Advertisement",
  metadata: { name: "lan" },
  spec: {
    ipAddressPools: ["lan"],
    ipAddressPoolSelectors: [],
    serviceSelectors: [],
    nodeSelectors: [],
    preferredNodeSelectors: [],
    interfaces: [],
    requireSubnet: true,
    refreshIntervalSeconds: 60,
  },
  status: { conditions: [condition("Accepted", "True")] },
});

const node = (name: string, address: string): Node => ({
  apiVersion: "v1",
  kind: "Node",
  metadata: { name, labels: { "kubernetes.io/hostname": name } },
  spec: { podCIDRs: ["198.18.1.0/24"] },
  status: { addresses: [{ type: "InternalIP", address }], conditions: [{ type: "Ready", status: "True" }] },
});

const speaker = (name: string, address: string): SpeakerStatus => ({
  apiVersion: "belfry.dev/v1alpha1",
  kind: "SpeakerStatus",
  metadata: { name, creationTimestamp: CREATED },
  spec: { nodeName: name },
  status: {
    links: [
      { name: "eth0", mac: "02:00:00:00:00:01", up: true, subnets: [`${address}/24`], defaultGateways: ["192.0.2.1"] },
    ],
    withdrawnThrough: "200",
    failingCount: 0,
    failing: [],
    conditions: [condition("DataPathReady", "True", "Ready")],
  },
});

const lease = (name: string): Lease => ({
  apiVersion: "coordination.k8s.io/v1",
  kind: "Lease",
  metadata: { name, namespace: "belfry-system" },
  spec: { holderIdentity: name, leaseDurationSeconds: 6, renewTime: new Date().toISOString().replace("Z", "000Z") },
});

export const slice = (service: string): EndpointSlice => ({
  apiVersion: "discovery.k8s.io/v1",
  kind: "EndpointSlice",
  metadata: { name: `${service}-1`, namespace: "demo", labels: { [SERVICE_NAME_LABEL]: service } },
  addressType: "IPv4",
  endpoints: [
    { addresses: ["198.18.1.7"], conditions: { ready: true }, nodeName: "node-1" },
    { addresses: ["198.18.2.7"], conditions: { ready: true }, nodeName: "node-2" },
  ],
  ports: [{ name: "http", protocol: "TCP", port: 8080 }],
});

/** A Gateway demo/web at 192.0.2.10 and a Service demo/legacy at 192.0.2.11, both answered by node-1 of two. */
export const healthyCluster = (): Cluster => ({
  gatewayClasses: [gatewayClass("belfry", "belfry.dev/load-balancer"), gatewayClass("other", "example.com/other")],
  gateways: [gateway()],
  routes: [route()],
  services: [backend(), loadBalancer()],
  vips: [
    vip("192.0.2.10", "Gateway", "web", "uid-web", "web"),
    vip("192.0.2.11", "Service", "legacy", "uid-legacy", "legacy"),
  ],
  pools: [pool()],
  advertisements: [advertisement()],
  nodes: [node("node-1", "192.0.2.2"), node("node-2", "192.0.2.3")],
  namespaces: [{ apiVersion: "v1", kind: "Namespace", metadata: { name: "demo" } }],
  serviceCIDRs: [],
  speakers: [speaker("node-1", "192.0.2.2"), speaker("node-2", "192.0.2.3")],
  leases: ["belfry-controller", "belfry-speaker-node-1", "belfry-speaker-node-2"].map(lease),
  slices: [slice("web"), slice("legacy")],
  liveLeases: new Set(["belfry-controller", "belfry-speaker-node-1", "belfry-speaker-node-2"]),
});

/** The read model of the healthy cluster after `spoil`. */
export function spoilt(
  spoil: (cluster: Cluster) => void = () => {},
  unread: ReadonlyMap<keyof ClusterObjects, string> = new Map(),
): ReadModel {
  const cluster = healthyCluster();
  spoil(cluster);
  for (const list of unread.keys()) cluster[list] = [];
  const { liveLeases, ...objects } = cluster;
  return new ReadModel(objects, { liveLeases, unread });
}

/** The only object of the list, or the one of that name. */
export function one<T extends KubeObject>(list: readonly T[], name?: string): T {
  const found = name === undefined ? list[0] : list.find(({ metadata }) => metadata.name === name);
  if (found === undefined) throw new Error(`there is no ${name}`);
  return found;
}

/** What the API server gives a Service by itself: cluster IPs, node ports and defaults. */
import type { Service } from "../api/foreign.ts";
import type { KubeObject } from "../api/meta.ts";
import { type Address, addressOf, type Family, parseAddress } from "../net/address.ts";
import { type Prefix, partsOf } from "../net/prefix.ts";
import { Refusal } from "./refusal.ts";

/** The ServiceCIDRs of an embedded API: documentation and benchmark ranges that no real network has. */
export const SERVICE_CIDRS: Readonly<Record<Family, Prefix>> = {
  IPv4: "198.19.0.0/17" as Prefix,
  IPv6: "2001:db8:ffff::/112" as Prefix,
};

const FIRST_NODE_PORT = 30_000;
const LAST_NODE_PORT = 32_767;

type ServiceSpec = Service["spec"] & {
  internalTrafficPolicy?: string;
  allocateLoadBalancerNodePorts?: boolean;
  healthCheckNodePort?: number;
};

export type ServiceAllocator = {
  /** Fills in what the API server would; keeps what `old` has. Changes the object in place. */
  complete(object: KubeObject, old: KubeObject | undefined): void;
  release(object: KubeObject): void;
};

export function createServiceAllocator(): ServiceAllocator {
  const usedAddresses = new Set<string>();
  const usedPorts = new Set<number>();

  /** Where the search goes on: each address is looked at once per round, however many are taken. */
  const cursors: Record<Family, bigint> = { IPv4: 0n, IPv6: 0n };

  function takeAddress(family: Family): Address {
    const { first, last } = partsOf(SERVICE_CIDRS[family]);
    // The first addresses stay free, as the API server keeps them for those who ask by number.
    const least = first + 16n;
    const count = last - least;
    for (let tries = 0n; tries < count; tries++) {
      const address = addressOf(least + (cursors[family]++ % count), family);
      if (!usedAddresses.has(address)) return address;
    }
    throw full(`no cluster IP is left in ${SERVICE_CIDRS[family]}`);
  }

  function takePort(): number {
    for (let port = FIRST_NODE_PORT; port <= LAST_NODE_PORT; port++) {
      if (usedPorts.has(port)) continue;
      usedPorts.add(port);
      return port;
    }
    throw full(
      `no node port is left in ${FIRST_NODE_PORT}-${LAST_NODE_PORT}; set allocateLoadBalancerNodePorts: false`,
    );
  }

  function completeAddresses(spec: ServiceSpec, old: ServiceSpec | undefined): void {
    if (spec.type === "ExternalName") return;
    const asked = spec.clusterIPs ?? (spec.clusterIP === undefined ? old?.clusterIPs : [spec.clusterIP]) ?? [];
    spec.ipFamilyPolicy ??=
      old?.ipFamilyPolicy ?? ((spec.ipFamilies?.length ?? 0) > 1 ? "RequireDualStack" : "SingleStack");
    const dual = spec.ipFamilyPolicy !== "SingleStack";
    const first = spec.ipFamilies?.[0] ?? old?.ipFamilies?.[0] ?? familyOfText(asked[0]) ?? "IPv4";
    const second = first === "IPv4" ? "IPv6" : "IPv4";
    spec.ipFamilies = dual ? [first, spec.ipFamilies?.[1] ?? second] : [first];
    if (asked[0] === "None") {
      spec.clusterIP = "None";
      spec.clusterIPs = ["None"];
      return;
    }
    for (const address of asked) {
      if (usedAddresses.has(address) && old?.clusterIPs?.includes(address) !== true) {
        throw new Refusal(
          422,
          "Invalid",
          `spec.clusterIPs: Invalid value: "${address}": provided IP is already allocated`,
        );
      }
    }
    spec.clusterIPs = spec.ipFamilies.map((family, i) => asked[i] ?? takeAddress(family as Family));
    for (const address of spec.clusterIPs) usedAddresses.add(address);
    if (spec.clusterIPs[0] !== undefined) spec.clusterIP = spec.clusterIPs[0];
  }

  function completePorts(spec: ServiceSpec, old: ServiceSpec | undefined): void {
    const wantsNodePorts =
      spec.type === "NodePort" || (spec.type === "LoadBalancer" && spec.allocateLoadBalancerNodePorts !== false);
    for (const port of spec.ports ?? []) {
      port.protocol ??= "TCP";
      port.targetPort ??= port.port;
      if (!wantsNodePorts) continue;
      const before = old?.ports?.find((one) => one.port === port.port && (one.protocol ?? "TCP") === port.protocol);
      if (port.nodePort === undefined || port.nodePort === 0) port.nodePort = before?.nodePort ?? takePort();
      else usedPorts.add(port.nodePort);
    }
  }

  return {
    complete(object, old) {
      const service = object as Service;
      // `spec` is required by the schema, which is checked after this.
      if (typeof service.spec !== "object" || service.spec === null) return;
      const spec: ServiceSpec = service.spec;
      const before = (old as Service | undefined)?.spec as ServiceSpec | undefined;
      spec.type ??= "ClusterIP";
      spec.sessionAffinity ??= "None";
      if (spec.type !== "ExternalName") spec.internalTrafficPolicy ??= "Cluster";
      if (spec.type === "LoadBalancer" || spec.type === "NodePort") {
        spec.externalTrafficPolicy ??= "Cluster";
        if (spec.type === "LoadBalancer") spec.allocateLoadBalancerNodePorts ??= true;
      }
      completeAddresses(spec, before);
      completePorts(spec, before);
      if (spec.type === "LoadBalancer" && spec.externalTrafficPolicy === "Local") {
        spec.healthCheckNodePort ??= before?.healthCheckNodePort ?? takePort();
      }
      service.status ??= { loadBalancer: {} };
    },
    release(object) {
      const spec: ServiceSpec | undefined = (object as Service).spec;
      for (const address of spec?.clusterIPs ?? []) usedAddresses.delete(address);
      for (const port of spec?.ports ?? []) if (port.nodePort !== undefined) usedPorts.delete(port.nodePort);
      if (spec?.healthCheckNodePort !== undefined) usedPorts.delete(spec.healthCheckNodePort);
    },
  };
}

function familyOfText(text: string | undefined): Family | undefined {
  const address = text === undefined ? undefined : parseAddress(text);
  if (address === undefined) return undefined;
  return address.includes(":") ? "IPv6" : "IPv4";
}

/** As the API server says it of a range that is used up. */
const full = (message: string): Refusal => new Refusal(500, "InternalError", message);

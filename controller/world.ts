/** The controller's caches, and which key wants work when one of their objects changes. */
import type { Gateway, GatewayClass, Lease, Namespace, Node, Service, ServiceCIDR } from "../src/api/foreign.ts";
import type { IPAddressPool } from "../src/api/ip-address-pool.ts";
import type { L2Advertisement } from "../src/api/l2-advertisement.ts";
import type { KubeObject } from "../src/api/meta.ts";
import {
  GATEWAY,
  GATEWAYCLASS,
  IPADDRESSPOOL,
  L2ADVERTISEMENT,
  LEASE,
  NAMESPACES,
  NODE,
  type Resource,
  SERVICE,
  SERVICECIDR,
  SERVICEROUTE,
  SPEAKERSTATUS,
  VIRTUALIP,
} from "../src/api/resource.ts";
import type { ServiceRoute } from "../src/api/service-route.ts";
import type { SpeakerStatus } from "../src/api/speaker-status.ts";
import type { Holder, VirtualIP } from "../src/api/virtual-ip.ts";
import { GATEWAY_GROUP } from "../src/gateway/listener.ts";
import { type Informer, keyOf } from "../src/kube/port.ts";
import type { Address } from "../src/net/address.ts";
import { ReverseIndex } from "../src/reconcile/reverse-index.ts";
import { briefOf, compact, share } from "./compact.ts";
import {
  projectGateway,
  projectGatewayClass,
  projectL2Advertisement,
  projectLease,
  projectNamespace,
  projectNode,
  projectPool,
  projectService,
  projectServiceCIDR,
  projectServiceRoute,
  projectSpeakerStatus,
  projectVirtualIP,
} from "./project.ts";

export type Kinds = {
  Gateway: Gateway;
  GatewayClass: GatewayClass;
  ServiceRoute: ServiceRoute;
  Service: Service;
  VirtualIP: VirtualIP;
  IPAddressPool: IPAddressPool;
  L2Advertisement: L2Advertisement;
  Node: Node;
  Namespace: Namespace;
  ServiceCIDR: ServiceCIDR;
  SpeakerStatus: SpeakerStatus;
  Lease: Lease;
};
export type KindName = keyof Kinds;

type Watched<T extends KubeObject> = {
  readonly resource: Resource;
  readonly project: (object: KubeObject) => T;
  /** Its definition may be missing from the cluster; then there are no such objects. */
  readonly optional: boolean;
};

export const WATCHED: { readonly [K in KindName]: Watched<Kinds[K]> } = {
  Gateway: { resource: GATEWAY, project: (object) => inBrief(projectGateway(object), briefGateway), optional: true },
  GatewayClass: { resource: GATEWAYCLASS, project: projectGatewayClass, optional: true },
  ServiceRoute: {
    resource: SERVICEROUTE,
    project: (object) => inBrief(projectServiceRoute(object), briefRoute),
    optional: false,
  },
  Service: { resource: SERVICE, project: (object) => inBrief(projectService(object), briefService), optional: false },
  VirtualIP: { resource: VIRTUALIP, project: (object) => inBrief(projectVirtualIP(object), briefVip), optional: false },
  IPAddressPool: { resource: IPADDRESSPOOL, project: projectPool, optional: false },
  L2Advertisement: { resource: L2ADVERTISEMENT, project: projectL2Advertisement, optional: false },
  Node: { resource: NODE, project: projectNode, optional: false },
  Namespace: { resource: NAMESPACES, project: projectNamespace, optional: false },
  ServiceCIDR: { resource: SERVICECIDR, project: projectServiceCIDR, optional: true },
  SpeakerStatus: { resource: SPEAKERSTATUS, project: projectSpeakerStatus, optional: false },
  Lease: { resource: LEASE, project: projectLease, optional: false },
};

/** What begins and ends work on all objects of a kind in a row needs of each. */
export type VipBrief = {
  readonly address: Address;
  /** Each once, in the order of `spec.holders`. */
  readonly holders: readonly WorkKey[];
  readonly owned: boolean;
};
export type GatewayBrief = { readonly className: string };
export type RouteBrief = {
  /** `namespace/name` of the Gateways that it names as parents, each once. */
  readonly parents: readonly string[];
  /** `namespace/name` of the Service that it names, whether it may or not. */
  readonly backend: string;
};
export type ServiceBrief = { readonly isLoadBalancer: boolean; readonly hasConditions: boolean };

const inBrief = <T extends KubeObject>(object: T, brief: (object: T) => unknown): T => compact(object, brief(object));

const briefVip = ({ spec, status }: VirtualIP): VipBrief => ({
  address: spec.address as Address,
  holders: [...new Set(spec.holders.map(holderKey))],
  owned: status?.owner !== undefined,
});
const briefGateway = ({ spec }: Gateway): GatewayBrief => ({ className: share(spec.gatewayClassName) });
const briefRoute = ({ metadata, spec: { parentRefs, backendRef } }: ServiceRoute): RouteBrief => {
  const gateways = parentRefs
    .filter(({ group, kind }) => group === GATEWAY_GROUP && kind === "Gateway")
    .map(({ namespace, name }) => `${namespace ?? metadata.namespace}/${name}`);
  return {
    parents: [...new Set(gateways)],
    backend: `${backendRef.namespace ?? metadata.namespace}/${backendRef.name}`,
  };
};
const briefService = ({ spec, status }: Service): ServiceBrief => ({
  isLoadBalancer: spec.type === "LoadBalancer",
  hasConditions: (status?.conditions ?? []).length > 0,
});

export const vipBrief = (vip: VirtualIP): VipBrief => briefOf(vip, briefVip);
export const gatewayBrief = (gateway: Gateway): GatewayBrief => briefOf(gateway, briefGateway);
export const routeBrief = (route: ServiceRoute): RouteBrief => briefOf(route, briefRoute);
export const serviceBrief = (service: Service): ServiceBrief => briefOf(service, briefService);

/** A key of the queue and a name of an object, unique over kinds: `Gateway/demo/web`, `VirtualIP/192.0.2.1`. */
export type WorkKey = `${KindName}/${string}`;

export const workKey = (kind: KindName, key: string): WorkKey => `${kind}/${key}`;

export function splitKey(key: string): { kind: KindName; key: string } {
  const slash = key.indexOf("/");
  // Keys are made by workKey alone.
  return { kind: key.slice(0, slash) as KindName, key: key.slice(slash + 1) };
}

export const holderKey = ({ kind, namespace, name }: Omit<Holder, "uid">): WorkKey => `${kind}/${namespace}/${name}`;

/** Read side of an informer; an informer that never ran is an empty one. */
export type Cache<T extends KubeObject> = Pick<Informer<T>, "get" | "values" | "size" | "synced" | "lastEventVersion">;

export class World {
  readonly #caches = new Map<KindName, Cache<KubeObject>>();
  /** VirtualIP → its holders. */
  readonly #vipsOfHolder = new ReverseIndex();
  /** Route → Gateways that it names. */
  readonly #routesOfGateway = new ReverseIndex();
  /** Route → Services that it names. */
  readonly #routesOfService = new ReverseIndex();
  /** Gateway → its class. */
  readonly #gatewaysOfClass = new ReverseIndex();

  /** The cache of a kind, from when its informer runs. */
  attach<K extends KindName>(kind: K, cache: Cache<Kinds[K]>): void {
    this.#caches.set(kind, cache);
  }

  cache<K extends KindName>(kind: K): Cache<Kinds[K]> {
    // `attach` is the only writer, and it is typed by kind.
    return (this.#caches.get(kind) ?? EMPTY) as Cache<Kinds[K]>;
  }

  get<K extends KindName>(kind: K, key: string): Kinds[K] | undefined {
    return this.cache(kind).get(key);
  }

  /** Keeps the indexes true. Called for each event before anything is marked. */
  index(kind: KindName, object: KubeObject, gone: boolean): void {
    const key = keyOf(object);
    switch (kind) {
      case "VirtualIP":
        this.#vipsOfHolder.set(key, gone ? [] : vipBrief(object as VirtualIP).holders);
        return;
      case "ServiceRoute": {
        const { parents, backend } = routeBrief(object as ServiceRoute);
        this.#routesOfGateway.set(key, gone ? [] : parents);
        this.#routesOfService.set(key, gone ? [] : [backend]);
        return;
      }
      case "Gateway":
        this.#gatewaysOfClass.set(key, gone ? [] : [gatewayBrief(object as Gateway).className]);
        return;
      default:
    }
  }

  /** Every VirtualIP that names the holder, whatever uid it is bound to, deleted ones that still hold on included. */
  vipsOf(holder: WorkKey): VirtualIP[] {
    return this.#vipsOfHolder.targets(holder).flatMap((name) => this.get("VirtualIP", name) ?? []);
  }

  /** Routes that name the Gateway (`namespace/name`) as a parent. */
  routesOf(gateway: string): ServiceRoute[] {
    return this.#routesOfGateway.targets(gateway).flatMap((key) => this.get("ServiceRoute", key) ?? []);
  }

  /** Keys of the routes that name the Service (`namespace/name`) as their backend. */
  routeKeysOfService(service: string): readonly string[] {
    return this.#routesOfService.targets(service);
  }

  isClassUsed(name: string): boolean {
    return this.#gatewaysOfClass.has(name);
  }

  gatewayKeysOfClass(name: string): readonly string[] {
    return this.#gatewaysOfClass.targets(name);
  }
}

const EMPTY: Cache<KubeObject> = {
  get: () => undefined,
  values: () => [].values(),
  size: 0,
  synced: false,
  lastEventVersion: undefined,
};

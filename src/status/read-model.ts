/**
 * The one read model: what people ask of the cluster, made from its objects alone. The CLI renders it; a page or a
 * metric reads the same values, so that no two of them can tell different stories.
 */
import type {
  EndpointSlice,
  Gateway,
  GatewayClass,
  Lease,
  Namespace,
  Node,
  Service,
  ServiceCIDR,
} from "../api/foreign.ts";
import type { IPAddressPool } from "../api/ip-address-pool.ts";
import type { L2Advertisement } from "../api/l2-advertisement.ts";
import type { Condition, KubeObject } from "../api/meta.ts";
import { CONTROLLER_LEASE, EXCLUDE_NODE_LABEL, LOAD_BALANCER, speakerLeaseName } from "../api/names.ts";
import type { ServiceRoute } from "../api/service-route.ts";
import type { SpeakerStatus } from "../api/speaker-status.ts";
import type { Holder, VirtualIP } from "../api/virtual-ip.ts";
import type { Problem } from "../core/trouble.ts";
import { AddressBook } from "../ipam/address-book.ts";
import { type Reservation, resolvePools } from "../ipam/pool.ts";
import { type Address, compareAddresses, parseAddress } from "../net/address.ts";
import { parsePrefix } from "../net/prefix.ts";
import { rangeOfAddress, rangeOfPrefix } from "../net/range.ts";
import type { NodeView } from "../plan/elect.ts";
import { readSlice, type Slice } from "../plan/endpoint.ts";

/** What was read of the cluster. A list that was not asked for, or could not be had, is empty. */
export type ClusterObjects = {
  readonly gatewayClasses: readonly GatewayClass[];
  readonly gateways: readonly Gateway[];
  readonly routes: readonly ServiceRoute[];
  readonly services: readonly Service[];
  readonly vips: readonly VirtualIP[];
  readonly pools: readonly IPAddressPool[];
  readonly advertisements: readonly L2Advertisement[];
  readonly nodes: readonly Node[];
  readonly namespaces: readonly Namespace[];
  readonly serviceCIDRs: readonly ServiceCIDR[];
  readonly speakers: readonly SpeakerStatus[];
  /** Leases of Belfry's own namespace. */
  readonly leases: readonly Lease[];
  readonly slices: readonly EndpointSlice[];
};

export const NO_OBJECTS: ClusterObjects = {
  gatewayClasses: [],
  gateways: [],
  routes: [],
  services: [],
  vips: [],
  pools: [],
  advertisements: [],
  nodes: [],
  namespaces: [],
  serviceCIDRs: [],
  speakers: [],
  leases: [],
  slices: [],
};

export type ReadModelOptions = {
  /** Names of the Leases that live: time is the reader's business. */
  readonly liveLeases: ReadonlySet<string>;
  /** GatewayClass.spec.controllerName and Service.spec.loadBalancerClass that are ours. */
  readonly controllerName?: string;
  /** Lists that could not be had, and why: what is empty for that reason proves nothing. */
  readonly unread?: ReadonlyMap<keyof ClusterObjects, string>;
};

export type ConditionStatus = Condition["status"];

export type VipView = {
  /** Name of the object; `address` is what it is made of. */
  readonly name: string;
  readonly address: Address;
  readonly pool: string;
  readonly holders: readonly Pick<Holder, "kind" | "namespace" | "name">[];
  readonly owner:
    | { readonly node: string; readonly interface: string; readonly since: string; readonly term: number }
    | undefined;
  readonly announcers: { readonly count: number; readonly names: readonly string[] };
  /** `TCP 80`. */
  readonly ports: readonly string[];
  readonly programmed: ConditionStatus;
  readonly announced: ConditionStatus;
  /** The first thing that is wrong with it; undefined when it serves. */
  readonly whyNot: Problem | undefined;
  readonly createdAt: string | undefined;
};

export type PoolView = {
  readonly name: string;
  readonly addresses: readonly string[];
  readonly autoAssign: boolean;
  readonly disabled: boolean;
  readonly used: { readonly IPv4: number; readonly IPv6: number };
  readonly free: { readonly IPv4: number; readonly IPv6: number };
  readonly whyNot: Problem | undefined;
  readonly createdAt: string | undefined;
};

/** One node, as far as Belfry is concerned. */
export type SpeakerView = {
  readonly node: string;
  /** Its speaker has a living Lease. */
  readonly live: boolean;
  readonly dataPathReady: ConditionStatus;
  readonly links: readonly { readonly name: string; readonly up: boolean; readonly subnets: readonly string[] }[];
  /** VirtualIPs that name it as their owner. */
  readonly owns: number;
  /** VirtualIPs that it can't serve as wanted. */
  readonly failing: number;
  readonly whyNot: Problem | undefined;
  readonly createdAt: string | undefined;
};

/** A Gateway or Service of ours. */
export type HolderView = {
  readonly kind: "Gateway" | "Service";
  readonly namespace: string;
  readonly name: string;
  /** GatewayClass, or loadBalancerClass. */
  readonly className: string;
  /** As its status shows them. */
  readonly addresses: readonly string[];
  readonly ports: readonly string[];
  readonly programmed: ConditionStatus;
  readonly whyNot: Problem | undefined;
  readonly createdAt: string | undefined;
};

export class ReadModel {
  readonly objects: ClusterObjects;
  readonly controllerName: string;
  readonly #live: ReadonlySet<string>;
  readonly #vips: ReadonlyMap<string, VirtualIP>;
  readonly #speakers: ReadonlyMap<string, SpeakerStatus>;
  readonly #slices = new Map<string, Slice[]>();
  readonly #vipsOfHolder = new Map<string, VirtualIP[]>();
  readonly #unread: ReadonlyMap<keyof ClusterObjects, string>;
  #book: AddressBook | undefined;
  #nodeViews: ReadonlyMap<string, NodeView> | undefined;

  constructor(objects: ClusterObjects, options: ReadModelOptions) {
    this.objects = objects;
    this.controllerName = options.controllerName ?? LOAD_BALANCER;
    this.#live = options.liveLeases;
    this.#unread = options.unread ?? new Map();
    this.#vips = new Map(objects.vips.map((vip) => [vip.metadata.name, vip]));
    for (const vip of inOrder(objects.vips)) {
      for (const key of new Set(vip.spec.holders.map(printHolder))) {
        const known = this.#vipsOfHolder.get(key);
        if (known === undefined) this.#vipsOfHolder.set(key, [vip]);
        else known.push(vip);
      }
    }
    this.#speakers = new Map(objects.speakers.map((speaker) => [speaker.metadata.name, speaker]));
    for (const object of objects.slices) {
      const slice = readSlice(object);
      if (slice === undefined) continue;
      const known = this.#slices.get(slice.service);
      if (known === undefined) this.#slices.set(slice.service, [slice]);
      else known.push(slice);
    }
  }

  // --- looking up -----------------------------------------------------------------------------------------------------

  vip = (name: string): VirtualIP | undefined => this.#vips.get(name);

  speaker = (node: string): SpeakerStatus | undefined => this.#speakers.get(node);

  gateway = (namespace: string, name: string): Gateway | undefined => named(this.objects.gateways, namespace, name);

  service = (namespace: string, name: string): Service | undefined => named(this.objects.services, namespace, name);

  /** EndpointSlices of a Service, by `namespace/name`. */
  slicesOf = (service: string): readonly Slice[] => this.#slices.get(service) ?? [];

  namespaceLabels = (namespace: string): Readonly<Record<string, string>> | undefined => {
    const found = this.objects.namespaces.find(({ metadata }) => metadata.name === namespace);
    return found === undefined ? undefined : (found.metadata.labels ?? {});
  };

  /** VirtualIPs that name the Gateway or Service as a holder, whatever uid they are bound to; in order of address. */
  vipsOf = (holder: Pick<Holder, "kind" | "namespace" | "name">): readonly VirtualIP[] =>
    this.#vipsOfHolder.get(printHolder(holder)) ?? [];

  /** Why the list could not be had; undefined when it is what the cluster has. */
  whyUnread = (list: keyof ClusterObjects): string | undefined => this.#unread.get(list);

  isSpeakerLive = (node: string): boolean => this.#live.has(speakerLeaseName(node));

  /** Some controller holds the leadership, and lives. */
  get isControllerLive(): boolean {
    return this.#live.has(CONTROLLER_LEASE);
  }

  liveSpeakers(): string[] {
    return [...this.nodeViews().values()].filter(({ live }) => live).map(({ name }) => name);
  }

  /** The nodes as elections see them. */
  nodeViews(): ReadonlyMap<string, NodeView> {
    this.#nodeViews ??= new Map(
      this.objects.nodes.map(({ metadata }) => {
        const { name, labels = {} } = metadata;
        const status = this.speaker(name)?.status;
        const view: NodeView = {
          name,
          labels,
          live: this.isSpeakerLive(name),
          excluded: Object.hasOwn(labels, EXCLUDE_NODE_LABEL),
          dataPathReady: conditionOf(status, "DataPathReady")?.status !== "False",
          links: status?.links ?? [],
        };
        return [name, view];
      }),
    );
    return this.#nodeViews;
  }

  /** What the pools have and who has it, as the controller reckons it. */
  book(): AddressBook {
    if (this.#book !== undefined) return this.#book;
    const book = new AddressBook();
    book.setPools(resolvePools(this.objects.pools, reservationsOf(this.objects)));
    for (const vip of this.objects.vips) {
      const [holder] = vip.spec.holders;
      book.occupy(
        vip.spec.address as Address,
        holder === undefined ? `VirtualIP ${vip.metadata.name}` : printHolder(holder),
      );
    }
    this.#book = book;
    return book;
  }

  // --- views ----------------------------------------------------------------------------------------------------------

  vipViews = (): VipView[] => inOrder(this.objects.vips).map(viewOfVip);

  poolViews = (): PoolView[] => byName(this.objects.pools).map(viewOfPool);

  /** Every node, and every speaker whose node is gone. */
  speakerViews(): SpeakerView[] {
    const names = new Set([...this.objects.nodes, ...this.objects.speakers].map(({ metadata }) => metadata.name));
    return [...names].sort().map((node) => this.#viewOfSpeaker(node));
  }

  /** Gateways whose class is ours, and those that hold an address of ours all the same. */
  gatewayViews(): HolderView[] {
    const classes = new Set(
      this.objects.gatewayClasses
        .filter(({ spec }) => spec.controllerName === this.controllerName)
        .map(({ metadata }) => metadata.name),
    );
    return byName(this.objects.gateways)
      .filter((gateway) => classes.has(gateway.spec.gatewayClassName) || this.#holds("Gateway", gateway))
      .map(viewOfGateway);
  }

  /** Services of our class, and those that hold an address of ours all the same (claimed without a class). */
  serviceViews(): HolderView[] {
    return byName(this.objects.services)
      .filter((service) => service.spec.loadBalancerClass === this.controllerName || this.#holds("Service", service))
      .map(viewOfService);
  }

  #holds = (kind: Holder["kind"], { metadata: { namespace = "", name } }: KubeObject): boolean =>
    this.vipsOf({ kind, namespace, name }).length > 0;

  #viewOfSpeaker(node: string): SpeakerView {
    const speaker = this.speaker(node);
    const status = speaker?.status;
    const live = this.isSpeakerLive(node);
    return {
      node,
      live,
      dataPathReady: conditionOf(status, "DataPathReady")?.status ?? "Unknown",
      links: (status?.links ?? []).map(({ name, up, subnets }) => ({ name, up, subnets })),
      owns: this.objects.vips.filter((vip) => vip.status?.owner?.node === node).length,
      failing: status?.failingCount ?? status?.failing?.length ?? 0,
      whyNot: this.#troubleOfSpeaker(node, speaker, live),
      createdAt: speaker?.metadata.creationTimestamp,
    };
  }

  #troubleOfSpeaker(node: string, speaker: SpeakerStatus | undefined, live: boolean): Problem | undefined {
    if (!this.objects.nodes.some(({ metadata }) => metadata.name === node)) {
      return { reason: "NodeGone", message: "there is no Node of this name any more" };
    }
    if (!live) {
      return speaker === undefined
        ? { reason: "NoSpeaker", message: "no speaker has ever run here" }
        : { reason: "SpeakerDead", message: "its speaker does not renew its Lease" };
    }
    const dataPath = conditionOf(speaker?.status, "DataPathReady");
    if (dataPath?.status === "False") return { reason: dataPath.reason, message: dataPath.message };
    const [first] = speaker?.status?.failing ?? [];
    return first === undefined ? undefined : { reason: "Failing", message: `${first.vip}: ${first.reason}` };
  }
}

function viewOfVip({ metadata, spec, status }: VirtualIP): VipView {
  const { owner, announcers } = status ?? {};
  return {
    name: metadata.name,
    address: spec.address as Address,
    pool: spec.pool,
    holders: spec.holders.map(({ kind, namespace, name }) => ({ kind, namespace, name })),
    owner:
      owner === undefined
        ? undefined
        : { node: owner.node, interface: owner.interface, since: owner.since, term: owner.term },
    announcers: { count: announcers?.count ?? 0, names: announcers?.names ?? [] },
    ports: portsOf(spec.forwards),
    programmed: conditionOf(status, "Programmed")?.status ?? "Unknown",
    announced: conditionOf(status, "Announced")?.status ?? "Unknown",
    whyNot: troubleOfVip({ metadata, spec, status }),
    createdAt: metadata.creationTimestamp,
  };
}

function troubleOfVip({
  metadata,
  status,
}: Pick<VirtualIP, "metadata"> & { spec: unknown; status: VirtualIP["status"] }) {
  const problem = (type: string, bad: ConditionStatus): Problem | undefined => {
    const condition = conditionOf(status, type);
    return condition?.status === bad ? { reason: condition.reason, message: condition.message } : undefined;
  };
  if (metadata.deletionTimestamp !== undefined) {
    return problem("Releasing", "True") ?? { reason: "Releasing", message: "the address is being given back" };
  }
  return (
    problem("Conflict", "True") ??
    problem("Announced", "False") ??
    problem("Programmed", "False") ??
    (conditionOf(status, "Programmed") === undefined
      ? { reason: "Pending", message: "no controller has looked at it yet" }
      : undefined)
  );
}

function viewOfPool({ metadata, spec, status }: IPAddressPool): PoolView {
  const bad = (type: string, when: ConditionStatus): Problem | undefined => {
    const condition = conditionOf(status, type);
    return condition?.status === when ? { reason: condition.reason, message: condition.message } : undefined;
  };
  return {
    name: metadata.name,
    addresses: spec.addresses,
    autoAssign: spec.autoAssign !== false,
    disabled: spec.disabled === true,
    used: { IPv4: status?.assignedIPv4 ?? 0, IPv6: status?.assignedIPv6 ?? 0 },
    free: { IPv4: status?.availableIPv4 ?? 0, IPv6: status?.availableIPv6 ?? 0 },
    whyNot:
      bad("Accepted", "False") ??
      bad("PartiallyInvalid", "True") ??
      bad("Conflicted", "True") ??
      (spec.disabled === true ? { reason: "Disabled", message: "it gives out nothing new" } : undefined),
    createdAt: metadata.creationTimestamp,
  };
}

function viewOfGateway({ metadata, spec, status }: Gateway): HolderView {
  return {
    kind: "Gateway",
    namespace: metadata.namespace ?? "",
    name: metadata.name,
    className: spec.gatewayClassName,
    addresses: (status?.addresses ?? []).map(({ value }) => value),
    ports: portsOf(spec.listeners),
    ...programmedOf(status, "Programmed"),
    createdAt: metadata.creationTimestamp,
  };
}

function viewOfService({ metadata, spec, status }: Service): HolderView {
  return {
    kind: "Service",
    namespace: metadata.namespace ?? "",
    name: metadata.name,
    className: spec.loadBalancerClass ?? "",
    addresses: (status?.loadBalancer?.ingress ?? []).flatMap(({ ip, hostname }) => ip ?? hostname ?? []),
    ports: portsOf((spec.ports ?? []).map(({ protocol = "TCP", port }) => ({ protocol, port }))),
    ...programmedOf(status, "belfry.dev/Programmed"),
    createdAt: metadata.creationTimestamp,
  };
}

/** From the condition of that type; the API's "Waiting for controller" is one, too. */
function programmedOf(status: HasConditions, type: string): Pick<HolderView, "programmed" | "whyNot"> {
  const condition = conditionOf(status, type);
  if (condition === undefined) {
    return { programmed: "Unknown", whyNot: { reason: "Pending", message: "no controller has looked at it yet" } };
  }
  const { status: programmed, reason, message } = condition;
  return { programmed, whyNot: programmed === "True" ? undefined : { reason, message } };
}

/** Addresses that are never given out: nodes', their default gateways', the cluster's own. */
function reservationsOf({ nodes, speakers, serviceCIDRs }: ClusterObjects): Reservation[] {
  const list: Reservation[] = [];
  const add = (text: string, why: Reservation["why"], of: string) => {
    const address = parseAddress(text.split("/")[0] ?? "");
    if (address !== undefined) list.push({ range: rangeOfAddress(address), why, of });
  };
  for (const { metadata, status } of nodes) {
    for (const { type, address } of status?.addresses ?? []) {
      if (type === "InternalIP" || type === "ExternalIP") add(address, "NodeAddress", metadata.name);
    }
  }
  for (const { metadata, status } of speakers) {
    for (const { subnets, defaultGateways } of status?.links ?? []) {
      for (const subnet of subnets) add(subnet, "NodeAddress", metadata.name);
      for (const gateway of defaultGateways) add(gateway, "DefaultGateway", metadata.name);
    }
  }
  for (const { metadata, spec } of serviceCIDRs) {
    for (const cidr of spec.cidrs) {
      const parsed = parsePrefix(cidr);
      if (parsed.ok) list.push({ range: rangeOfPrefix(parsed.prefix), why: "ServiceCIDR", of: metadata.name });
    }
  }
  return list;
}

type HasConditions = { readonly conditions?: readonly Condition[] | undefined } | undefined;

export const conditionOf = (status: HasConditions, type: string): Condition | undefined =>
  status?.conditions?.find((condition) => condition.type === type);

/** `Gateway demo/web`. */
export const printHolder = ({ kind, namespace, name }: Pick<Holder, "kind" | "namespace" | "name">): string =>
  `${kind} ${namespace}/${name}`;

/** `TCP 80`, in the order of ports. */
function portsOf(ports: readonly { readonly protocol: string; readonly port: number }[]): string[] {
  return ports
    .toSorted((a, b) => a.port - b.port || (a.protocol < b.protocol ? -1 : 1))
    .map(({ protocol, port }) => `${protocol} ${port}`);
}

const inOrder = (vips: readonly VirtualIP[]): VirtualIP[] =>
  vips.toSorted((a, b) => compareAddresses(a.spec.address as Address, b.spec.address as Address));

const keyOf = ({ metadata }: KubeObject): string => `${metadata.namespace ?? ""}/${metadata.name}`;

const byName = <T extends KubeObject>(objects: readonly T[]): T[] =>
  objects.toSorted((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1));

const named = <T extends KubeObject>(objects: readonly T[], namespace: string, name: string): T | undefined =>
  objects.find(({ metadata }) => metadata.namespace === namespace && metadata.name === name);

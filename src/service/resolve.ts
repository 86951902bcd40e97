/** A Service of type LoadBalancer → what to ask of the pools, what to forward, and what is wrong with it. */
import type { Service, ServicePort } from "../api/foreign.ts";
import { Annotation, LOAD_BALANCER } from "../api/names.ts";
import type { DataPath, Forward, Protocol } from "../api/virtual-ip.ts";
import type { Problem } from "../core/trouble.ts";
import type { AddressRequest } from "../ipam/request.ts";
import { unknownAnnotations } from "./annotation.ts";
import { resolveRequest } from "./request.ts";
import { resolveSourceRanges } from "./source-ranges.ts";

export type ServiceOptions = {
  /** Value of spec.loadBalancerClass that is ours; `belfry.dev/load-balancer` unless a flag says otherwise. */
  readonly loadBalancerClass?: string;
  /** True: Services without a class are ours too. */
  readonly claimClassless: boolean;
  /** Who forwards what comes in for the addresses of Services; decided by a flag, never by looking around. */
  readonly dataPath: DataPath;
};

export type ServiceResolution =
  /** Another type or class: whatever it has of us is taken back. */
  | { readonly ours: false }
  | {
      readonly ours: true;
      /** Undefined when `refused` says why nothing can be given; what the Service has stays then. */
      readonly request: AddressRequest | undefined;
      readonly dataPath: DataPath;
      /** The forwarding table of each of its VirtualIPs, complete, by port and protocol; `holder` is 0. */
      readonly forwards: readonly Forward[];
      /** The request contradicts itself, or there is nothing to forward. */
      readonly refused: Problem | undefined;
      /** Parts that are left out while the rest is served. */
      readonly problems: readonly Problem[];
      /** For an Event: nothing is left out, but somebody probably meant something else. */
      readonly warnings: readonly Problem[];
    };

/** VirtualIP.spec.forwards holds no more. */
const MOST_FORWARDS = 512;

/** True for type LoadBalancer with our class, or with none where those are claimed. */
export function isOurService({ spec }: Service, options: Omit<ServiceOptions, "dataPath">): boolean {
  if (spec.type !== "LoadBalancer") return false;
  if (spec.loadBalancerClass === undefined) return options.claimClassless;
  return spec.loadBalancerClass === (options.loadBalancerClass ?? LOAD_BALANCER);
}

/** Resolves one Service. */
export function resolveService(service: Service, options: ServiceOptions): ServiceResolution {
  if (!isOurService(service, options)) return { ours: false };
  const requested = resolveRequest(service);
  const sources = resolveSourceRanges(service.spec.loadBalancerSourceRanges ?? []);
  const { forwarded, problems: portProblems } = judgePorts(service.spec.ports ?? []);
  const refused = requested.ok ? nothingToForward(forwarded) : requested.problem;
  return {
    ours: true,
    request: refused === undefined && requested.ok ? requested.request : undefined,
    dataPath: options.dataPath,
    forwards: forwarded.map((port) => forwardOf(service, port, sources.ranges, options.dataPath)).sort(byPort),
    refused,
    problems: [...portProblems, ...sources.problems, ...notYet(service)],
    warnings: unknownAnnotations(service.metadata.annotations ?? {}),
  };
}

type ForwardedPort = ServicePort & { readonly protocol: Protocol };

function judgePorts(ports: readonly ServicePort[]): { forwarded: ForwardedPort[]; problems: Problem[] } {
  const forwarded: ForwardedPort[] = [];
  const problems: Problem[] = [];
  for (const each of ports) {
    const protocol = each.protocol ?? "TCP";
    if (protocol !== "TCP" && protocol !== "UDP") problems.push(unsupportedProtocol(each, protocol));
    else forwarded.push({ ...each, protocol });
  }
  if (forwarded.length > MOST_FORWARDS) problems.push(tooManyPorts(forwarded.length));
  return { forwarded: forwarded.slice(0, MOST_FORWARDS), problems };
}

function forwardOf(
  service: Service,
  port: ForwardedPort,
  sourceRanges: readonly string[],
  dataPath: DataPath,
): Forward {
  const { namespace = "", name } = service.metadata;
  const isLocal = service.spec.externalTrafficPolicy === "Local";
  return {
    protocol: port.protocol,
    port: port.port,
    holder: 0,
    dataPath,
    backends: [{ kind: "Service", namespace, name, portName: port.name ?? "", weight: 1 }],
    sessionAffinity: service.spec.sessionAffinity === "ClientIP" ? "ClientIP" : "None",
    nodes: isLocal ? "LocalOnly" : "Cluster",
    // Policy Local promises the client's address, and an endpoint on the node that the packet came to keeps it.
    sourceIP: isLocal ? "Preserve" : "MayMasquerade",
    sourceRanges: [...sourceRanges],
    refuseWeight: 0,
  };
}

const byPort = (a: Forward, b: Forward): number => a.port - b.port || (a.protocol < b.protocol ? -1 : 1);

const unsupportedProtocol = ({ name, port }: ServicePort, protocol: string): Problem => ({
  reason: "UnsupportedProtocol",
  message: `port ${name === undefined ? "" : `"${name}" `}${protocol} ${port} is not forwarded: Belfry forwards TCP and UDP`,
});

const tooManyPorts = (count: number): Problem => ({
  reason: "TooManyPorts",
  message: `${count} ports, of which only the first ${MOST_FORWARDS} are forwarded; spread them over several Services`,
});

const nothingToForward = (forwarded: readonly ForwardedPort[]): Problem | undefined =>
  forwarded.length > 0
    ? undefined
    : {
        reason: "UnsupportedProtocol",
        message: "no port of the Service is TCP or UDP, so there is nothing to forward",
      };

function notYet(service: Service): Problem[] {
  if (service.metadata.annotations?.[Annotation.allowSharedIP] === undefined) return [];
  const message = `annotation ${Annotation.allowSharedIP} is not supported yet: the Service gets an address of its own`;
  return [{ reason: "UnsupportedValue", message }];
}

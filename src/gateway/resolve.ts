/** A Gateway, its class and its routes → what to ask of the pools, what to forward, and what is wrong with whom. */
import type { Gateway } from "../api/foreign.ts";
import type { ServiceRoute } from "../api/service-route.ts";
import type { Forward } from "../api/virtual-ip.ts";
import type { Problem } from "../core/trouble.ts";
import type { AddressRequest } from "../ipam/request.ts";
import { parseAddress } from "../net/address.ts";
import { type AddressesResolution, resolveAddresses } from "./addresses.ts";
import { type Attachment, attach, type NamespaceLabels, type Serving } from "./attach.ts";
import { resolveBackend, type ServiceLookup } from "./backend.ts";
import { type JudgedListener, judgeListeners } from "./listener.ts";

export type GatewayInput = {
  readonly gateway: Gateway;
  /** Why the class is not accepted (`judgeClass`), if it isn't. */
  readonly classProblem: Problem | undefined;
  /** Routes that may name the Gateway, in any order; others are passed over. */
  readonly routes: readonly ServiceRoute[];
  readonly service: ServiceLookup;
  readonly namespaceLabels: NamespaceLabels;
};

/** A listener, and how many routes are attached to it: also where the listener itself is not accepted. */
export type ListenerOutcome = JudgedListener & { readonly attachedRoutes: number };

/** How one parentRef of a route fares; `undefined` fields say that all is well. */
export type RouteOutcome = Attachment & {
  /** InvalidKind, RefNotPermitted, BackendNotFound or UnsupportedProtocol; independent of `accepted`. */
  readonly resolvedRefs: Problem | undefined;
};

export type GatewayResolution = {
  /** InvalidParameters, UnsupportedAddress or ListenersNotValid (no listener at all is good). */
  readonly accepted: Problem | undefined;
  /** Set when the Gateway is accepted although some listeners are not. */
  readonly someListenersInvalid: Problem | undefined;
  /** What no pool could fulfil: AddressNotUsable or AddressNotAssigned. */
  readonly addresses: Problem | undefined;
  readonly listeners: readonly ListenerOutcome[];
  /** The forwarding table of each of the Gateway's VirtualIPs, complete, by port and protocol; `holder` is 0. */
  readonly forwards: readonly Forward[];
  /**
   * Undefined when there is nothing that the pools could answer (`accepted` or `addresses` says why). Give nothing new
   * then, and leave what the Gateway has: a slip in an edit must not cost a working address.
   */
  readonly request: AddressRequest | undefined;
  /** By namespace/name of the route, then in the order of its parentRefs. */
  readonly routes: readonly RouteOutcome[];
};

/** Resolves one Gateway of a class of ours. The order of the routes does not matter. */
export function resolveGateway(input: GatewayInput): GatewayResolution {
  const { gateway } = input;
  const listeners = judgeListeners(gateway);
  const name = { namespace: gateway.metadata.namespace ?? "", name: gateway.metadata.name };
  const { attachments, serving } = attach(name, listeners, input.routes, input.namespaceLabels);
  const addresses = resolveAddresses(gateway);
  const accepted = input.classProblem ?? gatewayProblem(gateway, listeners, addresses);
  return {
    accepted,
    someListenersInvalid: accepted === undefined ? invalidListeners(listeners) : undefined,
    addresses: addresses.type === "unusable" ? addresses.problem : undefined,
    listeners: listeners.map((listener) => ({ ...listener, attachedRoutes: countAttached(listener, attachments) })),
    forwards: serving.map((each) => forwardOf(each, input.service)).sort(byPort),
    request: accepted === undefined && addresses.type === "wanted" ? requestOf(gateway, addresses.wanted) : undefined,
    routes: attachments.map((each) => ({ ...each, resolvedRefs: unresolvedRefs(each.route, input.service) })),
  };
}

function gatewayProblem(
  gateway: Gateway,
  listeners: readonly JudgedListener[],
  addresses: AddressesResolution,
): Problem | undefined {
  const parameters = gateway.spec.infrastructure?.parametersRef;
  if (parameters !== undefined) {
    return {
      reason: "InvalidParameters",
      message: `infrastructure.parametersRef ${parameters.group}/${parameters.kind} "${parameters.name}": no kind of parameters is supported yet; remove parametersRef`,
    };
  }
  if (addresses.type === "unsupported") return addresses.problem;
  return listeners.every((listener) => listener.accepted !== undefined) ? invalidListeners(listeners) : undefined;
}

function invalidListeners(listeners: readonly JudgedListener[]): Problem | undefined {
  const messages = listeners.flatMap((listener) => listener.accepted?.message ?? []);
  if (messages.length === 0 && listeners.length > 0) return undefined;
  return { reason: "ListenersNotValid", message: messages.join("; ") || "there is no listener" };
}

/** A route that names the Gateway twice counts once. */
function countAttached(listener: JudgedListener, attachments: readonly Attachment[]): number {
  const routes = attachments.filter((each) => each.listeners.includes(listener.name)).map((each) => each.route);
  return new Set(routes).size;
}

function forwardOf({ listener, route, port }: Serving, service: ServiceLookup): Forward {
  const resolution = resolveBackend(route, port, service);
  const { sourceIP = "MayMasquerade", nodes = "Cluster", sessionAffinity = "None" } = route.spec.traffic ?? {};
  return {
    protocol: port.protocol,
    port: listener.port,
    holder: 0,
    dataPath: "Belfry",
    backends: resolution.ok ? [resolution.backend] : [],
    sessionAffinity,
    nodes,
    sourceIP,
    sourceRanges: [],
    // What can't be resolved keeps its share, and the share is refused (Gateway API, BackendRef).
    refuseWeight: resolution.ok ? 0 : 1,
  };
}

const byPort = (a: Forward, b: Forward): number => a.port - b.port || (a.protocol < b.protocol ? -1 : 1);

function requestOf(
  gateway: Gateway,
  wanted: Pick<AddressRequest, "families" | "addresses" | "atMost">,
): AddressRequest {
  const { namespace = "", name, uid = "", labels = {}, creationTimestamp = "" } = gateway.metadata;
  return {
    holder: { kind: "Gateway", namespace, name, uid },
    labels,
    gatewayClass: gateway.spec.gatewayClassName,
    ...wanted,
    pool: undefined,
    shown: (gateway.status?.addresses ?? []).flatMap(({ value }) => parseAddress(value) ?? []),
    createdAt: creationTimestamp,
  };
}

/** The first port's reason, and what is wrong with each: the backend is one, its ports are several. */
function unresolvedRefs(route: ServiceRoute, service: ServiceLookup): Problem | undefined {
  const problems = route.spec.ports.flatMap((port) => {
    const resolution = resolveBackend(route, port, service);
    return resolution.ok ? [] : [resolution.problem];
  });
  const [first] = problems;
  if (first === undefined) return undefined;
  return { reason: first.reason, message: [...new Set(problems.map((problem) => problem.message))].join("; ") };
}

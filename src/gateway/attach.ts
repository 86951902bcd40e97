/** Which routes attach to which listeners of a Gateway, by which port, and which of them serves. */
import { selects } from "../api/label-selector.ts";
import { GROUP } from "../api/names.ts";
import type { ParentReference, ServiceRoute } from "../api/service-route.ts";
import type { Problem } from "../core/trouble.ts";
import { GATEWAY_GROUP, type JudgedListener, sameKind } from "./listener.ts";

export type ObjectName = { readonly namespace: string; readonly name: string };

/** One of ServiceRoute.spec.ports. */
export type RoutePort = ServiceRoute["spec"]["ports"][number];

/** Labels of a namespace; undefined when there is no such namespace. */
export type NamespaceLabels = (namespace: string) => Readonly<Record<string, string>> | undefined;

/** How one parentRef of a route fares at one Gateway. `undefined` fields say that all is well. */
export type Attachment = {
  readonly route: ServiceRoute;
  readonly parentRef: ParentReference;
  /** NoMatchingParent or NotAllowedByListeners. */
  readonly accepted: Problem | undefined;
  /** NoListener, ListenerConflict or UnsupportedValue: ports of the route that are not handed over. */
  readonly portsBound: Problem | undefined;
  /** PartiallyInvalid: some ports are bound and some are not. */
  readonly dropped: Problem | undefined;
  /** An older route serves some of the ports. */
  readonly superseded: Problem | undefined;
  /** Names of the listeners that the route is attached to. */
  readonly listeners: readonly string[];
};

/** The one route that serves a listener. */
export type Serving = { readonly listener: JudgedListener; readonly route: ServiceRoute; readonly port: RoutePort };

export type Attached = {
  /** By namespace/name of the route, then in the order of its parentRefs. */
  readonly attachments: readonly Attachment[];
  /** In the order of the listeners; at most one each. */
  readonly serving: readonly Serving[];
};

/** Attaches the routes to the listeners. Routes that name another parent are passed over; their order does not matter. */
export function attach(
  gateway: ObjectName,
  listeners: readonly JudgedListener[],
  routes: readonly ServiceRoute[],
  namespaceLabels: NamespaceLabels,
): Attached {
  const bindings = routes
    .toSorted((a, b) => order(keyOf(a), keyOf(b)))
    .flatMap((route) =>
      route.spec.parentRefs
        .filter((ref) => names(ref, route, gateway))
        .map((parentRef) => bind(route, parentRef, gateway, listeners, namespaceLabels)),
    );
  const serving = listeners.flatMap((listener) => oldestOn(listener, bindings) ?? []);
  return { attachments: bindings.map((binding) => outcomeOf(binding, gateway, serving)), serving };
}

/** True when the parentRef of the route means this Gateway. */
export const names = (ref: ParentReference, route: ServiceRoute, gateway: ObjectName): boolean =>
  ref.group === GATEWAY_GROUP &&
  ref.kind === "Gateway" &&
  ref.name === gateway.name &&
  (ref.namespace ?? route.metadata.namespace) === gateway.namespace;

type Binding = {
  readonly route: ServiceRoute;
  readonly parentRef: ParentReference;
  readonly accepted: Problem | undefined;
  readonly bound: readonly { readonly port: RoutePort; readonly listener: JudgedListener }[];
  readonly unbound: readonly RoutePort[];
};

function bind(
  route: ServiceRoute,
  parentRef: ParentReference,
  gateway: ObjectName,
  listeners: readonly JudgedListener[],
  namespaceLabels: NamespaceLabels,
): Binding {
  const selected = listeners.filter(
    ({ name, port }) =>
      (parentRef.sectionName ?? name) === name && (parentRef.port === undefined || parentRef.port === port),
  );
  const open = selected.filter((listener) => allows(listener, route, gateway, namespaceLabels));
  const bound: { port: RoutePort; listener: JudgedListener }[] = [];
  const unbound: RoutePort[] = [];
  for (const port of route.spec.ports) {
    // Several only where listeners conflict: the route is attached to each, and none of them serves.
    const fitting = open.filter((each) => each.port === port.port && each.protocol === port.protocol);
    if (fitting.length === 0) unbound.push(port);
    for (const listener of fitting) bound.push({ port, listener });
  }
  const accepted = bound.length > 0 ? undefined : whyNot(route, parentRef, gateway, selected, namespaceLabels);
  return { route, parentRef, accepted, bound, unbound };
}

function allows(
  listener: JudgedListener,
  route: ServiceRoute,
  gateway: ObjectName,
  namespaceLabels: NamespaceLabels,
): boolean {
  return allowsKind(listener) && allowsNamespace(listener, namespaceOf(route), gateway, namespaceLabels);
}

const allowsKind = (listener: JudgedListener): boolean =>
  listener.supportedKinds.some((kind) => sameKind(kind, { group: GROUP, kind: "ServiceRoute" }));

function allowsNamespace(
  { allowedNamespaces: { from = "Same", selector } }: JudgedListener,
  namespace: string,
  gateway: ObjectName,
  namespaceLabels: NamespaceLabels,
): boolean {
  switch (from) {
    case "All":
      return true;
    case "Same":
      return namespace === gateway.namespace;
    case "Selector": {
      const labels = namespaceLabels(namespace);
      return selector !== undefined && labels !== undefined && selects(selector, labels);
    }
    default:
      return false;
  }
}

/** Gateway API: no listener of that name or port is NoMatchingParent; one that refuses the route is NotAllowedByListeners. */
function whyNot(
  route: ServiceRoute,
  parentRef: ParentReference,
  gateway: ObjectName,
  selected: readonly JudgedListener[],
  namespaceLabels: NamespaceLabels,
): Problem {
  const ports = route.spec.ports.map(printPort).join(", ");
  const onPort = selected.filter((listener) => route.spec.ports.some((port) => port.port === listener.port));
  if (onPort.length === 0) {
    const meant = [
      parentRef.sectionName === undefined ? "" : ` named "${parentRef.sectionName}"`,
      parentRef.port === undefined ? "" : ` on port ${parentRef.port}`,
    ].join("");
    const message =
      selected.length === 0
        ? `Gateway ${print(gateway)} has no listener${meant}`
        : `Gateway ${print(gateway)} has no listener${meant} for ${ports}; add a listener or change the ports of the route`;
    return { reason: "NoMatchingParent", message };
  }
  const refusals = onPort.map((listener) => {
    if (listener.protocol === undefined) return `listener "${listener.name}" has a protocol that is not supported`;
    if (!allowsKind(listener)) return `listener "${listener.name}" does not allow routes of kind ${GROUP}/ServiceRoute`;
    if (!allowsNamespace(listener, namespaceOf(route), gateway, namespaceLabels)) {
      return `listener "${listener.name}" does not allow routes from this namespace`;
    }
    return `listener "${listener.name}" is ${listener.protocol}, and the route has ${ports}`;
  });
  return { reason: "NotAllowedByListeners", message: refusals.join("; ") };
}

function oldestOn(listener: JudgedListener, bindings: readonly Binding[]): Serving | undefined {
  if (listener.accepted !== undefined) return undefined;
  const claims = bindings
    .filter((binding) => cannotPreserve(binding.route) === undefined)
    .flatMap(({ route, bound }) =>
      bound.filter((each) => each.listener === listener).map(({ port }) => ({ route, port })),
    );
  const oldest = claims.toSorted((a, b) => byAge(a.route, b.route))[0];
  return oldest === undefined ? undefined : { listener, ...oldest };
}

/** Gateway API: the oldest by creationTimestamp goes first, then by `namespace/name`. */
function byAge(a: ServiceRoute, b: ServiceRoute): number {
  // All timestamps of the API server are UTC with whole seconds, so their texts are in the order of time.
  return order(a.metadata.creationTimestamp ?? "9", b.metadata.creationTimestamp ?? "9") || order(keyOf(a), keyOf(b));
}

function outcomeOf(binding: Binding, gateway: ObjectName, serving: readonly Serving[]): Attachment {
  const { route, parentRef, accepted, bound, unbound } = binding;
  return {
    route,
    parentRef,
    accepted,
    portsBound: cannotPreserve(route) ?? unboundPorts(unbound, gateway) ?? conflictingPorts(bound),
    dropped: bound.length > 0 && unbound.length > 0 ? droppedPorts(route, unbound) : undefined,
    superseded: supersededPorts(binding, serving),
    listeners: bound.map(({ listener }) => listener.name),
  };
}

/** Delivery by NAT keeps the client's address only where the endpoint is on the node that the packet came to. */
function cannotPreserve(route: ServiceRoute): Problem | undefined {
  const { sourceIP, nodes } = route.spec.traffic ?? {};
  if (sourceIP !== "Preserve" || nodes === "LocalOnly") return undefined;
  return {
    reason: "UnsupportedValue",
    message: `traffic.sourceIP Preserve needs traffic.nodes LocalOnly, not ${nodes ?? "Cluster"}: a packet for an endpoint on another node gets the node's address; set nodes to LocalOnly or sourceIP to MayMasquerade`,
  };
}

function unboundPorts(unbound: readonly RoutePort[], gateway: ObjectName): Problem | undefined {
  if (unbound.length === 0) return undefined;
  const ports = unbound.map(printPort).join(", ");
  return {
    reason: "NoListener",
    message: `no listener of Gateway ${print(gateway)} that this parentRef selects takes ${ports} from this route`,
  };
}

function conflictingPorts(bound: Binding["bound"]): Problem | undefined {
  const messages = bound.flatMap(({ listener }) => listener.accepted?.message ?? []);
  return messages.length === 0 ? undefined : { reason: "ListenerConflict", message: messages.sort().join("; ") };
}

/** Gateway API: the message of PartiallyInvalid begins with "Dropped Rule" where part of a route is left out. */
function droppedPorts(route: ServiceRoute, unbound: readonly RoutePort[]): Problem {
  const rules = unbound.map((port) => `Dropped Rule ports[${route.spec.ports.indexOf(port)}] (${printPort(port)})`);
  return { reason: "UnsupportedValue", message: `${rules.join(", ")}: no listener takes it from this route` };
}

function supersededPorts({ route, bound }: Binding, serving: readonly Serving[]): Problem | undefined {
  if (cannotPreserve(route) !== undefined) return undefined;
  const lost = bound.flatMap(({ port, listener }) => {
    const winner = serving.find((each) => each.listener === listener)?.route;
    if (winner === undefined || keyOf(winner) === keyOf(route)) return [];
    // A name from another namespace is not for the eyes of this one.
    const by = namespaceOf(winner) === namespaceOf(route) ? `route ${keyOf(winner)}` : "a route of another namespace";
    return [`${printPort(port)} is served by ${by}, which is older`];
  });
  return lost.length === 0 ? undefined : { reason: "OlderRoute", message: lost.join("; ") };
}

export const namespaceOf = (route: ServiceRoute): string => route.metadata.namespace ?? "";
export const printPort = ({ protocol, port }: { protocol: string; port: number }): string => `${protocol} ${port}`;
const keyOf = (route: ServiceRoute): string => `${namespaceOf(route)}/${route.metadata.name}`;
const print = ({ namespace, name }: ObjectName): string => `${namespace}/${name}`;
const order = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

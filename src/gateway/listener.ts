/** What each listener of a Gateway is worth by itself, before any route is looked at. */
import type { Gateway, Listener } from "../api/foreign.ts";
import { GROUP } from "../api/names.ts";
import type { Protocol } from "../api/virtual-ip.ts";
import type { Problem } from "../core/trouble.ts";

export const GATEWAY_GROUP = "gateway.networking.k8s.io";

/** Kinds of routes that TCP and UDP listeners take. */
const SUPPORTED_KINDS = [{ group: GROUP, kind: "ServiceRoute" }] as const;

/** Protocols that share a port by host name among themselves, and with TCP not at all. */
const HTTP_LIKE = new Set(["HTTP", "HTTPS", "TLS"]);

export type RouteKind = { readonly group: string; readonly kind: string };

export type JudgedListener = {
  readonly name: string;
  readonly port: number;
  /** The protocol that we forward; undefined where we don't. */
  readonly protocol: Protocol | undefined;
  readonly allowedNamespaces: NonNullable<NonNullable<Listener["allowedRoutes"]>["namespaces"]>;
  /** Our kinds, narrowed by allowedRoutes.kinds; may be empty. */
  readonly supportedKinds: readonly RouteKind[];
  /** Why the listener is not accepted: UnsupportedProtocol or ProtocolConflict. */
  readonly accepted: Problem | undefined;
  /** ProtocolConflict with other listeners on the port; none of them wins. */
  readonly conflicted: Problem | undefined;
  /** InvalidRouteKinds: allowedRoutes.kinds has kinds that we don't know. */
  readonly resolvedRefs: Problem | undefined;
};

/** Judges the listeners in the order of the spec. */
export function judgeListeners(gateway: Gateway): JudgedListener[] {
  const listeners = gateway.spec.listeners;
  return listeners.map((listener) => {
    const conflicted = conflictOf(listener, listeners);
    const protocol = protocolOf(listener);
    return {
      name: listener.name,
      port: listener.port,
      protocol,
      allowedNamespaces: listener.allowedRoutes?.namespaces ?? {},
      supportedKinds: kindsOf(listener).supported,
      // An unsupported protocol stays wrong when the other listener goes, so it is named first.
      accepted: protocol === undefined ? unsupportedProtocol(listener) : conflicted,
      conflicted,
      resolvedRefs: invalidKinds(listener),
    };
  });
}

function protocolOf(listener: Listener): Protocol | undefined {
  return listener.protocol === "TCP" || listener.protocol === "UDP" ? listener.protocol : undefined;
}

function unsupportedProtocol({ name, port, protocol }: Listener): Problem {
  const advice = HTTP_LIKE.has(protocol)
    ? `use protocol TCP on port ${port} and a ServiceRoute to the Service of a proxy that speaks ${protocol}`
    : "use TCP or UDP";
  return {
    reason: "UnsupportedProtocol",
    message: `listener "${name}": protocol ${protocol} is not supported, Belfry forwards TCP and UDP; ${advice}`,
  };
}

/**
 * Gateway API, GEP-2644 and 2645: TCP listeners are told apart by port, and share none with HTTP, HTTPS or TLS; UDP
 * listeners are told apart by port among themselves. Nobody wins. HTTP-like listeners beside each other are refused for
 * their protocol anyway.
 */
function conflictOf(listener: Listener, all: readonly Listener[]): Problem | undefined {
  const rivals = all.filter(
    (other) => other !== listener && other.port === listener.port && exclude(other.protocol, listener.protocol),
  );
  if (rivals.length === 0) return undefined;
  const named = rivals
    .map((rival) => `"${rival.name}" (${rival.protocol})`)
    .sort()
    .join(", ");
  return {
    reason: "ProtocolConflict",
    message: `listener "${listener.name}": ${listener.protocol} port ${listener.port} is also claimed by listener ${named}; keep one of them or change a port`,
  };
}

function exclude(a: string, b: string): boolean {
  if (a === b) return a === "TCP" || a === "UDP";
  return (a === "TCP" && HTTP_LIKE.has(b)) || (b === "TCP" && HTTP_LIKE.has(a));
}

function kindsOf(listener: Listener): { supported: readonly RouteKind[]; unknown: readonly RouteKind[] } {
  const ours: readonly RouteKind[] = protocolOf(listener) === undefined ? [] : SUPPORTED_KINDS;
  const asked = listener.allowedRoutes?.kinds;
  if (asked === undefined || asked.length === 0) return { supported: ours, unknown: [] };
  const wanted = asked.map(({ group, kind }) => ({ group: group ?? GATEWAY_GROUP, kind }));
  return {
    supported: ours.filter((kind) => wanted.some((other) => sameKind(kind, other))),
    unknown: wanted.filter((kind) => !ours.some((other) => sameKind(kind, other))),
  };
}

export const sameKind = (a: RouteKind, b: RouteKind): boolean => a.group === b.group && a.kind === b.kind;

function invalidKinds(listener: Listener): Problem | undefined {
  const { unknown } = kindsOf(listener);
  // Where the protocol is refused, every kind is unknown and the protocol is what has to be mended.
  if (unknown.length === 0 || protocolOf(listener) === undefined) return undefined;
  const named = unknown.map(({ group, kind }) => `${group}/${kind}`).join(", ");
  return {
    reason: "InvalidRouteKinds",
    message: `listener "${listener.name}": allowedRoutes.kinds has ${named}; a ${listener.protocol} listener takes ${GROUP}/ServiceRoute`,
  };
}

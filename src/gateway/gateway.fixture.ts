/** Small whole objects for tests of attachment and status. */
import type { Gateway, Listener, Service, ServicePort } from "../api/foreign.ts";
import type { ParentReference, ServiceRoute } from "../api/service-route.ts";

export const listener = (name: string, protocol: string, port: number, more: Partial<Listener> = {}): Listener => ({
  name,
  protocol,
  port,
  ...more,
});

export const gateway = (listeners: Listener[], spec: Partial<Gateway["spec"]> = {}): Gateway => ({
  metadata: { namespace: "t1", name: "web", uid: "uid-web", generation: 3, creationTimestamp: "2026-01-01T00:00:00Z" },
  spec: { gatewayClassName: "belfry", listeners, ...spec },
});

export const parent = (more: Partial<ParentReference> = {}): ParentReference => ({
  group: "gateway.networking.k8s.io",
  kind: "Gateway",
  name: "web",
  ...more,
});

type RoutePort = { protocol?: "TCP" | "UDP"; port: number; backendPort?: number };

/** A route t1/NAME to Service t1/NAME, made at midnight of that day of January. */
export const route = (
  name: string,
  ports: RoutePort[],
  more: { day?: number; namespace?: string; spec?: Partial<ServiceRoute["spec"]> } = {},
): ServiceRoute => ({
  metadata: {
    namespace: more.namespace ?? "t1",
    name,
    uid: `uid-${name}`,
    generation: 1,
    creationTimestamp: `2026-01-${String(more.day ?? 1).padStart(2, "0")}T00:00:00Z`,
  },
  spec: {
    parentRefs: [parent()],
    ports: ports.map((port) => ({ protocol: "TCP", ...port })),
    backendRef: { group: "", kind: "Service", name },
    ...more.spec,
  },
});

export const service = (name: string, ports: ServicePort[], spec: Partial<Service["spec"]> = {}): Service => ({
  metadata: { namespace: "t1", name, uid: `uid-${name}`, creationTimestamp: "2026-01-01T00:00:00Z" },
  spec: { ports, ...spec },
});

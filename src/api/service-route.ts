import { z } from "zod";
import { Condition, type ObjectMeta } from "./meta.ts";
import { Protocol } from "./virtual-ip.ts";

export const ParentReference = z.object({
  group: z.string().max(253).default("gateway.networking.k8s.io").describe("API group of the parent."),
  kind: z.string().min(1).max(63).default("Gateway").describe("Kind of the parent."),
  namespace: z.string().min(1).max(63).optional().describe("Namespace of the parent; default the route's own."),
  name: z.string().min(1).max(253).describe("Name of the parent."),
  sectionName: z.string().min(1).max(253).optional().describe("Listener of the parent; default all that fit."),
  port: z.int().min(1).max(65535).optional().describe("Listener port of the parent; default all that fit."),
});
export type ParentReference = z.infer<typeof ParentReference>;

export const ServiceRouteSpec = z.object({
  parentRefs: z.array(ParentReference).min(1).max(32).describe("Gateways that the route attaches to."),
  ports: z
    .array(
      z.object({
        name: z.string().max(63).optional().describe("Name of the entry, for people."),
        protocol: Protocol.default("TCP").describe("Transport protocol."),
        port: z.int().min(1).max(65535).describe("Listener port of the parent that the entry binds to."),
        backendPort: z.int().min(1).max(65535).optional().describe("Service port of the backend; default `port`."),
      }),
    )
    .min(1)
    .max(64)
    .describe("Ports to hand over, unique by protocol and port."),
  backendRef: z
    .object({
      group: z.string().max(253).default("").describe("API group of the backend; empty for Service."),
      kind: z.string().min(1).max(63).default("Service").describe("Kind of the backend."),
      namespace: z.string().min(1).max(63).optional().describe("Namespace of the backend; default the route's own."),
      name: z.string().min(1).max(253).describe("Name of the backend."),
    })
    .describe("Where the traffic goes."),
  traffic: z
    .object({
      sourceIP: z
        .enum(["MayMasquerade", "Preserve"])
        .default("MayMasquerade")
        .describe("Whether the client's address may be replaced on the way."),
      nodes: z
        .enum(["Cluster", "PreferLocal", "LocalOnly"])
        .default("Cluster")
        .describe("Which endpoints a node may use for clients outside the cluster."),
      sessionAffinity: z
        .enum(["None", "ClientIP"])
        .default("None")
        .describe("ClientIP sends all connections of one source address to one endpoint."),
    })
    .optional()
    .describe("How traffic is spread; the defaults suit most."),
});
export type ServiceRouteSpec = z.infer<typeof ServiceRouteSpec>;

export const RouteParentStatus = z.object({
  parentRef: ParentReference,
  controllerName: z.string().min(1).max(253).describe("Controller that wrote this entry."),
  conditions: z
    .array(Condition)
    .max(8)
    .default([])
    .describe("Accepted, ResolvedRefs, belfry.dev/PortsBound, belfry.dev/Superseded."),
});
export type RouteParentStatus = z.infer<typeof RouteParentStatus>;

export const ServiceRouteStatus = z.object({
  parents: z.array(RouteParentStatus).max(32).default([]).describe("One entry per parent and controller."),
});

export type ServiceRoute = {
  apiVersion?: string;
  kind?: string;
  metadata: ObjectMeta;
  spec: ServiceRouteSpec;
  status?: z.infer<typeof ServiceRouteStatus>;
};

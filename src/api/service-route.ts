import { z } from "zod";
import { AGE, type Kind } from "./kind.ts";
import { Condition, DNS_LABEL, DNS_SUBDOMAIN, keyedBy, type ObjectMeta, WHOLE } from "./meta.ts";
import { SERVICEROUTE } from "./resource.ts";
import { check } from "./rule.ts";
import { Protocol } from "./virtual-ip.ts";

/** API group: empty for core, else a subdomain. */
const Group = z
  .string()
  .max(253)
  .regex(/^$|^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/);
const KindName = z
  .string()
  .min(1)
  .max(63)
  .regex(/^[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?$/);
const NamespaceName = z.string().min(1).max(63).regex(DNS_LABEL);

export const ParentReference = z.object({
  group: Group.default("gateway.networking.k8s.io").describe("API group of the parent."),
  kind: KindName.default("Gateway").describe("Kind of the parent."),
  namespace: NamespaceName.optional().describe("Namespace of the parent; default the route's own."),
  name: z.string().min(1).max(253).describe("Name of the parent."),
  sectionName: z
    .string()
    .min(1)
    .max(253)
    .regex(DNS_SUBDOMAIN)
    .optional()
    .describe("Listener of the parent; default all that fit."),
  port: z.int().min(1).max(65535).optional().describe("Listener port of the parent; default all that fit."),
});
export type ParentReference = z.infer<typeof ParentReference>;

export const ServiceRouteSpec = z.object({
  parentRefs: z.array(ParentReference).min(1).max(32).meta(WHOLE).describe("Gateways that the route attaches to."),
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
    .meta(keyedBy("protocol", "port"))
    .describe("Ports to hand over, unique by protocol and port."),
  backendRef: z
    .object({
      group: Group.default("").describe("API group of the backend; empty for Service."),
      kind: KindName.default("Service").describe("Kind of the backend."),
      namespace: NamespaceName.optional().describe("Namespace of the backend; default the route's own."),
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
  parentRef: ParentReference.describe("The parentRef of spec that this entry is about."),
  controllerName: z.string().min(1).max(253).describe("Controller that wrote this entry."),
  conditions: z
    .array(Condition)
    .max(8)
    .meta(keyedBy("type"))
    .default([])
    .describe("Accepted, ResolvedRefs, belfry.dev/PortsBound, belfry.dev/Superseded."),
});
export type RouteParentStatus = z.infer<typeof RouteParentStatus>;

export const ServiceRouteStatus = z.object({
  parents: z.array(RouteParentStatus).max(32).meta(WHOLE).default([]).describe("One entry per parent and controller."),
});

export type ServiceRoute = {
  apiVersion?: string;
  kind?: string;
  metadata: ObjectMeta;
  spec: ServiceRouteSpec;
  status?: z.infer<typeof ServiceRouteStatus>;
};

/** CEL: absent in both, or in both and equal. Not `orValue`: the cost of comparing what it gives can't be estimated. */
function sameOptional(field: string): string {
  return `has(p1.${field}) == has(p2.${field}) && (!has(p1.${field}) || p1.${field} == p2.${field})`;
}

/** CEL: `p1` and `p2` name the same parent. `namespace` is a word of CEL, so its field is escaped. */
const SAME_PARENT = `p1.group == p2.group && p1.kind == p2.kind && p1.name == p2.name && ${sameOptional("__namespace__")}`;

const sameParent = (a: ParentReference, b: ParentReference): boolean =>
  a.group === b.group && a.kind === b.kind && a.name === b.name && (a.namespace ?? "") === (b.namespace ?? "");

export const SERVICEROUTE_KIND: Kind = {
  resource: SERVICEROUTE,
  singular: "serviceroute",
  shortNames: ["sroute"],
  categories: ["belfry", "gateway-api"],
  description: "Hands ports of a Gateway over to one backend, such as a Service.",
  schema: { spec: ServiceRouteSpec, status: ServiceRouteStatus },
  rules: [
    // Both as the standard channel of the Gateway API has them for its routes.
    check<ParentReference[]>(
      "spec.parentRefs",
      "sectionName must be given when two parentRefs name the same parent",
      `self.all(p1, self.all(p2, !(${SAME_PARENT}) || has(p1.sectionName) == has(p2.sectionName)))`,
      (self) =>
        self.every((a) =>
          self.every((b) => !sameParent(a, b) || (a.sectionName === undefined) === (b.sectionName === undefined)),
        ),
    ),
    check<ParentReference[]>(
      "spec.parentRefs",
      "sectionName must differ when two parentRefs name the same parent",
      `self.all(p1, self.exists_one(p2, ${SAME_PARENT} && ${sameOptional("sectionName")}))`,
      (self) => self.every((a) => self.filter((b) => sameParent(a, b) && a.sectionName === b.sectionName).length === 1),
    ),
  ],
  printerColumns: [
    { name: "Gateway", type: "string", jsonPath: ".spec.parentRefs[0].name", description: "First parent." },
    { name: "Backend", type: "string", jsonPath: ".spec.backendRef.name", description: "Where the traffic goes." },
    {
      name: "Accepted",
      type: "string",
      jsonPath: '.status.parents[0].conditions[?(@.type=="Accepted")].status',
      description: "Whether the first parent takes the route.",
    },
    {
      name: "Resolved",
      type: "string",
      jsonPath: '.status.parents[0].conditions[?(@.type=="ResolvedRefs")].status',
      description: "Whether the backend was found.",
      priority: 1,
    },
    AGE,
  ],
};

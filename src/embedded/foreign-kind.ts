/**
 * The kinds of others that our processes and the quickstart touch: narrow schemas of the fields that we use, open for
 * the rest. Gateway API fields and rules: v1.6 standard channel; core kinds: Kubernetes 1.37.
 */
import { z } from "zod";
import type { EndpointSlice, Gateway, Node, Service } from "../api/foreign.ts";
import type { KubeObject } from "../api/meta.ts";
import * as resource from "../api/resource.ts";
import { parseAddress } from "../net/address.ts";
import { EVENT_COLUMNS } from "./event-view.ts";
import type { Column, ServedKind } from "./kind.ts";
import type { StatusCause } from "./refusal.ts";
import { check, type Schema } from "./schema.ts";
import { createServiceAllocator } from "./service-address.ts";

/** The JSON Schema of a zod schema, as a client has to write it: fields with a default are not required. */
export const jsonSchemaOf = (schema: z.ZodType): Schema =>
  z.toJSONSchema(schema, { io: "input", unrepresentable: "any" }) as Schema;

const listMap = (...keys: string[]) => ({ "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys });
const Open = z.looseObject({});
const Conditions = z
  .array(z.looseObject({ type: z.string(), status: z.enum(["True", "False", "Unknown"]) }))
  .meta(listMap("type"));
const ParametersRef = z.looseObject({ group: z.string(), kind: z.string().min(1), name: z.string().min(1) });

const AllowedRoutes = z.looseObject({
  namespaces: z
    .looseObject({ from: z.enum(["All", "Selector", "Same", "None"]).default("Same"), selector: Open.optional() })
    .default({ from: "Same" }),
  kinds: z
    .array(z.looseObject({ group: z.string().default("gateway.networking.k8s.io"), kind: z.string().min(1) }))
    .max(8)
    .optional(),
});

const GatewayClass = z.looseObject({
  spec: z.looseObject({
    controllerName: z.string().min(1).max(253).describe("Controller that manages Gateways of this class; immutable."),
    parametersRef: ParametersRef.optional().describe("Configuration of the class."),
    description: z.string().max(64).optional().describe("For people."),
  }),
  status: z
    .looseObject({
      conditions: Conditions.optional(),
      supportedFeatures: z
        .array(z.looseObject({ name: z.string() }))
        .max(64)
        .meta(listMap("name"))
        .optional(),
    })
    .default({ conditions: [pending("Accepted")] }),
});

const GatewaySchema = z.looseObject({
  spec: z.looseObject({
    gatewayClassName: z.string().min(1).max(253).describe("GatewayClass of this Gateway."),
    listeners: z
      .array(
        z.looseObject({
          name: z.string().min(1).max(253).describe("Unique name of the listener."),
          port: z.int().min(1).max(65535).describe("Port."),
          protocol: z.string().min(1).max(255).describe("TCP, UDP, HTTP, HTTPS, TLS or a domain-prefixed word."),
          hostname: z.string().min(1).max(253).optional().describe("Not for TCP and UDP."),
          allowedRoutes: AllowedRoutes.default({ namespaces: { from: "Same" } }).describe("Routes that may attach."),
        }),
      )
      .min(1)
      .max(64)
      .meta(listMap("name"))
      .describe("Where the Gateway listens."),
    addresses: z
      .array(
        z.looseObject({
          type: z
            .string()
            .min(1)
            .max(253)
            .default("IPAddress")
            .describe("IPAddress, Hostname or a domain-prefixed word."),
          value: z.string().max(253).optional().describe("The address that is asked for; absent: any of the type."),
        }),
      )
      .max(16)
      .optional()
      .meta({ "x-kubernetes-list-type": "atomic" })
      .describe("Addresses asked for."),
    infrastructure: z
      .looseObject({
        labels: z.record(z.string(), z.string()).optional(),
        annotations: z.record(z.string(), z.string()).optional(),
        parametersRef: ParametersRef.optional(),
      })
      .optional()
      .describe("For what is made on behalf of the Gateway."),
  }),
  status: z
    .looseObject({
      addresses: z
        .array(z.looseObject({ type: z.string().default("IPAddress"), value: z.string() }))
        .max(16)
        .optional()
        .meta({ "x-kubernetes-list-type": "atomic" }),
      conditions: Conditions.max(8).optional(),
      listeners: z
        .array(
          z.looseObject({
            name: z.string(),
            supportedKinds: z.array(z.looseObject({ kind: z.string() })).optional(),
            attachedRoutes: z.int(),
            conditions: Conditions,
          }),
        )
        .max(64)
        .meta(listMap("name"))
        .optional(),
    })
    .default({ conditions: [pending("Accepted"), pending("Programmed")] }),
});

/** The condition that the Gateway API's CRDs default to until a controller writes. */
function pending(type: string) {
  return {
    type,
    status: "Unknown" as const,
    reason: "Pending",
    message: "Waiting for controller",
    lastTransitionTime: "1970-01-01T00:00:00Z",
  };
}

const ServiceSchema = z.looseObject({
  spec: z.looseObject({
    type: z.enum(["ClusterIP", "NodePort", "LoadBalancer", "ExternalName"]).optional().describe("How it is exposed."),
    ports: z
      .array(
        z.looseObject({
          name: z.string().max(63).optional(),
          protocol: z.enum(["TCP", "UDP", "SCTP"]).default("TCP"),
          port: z.int().min(1).max(65535),
          targetPort: z.union([z.int(), z.string()]).optional(),
          nodePort: z.int().optional(),
        }),
      )
      .meta(listMap("port", "protocol"))
      .optional()
      .describe("Ports of the Service."),
    selector: z.record(z.string(), z.string()).optional().describe("Labels of the pods behind it."),
    clusterIPs: z.array(z.string()).max(2).optional().meta({ "x-kubernetes-list-type": "atomic" }),
    ipFamilies: z
      .array(z.enum(["IPv4", "IPv6"]))
      .max(2)
      .optional()
      .meta({ "x-kubernetes-list-type": "atomic" }),
    ipFamilyPolicy: z.enum(["SingleStack", "PreferDualStack", "RequireDualStack"]).optional(),
    externalTrafficPolicy: z.enum(["Cluster", "Local"]).optional(),
    sessionAffinity: z.enum(["None", "ClientIP"]).optional(),
    loadBalancerSourceRanges: z.array(z.string()).optional().meta({ "x-kubernetes-list-type": "atomic" }),
    loadBalancerClass: z.string().optional().describe("Who gives it an address; immutable once set."),
    loadBalancerIP: z.string().optional().describe("Deprecated: asks for an address."),
    publishNotReadyAddresses: z.boolean().optional(),
  }),
  status: z
    .looseObject({
      loadBalancer: z
        .looseObject({
          ingress: z
            .array(z.looseObject({ ip: z.string().optional(), ipMode: z.string().optional() }))
            .optional()
            .meta({ "x-kubernetes-list-type": "atomic" }),
        })
        .optional(),
      conditions: Conditions.optional(),
    })
    .optional(),
});

const EndpointSliceSchema = z.looseObject({
  addressType: z.enum(["IPv4", "IPv6", "FQDN"]).describe("Type of all addresses; immutable."),
  endpoints: z
    .array(z.looseObject({ addresses: z.array(z.string()).min(1).max(100), nodeName: z.string().optional() }))
    .max(1000)
    .nullable()
    .optional()
    .meta({ "x-kubernetes-list-type": "atomic" }),
  ports: z
    .array(
      z.looseObject({ name: z.string().default(""), protocol: z.string().default("TCP"), port: z.int().optional() }),
    )
    .max(100)
    .nullable()
    .optional()
    .meta({ "x-kubernetes-list-type": "atomic" }),
});

const NodeSchema = z.looseObject({
  spec: z
    .looseObject({
      podCIDR: z.string().optional(),
      podCIDRs: z.array(z.string()).optional().meta({ "x-kubernetes-list-type": "set" }),
      unschedulable: z.boolean().optional(),
    })
    .optional(),
  status: z
    .looseObject({
      addresses: z.array(z.looseObject({ type: z.string(), address: z.string() })).optional(),
      conditions: Conditions.optional(),
    })
    .optional(),
});

const LeaseSchema = z.looseObject({
  spec: z
    .looseObject({
      holderIdentity: z.string().nullable().optional().describe("Who holds it."),
      leaseDurationSeconds: z.int().min(1).nullable().optional().describe("Seconds without renewal until it expires."),
      acquireTime: z.string().nullable().optional(),
      renewTime: z.string().nullable().optional(),
      leaseTransitions: z.int().nullable().optional(),
    })
    .optional(),
});

const ServiceCIDRSchema = z.looseObject({
  spec: z.looseObject({ cidrs: z.array(z.string()).min(1).max(2).meta({ "x-kubernetes-list-type": "atomic" }) }),
  status: z.looseObject({ conditions: Conditions.optional() }).optional(),
});

const AGE: Column = {
  name: "Age",
  type: "date",
  jsonPath: ".metadata.creationTimestamp",
  description: "Time since creation.",
};
const NAME: Column = {
  name: "Name",
  type: "string",
  jsonPath: ".metadata.name",
  description: "Name, unique in its namespace.",
};

/** All foreign kinds. Each call has allocators of its own. */
export function foreignKinds(): ServedKind[] {
  return narrowKinds().map(({ rules, ...kind }) => ({
    ...kind,
    validate: (object, old) => {
      const causes = check(object, kind.schema, "");
      // Rules read fields that the schema promises.
      return causes.length === 0 ? (rules?.(object, old) ?? []) : causes;
    },
  }));
}

type Narrow = Omit<ServedKind, "validate"> & {
  /** What the schema can't say: CEL rules and their kin. */
  readonly rules?: (object: KubeObject, old: KubeObject | undefined) => StatusCause[];
};

function narrowKinds(): Narrow[] {
  const services = createServiceAllocator();
  return [
    {
      resource: resource.GATEWAYCLASS,
      singular: "gatewayclass",
      shortNames: ["gc"],
      categories: ["gateway-api"],
      description: "A class of Gateways: who provides them and how.",
      schema: jsonSchemaOf(GatewayClass),
      hasStatus: true,
      hasGeneration: true,
      columns: [
        NAME,
        { name: "Controller", type: "string", jsonPath: ".spec.controllerName" },
        { name: "Accepted", type: "string", jsonPath: '.status.conditions[?(@.type=="Accepted")].status' },
        AGE,
        { name: "Description", type: "string", jsonPath: ".spec.description", priority: 1 },
      ],
      rules: (object, old) => immutable(object, old, "spec.controllerName"),
    },
    {
      resource: resource.GATEWAY,
      singular: "gateway",
      shortNames: ["gtw"],
      categories: ["gateway-api"],
      description: "Addresses and listeners that a load balancer provides.",
      schema: jsonSchemaOf(GatewaySchema),
      hasStatus: true,
      hasGeneration: true,
      columns: [
        NAME,
        { name: "Class", type: "string", jsonPath: ".spec.gatewayClassName" },
        { name: "Address", type: "string", jsonPath: ".status.addresses[*].value" },
        { name: "Programmed", type: "string", jsonPath: '.status.conditions[?(@.type=="Programmed")].status' },
        AGE,
      ],
      rules: gatewayRules,
    },
    {
      resource: resource.SERVICE,
      singular: "service",
      shortNames: ["svc"],
      categories: ["all"],
      description: "A named set of endpoints.",
      schema: jsonSchemaOf(ServiceSchema),
      hasStatus: true,
      hasGeneration: false,
      columns: SERVICE_COLUMNS,
      complete: services.complete,
      released: services.release,
      rules: serviceRules,
    },
    {
      resource: resource.ENDPOINTSLICE,
      singular: "endpointslice",
      shortNames: [],
      categories: [],
      description: "A part of the endpoints of a Service.",
      schema: jsonSchemaOf(EndpointSliceSchema),
      hasStatus: false,
      hasGeneration: true,
      columns: [
        NAME,
        { name: "AddressType", type: "string", jsonPath: ".addressType" },
        { name: "Ports", type: "string", value: (object) => slicePorts(object as EndpointSlice) },
        { name: "Endpoints", type: "string", value: (object) => sliceEndpoints(object as EndpointSlice) },
        AGE,
      ],
      rules: (object, old) => immutable(object, old, "addressType"),
    },
    {
      resource: resource.NODE,
      singular: "node",
      shortNames: ["no"],
      categories: [],
      description: "A machine of the cluster.",
      schema: jsonSchemaOf(NodeSchema),
      hasStatus: true,
      hasGeneration: false,
      columns: [
        NAME,
        { name: "Status", type: "string", value: (object) => nodeReadiness(object as Node) },
        AGE,
        {
          name: "Internal-IP",
          type: "string",
          jsonPath: '.status.addresses[?(@.type=="InternalIP")].address',
          priority: 1,
        },
      ],
    },
    {
      resource: resource.NAMESPACES,
      singular: "namespace",
      shortNames: ["ns"],
      categories: [],
      description: "A part of the cluster with names of its own.",
      schema: jsonSchemaOf(z.looseObject({ spec: Open.optional(), status: Open.optional() })),
      hasStatus: true,
      hasGeneration: false,
      columns: [NAME, { name: "Status", type: "string", jsonPath: ".status.phase" }, AGE],
      complete: (object) => {
        const namespace = object as KubeObject & { spec?: object; status?: object };
        namespace.spec ??= { finalizers: ["kubernetes"] };
        namespace.status ??= { phase: "Active" };
        namespace.metadata.labels = {
          ...namespace.metadata.labels,
          "kubernetes.io/metadata.name": object.metadata.name,
        };
      },
    },
    {
      resource: resource.LEASE,
      singular: "lease",
      shortNames: [],
      categories: [],
      description: "Who leads or lives, and until when.",
      schema: jsonSchemaOf(LeaseSchema),
      hasStatus: false,
      hasGeneration: false,
      columns: [NAME, { name: "Holder", type: "string", jsonPath: ".spec.holderIdentity" }, AGE],
    },
    {
      resource: resource.EVENT,
      singular: "event",
      shortNames: ["ev"],
      categories: [],
      description: "Something that happened, for people.",
      schema: jsonSchemaOf(z.looseObject({})),
      hasStatus: false,
      hasGeneration: false,
      columns: EVENT_COLUMNS,
    },
    {
      resource: resource.SERVICECIDR,
      singular: "servicecidr",
      shortNames: [],
      categories: [],
      description: "Ranges that cluster IPs are taken from.",
      schema: jsonSchemaOf(ServiceCIDRSchema),
      hasStatus: true,
      hasGeneration: false,
      columns: [NAME, { name: "CIDRs", type: "string", value: (object) => cidrs(object) }, AGE],
    },
    {
      resource: { group: "", version: "v1", kind: "ConfigMap", plural: "configmaps", namespaced: true },
      singular: "configmap",
      shortNames: ["cm"],
      categories: [],
      description: "Plain settings.",
      schema: jsonSchemaOf(
        z.looseObject({
          data: z.record(z.string(), z.string()).optional(),
          binaryData: z.record(z.string(), z.string()).optional(),
          immutable: z.boolean().optional(),
        }),
      ),
      hasStatus: false,
      hasGeneration: false,
      columns: [
        NAME,
        {
          name: "Data",
          type: "integer",
          value: (object) => Object.keys((object as { data?: object }).data ?? {}).length,
        },
        AGE,
      ],
    },
  ];
}

const SERVICE_COLUMNS: Column[] = [
  NAME,
  { name: "Type", type: "string", jsonPath: ".spec.type" },
  { name: "Cluster-IP", type: "string", value: (object) => (object as Service).spec.clusterIP ?? "<none>" },
  { name: "External-IP", type: "string", value: (object) => externalAddresses(object as Service) },
  { name: "Port(s)", type: "string", value: (object) => servicePorts(object as Service) },
  AGE,
  {
    name: "Selector",
    type: "string",
    priority: 1,
    value: (object) =>
      Object.entries((object as Service).spec.selector ?? {})
        .map(([key, value]) => `${key}=${value}`)
        .join(",") || "<none>",
  },
];

function externalAddresses(service: Service): string {
  if (service.spec.type !== "LoadBalancer") return "<none>";
  const shown = (service.status?.loadBalancer?.ingress ?? []).map((one) => one.ip ?? one.hostname ?? "");
  return shown.join(",") || "<pending>";
}

const servicePorts = (service: Service): string =>
  (service.spec.ports ?? [])
    .map((port) => `${port.port}${port.nodePort ? `:${port.nodePort}` : ""}/${port.protocol ?? "TCP"}`)
    .join(",") || "<none>";

const slicePorts = (slice: EndpointSlice): string =>
  (slice.ports ?? []).map((port) => port.port).join(",") || "<unset>";

function sliceEndpoints(slice: EndpointSlice): string {
  const addresses = (slice.endpoints ?? []).flatMap((endpoint) => endpoint.addresses);
  const more = addresses.length > 3 ? ` + ${addresses.length - 3} more...` : "";
  return addresses.length === 0 ? "<unset>" : addresses.slice(0, 3).join(",") + more;
}

function nodeReadiness(node: Node): string {
  const ready = node.status?.conditions?.find((condition) => condition.type === "Ready");
  const word = ready === undefined ? "Unknown" : ready.status === "True" ? "Ready" : "NotReady";
  return node.spec?.unschedulable ? `${word},SchedulingDisabled` : word;
}

const cidrs = (object: KubeObject): string => ((object as { spec?: { cidrs?: string[] } }).spec?.cidrs ?? []).join(",");

function immutable(object: KubeObject, old: KubeObject | undefined, field: string): StatusCause[] {
  if (old === undefined) return [];
  const read = (from: unknown): unknown =>
    field.split(".").reduce<unknown>((value, name) => (value as Record<string, unknown> | undefined)?.[name], from);
  return JSON.stringify(read(object)) === JSON.stringify(read(old)) ? [] : [{ field, message: "Value is immutable" }];
}

function serviceRules(object: KubeObject, old: KubeObject | undefined): StatusCause[] {
  const { spec } = object as Service;
  const before = (old as Service | undefined)?.spec;
  const causes: StatusCause[] = [];
  if ((spec.ports?.length ?? 0) === 0 && spec.clusterIP !== "None" && spec.type !== "ExternalName") {
    causes.push({ field: "spec.ports", reason: "FieldValueRequired", message: "Required value" });
  }
  if ((spec.ports?.length ?? 0) > 1) {
    for (const [i, port] of (spec.ports ?? []).entries()) {
      if (!port.name)
        causes.push({ field: `spec.ports[${i}].name`, reason: "FieldValueRequired", message: "Required value" });
    }
  }
  const stays = before?.type === "LoadBalancer" && spec.type === "LoadBalancer";
  if (stays && before.loadBalancerClass !== spec.loadBalancerClass) {
    causes.push({ field: "spec.loadBalancerClass", message: "may not change once set" });
  }
  if (spec.loadBalancerClass !== undefined && spec.type !== "LoadBalancer") {
    causes.push({
      field: "spec.loadBalancerClass",
      reason: "FieldValueForbidden",
      message: "may only be used when `type` is 'LoadBalancer'",
    });
  }
  return causes;
}

/** The CEL rules of Gateway v1.6 that concern L4: unique listeners, no hostname on TCP and UDP, valid addresses. */
function gatewayRules(object: KubeObject): StatusCause[] {
  const { spec } = object as Gateway;
  const causes: StatusCause[] = [];
  const places = new Set<string>();
  for (const [i, listener] of spec.listeners.entries()) {
    const place = `${listener.port}/${listener.protocol}/${listener.hostname ?? ""}`;
    if (places.has(place)) {
      causes.push({
        field: "spec.listeners",
        message: "Invalid value: Combination of port, protocol and hostname must be unique for each listener",
      });
    }
    places.add(place);
    const plain = listener.protocol === "TCP" || listener.protocol === "UDP";
    if (plain && listener.hostname) {
      causes.push({
        field: `spec.listeners[${i}]`,
        message: "hostname must not be specified for protocols ['TCP', 'UDP']",
      });
    }
    if ("tls" in listener && listener.protocol !== "HTTPS" && listener.protocol !== "TLS") {
      causes.push({
        field: `spec.listeners[${i}]`,
        message: "tls must not be specified for protocols ['HTTP', 'TCP', 'UDP']",
      });
    }
  }
  const addresses = new Set<string>();
  for (const [i, address] of (spec.addresses ?? []).entries()) {
    if ((address.type ?? "IPAddress") !== "IPAddress" || address.value === undefined || address.value === "") continue;
    const parsed = parseAddress(address.value);
    if (parsed === undefined) {
      causes.push({ field: `spec.addresses[${i}]`, message: "Address value must be a valid IPv4 or IPv6 address" });
    } else if (addresses.has(parsed)) {
      causes.push({ field: "spec.addresses", message: "IPAddress values must be unique" });
    } else addresses.add(parsed);
  }
  return causes;
}

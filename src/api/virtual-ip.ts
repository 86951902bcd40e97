import { z } from "zod";
import { Conditions, type ObjectMeta } from "./meta.ts";

/** The Gateway or Service that a VirtualIP was given to. */
export const Holder = z.object({
  kind: z.enum(["Gateway", "Service"]).describe("Kind of the holder."),
  namespace: z.string().min(1).max(63).describe("Namespace of the holder."),
  name: z.string().min(1).max(253).describe("Name of the holder."),
  uid: z.string().min(1).max(64).describe("metadata.uid of the holder, so that a re-created one is told apart."),
});
export type Holder = z.infer<typeof Holder>;

export const Protocol = z.enum(["TCP", "UDP"]);
export type Protocol = z.infer<typeof Protocol>;

export const Backend = z.object({
  kind: z.enum(["Service"]).describe("Kind of the backend; its EndpointSlices are read by the speakers."),
  namespace: z.string().min(1).max(63).describe("Namespace of the backend."),
  name: z.string().min(1).max(253).describe("Name of the backend."),
  portName: z.string().max(63).default("").describe("Name of the port in the backend's EndpointSlices; may be empty."),
  weight: z
    .int()
    .min(0)
    .max(1_000_000)
    .default(1)
    .describe("Share of new connections, relative to the sum of weights."),
});
export type Backend = z.infer<typeof Backend>;

export const Forward = z.object({
  protocol: Protocol.describe("Transport protocol of the frontend."),
  port: z.int().min(1).max(65535).describe("Port of the frontend."),
  holder: z.int().min(0).max(63).default(0).describe("Index in spec.holders of the holder that this frontend serves."),
  dataPath: z
    .enum(["Belfry", "ServiceProxy"])
    .default("Belfry")
    .describe("Who forwards: Belfry's own nftables plane, or the cluster's service proxy."),
  backends: z.array(Backend).max(16).default([]).describe("Where new connections go, by weight."),
  sessionAffinity: z
    .enum(["None", "ClientIP"])
    .default("None")
    .describe("ClientIP sends all connections of one source address to one endpoint."),
  nodes: z
    .enum(["Cluster", "PreferLocal", "LocalOnly"])
    .default("Cluster")
    .describe("Which endpoints a node may use for clients outside the cluster: all, its own first, or only its own."),
  sourceIP: z
    .enum(["MayMasquerade", "Preserve"])
    .default("MayMasquerade")
    .describe("Whether the client's address may be replaced by the node's on the way to an endpoint elsewhere."),
  sourceRanges: z
    .array(z.string().max(49))
    .max(64)
    .default([])
    .describe("Prefixes that may connect; empty means any. Nodes and pods of the cluster count as any other source."),
  refuseWeight: z
    .int()
    .min(0)
    .max(16_000_000)
    .default(0)
    .describe("Share of new connections that is refused, for backends that could not be resolved."),
});
export type Forward = z.infer<typeof Forward>;

export const VirtualIPSpec = z.object({
  address: z
    .string()
    .max(45)
    .describe("The address, canonical unicast text. Immutable; the object's name is made of it."),
  scope: z
    .enum(["External", "Cluster", "Node"])
    .default("External")
    .describe("Where the address is meant to be reached from. Immutable."),
  pool: z.string().max(253).default("").describe("IPAddressPool that the address was taken from."),
  holders: z.array(Holder).max(64).default([]).describe("Who the address was given to."),
  advertisements: z
    .object({
      l2: z.array(z.string().max(253)).max(64).default([]).describe("L2Advertisements that announce this address."),
    })
    .default({ l2: [] })
    .describe("The advertisements that apply, as resolved by the controller."),
  forwards: z
    .array(Forward)
    .max(512)
    .default([])
    .describe("The forwarding table of the address, keyed by protocol and port."),
});
export type VirtualIPSpec = z.infer<typeof VirtualIPSpec>;

export const Owner = z.object({
  node: z.string().min(1).max(253).describe("Node that answers for the address."),
  interface: z.string().max(64).default("").describe("Interface on which it answers; the first one, by name."),
  since: z.iso.datetime().describe("When this node took the address over."),
  term: z.int().min(1).describe("Grows by one at each take-over."),
  generation: z.int().min(0).describe("metadata.generation that this node has programmed."),
});
export type Owner = z.infer<typeof Owner>;

export const VirtualIPStatus = z.object({
  owner: Owner.optional().describe(
    "The node that answers ARP or NDP, written by that node once per take-over and generation.",
  ),
  announcers: z
    .object({
      count: z.int().min(0).describe("Nodes that announce the address."),
      names: z.array(z.string().max(253)).max(8).default([]).describe("The first of them, by name."),
    })
    .optional()
    .describe("Who announces, written by the controller."),
  conditions: Conditions,
});
export type VirtualIPStatus = z.infer<typeof VirtualIPStatus>;

export type VirtualIP = {
  apiVersion?: string;
  kind?: string;
  metadata: ObjectMeta;
  spec: VirtualIPSpec;
  status?: VirtualIPStatus;
};

import { z } from "zod";
import type { Address } from "../net/address.ts";
import { parseAddress } from "../net/address.ts";
import { rangeOfAddress, unassignablePartOf } from "../net/range.ts";
import { AGE, conditionStatus, type Kind } from "./kind.ts";
import { Conditions, keyedBy, type ObjectMeta, WHOLE } from "./meta.ts";
import { VIRTUALIP } from "./resource.ts";
import { check, immutable, notYet, rule } from "./rule.ts";
import { virtualIPName } from "./virtual-ip-name.ts";

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

export const DataPath = z.enum(["Belfry", "ServiceProxy"]);
export type DataPath = z.infer<typeof DataPath>;

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
  dataPath: DataPath.default("Belfry").describe(
    "Who forwards: Belfry's own nftables plane, or the cluster's service proxy.",
  ),
  backends: z.array(Backend).max(16).meta(WHOLE).default([]).describe("Where new connections go, by weight."),
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
    .array(
      z
        .string()
        .max(49)
        .regex(/^[0-9A-Fa-f:.]+\/[0-9]{1,3}$/),
    )
    .max(64)
    .meta(WHOLE)
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
    .min(2)
    .max(45)
    .describe("The address, canonical unicast text. Immutable; the object's name is made of it."),
  scope: z
    .enum(["External", "Cluster", "Node"])
    .default("External")
    .describe("Where the address is meant to be reached from. Immutable."),
  pool: z.string().max(253).default("").describe("IPAddressPool that the address was taken from."),
  holders: z.array(Holder).max(64).meta(WHOLE).default([]).describe("Who the address was given to."),
  advertisements: z
    .object({
      l2: z
        .array(z.string().min(1).max(253))
        .max(64)
        .meta(WHOLE)
        .default([])
        .describe("L2Advertisements that announce this address."),
      bgp: z
        .array(z.string().min(1).max(253))
        .max(64)
        .meta(WHOLE)
        .optional()
        .describe("BGPAdvertisements that announce this address. Refused: nothing acts on it yet."),
    })
    .default({ l2: [] })
    .describe("The advertisements that apply, as resolved by the controller."),
  forwards: z
    .array(Forward)
    .max(512)
    .meta(keyedBy("protocol", "port"))
    .default([])
    .describe("The forwarding table of the address, keyed by protocol and port."),
});
export type VirtualIPSpec = z.infer<typeof VirtualIPSpec>;

export const Owner = z.object({
  node: z.string().min(1).max(253).describe("Node that answers for the address."),
  interface: z.string().max(64).default("").describe("Interface on which it answers; the first one, by name."),
  since: z.iso.datetime({ offset: true }).describe("When this node took the address over."),
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
      names: z.array(z.string().max(253)).max(8).meta(WHOLE).default([]).describe("The first of them, by name."),
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

export const VIRTUALIP_KIND: Kind = {
  resource: VIRTUALIP,
  singular: "virtualip",
  shortNames: ["vip"],
  categories: ["belfry"],
  description:
    "One address, who has it, where its traffic goes and which node answers for it. Made by Belfry; its name is its address.",
  schema: { spec: VirtualIPSpec, status: VirtualIPStatus },
  rules: [
    rule<VirtualIP>({
      at: "",
      cel:
        "self.metadata.name == (self.spec.address.startsWith(':') ? '0' : '') + self.spec.address.replace(':', '-') + " +
        "(self.spec.address.endsWith(':') ? '0' : '')",
      message: "metadata.name must be made of spec.address: with - for :, and a 0 where it would begin or end with -",
      messageExpression:
        "'metadata.name must be ' + (self.spec.address.startsWith(':') ? '0' : '') + self.spec.address.replace(':', '-') + " +
        "(self.spec.address.endsWith(':') ? '0' : '') + ' for the address ' + self.spec.address",
      twin: ({ metadata, spec }) => {
        const name = virtualIPName(spec.address as Address);
        return metadata.name === name ? undefined : `metadata.name must be ${name} for the address ${spec.address}`;
      },
    }),
    check<string>(
      "spec.address",
      "must be a unicast address in canonical text (RFC 5952)",
      "isIP(self) && ip.isCanonical(self) && ip(self).isGlobalUnicast() && !self.startsWith('0.')",
      (self) => {
        const address = parseAddress(self);
        return address === self && unassignablePartOf(rangeOfAddress(address)) === undefined;
      },
    ),
    immutable("spec.address"),
    immutable("spec.scope"),
    check<VirtualIPSpec>(
      "spec",
      "each forward's holder must be an index in holders",
      "self.forwards.all(f, f.holder == 0 || f.holder < size(self.holders))",
      (self) => self.forwards.every((each) => each.holder === 0 || each.holder < self.holders.length),
    ),
    notYet("spec.advertisements", "bgp"),
  ],
  printerColumns: [
    { name: "Address", type: "string", jsonPath: ".spec.address", description: "The address." },
    { name: "Pool", type: "string", jsonPath: ".spec.pool", description: "Pool that it was taken from." },
    { name: "Kind", type: "string", jsonPath: ".spec.holders[0].kind", description: "Kind of the first holder." },
    {
      name: "Namespace",
      type: "string",
      jsonPath: ".spec.holders[0].namespace",
      description: "Namespace of the first holder.",
    },
    { name: "Holder", type: "string", jsonPath: ".spec.holders[0].name", description: "Name of the first holder." },
    { name: "Node", type: "string", jsonPath: ".status.owner.node", description: "Node that answers for it." },
    {
      name: "Programmed",
      type: "string",
      jsonPath: conditionStatus("Programmed"),
      description: "Whether the current generation forwards.",
    },
    {
      name: "Announced",
      type: "string",
      jsonPath: conditionStatus("Announced"),
      description: "Whether the network is told.",
      priority: 1,
    },
    AGE,
  ],
};

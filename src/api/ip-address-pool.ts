import { z } from "zod";
import { AGE, type Kind } from "./kind.ts";
import { Conditions, LabelSelector, type ObjectMeta, selectorRule, WHOLE } from "./meta.ts";
import { rangeRules } from "./range-rule.ts";
import { IPADDRESSPOOL } from "./resource.ts";

const Entries = z.array(z.string().min(1).max(90)).max(64).meta(WHOLE);

export const IPAddressPoolSpec = z.object({
  addresses: Entries.min(1).describe(
    "Prefixes without host bits (`192.0.2.0/24`) or ranges (`192.0.2.10-192.0.2.20`), IPv4 and IPv6. Overlaps are merged.",
  ),
  excludes: Entries.default([]).describe("Parts of `addresses` that are never given out, in the same grammar."),
  autoAssign: z
    .boolean()
    .default(true)
    .describe("false: only requests that name this pool or one of its addresses draw from it."),
  avoidBuggyIPs: z
    .boolean()
    .default(false)
    .describe("true: IPv4 addresses that end in .0 or .255 are never given out."),
  disabled: z
    .boolean()
    .default(false)
    .describe("true drains the pool: nothing new is given out, what is in use stays."),
  serviceAllocation: z
    .object({
      priority: z.int().min(0).max(2_147_483_647).default(0).describe("Lower is preferred; 0 comes last."),
      namespaces: z
        .array(z.string().min(1).max(63))
        .max(64)
        .meta(WHOLE)
        .default([])
        .describe("Namespaces whose Gateways and Services may draw; empty with no namespaceSelectors means any."),
      namespaceSelectors: z
        .array(LabelSelector)
        .max(16)
        .meta(WHOLE)
        .default([])
        .describe("Namespaces by label, in addition to `namespaces`."),
      serviceSelectors: z
        .array(LabelSelector)
        .max(16)
        .meta(WHOLE)
        .default([])
        .describe("Labels of the Service or Gateway; any of them must match."),
      gatewayClasses: z
        .array(z.string().min(1).max(253))
        .max(16)
        .meta(WHOLE)
        .default([])
        .describe("GatewayClasses whose Gateways may draw; empty means any. Services are not held to it."),
    })
    .optional()
    .describe("Who may draw from the pool and in which order pools are tried. Absent or empty: everybody."),
});
export type IPAddressPoolSpec = z.infer<typeof IPAddressPoolSpec>;

/** Counts saturate where JSON numbers stop being exact. */
const Count = z.int().min(0).max(Number.MAX_SAFE_INTEGER);

export const IPAddressPoolStatus = z.object({
  ranges: z
    .array(
      z.object({
        range: z.string().max(90).describe("first-last, both inside; or the one address as a prefix of full length."),
        size: z.string().max(40).describe("Addresses in the range, in decimal."),
      }),
    )
    .max(256)
    .meta(WHOLE)
    .optional()
    .describe("The addresses that can be given out, after excludes, merged and in order."),
  assignedIPv4: Count.optional().describe("IPv4 addresses in use."),
  assignedIPv6: Count.optional().describe("IPv6 addresses in use."),
  availableIPv4: Count.optional().describe("IPv4 addresses that are free; saturates at 2^53-1."),
  availableIPv6: Count.optional().describe("IPv6 addresses that are free; saturates at 2^53-1."),
  conditions: Conditions,
});
export type IPAddressPoolStatus = z.infer<typeof IPAddressPoolStatus>;

export type IPAddressPool = {
  apiVersion?: string;
  kind?: string;
  metadata: ObjectMeta;
  spec: IPAddressPoolSpec;
  status?: IPAddressPoolStatus;
};

export const IPADDRESSPOOL_KIND: Kind = {
  resource: IPADDRESSPOOL,
  singular: "ipaddresspool",
  shortNames: ["pool"],
  categories: ["belfry"],
  description: "Addresses that Belfry may give to Gateways and Services.",
  schema: { spec: IPAddressPoolSpec, status: IPAddressPoolStatus },
  rules: [
    ...rangeRules("spec.addresses[]"),
    ...rangeRules("spec.excludes[]"),
    selectorRule("spec.serviceAllocation.namespaceSelectors[]"),
    selectorRule("spec.serviceAllocation.serviceSelectors[]"),
  ],
  printerColumns: [
    { name: "Addresses", type: "string", jsonPath: ".spec.addresses", description: "What the pool is made of." },
    {
      name: "Auto-Assign",
      type: "string",
      jsonPath: ".spec.autoAssign",
      description: "Drawn from without being named.",
    },
    { name: "Used-IPv4", type: "integer", jsonPath: ".status.assignedIPv4", description: "IPv4 addresses in use." },
    { name: "Free-IPv4", type: "integer", jsonPath: ".status.availableIPv4", description: "IPv4 addresses left." },
    { name: "Used-IPv6", type: "integer", jsonPath: ".status.assignedIPv6", description: "IPv6 addresses in use." },
    { name: "Free-IPv6", type: "integer", jsonPath: ".status.availableIPv6", description: "IPv6 addresses left." },
    AGE,
  ],
};

import { z } from "zod";
import { Conditions, LabelSelector, type ObjectMeta } from "./meta.ts";

export const IPAddressPoolSpec = z.object({
  addresses: z
    .array(z.string().min(1).max(90))
    .min(1)
    .max(64)
    .describe("CIDRs (`192.0.2.0/24`) or ranges (`192.0.2.10-192.0.2.20`), IPv4 and IPv6."),
  excludes: z
    .array(z.string().min(1).max(90))
    .max(64)
    .default([])
    .describe("Parts of `addresses` that are never given out, in the same grammar."),
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
        .array(z.string().max(63))
        .max(64)
        .default([])
        .describe("Namespaces whose Gateways and Services may draw; empty with no namespaceSelectors means any."),
      namespaceSelectors: z
        .array(LabelSelector)
        .max(16)
        .default([])
        .describe("Namespaces by label, in addition to `namespaces`."),
      serviceSelectors: z
        .array(LabelSelector)
        .max(16)
        .default([])
        .describe("Labels of the Service or Gateway; any of them must match."),
      gatewayClasses: z
        .array(z.string().max(253))
        .max(16)
        .default([])
        .describe("GatewayClasses whose Gateways may draw; empty means any. Services are not held to it."),
    })
    .optional()
    .describe("Who may draw from the pool and in which order pools are tried. Absent or empty: everybody."),
});
export type IPAddressPoolSpec = z.infer<typeof IPAddressPoolSpec>;

const Count = z.int().min(0);

export const IPAddressPoolStatus = z.object({
  ranges: z
    .array(
      z.object({
        range: z.string().max(90).describe("first-last, both inside; or the one address as a prefix of full length."),
        size: z.string().max(40).describe("Addresses in the range, in decimal."),
      }),
    )
    .max(256)
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

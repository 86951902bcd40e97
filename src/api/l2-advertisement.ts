import { z } from "zod";
import { AGE, type Kind } from "./kind.ts";
import { Conditions, LabelSelector, type ObjectMeta, selectorRule, WHOLE } from "./meta.ts";
import { L2ADVERTISEMENT } from "./resource.ts";
import { notYet } from "./rule.ts";

/** An interface by name (IFNAMSIZ leaves 15 characters), or by a regular expression between slashes. */
const InterfaceName = z
  .string()
  .max(128)
  .regex(/^(\/.+\/|[^/ ]{1,15})$/);

export const L2AdvertisementSpec = z.object({
  ipAddressPools: z
    .array(z.string().min(1).max(253))
    .max(64)
    .meta(WHOLE)
    .default([])
    .describe("Pools whose addresses are announced; empty with no ipAddressPoolSelectors means all."),
  ipAddressPoolSelectors: z
    .array(LabelSelector)
    .max(16)
    .meta(WHOLE)
    .default([])
    .describe("Pools by label, in addition to `ipAddressPools`."),
  serviceSelectors: z
    .array(LabelSelector)
    .max(16)
    .meta(WHOLE)
    .default([])
    .describe("Labels of the Service or Gateway; empty means any."),
  nodeSelectors: z
    .array(LabelSelector)
    .max(16)
    .meta(WHOLE)
    .default([])
    .describe("Nodes that may answer, any of the selectors; empty means all."),
  preferredNodeSelectors: z
    .array(
      z.object({
        weight: z.int().min(1).max(100).describe("Added to the score of each node that `preference` selects."),
        preference: LabelSelector.describe("Nodes by label."),
      }),
    )
    .max(16)
    .meta(WHOLE)
    .default([])
    .describe("Nodes that are preferred when an owner is elected; a living owner is never moved for it."),
  interfaces: z
    .array(InterfaceName)
    .max(64)
    .meta(WHOLE)
    .default([])
    .describe("Interfaces to answer on, exact names or /regular expressions/; empty means all but those excluded."),
  excludeInterfaces: z
    .array(InterfaceName)
    .max(64)
    .meta(WHOLE)
    .optional()
    .describe("Interfaces never to answer on. Default: lo, container and tunnel devices."),
  requireSubnet: z
    .boolean()
    .default(true)
    .describe("Only nodes with an interface in the address's subnet are candidates."),
  refreshIntervalSeconds: z
    .int()
    .min(0)
    .max(3600)
    .default(60)
    .describe("Seconds between repeated announcements, jittered by a sixth; 0 turns them off."),
  failover: z
    .object({
      intervalMilliseconds: z.int().min(10).max(10_000).optional().describe("Milliseconds between two signs of life."),
      multiplier: z.int().min(2).max(50).optional().describe("Signs of life missed until the owner counts as dead."),
    })
    .optional()
    .describe("How fast a dead owner is noticed. Refused: nothing acts on it yet."),
});
export type L2AdvertisementSpec = z.infer<typeof L2AdvertisementSpec>;

export const L2AdvertisementStatus = z.object({ conditions: Conditions });

export type L2Advertisement = {
  apiVersion?: string;
  kind?: string;
  metadata: ObjectMeta;
  spec: L2AdvertisementSpec;
  status?: z.infer<typeof L2AdvertisementStatus>;
};

export const L2ADVERTISEMENT_KIND: Kind = {
  resource: L2ADVERTISEMENT,
  singular: "l2advertisement",
  shortNames: ["l2adv"],
  categories: ["belfry"],
  description:
    "Announces addresses of pools on the local network: one node answers ARP and neighbour discovery for each.",
  schema: { spec: L2AdvertisementSpec, status: L2AdvertisementStatus },
  rules: [
    selectorRule("spec.ipAddressPoolSelectors[]"),
    selectorRule("spec.serviceSelectors[]"),
    selectorRule("spec.nodeSelectors[]"),
    selectorRule("spec.preferredNodeSelectors[].preference"),
    notYet("spec", "failover"),
  ],
  printerColumns: [
    { name: "Pools", type: "string", jsonPath: ".spec.ipAddressPools", description: "Pools by name; empty is all." },
    {
      name: "Interfaces",
      type: "string",
      jsonPath: ".spec.interfaces",
      description: "Interfaces to answer on; empty is all but the excluded.",
    },
    AGE,
  ],
};

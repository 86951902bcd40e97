import { z } from "zod";
import { Conditions, LabelSelector, type ObjectMeta } from "./meta.ts";

export const L2AdvertisementSpec = z.object({
  ipAddressPools: z
    .array(z.string().max(253))
    .max(64)
    .default([])
    .describe("Pools whose addresses are announced; empty with no ipAddressPoolSelectors means all."),
  ipAddressPoolSelectors: z
    .array(LabelSelector)
    .max(16)
    .default([])
    .describe("Pools by label, in addition to `ipAddressPools`."),
  serviceSelectors: z
    .array(LabelSelector)
    .max(16)
    .default([])
    .describe("Labels of the Service or Gateway; empty means any."),
  nodeSelectors: z
    .array(LabelSelector)
    .max(16)
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
    .default([])
    .describe("Nodes that are preferred when an owner is elected; a living owner is never moved for it."),
  interfaces: z
    .array(z.string().max(128))
    .max(64)
    .default([])
    .describe("Interfaces to answer on, exact names or /regular expressions/; empty means all but those excluded."),
  excludeInterfaces: z
    .array(z.string().max(128))
    .max(64)
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

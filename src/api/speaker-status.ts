import { z } from "zod";
import { Conditions, type ObjectMeta } from "./meta.ts";

export const Link = z.object({
  name: z.string().min(1).max(15).describe("Interface name."),
  mac: z.string().max(17).default("").describe("MAC address; empty where the link has none."),
  up: z.boolean().describe("Administratively up and with carrier."),
  subnets: z
    .array(z.string().max(49))
    .max(64)
    .default([])
    .describe("Addresses of the link with prefix length, as `192.0.2.11/24`."),
  defaultGateways: z
    .array(z.string().max(45))
    .max(16)
    .default([])
    .describe("Next hops of default routes over this link."),
});
export type Link = z.infer<typeof Link>;

export const SpeakerStatusSpec = z.object({
  nodeName: z.string().min(1).max(253).describe("Node of the speaker; equal to the object's name."),
});

export const SpeakerStatusStatus = z.object({
  links: z.array(Link).max(256).optional().describe("Interfaces that could answer for a VIP."),
  failing: z
    .array(z.object({ vip: z.string().max(253), reason: z.string().max(1024) }))
    .max(64)
    .optional()
    .describe("VirtualIPs that this node can't serve as wanted, and why."),
  failingCount: z.int().min(0).optional().describe("How many are failing in all."),
  withdrawnThrough: z
    .string()
    .max(40)
    .optional()
    .describe(
      "resourceVersion of the last VirtualIP event up to which everything deleted was withdrawn and unprogrammed here.",
    ),
  conditions: Conditions,
});
export type SpeakerStatusStatus = z.infer<typeof SpeakerStatusStatus>;

export type SpeakerStatus = {
  apiVersion?: string;
  kind?: string;
  metadata: ObjectMeta;
  spec: z.infer<typeof SpeakerStatusSpec>;
  status?: SpeakerStatusStatus;
};

import { z } from "zod";
import { AGE, conditionStatus, type Kind } from "./kind.ts";
import { Conditions, keyedBy, type ObjectMeta, WHOLE } from "./meta.ts";
import { SPEAKERSTATUS } from "./resource.ts";
import { rule } from "./rule.ts";

export const Link = z.object({
  name: z.string().min(1).max(15).describe("Interface name."),
  mac: z.string().max(17).default("").describe("MAC address; empty where the link has none."),
  up: z.boolean().describe("Administratively up and with carrier."),
  subnets: z
    .array(z.string().max(49))
    .max(64)
    .meta(WHOLE)
    .default([])
    .describe("Addresses of the link with prefix length, as `192.0.2.11/24`."),
  defaultGateways: z
    .array(z.string().max(45))
    .max(16)
    .meta(WHOLE)
    .default([])
    .describe("Next hops of default routes over this link."),
});
export type Link = z.infer<typeof Link>;

export const SpeakerStatusSpec = z.object({
  nodeName: z.string().min(1).max(253).describe("Node of the speaker; equal to the object's name."),
});

export const SpeakerStatusStatus = z.object({
  links: z.array(Link).max(256).meta(keyedBy("name")).optional().describe("Interfaces that could answer for a VIP."),
  failing: z
    .array(
      z.object({
        vip: z.string().min(1).max(253).describe("Name of the VirtualIP."),
        reason: z.string().max(1024).describe("What is in the way, for a person."),
      }),
    )
    .max(64)
    .meta(keyedBy("vip"))
    .optional()
    .describe("VirtualIPs that this node can't serve as wanted, and why."),
  failingCount: z.int().min(0).optional().describe("How many are failing in all."),
  withdrawnThrough: z
    .string()
    .max(40)
    .regex(/^[0-9]+$/)
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

export const SPEAKERSTATUS_KIND: Kind = {
  resource: SPEAKERSTATUS,
  singular: "speakerstatus",
  shortNames: ["speaker"],
  categories: ["belfry"],
  description: "What the speaker on a node sees and does. Written by that speaker alone; its name is the node's.",
  schema: { spec: SpeakerStatusSpec, status: SpeakerStatusStatus },
  rules: [
    rule<SpeakerStatus>({
      at: "",
      cel: "self.metadata.name == self.spec.nodeName",
      message: "metadata.name must be spec.nodeName",
      twin: ({ metadata, spec }) =>
        metadata.name === spec.nodeName ? undefined : "metadata.name must be spec.nodeName",
    }),
  ],
  printerColumns: [
    {
      name: "Data-Path",
      type: "string",
      jsonPath: conditionStatus("DataPathReady"),
      description: "Whether the node can forward.",
    },
    {
      name: "Failing",
      type: "integer",
      jsonPath: ".status.failingCount",
      description: "VirtualIPs not served as wanted.",
    },
    AGE,
  ],
};

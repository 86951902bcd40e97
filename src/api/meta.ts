import { z } from "zod";
import { check, type Rule } from "./rule.ts";

/** The part of ObjectMeta that we read; unknown fields stay as they are. */
export type ObjectMeta = {
  name: string;
  namespace?: string;
  uid?: string;
  resourceVersion?: string;
  generation?: number;
  creationTimestamp?: string;
  deletionTimestamp?: string;
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
  finalizers?: string[];
  ownerReferences?: OwnerReference[];
};

/** Who an object goes with, as the garbage collector reads it. */
export type OwnerReference = { apiVersion: string; kind: string; name: string; uid: string };

/** Any object of the Kubernetes API. */
export type KubeObject = {
  apiVersion?: string;
  kind?: string;
  metadata: ObjectMeta;
};

/** Names as the API server takes them: RFC 1123 labels and subdomains. */
export const DNS_LABEL = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/;
export const DNS_SUBDOMAIN = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;

/** A list whose entries are told apart by these fields, so that two writers can own one entry each. */
export const keyedBy = (...keys: string[]) => ({
  "x-kubernetes-list-type": "map",
  "x-kubernetes-list-map-keys": keys,
});

/** A list that is written as one. */
export const WHOLE = { "x-kubernetes-list-type": "atomic" };

/** metav1.Condition. */
export const Condition = z.object({
  type: z
    .string()
    .max(316)
    .regex(
      /^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$/,
    )
    .describe("CamelCase or domain-prefixed name of the condition."),
  status: z.enum(["True", "False", "Unknown"]).describe("Whether the condition holds."),
  observedGeneration: z.int().min(0).optional().describe("metadata.generation that the condition was decided from."),
  lastTransitionTime: z.iso
    .datetime({ offset: true })
    .describe("When the status last changed from one value to another."),
  reason: z
    .string()
    .min(1)
    .max(1024)
    .regex(/^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$/)
    .describe("CamelCase word for the cause, one per cause."),
  message: z.string().max(32768).describe("What, where and what to do, for a person."),
});
export type Condition = z.infer<typeof Condition>;

export const Conditions = z
  .array(Condition)
  .max(16)
  .meta(keyedBy("type"))
  .optional()
  .describe("What Belfry observed, one entry per type.");

/** metav1.LabelSelector, bounded. An empty selector selects everything. Goes with `selectorRules`. */
export const LabelSelector = z
  .object({
    matchLabels: z
      .record(z.string(), z.string().max(63))
      .meta({ maxProperties: 64 })
      .optional()
      .describe("Labels that must be there with these values; all of them."),
    matchExpressions: z
      .array(
        z.object({
          key: z.string().min(1).max(317).describe("Label key."),
          operator: z.enum(["In", "NotIn", "Exists", "DoesNotExist"]).describe("How the key relates to the values."),
          values: z
            .array(z.string().max(63))
            .max(64)
            .meta(WHOLE)
            .optional()
            .describe("Values for In and NotIn; none otherwise."),
        }),
      )
      .max(16)
      .meta(WHOLE)
      .optional()
      .describe("Requirements on labels; all of them."),
  })
  .meta({ "x-kubernetes-map-type": "atomic" });
export type LabelSelector = z.infer<typeof LabelSelector>;

/** What a label selector at this place must hold beyond its schema. */
export const selectorRule = (at: string): Rule =>
  check<NonNullable<LabelSelector["matchExpressions"]>[number]>(
    `${at}.matchExpressions[]`,
    "In and NotIn need at least one value, Exists and DoesNotExist take none",
    "(self.operator in ['In', 'NotIn']) == (has(self.values) && size(self.values) > 0)",
    (self) => ["In", "NotIn"].includes(self.operator) === (self.values?.length ?? 0) > 0,
  );

import { z } from "zod";

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
  ownerReferences?: { apiVersion: string; kind: string; name: string; uid: string }[];
};

/** Any object of the Kubernetes API. */
export type KubeObject = {
  apiVersion?: string;
  kind?: string;
  metadata: ObjectMeta;
};

/** metav1.Condition. */
export const Condition = z.object({
  type: z.string().max(316).describe("CamelCase or domain-prefixed name of the condition."),
  status: z.enum(["True", "False", "Unknown"]).describe("Whether the condition holds."),
  observedGeneration: z.int().min(0).optional().describe("metadata.generation that the condition was decided from."),
  lastTransitionTime: z.iso.datetime().describe("When the status last changed from one value to another."),
  reason: z.string().min(1).max(1024).describe("CamelCase word for the cause, one per cause."),
  message: z.string().max(32768).describe("What, where and what to do, for a person."),
});
export type Condition = z.infer<typeof Condition>;

export const Conditions = z.array(Condition).max(16).optional().describe("What Belfry observed, by type.");

/** metav1.LabelSelector, bounded. An empty selector selects everything. */
export const LabelSelector = z.object({
  matchLabels: z
    .record(z.string().max(317), z.string().max(63))
    .optional()
    .describe("Labels that must be there with these values; all of them."),
  matchExpressions: z
    .array(
      z.object({
        key: z.string().max(317).describe("Label key."),
        operator: z.enum(["In", "NotIn", "Exists", "DoesNotExist"]).describe("How the key relates to the values."),
        values: z.array(z.string().max(63)).max(64).optional().describe("Values for In and NotIn; none otherwise."),
      }),
    )
    .max(16)
    .optional()
    .describe("Requirements; all of them."),
});
export type LabelSelector = z.infer<typeof LabelSelector>;

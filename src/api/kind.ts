import type { z } from "zod";
import type { Resource } from "./resource.ts";
import type { Rule } from "./rule.ts";

/** One column of `kubectl get`, as a CRD tells it (apiextensions.k8s.io/v1 additionalPrinterColumns). */
export type PrinterColumn = {
  readonly name: string;
  readonly type: "string" | "integer" | "date";
  readonly jsonPath: string;
  readonly description: string;
  /** 0 is always shown, 1 only with `-o wide`. */
  readonly priority?: 1;
};

/** Everything that is known of one of our kinds: what its CRD, its admission and its reference page are made of. */
export type Kind = {
  readonly resource: Resource;
  readonly singular: string;
  readonly shortNames: readonly string[];
  readonly categories: readonly string[];
  readonly description: string;
  readonly schema: { readonly spec: z.ZodObject; readonly status: z.ZodObject };
  readonly rules: readonly Rule[];
  /** After NAME; AGE is one of them and stands last. */
  readonly printerColumns: readonly PrinterColumn[];
};

export const AGE: PrinterColumn = {
  name: "Age",
  type: "date",
  jsonPath: ".metadata.creationTimestamp",
  description: "Time since the object was made.",
};

/** jsonPath of the status of one condition. */
export const conditionStatus = (type: string): string => `.status.conditions[?(@.type=="${type}")].status`;

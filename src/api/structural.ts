import { z } from "zod";
import type { Kind } from "./kind.ts";
import { apiVersionOf } from "./resource.ts";
import type { Rule } from "./rule.ts";

/** A structural schema of apiextensions.k8s.io/v1: the part of OpenAPI v3 that our kinds use. */
export type StructuralSchema = {
  description?: string;
  type?: "object" | "array" | "string" | "integer" | "boolean" | "number";
  format?: string;
  default?: unknown;
  enum?: string[];
  pattern?: string;
  minLength?: number;
  maxLength?: number;
  minimum?: number;
  maximum?: number;
  minItems?: number;
  maxItems?: number;
  maxProperties?: number;
  required?: string[];
  properties?: Record<string, StructuralSchema>;
  additionalProperties?: StructuralSchema;
  items?: StructuralSchema;
  "x-kubernetes-list-type"?: "atomic" | "set" | "map";
  "x-kubernetes-list-map-keys"?: string[];
  "x-kubernetes-map-type"?: "atomic" | "granular";
  "x-kubernetes-validations"?: { rule: string; message: string; messageExpression?: string }[];
};

/** The schema of whole objects of the kind, with its rules in their places: openAPIV3Schema of the CRD. */
export function structuralSchema(kind: Kind): StructuralSchema {
  const known = made.get(kind);
  if (known !== undefined) return known;
  const root: StructuralSchema = {
    description: kind.description,
    type: "object",
    required: ["spec"],
    properties: {
      apiVersion: { description: `Always ${apiVersionOf(kind.resource)}.`, type: "string" },
      kind: { description: `Always ${kind.resource.kind}.`, type: "string" },
      metadata: { type: "object" },
      spec: { ...fromZod(kind.schema.spec), description: "What is wanted." },
      status: { ...fromZod(kind.schema.status), description: "What was observed; written by Belfry alone." },
    },
  };
  for (const rule of kind.rules) place(root, rule);
  made.set(kind, root);
  return root;
}

const made = new Map<Kind, StructuralSchema>();

/** The words of `defaults` in a description: ` Default: true.` Empty where there is nothing to say. */
export function defaultSentence(schema: StructuralSchema): string {
  if (schema.default === undefined) return "";
  if (schema.default === "") return " Default: empty.";
  const isEmpty = typeof schema.default === "object" && Object.keys(schema.default ?? {}).length === 0;
  if (isEmpty) return " Default: empty.";
  return typeof schema.default === "object" ? "" : ` Default: ${schema.default}.`;
}

function fromZod(type: z.ZodObject): StructuralSchema {
  // The input side: a field with a default is not required.
  return tidy(z.toJSONSchema(type, { io: "input", target: "draft-7" }) as StructuralSchema);
}

/** Zod's JSON schema as an API server takes it: no unions, no `propertyNames`, formats instead of bounds of safe integers. */
function tidy(schema: StructuralSchema): StructuralSchema {
  const { properties, items, additionalProperties, required, minimum, maximum, pattern, ...rest } = schema;
  const tidied: StructuralSchema = {};
  for (const [keyword, value] of Object.entries(rest)) {
    if (KEPT.has(keyword)) Object.assign(tidied, { [keyword]: value });
  }
  if (schema.type === "integer") {
    if (minimum !== undefined && minimum > Number.MIN_SAFE_INTEGER) tidied.minimum = minimum;
    if (maximum !== undefined && maximum < Number.MAX_SAFE_INTEGER) tidied.maximum = maximum;
    tidied.format = maximum !== undefined && maximum < 2 ** 31 ? "int32" : "int64";
  }
  if (pattern !== undefined && schema.format !== "date-time") tidied.pattern = pattern;
  if (required !== undefined && required.length > 0) tidied.required = required;
  if (properties !== undefined) {
    tidied.properties = Object.fromEntries(Object.entries(properties).map(([name, each]) => [name, tidy(each)]));
  }
  if (items !== undefined) tidied.items = tidy(items);
  if (typeof additionalProperties === "object") tidied.additionalProperties = tidy(additionalProperties);
  const description = `${tidied.description ?? ""}${defaultSentence(tidied)}`;
  return description === "" ? tidied : { ...tidied, description };
}

const KEPT = new Set([
  "description",
  "type",
  "format",
  "default",
  "enum",
  "minLength",
  "maxLength",
  "minItems",
  "maxItems",
  "maxProperties",
  "x-kubernetes-list-type",
  "x-kubernetes-list-map-keys",
  "x-kubernetes-map-type",
]);

function place(root: StructuralSchema, rule: Rule): void {
  let schema: StructuralSchema | undefined = root;
  for (const step of stepsOf(rule.at)) schema = step === "[]" ? schema?.items : schema?.properties?.[step];
  if (schema === undefined) throw new Error(`a rule stands at ${rule.at}, where its kind has nothing`);
  const { cel, message, messageExpression } = rule;
  schema["x-kubernetes-validations"] = [
    ...(schema["x-kubernetes-validations"] ?? []),
    { rule: cel, message, ...(messageExpression === undefined ? {} : { messageExpression }) },
  ];
}

/** `spec.addresses[]` → `spec`, `addresses`, `[]`. */
export const stepsOf = (at: string): string[] => at.match(/\[\]|[^.[\]]+/g) ?? [];

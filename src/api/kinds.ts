import { z } from "zod";
import type { Problem } from "../core/trouble.ts";
import { IPADDRESSPOOL_KIND } from "./ip-address-pool.ts";
import type { Kind } from "./kind.ts";
import { L2ADVERTISEMENT_KIND } from "./l2-advertisement.ts";
import type { Rule } from "./rule.ts";
import { SERVICEROUTE_KIND } from "./service-route.ts";
import { SPEAKERSTATUS_KIND } from "./speaker-status.ts";
import { stepsOf, structuralSchema } from "./structural.ts";
import { defaulted, duplicatesIn } from "./structural-value.ts";
import { VIRTUALIP_KIND } from "./virtual-ip.ts";

/** All kinds of the group, in the order in which a reader meets them. */
export const KINDS: readonly Kind[] = [
  IPADDRESSPOOL_KIND,
  VIRTUALIP_KIND,
  L2ADVERTISEMENT_KIND,
  SERVICEROUTE_KIND,
  SPEAKERSTATUS_KIND,
];

/** The kind of this name, or `undefined` when it is not ours. */
export const kindNamed = (name: string): Kind | undefined => KINDS.find((kind) => kind.resource.kind === name);

/** A field that admission refuses. `field` is its path, as `spec.addresses[0]`; `message` begins with it. */
export type Refusal = Problem & { readonly field: string };

/** A copy of the object with the defaults of its schema, as an API server stores it. Absent optional objects stay absent. */
export const defaults = <T>(kind: Kind, object: T): T => defaulted(structuralSchema(kind), object) as T;

/**
 * What an API server refuses of the object (with `old`: of the change), in its words; empty when it is admitted.
 * The object must carry its defaults. Rules are judged only when the shape is right, as there.
 */
export function validate(kind: Kind, object: unknown, old?: unknown): Refusal[] {
  const parsed = shapeOf(kind).safeParse(object);
  const misshapen = parsed.success ? [] : parsed.error.issues.flatMap((issue) => refusalsOf(issue, object));
  const twice = duplicatesIn(structuralSchema(kind), object).map(({ field, value }) =>
    refusal("FieldValueDuplicate", field, `Duplicate value: ${JSON.stringify(value)}`),
  );
  const blocking = misshapen.find((each) => each.reason !== "FieldValueInvalid");
  const broken = blocking === undefined ? kind.rules.flatMap((rule) => judge(rule, object, old)) : [];
  return [...misshapen, ...twice, ...broken];
}

function shapeOf(kind: Kind): z.ZodObject {
  const shape = shapes.get(kind) ?? z.object({ spec: kind.schema.spec, status: kind.schema.status.optional() });
  shapes.set(kind, shape);
  return shape;
}

const shapes = new Map<Kind, z.ZodObject>();

function judge(rule: Rule, object: unknown, old: unknown): Refusal[] {
  const isTransition = rule.cel.includes("oldSelf");
  return valuesAt(object, stepsOf(rule.at)).flatMap(({ field, value }) => {
    const [before] = isTransition && old !== undefined ? valuesAt(old, stepsOf(rule.at)) : [];
    if (isTransition && before === undefined) return [];
    const words = rule.twin(value, before?.value);
    return words === undefined ? [] : [invalid(field, value, words.trim())];
  });
}

/** Every value that stands at the place, with its own path; none where something on the way is absent. */
function valuesAt(object: unknown, steps: readonly string[]): { field: string; value: unknown }[] {
  let found = [{ field: "", value: object }];
  for (const step of steps) {
    found = found.flatMap(({ field, value }) => {
      if (step === "[]") {
        return Array.isArray(value) ? value.map((each, i) => ({ field: `${field}[${i}]`, value: each })) : [];
      }
      const inner = isObject(value) ? value[step] : undefined;
      return inner === undefined ? [] : [{ field: field === "" ? step : `${field}.${step}`, value: inner }];
    });
  }
  return found;
}

/** Zod's issues in the API server's words and reasons (metav1.CauseType). */
function refusalsOf(issue: z.core.$ZodIssue, object: unknown): Refusal[] {
  const field = issue.path.reduce<string>(
    (path, step) =>
      typeof step === "number" ? `${path}[${step}]` : path === "" ? String(step) : `${path}.${String(step)}`,
    "",
  );
  const value = issue.path.reduce<unknown>(
    (inner, step) => (inner as Record<PropertyKey, unknown> | undefined)?.[step],
    object,
  );
  const inBody = (words: string): string => `${field} in body should be ${words}`;
  if (value === undefined) return [refusal("FieldValueRequired", field, "Required value")];
  switch (issue.code) {
    case "invalid_type":
      return [
        refusal(
          "FieldValueTypeInvalid",
          field,
          `Invalid value: ${JSON.stringify(value)}: must be of type ${issue.expected}`,
        ),
      ];
    case "invalid_value": {
      const known = issue.values.map((each) => JSON.stringify(each)).join(", ");
      return [
        refusal(
          "FieldValueNotSupported",
          field,
          `Unsupported value: ${JSON.stringify(value)}: supported values: ${known}`,
        ),
      ];
    }
    case "too_big":
      if (typeof value === "string") {
        return [refusal("FieldValueTooLong", field, `Too long: may not be more than ${issue.maximum} bytes`)];
      }
      if (Array.isArray(value)) {
        return [
          refusal("FieldValueTooMany", field, `Too many: ${value.length}: must have at most ${issue.maximum} items`),
        ];
      }
      return [invalid(field, value, inBody(`less than or equal to ${issue.maximum}`))];
    case "too_small":
      if (Array.isArray(value)) {
        return [invalid(field, value.length, `${field} in body should have at least ${issue.minimum} items`)];
      }
      if (typeof value === "string") return [invalid(field, value, inBody(`at least ${issue.minimum} chars long`))];
      return [invalid(field, value, inBody(`greater than or equal to ${issue.minimum}`))];
    case "invalid_format": {
      const form = issue.pattern === undefined || issue.format !== "regex" ? undefined : issue.pattern.slice(1, -1);
      return [
        invalid(
          field,
          value,
          form === undefined ? inBody(`of format ${issue.format}`) : `${field} in body should match '${form}'`,
        ),
      ];
    }
    default:
      return [invalid(field, value, issue.message)];
  }
}

/** Whole objects are not shown: they would bury the words that follow. */
const invalid = (field: string, value: unknown, words: string): Refusal =>
  refusal("FieldValueInvalid", field, `Invalid value: ${isObject(value) ? "" : `${JSON.stringify(value)}: `}${words}`);

const refusal = (reason: string, field: string, words: string): Refusal => ({
  reason,
  field,
  message: `${field === "" ? "<nil>" : field}: ${words}`,
});

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null;

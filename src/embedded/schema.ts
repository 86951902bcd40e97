/**
 * What the API server does with a structural schema: drop unknown fields and check values (defaults: `api/structural-value.ts`).
 * The schemas are JSON Schema as zod prints it, with the Kubernetes extensions for lists and for preserved fields.
 */
import type { StatusCause } from "./refusal.ts";

export type Schema = {
  /** Several for a value that may be null. */
  readonly type?: string | readonly string[];
  readonly description?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly additionalProperties?: Schema | boolean;
  readonly items?: Schema;
  readonly required?: readonly string[];
  readonly default?: unknown;
  readonly enum?: readonly unknown[];
  readonly anyOf?: readonly Schema[];
  readonly pattern?: string;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly "x-kubernetes-list-type"?: "atomic" | "map" | "set";
  readonly "x-kubernetes-list-map-keys"?: readonly string[];
  readonly "x-kubernetes-preserve-unknown-fields"?: boolean;
};

type Json = Record<string, unknown>;

export const isRecord = (value: unknown): value is Json =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** True when the schema keeps fields that it does not name. */
const keepsUnknown = (schema: Schema): boolean =>
  schema["x-kubernetes-preserve-unknown-fields"] === true ||
  schema.additionalProperties === true ||
  (isRecord(schema.additionalProperties) && Object.keys(schema.additionalProperties).length === 0);

/** The value without the fields that the schema does not know; their paths are added to `unknown`. */
export function prune(value: unknown, schema: Schema, path: string, unknown: string[]): unknown {
  if (Array.isArray(value)) {
    const { items } = schema;
    return items === undefined ? value : value.map((item, i) => prune(item, items, `${path}[${i}]`, unknown));
  }
  if (!isRecord(value)) return value;
  const open = keepsUnknown(schema);
  // An open object's `{}` says nothing of its fields: they are kept with all that is in them.
  const each = !open && isRecord(schema.additionalProperties) ? (schema.additionalProperties as Schema) : undefined;
  const kept: Json = {};
  for (const [name, field] of Object.entries(value)) {
    const at = path === "" ? name : `${path}.${name}`;
    const inner = schema.properties?.[name] ?? each;
    if (inner !== undefined) kept[name] = prune(field, inner, at, unknown);
    else if (open) kept[name] = field;
    else unknown.push(at);
  }
  return kept;
}

/** Where the value breaks the schema. */
export function check(value: unknown, schema: Schema, path: string): StatusCause[] {
  if (schema.anyOf !== undefined) {
    const tries = schema.anyOf.map((one) => check(value, one, path));
    return tries.some((causes) => causes.length === 0) ? [] : (tries[0] ?? []);
  }
  const wrong = (message: string): StatusCause[] => [{ field: path, message }];
  const type = typeOf(value);
  const types = typeof schema.type === "string" ? [schema.type] : schema.type;
  if (types !== undefined && !types.includes(type) && !(types.includes("number") && type === "integer")) {
    return wrong(
      `Invalid value: ${JSON.stringify(type)}: ${path} in body must be of type ${types.join(" or ")}: ${JSON.stringify(type)}`,
    );
  }
  if (schema.enum !== undefined && !schema.enum.includes(value)) {
    const allowed = schema.enum.map((one) => JSON.stringify(one)).join(", ");
    return wrong(`Unsupported value: ${JSON.stringify(value)}: supported values: ${allowed}`);
  }
  if (typeof value === "string") return wrong(checkText(value, schema)).filter((cause) => cause.message !== "");
  if (typeof value === "number") {
    if (schema.minimum !== undefined && value < schema.minimum) {
      return wrong(`Invalid value: ${value}: should be greater than or equal to ${schema.minimum}`);
    }
    if (schema.maximum !== undefined && value > schema.maximum) {
      return wrong(`Invalid value: ${value}: should be less than or equal to ${schema.maximum}`);
    }
    return [];
  }
  if (Array.isArray(value)) return checkList(value, schema, path);
  return isRecord(value) ? checkRecord(value, schema, path) : [];
}

function typeOf(value: unknown): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  if (typeof value === "number") return Number.isInteger(value) ? "integer" : "number";
  return typeof value;
}

function checkText(value: string, schema: Schema): string {
  if (schema.minLength !== undefined && value.length < schema.minLength) {
    return `Invalid value: ${JSON.stringify(value)}: should be at least ${schema.minLength} chars long`;
  }
  if (schema.maxLength !== undefined && value.length > schema.maxLength) {
    return `Too long: may not be more than ${schema.maxLength} bytes`;
  }
  return schema.pattern !== undefined && !new RegExp(schema.pattern).test(value)
    ? `Invalid value: ${JSON.stringify(value)}: should match '${schema.pattern}'`
    : "";
}

function checkList(value: readonly unknown[], schema: Schema, path: string): StatusCause[] {
  if (schema.minItems !== undefined && value.length < schema.minItems) {
    return [{ field: path, message: `Invalid value: ${value.length}: should have at least ${schema.minItems} items` }];
  }
  if (schema.maxItems !== undefined && value.length > schema.maxItems) {
    return [{ field: path, message: `Too many: ${value.length}: must have at most ${schema.maxItems} items` }];
  }
  const causes = duplicates(value, schema, path);
  const { items } = schema;
  if (items !== undefined) for (const [i, item] of value.entries()) causes.push(...check(item, items, `${path}[${i}]`));
  return causes;
}

function duplicates(value: readonly unknown[], schema: Schema, path: string): StatusCause[] {
  const type = schema["x-kubernetes-list-type"];
  if (type !== "map" && type !== "set") return [];
  const causes: StatusCause[] = [];
  const seen = new Set<string>();
  for (const [i, item] of value.entries()) {
    const key = JSON.stringify(type === "set" ? item : listKeyOf(item, schema));
    if (seen.has(key)) causes.push({ field: `${path}[${i}]`, message: `Duplicate value: ${key}` });
    seen.add(key);
  }
  return causes;
}

/** The key of an item of a map list, in the order of names that field sets use. */
export function listKeyOf(item: unknown, schema: Schema): Json {
  const key: Json = {};
  for (const name of [...(schema["x-kubernetes-list-map-keys"] ?? [])].sort()) {
    const value = isRecord(item) ? item[name] : undefined;
    key[name] = value ?? schema.items?.properties?.[name]?.default ?? null;
  }
  return key;
}

function checkRecord(value: Json, schema: Schema, path: string): StatusCause[] {
  const causes: StatusCause[] = [];
  const at = (name: string): string => (path === "" ? name : `${path}.${name}`);
  for (const name of schema.required ?? []) {
    if (value[name] === undefined)
      causes.push({ field: at(name), reason: "FieldValueRequired", message: "Required value" });
  }
  const each = isRecord(schema.additionalProperties) ? (schema.additionalProperties as Schema) : undefined;
  for (const [name, field] of Object.entries(value)) {
    const inner = schema.properties?.[name] ?? each;
    if (inner !== undefined && field !== undefined) causes.push(...check(field, inner, at(name)));
  }
  return causes;
}

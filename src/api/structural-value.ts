import type { StructuralSchema } from "./structural.ts";

/**
 * A copy of the value with the schema's defaults. As an API server does it: a null counts as absent, and a default goes
 * into an object only where that object is.
 */
export function defaulted(schema: StructuralSchema, value: unknown): unknown {
  if (Array.isArray(value)) {
    const { items } = schema;
    return items === undefined ? structuredClone(value) : value.map((each) => defaulted(items, each));
  }
  if (!isObject(value)) return value;
  const whole: Record<string, unknown> = {};
  for (const [name, inner] of Object.entries(value)) {
    const known = schema.properties?.[name] ?? schema.additionalProperties;
    if (known === undefined) whole[name] = structuredClone(inner);
    else if (inner !== null) whole[name] = defaulted(known, inner);
  }
  for (const [name, known] of Object.entries(schema.properties ?? {})) {
    if (whole[name] === undefined && known.default !== undefined) {
      whole[name] = defaulted(known, structuredClone(known.default));
    }
  }
  return whole;
}

/** Entries of keyed lists whose key another entry before them has: the path and the key. */
export function duplicatesIn(
  schema: StructuralSchema,
  value: unknown,
  field = "",
): { readonly field: string; readonly value: unknown }[] {
  if (Array.isArray(value)) {
    const keys = schema["x-kubernetes-list-map-keys"];
    const seen = new Set<string>();
    return value.flatMap((each, i) => {
      const at = `${field}[${i}]`;
      const inner = schema.items === undefined ? [] : duplicatesIn(schema.items, each, at);
      if (keys === undefined || !isObject(each)) return inner;
      const key = Object.fromEntries(keys.toSorted().map((name) => [name, each[name]]));
      const known = seen.has(JSON.stringify(key));
      seen.add(JSON.stringify(key));
      return known ? [...inner, { field: at, value: key }] : inner;
    });
  }
  if (!isObject(value)) return [];
  return Object.entries(schema.properties ?? {}).flatMap(([name, known]) =>
    value[name] === undefined ? [] : duplicatesIn(known, value[name], field === "" ? name : `${field}.${name}`),
  );
}

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null;

/**
 * Field sets of server-side apply (KEP-555): which leaf fields a value has, how two values differ, and the FieldsV1 form
 * that managedFields carries. A set is a `Set` of paths; the elements of a path are those of FieldsV1, joined by NUL:
 * `f:name`, `k:{"port":80}`, `v:"text"`. The path of a list item itself ends there (FieldsV1 writes it as ".").
 */
import { isDeepStrictEqual } from "node:util";
import { isRecord, listKeyOf, type Schema } from "./schema.ts";

export type FieldSet = ReadonlySet<string>;
export type FieldsV1 = { [element: string]: FieldsV1 };

const SEPARATOR = "\u0000";
const join = (path: string, element: string): string => (path === "" ? element : `${path}${SEPARATOR}${element}`);

/** The schema of a field of an object; metadata has the same one in every kind. */
const fieldSchema = (schema: Schema | undefined, name: string): Schema | undefined =>
  schema?.properties?.[name] ??
  (isRecord(schema?.additionalProperties) ? (schema.additionalProperties as Schema) : undefined);

const listType = (schema: Schema | undefined): "atomic" | "map" | "set" =>
  schema?.["x-kubernetes-list-type"] ?? "atomic";

const itemElement = (item: unknown, schema: Schema): string =>
  schema["x-kubernetes-list-type"] === "map"
    ? `k:${JSON.stringify(listKeyOf(item, schema))}`
    : `v:${JSON.stringify(item)}`;

/** The fields that the value has. */
export function fieldsOf(value: unknown, schema: Schema | undefined, path = "", into = new Set<string>()): Set<string> {
  if (isRecord(value)) {
    const names = Object.keys(value).filter((name) => value[name] !== undefined);
    if (names.length === 0 && path !== "") into.add(path);
    for (const name of names) fieldsOf(value[name], fieldSchema(schema, name), join(path, `f:${name}`), into);
  } else if (Array.isArray(value) && schema !== undefined && listType(schema) !== "atomic") {
    if (value.length === 0) into.add(path);
    for (const item of value) {
      const at = join(path, itemElement(item, schema));
      into.add(at);
      if (listType(schema) === "map") fieldsOf(item, schema.items, at, into);
    }
  } else into.add(path);
  return into;
}

export type Difference = {
  /** Fields that were added or have another value. */
  readonly changed: Set<string>;
  readonly removed: Set<string>;
};

/** How `after` differs from `before`. */
export function difference(before: unknown, after: unknown, schema: Schema | undefined): Difference {
  const found: Difference = { changed: new Set(), removed: new Set() };
  walk(before, after, schema, "", found);
  return found;
}

function walk(before: unknown, after: unknown, schema: Schema | undefined, path: string, found: Difference): void {
  if (before === after) return;
  if (before === undefined) fieldsOf(after, schema, path, found.changed);
  else if (after === undefined) fieldsOf(before, schema, path, found.removed);
  else if (isRecord(before) && isRecord(after)) {
    for (const name of new Set([...Object.keys(before), ...Object.keys(after)])) {
      walk(before[name], after[name], fieldSchema(schema, name), join(path, `f:${name}`), found);
    }
  } else if (Array.isArray(before) && Array.isArray(after) && schema !== undefined && listType(schema) !== "atomic") {
    walkItems(before, after, schema, path, found);
  } else if (!isDeepStrictEqual(before, after)) found.changed.add(path);
}

function walkItems(before: unknown[], after: unknown[], schema: Schema, path: string, found: Difference): void {
  const old = new Map(before.map((item) => [itemElement(item, schema), item]));
  const inner = listType(schema) === "map" ? schema.items : undefined;
  for (const item of after) {
    const element = itemElement(item, schema);
    const at = join(path, element);
    if (!old.has(element)) {
      found.changed.add(at);
      if (listType(schema) === "map") fieldsOf(item, inner, at, found.changed);
    } else if (listType(schema) === "map") walk(old.get(element), item, inner, at, found);
    old.delete(element);
  }
  for (const [element, item] of old) {
    const at = join(path, element);
    found.removed.add(at);
    if (listType(schema) === "map") fieldsOf(item, inner, at, found.removed);
  }
}

/** `base` with the fields of `applied` put over it: maps and keyed lists are merged, everything else is replaced. */
export function merge(base: unknown, applied: unknown, schema: Schema | undefined): unknown {
  if (isRecord(base) && isRecord(applied)) {
    const merged: Record<string, unknown> = { ...base };
    for (const [name, value] of Object.entries(applied)) {
      merged[name] = merge(base[name], value, fieldSchema(schema, name));
    }
    return merged;
  }
  if (!Array.isArray(base) || !Array.isArray(applied) || schema === undefined || listType(schema) === "atomic") {
    return applied;
  }
  const wanted = new Map(applied.map((item) => [itemElement(item, schema), item]));
  const merged = base.map((item) => {
    const element = itemElement(item, schema);
    const over = wanted.get(element);
    wanted.delete(element);
    return over === undefined ? item : merge(item, over, schema.items);
  });
  return [...merged, ...wanted.values()];
}

/** The value without the fields of the set; maps and lists that become empty by it go too, top-level fields stay. */
export function without(value: unknown, schema: Schema | undefined, removed: FieldSet, path = ""): unknown {
  if (removed.size === 0) return value;
  if (isRecord(value)) {
    const kept: Record<string, unknown> = {};
    for (const [name, field] of Object.entries(value)) {
      const at = join(path, `f:${name}`);
      const inner = fieldSchema(schema, name);
      const rest = without(field, inner, removed, at);
      const isLeaf =
        !hasContent(field) || (Array.isArray(field) && (inner === undefined || listType(inner) === "atomic"));
      if (removed.has(at) && (isLeaf || !hasContent(rest))) continue;
      if (path !== "" && !isLeaf && !hasContent(rest)) continue;
      kept[name] = rest;
    }
    return kept;
  }
  if (!Array.isArray(value) || schema === undefined || listType(schema) === "atomic") return value;
  return value
    .filter((item) => !removed.has(join(path, itemElement(item, schema))))
    .map((item) =>
      listType(schema) === "map" ? without(item, schema.items, removed, join(path, itemElement(item, schema))) : item,
    );
}

const hasContent = (value: unknown): boolean =>
  Array.isArray(value) ? value.length > 0 : isRecord(value) ? Object.keys(value).length > 0 : false;

export function toFieldsV1(set: FieldSet): FieldsV1 {
  const root: FieldsV1 = {};
  for (const path of [...set].sort()) {
    let node = root;
    for (const element of path.split(SEPARATOR)) {
      node[element] ??= {};
      node = node[element];
    }
    const last = path.slice(path.lastIndexOf(SEPARATOR) + 1);
    // An item of a keyed list is a member beside its fields.
    if (last.startsWith("k:")) node["."] = {};
  }
  return root;
}

export function fromFieldsV1(fields: FieldsV1, path = "", into = new Set<string>()): Set<string> {
  for (const [element, inner] of Object.entries(fields)) {
    if (element === ".") {
      into.add(path);
      continue;
    }
    const at = join(path, element);
    if (Object.keys(inner).length === 0) into.add(at);
    else fromFieldsV1(inner, at, into);
  }
  return into;
}

/** The path as people read it: `.spec.listeners[name="web"].port`. */
export function printField(path: string): string {
  return path
    .split(SEPARATOR)
    .map((element) => {
      const rest = element.slice(2);
      if (element.startsWith("f:")) return `.${rest}`;
      if (element.startsWith("v:")) return `[=${rest}]`;
      const key = JSON.parse(rest) as Record<string, unknown>;
      return `[${Object.entries(key)
        .map(([name, value]) => `${name}=${JSON.stringify(value)}`)
        .join(",")}]`;
    })
    .join("");
}

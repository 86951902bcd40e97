/** Who owns which field: metadata.managedFields, kept as the API server keeps it (KEP-555). */
import type { KubeObject } from "../api/meta.ts";
import {
  difference,
  type FieldSet,
  type FieldsV1,
  fieldsOf,
  fromFieldsV1,
  merge,
  printField,
  toFieldsV1,
  without,
} from "./field-set.ts";
import { Refusal, type StatusCause } from "./refusal.ts";
import type { Schema } from "./schema.ts";

export type ManagedFieldsEntry = {
  manager: string;
  operation: "Apply" | "Update";
  apiVersion: string;
  time: string;
  fieldsType: "FieldsV1";
  fieldsV1: FieldsV1;
  subresource?: string;
};

export type Writer = {
  readonly manager: string;
  readonly subresource: "status" | undefined;
  /** RFC 3339, whole seconds. */
  readonly at: string;
};

type Managed = KubeObject & { metadata: { managedFields?: ManagedFieldsEntry[] } };

/** Fields that the server owns, or that name the object: nobody manages them. */
const UNMANAGED_METADATA = [
  "name",
  "namespace",
  "uid",
  "resourceVersion",
  "generation",
  "creationTimestamp",
  "deletionTimestamp",
  "deletionGracePeriodSeconds",
  "managedFields",
  "selfLink",
  "generateName",
];

/** The schema of the metadata of every kind, as far as field sets need it. */
const METADATA_SCHEMA: Schema = {
  type: "object",
  properties: {
    finalizers: { type: "array", "x-kubernetes-list-type": "set" },
    ownerReferences: { type: "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["uid"] },
  },
};

const withMetadata = (schema: Schema): Schema => ({
  ...schema,
  properties: { ...schema.properties, metadata: METADATA_SCHEMA },
});

/** The part of an object that has managers. */
function managedPart(object: KubeObject): Record<string, unknown> {
  const { apiVersion: _version, kind: _kind, metadata, ...rest } = object as KubeObject & Record<string, unknown>;
  const own = Object.entries(metadata).filter(([name, value]) => !UNMANAGED_METADATA.includes(name) && value != null);
  return own.length === 0 ? rest : { metadata: Object.fromEntries(own), ...rest };
}

const entriesOf = (object: KubeObject | undefined): ManagedFieldsEntry[] =>
  (object as Managed | undefined)?.metadata.managedFields ?? [];

const isWriters = (entry: ManagedFieldsEntry, writer: Writer, operation: "Apply" | "Update"): boolean =>
  entry.manager === writer.manager && entry.operation === operation && entry.subresource === writer.subresource;

/** managedFields after a write that is no apply: what changed is the writer's now, and nobody else's. */
export function afterUpdate(
  old: KubeObject | undefined,
  next: KubeObject,
  kindSchema: Schema,
  writer: Writer,
): ManagedFieldsEntry[] {
  const { changed, removed } = difference(
    old === undefined ? {} : managedPart(old),
    managedPart(next),
    withMetadata(kindSchema),
  );
  const before = entriesOf(old);
  if (changed.size === 0 && removed.size === 0) return before;
  return reassign(before, next, writer, "Update", changed, removed, (own) => union(own, changed));
}

function reassign(
  before: readonly ManagedFieldsEntry[],
  next: KubeObject,
  writer: Writer,
  operation: "Apply" | "Update",
  taken: FieldSet,
  removed: FieldSet,
  owned: (before: FieldSet) => FieldSet,
): ManagedFieldsEntry[] {
  const mine = before.find((entry) => isWriters(entry, writer, operation));
  const entries: ManagedFieldsEntry[] = [];
  for (const entry of before) {
    if (entry === mine) continue;
    const set = fromFieldsV1(entry.fieldsV1);
    const kept = subtract(subtract(set, taken), removed);
    if (kept.size === set.size) entries.push(entry);
    else if (kept.size > 0) entries.push({ ...entry, fieldsV1: toFieldsV1(kept) });
  }
  const previous = mine === undefined ? new Set<string>() : fromFieldsV1(mine.fieldsV1);
  const set = subtract(owned(previous), removed);
  if (set.size === 0) return entries;
  const same = mine !== undefined && sameSet(previous, set) && taken.size === 0;
  entries.push({
    manager: writer.manager,
    operation,
    apiVersion: next.apiVersion ?? "",
    time: same ? mine.time : writer.at,
    fieldsType: "FieldsV1",
    fieldsV1: same ? mine.fieldsV1 : toFieldsV1(set),
    ...(writer.subresource === undefined ? {} : { subresource: writer.subresource }),
  });
  return entries;
}

export type Applied = {
  readonly object: KubeObject;
  /** managedFields for the object once it is completed and checked. */
  readonly managedFields: ManagedFieldsEntry[];
};

/**
 * The object after `config` was applied by the writer: its fields put over the live ones, the fields that the writer
 * applied before and dropped now removed, unless others own them too.
 * @throws Refusal 409 with a cause per field that another manager owns with another value, unless forced
 */
export function applyConfig(
  live: KubeObject | undefined,
  config: KubeObject,
  kindSchema: Schema,
  writer: Writer,
  force: boolean,
): Applied {
  const schema = withMetadata(kindSchema);
  const before = entriesOf(live);
  const wanted = managedPart(dropNulls(config) as KubeObject);
  const set = fieldsOf(wanted, schema);
  const livePart = live === undefined ? {} : managedPart(live);
  const merged = merge(livePart, wanted, schema);
  const mine = before.find((entry) => isWriters(entry, writer, "Apply"));
  const others = before.filter((entry) => entry !== mine);
  const othersOwn = new Set(others.flatMap((entry) => [...fromFieldsV1(entry.fieldsV1)]));
  const dropped =
    mine === undefined ? new Set<string>() : subtract(subtract(fromFieldsV1(mine.fieldsV1), set), othersOwn);
  const { changed } = difference(livePart, merged, schema);
  const contested = new Set([...changed].filter((field) => othersOwn.has(field)));
  if (contested.size > 0 && !force) throw conflicts(others, contested);
  const result = without(merged, schema, dropped) as Record<string, unknown>;
  const { metadata, ...rest } = result;
  const object = {
    apiVersion: config.apiVersion,
    kind: config.kind,
    metadata: { ...serverMetadata(live ?? config), ...(metadata as object | undefined) },
    ...rest,
  } as KubeObject;
  return {
    object,
    managedFields: reassign(before, object, writer, "Apply", contested, new Set(), () => set),
  };
}

function serverMetadata(object: KubeObject): KubeObject["metadata"] {
  const own = Object.entries(object.metadata).filter(([name]) => UNMANAGED_METADATA.includes(name));
  return Object.fromEntries(own) as KubeObject["metadata"];
}

function conflicts(others: readonly ManagedFieldsEntry[], contested: FieldSet): Refusal {
  const causes: StatusCause[] = [];
  for (const entry of others) {
    const using = entry.operation === "Update" ? ` using ${entry.apiVersion}` : "";
    const sub = entry.subresource === undefined ? "" : ` with subresource "${entry.subresource}"`;
    for (const field of fromFieldsV1(entry.fieldsV1)) {
      if (!contested.has(field)) continue;
      causes.push({
        reason: "FieldManagerConflict",
        message: `conflict with "${entry.manager}"${sub}${using}`,
        field: printField(field),
      });
    }
  }
  const count = causes.length === 1 ? "1 conflict" : `${causes.length} conflicts`;
  const list = causes.map((cause) => `${cause.message}: ${cause.field}`).join("\n");
  return new Refusal(409, "Conflict", `Apply failed with ${count}: ${list}`, { causes });
}

function dropNulls(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(dropNulls);
  if (typeof value !== "object" || value === null) return value;
  const kept = Object.entries(value).filter(([, field]) => field !== null && field !== undefined);
  return Object.fromEntries(kept.map(([name, field]) => [name, dropNulls(field)]));
}

const union = (a: FieldSet, b: FieldSet): Set<string> => new Set([...a, ...b]);
const subtract = (a: FieldSet, b: FieldSet): Set<string> =>
  b.size === 0 ? new Set(a) : new Set([...a].filter((field) => !b.has(field)));
const sameSet = (a: FieldSet, b: FieldSet): boolean => a.size === b.size && [...a].every((field) => b.has(field));

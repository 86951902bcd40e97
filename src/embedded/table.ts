/** meta.k8s.io/v1 Table: what `kubectl get` prints. */
import type { KubeObject } from "../api/meta.ts";
import { compileJsonPath } from "./json-path.ts";
import type { Column, ServedKind } from "./kind.ts";

export type IncludeObject = "None" | "Metadata" | "Object";

/** The Table of the objects as of `now`. `shown` is the object that the row carries, where that is not the stored one. */
export function tableOf(
  kind: ServedKind,
  objects: readonly KubeObject[],
  listMetadata: object,
  include: IncludeObject,
  now: Date,
  shown: (object: KubeObject) => KubeObject = (object) => object,
): object {
  return {
    kind: "Table",
    apiVersion: "meta.k8s.io/v1",
    metadata: listMetadata,
    columnDefinitions: kind.columns.map((column) => ({
      name: column.name,
      // Ages are rendered here, so for the client they are text.
      type: column.type === "date" ? "string" : column.type,
      format: column.name === "Name" ? "name" : "",
      description: column.description ?? column.name,
      priority: column.priority ?? 0,
    })),
    rows: objects.map((object) => ({
      cells: kind.columns.map((column) => cellOf(column, object, now)),
      ...(include === "None" ? {} : { object: include === "Object" ? shown(object) : partialOf(shown(object)) }),
    })),
  };
}

/** PartialObjectMetadata: the object without everything but its metadata. */
export const partialOf = (object: KubeObject): object => ({
  kind: "PartialObjectMetadata",
  apiVersion: "meta.k8s.io/v1",
  metadata: object.metadata,
});

const compiled = new WeakMap<Column, (value: unknown) => unknown[]>();

function cellOf(column: Column, object: KubeObject, now: Date): unknown {
  const found = column.value === undefined ? pathOf(column)(object) : [column.value(object)];
  const values = found.filter((value) => value !== undefined && value !== null);
  if (column.type === "date") return values.length === 0 ? "<unknown>" : ageOf(String(values[0]), now);
  if (values.length === 0) return column.type === "string" ? "" : null;
  if (column.type === "integer" || column.type === "number") return values[0];
  // The first value alone, even where a path finds more: so does the API server.
  return textOf(values[0]);
}

function pathOf(column: Column): (value: unknown) => unknown[] {
  let path = compiled.get(column);
  if (path === undefined) {
    path = compileJsonPath(column.jsonPath ?? "");
    compiled.set(column, path);
  }
  return path;
}

const textOf = (value: unknown): string => (typeof value === "object" ? JSON.stringify(value) : String(value));

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** The age as kubectl words it: `5s`, `3m20s`, `2h`, `4d`. */
export function ageOf(timestamp: string, now: Date): string {
  const age = now.getTime() - Date.parse(timestamp);
  if (Number.isNaN(age)) return "<invalid>";
  if (age < 2 * MINUTE) return `${Math.max(0, Math.floor(age / SECOND))}s`;
  if (age < 10 * MINUTE) return pair(age, MINUTE, "m", SECOND, "s");
  if (age < 3 * HOUR) return `${Math.floor(age / MINUTE)}m`;
  if (age < 8 * HOUR) return pair(age, HOUR, "h", MINUTE, "m");
  if (age < 2 * DAY) return `${Math.floor(age / HOUR)}h`;
  if (age < 8 * DAY) return pair(age, DAY, "d", HOUR, "h");
  return `${Math.floor(age / DAY)}d`;
}

function pair(age: number, large: number, largeUnit: string, small: number, smallUnit: string): string {
  const rest = Math.floor((age % large) / small);
  return `${Math.floor(age / large)}${largeUnit}${rest === 0 ? "" : `${rest}${smallUnit}`}`;
}

/** What the server must know of a kind to serve it. `our-kind.ts` and `foreign-kind.ts` have the kinds themselves. */
import type { KubeObject } from "../api/meta.ts";
import type { Resource } from "../api/resource.ts";
import type { StatusCause } from "./refusal.ts";
import type { Schema } from "./schema.ts";

export type Column = {
  readonly name: string;
  /** `date` prints as an age. */
  readonly type: "string" | "integer" | "boolean" | "date" | "number";
  readonly jsonPath?: string;
  /** Where a path can't say it: the text of the cell. */
  readonly value?: (object: KubeObject) => unknown;
  /** 0 is always shown, 1 with `-o wide` only. */
  readonly priority?: number;
  readonly description?: string;
};

export type ServedKind = {
  readonly resource: Resource;
  readonly singular: string;
  readonly shortNames: readonly string[];
  readonly categories: readonly string[];
  readonly description: string;
  /** Schema of whole objects; metadata is judged apart. */
  readonly schema: Schema;
  readonly hasStatus: boolean;
  /** True when metadata.generation counts the changes of everything but metadata and status. */
  readonly hasGeneration: boolean;
  readonly columns: readonly Column[];
  /** Completes an object before it is checked, as the API server's defaulting and allocators do; changes it in place. */
  readonly complete?: (object: KubeObject, old: KubeObject | undefined) => void;
  /** Called once an object is gone, to give back what `complete` took. */
  readonly released?: (object: KubeObject) => void;
  /** What admission refuses of an object that carries its defaults; with `old`, of the change. */
  readonly validate: (object: KubeObject, old: KubeObject | undefined) => StatusCause[];
};

/** Name of the collection in the store, and of the kind in errors: `plural` or `plural.group`. */
export const collectionOf = (resource: Resource): string =>
  resource.group === "" ? resource.plural : `${resource.plural}.${resource.group}`;

import type { KubeObject } from "../api/meta.ts";
import { compareVersions, isOlder } from "../core/resource-version.ts";
import { type InformerEvent, keyOf } from "./port.ts";

/** The store is not the one that we knew: it was restored from a backup, or another one answers (docs/life-of-a-vip.md, Restore). */
export type StoreChange = {
  readonly what: /** Lists stay older than what was seen. */
    | "ListWentBack"
    /** The same uid came back with an older resourceVersion. */
    | "ObjectWentBack";
  /** Of the object; undefined for a list. */
  readonly key: string | undefined;
  readonly seen: string;
  readonly found: string;
};

export type ListVerdict<T> =
  /** Older than what was seen: nothing of it counts. */
  | { readonly type: "stale"; readonly seen: string }
  | {
      readonly type: "applied";
      /** Deletes first: what must go, goes before something new takes its place. */
      readonly events: readonly InformerEvent<T>[];
      readonly changes: readonly StoreChange[];
    };

export type EventVerdict<T> =
  | { readonly type: "applied"; readonly events: readonly InformerEvent<T>[] }
  /** Nothing new: a bookmark, or an event that was seen. */
  | { readonly type: "nothing" }
  /** The stream can't be trusted any more: list. */
  | { readonly type: "broken"; readonly message: string };

/**
 * Objects by key as lists and events tell them. It decides what is new, what is old and what was lost; it reads no
 * socket and no clock. Between two versions of an object only the last is told, and nothing is told twice.
 */
export class ObjectCache<T extends KubeObject> {
  readonly objects = new Map<string, T>();
  readonly #project: (object: KubeObject) => T;
  /** Of the last list or event. */
  #eventVersion: string | undefined;
  /** Of the last list, event or bookmark: where a watch may go on. */
  #position: string | undefined;

  /** `project` keeps the fields that are used, and metadata.name, namespace, uid and resourceVersion always. */
  constructor(project: (object: KubeObject) => T) {
    this.#project = project;
  }

  get eventVersion(): string | undefined {
    return this.#eventVersion;
  }

  get position(): string | undefined {
    return this.#position;
  }

  /** Cuts an object down to what is cached. */
  project(object: KubeObject): T {
    // Read by nobody of ours, and often more than half of an object.
    delete (object.metadata as { managedFields?: unknown }).managedFields;
    delete object.metadata.annotations?.["kubectl.kubernetes.io/last-applied-configuration"];
    const projected = this.#project(object);
    if (
      projected.metadata.uid !== object.metadata.uid ||
      projected.metadata.resourceVersion !== object.metadata.resourceVersion ||
      keyOf(projected) !== keyOf(object)
    ) {
      throw new Error(`the projection of ${object.kind} ${keyOf(object)} lost its identity`);
    }
    return projected;
  }

  /**
   * Takes a consistent list of projected objects, in any order. `believeOlder`: other reads have shown that the store
   * itself went back.
   */
  applyList(version: string, items: readonly T[], believeOlder = false): ListVerdict<T> {
    const seen = this.#position;
    const wentBack = seen !== undefined && isOlder(version, seen);
    if (wentBack && !believeOlder) return { type: "stale", seen };

    const changes: StoreChange[] = [];
    if (wentBack) changes.push({ what: "ListWentBack", key: undefined, seen, found: version });
    const listed = new Map<string, T>();
    for (const item of items) {
      const key = keyOf(item);
      const twin = listed.get(key);
      if (twin === undefined || isOlder(versionOf(twin), versionOf(item))) listed.set(key, item);
    }

    const deletes: InformerEvent<T>[] = [];
    const upserts: InformerEvent<T>[] = [];
    for (const [key, object] of this.objects) {
      const item = listed.get(key);
      if (item !== undefined && item.metadata.uid === object.metadata.uid) continue;
      this.objects.delete(key);
      deletes.push({ type: "delete", object });
    }
    for (const [key, item] of listed) {
      const previous = this.objects.get(key);
      if (previous === undefined) {
        upserts.push({ type: "upsert", object: item });
      } else {
        if (versionOf(previous) === versionOf(item)) continue;
        if (isOlder(versionOf(item), versionOf(previous))) {
          changes.push({ what: "ObjectWentBack", key, seen: versionOf(previous), found: versionOf(item) });
        }
        upserts.push({ type: "upsert", object: item, previous });
      }
      this.objects.set(key, item);
    }
    this.#eventVersion = version;
    this.#position = version;
    return { type: "applied", events: [...deletes, ...upserts], changes };
  }

  /** Takes one event of a watch that began at `position`. */
  applyEvent(type: string, object: KubeObject): EventVerdict<T> {
    const version = object.metadata?.resourceVersion;
    if (version === undefined) return { type: "broken", message: `an event ${type} without resourceVersion` };
    const order = this.#position === undefined ? undefined : compareVersions(version, this.#position);
    if (order !== undefined && order < 0) {
      return { type: "broken", message: `an event ${type} went back from ${this.#position} to ${version}` };
    }
    if (type === "BOOKMARK") {
      this.#position = version;
      return { type: "nothing" };
    }
    if (order === 0) return { type: "nothing" };
    if (typeof object.metadata.name !== "string") {
      return { type: "broken", message: `an event ${type} without a name` };
    }
    const key = keyOf(object);
    const previous = this.objects.get(key);
    switch (type) {
      case "ADDED":
      case "MODIFIED": {
        const projected = this.project(object);
        this.#advance(version);
        this.objects.set(key, projected);
        if (previous === undefined) return applied({ type: "upsert", object: projected });
        // The key was deleted and made again in between: readers that key by uid must hear both.
        if (previous.metadata.uid !== projected.metadata.uid) {
          return applied({ type: "delete", object: previous }, { type: "upsert", object: projected });
        }
        return applied({ type: "upsert", object: projected, previous });
      }
      case "DELETED": {
        this.#advance(version);
        this.objects.delete(key);
        if (previous === undefined) return { type: "nothing" };
        // The last state, when it is of the object we knew; it carries the resourceVersion of the deletion.
        const last = previous.metadata.uid === object.metadata.uid ? this.project(object) : previous;
        return applied({ type: "delete", object: last });
      }
      default:
        return { type: "broken", message: `an event of unknown type ${type}` };
    }
  }

  #advance(version: string): void {
    this.#eventVersion = version;
    this.#position = version;
  }
}

const applied = <T>(...events: InformerEvent<T>[]): EventVerdict<T> => ({ type: "applied", events });

const versionOf = (object: KubeObject): string => object.metadata.resourceVersion ?? "";

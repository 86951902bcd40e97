/**
 * The objects, one global resourceVersion, and the history that watches are fed from. It knows nothing of HTTP, schemas
 * or admission. An object is serialised once per write; lists and all watchers share those bytes.
 */
import type { KubeObject } from "../api/meta.ts";

/** One version of one object. The object must not be changed after it was put. */
export type Entry = {
  readonly key: string;
  readonly object: KubeObject;
  readonly version: number;
  /** JSON text of the object in UTF-8. */
  readonly bytes: Buffer;
};

export type EventType = "ADDED" | "MODIFIED" | "DELETED";

export type StoreEvent = {
  readonly type: EventType;
  readonly version: number;
  /** The object after the event; for DELETED its last state, with the resourceVersion of the deletion. */
  readonly entry: Entry;
  /** The object before the event, for selectors; undefined for ADDED. */
  readonly previous: Entry | undefined;
};

/** Everything the store holds at one moment. Cheap: entries are immutable and shared. */
export type Snapshot = {
  readonly version: number;
  readonly collections: ReadonlyMap<string, readonly Entry[]>;
};

type Collection = {
  readonly entries: Map<string, Entry>;
  readonly namespaces: Map<string, Map<string, Entry>>;
  /** Entries in key order, made anew by the first list after a write: lists that were handed out keep theirs. */
  sorted: Entry[] | undefined;
  /** The newest events, oldest first. */
  readonly history: StoreEvent[];
  /** Events up to this version are gone. */
  compactedThrough: number;
  readonly listeners: Set<(event: StoreEvent) => void>;
};

/** Key of an object inside its collection; sorts as the API server's storage does. */
export const storeKey = (namespace: string | undefined, name: string): string =>
  namespace === undefined ? name : `${namespace}/${name}`;

export class Store {
  #version = 1;
  readonly #collections = new Map<string, Collection>();
  readonly #historyLength: number;

  /** `historyLength`: events kept per collection for watches that resume. */
  constructor(historyLength = 20_000) {
    this.#historyLength = historyLength;
  }

  /** resourceVersion of the last write. */
  get version(): number {
    return this.#version;
  }

  get(collection: string, key: string): Entry | undefined {
    return this.#collections.get(collection)?.entries.get(key);
  }

  size(collection: string): number {
    return this.#collections.get(collection)?.entries.size ?? 0;
  }

  /** All entries, or those of a namespace, in key order. */
  list(collection: string, namespace?: string): readonly Entry[] {
    const found = this.#collection(collection);
    if (namespace !== undefined) return [...(found.namespaces.get(namespace)?.values() ?? [])].sort(byKey);
    found.sorted ??= [...found.entries.values()].sort(byKey);
    return found.sorted;
  }

  /** Puts the object as the next version; its metadata.resourceVersion is set here. */
  put(collection: string, object: KubeObject): Entry {
    const found = this.#collection(collection);
    const key = storeKey(object.metadata.namespace, object.metadata.name);
    const previous = found.entries.get(key);
    const entry = this.#next(key, object);
    found.entries.set(key, entry);
    const namespace = object.metadata.namespace;
    if (namespace !== undefined) {
      const inside = found.namespaces.get(namespace) ?? new Map<string, Entry>();
      inside.set(key, entry);
      found.namespaces.set(namespace, inside);
    }
    found.sorted = undefined;
    const type = previous === undefined ? "ADDED" : "MODIFIED";
    this.#record(found, { type, version: entry.version, entry, previous });
    return entry;
  }

  /**
   * Removes the object; undefined when there is none. The entry carries the resourceVersion of the deletion, and `last`
   * where the write that ended the object changed it.
   */
  remove(collection: string, key: string, last?: KubeObject): Entry | undefined {
    const found = this.#collection(collection);
    const previous = found.entries.get(key);
    if (previous === undefined) return undefined;
    found.entries.delete(key);
    const namespace = previous.object.metadata.namespace;
    if (namespace !== undefined) {
      const inside = found.namespaces.get(namespace);
      inside?.delete(key);
      if (inside?.size === 0) found.namespaces.delete(namespace);
    }
    found.sorted = undefined;
    const entry = this.#next(key, last ?? previous.object);
    this.#record(found, { type: "DELETED", version: entry.version, entry, previous });
    return entry;
  }

  /** Names of the collections that hold something in the namespace. */
  collectionsIn(namespace: string): string[] {
    return [...this.#collections].filter(([, found]) => found.namespaces.has(namespace)).map(([name]) => name);
  }

  /** Events after `version` in order, or undefined when the history does not reach back that far. */
  since(collection: string, version: number): readonly StoreEvent[] | undefined {
    const found = this.#collection(collection);
    if (version < found.compactedThrough) return undefined;
    let low = 0;
    let high = found.history.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((found.history[middle]?.version ?? 0) <= version) low = middle + 1;
      else high = middle;
    }
    return found.history.slice(low);
  }

  /** Calls back for every event from now on, until the returned function is called. */
  subscribe(collection: string, listener: (event: StoreEvent) => void): () => void {
    const { listeners } = this.#collection(collection);
    listeners.add(listener);
    return () => listeners.delete(listener);
  }

  /** Forgets all history: whoever resumes from an older version must list. */
  compact(): void {
    for (const found of this.#collections.values()) {
      found.history.length = 0;
      found.compactedThrough = this.#version;
    }
  }

  snapshot(): Snapshot {
    const collections = new Map<string, readonly Entry[]>();
    for (const name of this.#collections.keys()) collections.set(name, this.list(name));
    return { version: this.#version, collections };
  }

  /** Puts everything back as it was, resourceVersions included, as a restore of etcd does. Watchers hear nothing. */
  restore(snapshot: Snapshot): void {
    this.#version = snapshot.version;
    for (const found of this.#collections.values()) {
      found.entries.clear();
      found.namespaces.clear();
      found.sorted = undefined;
      found.history.length = 0;
      found.compactedThrough = snapshot.version;
    }
    for (const [name, entries] of snapshot.collections) {
      const found = this.#collection(name);
      for (const entry of entries) {
        found.entries.set(entry.key, entry);
        const namespace = entry.object.metadata.namespace;
        if (namespace === undefined) continue;
        const inside = found.namespaces.get(namespace) ?? new Map<string, Entry>();
        inside.set(entry.key, entry);
        found.namespaces.set(namespace, inside);
      }
    }
  }

  #next(key: string, object: KubeObject): Entry {
    this.#version++;
    const versioned = { ...object, metadata: { ...object.metadata, resourceVersion: String(this.#version) } };
    return { key, object: versioned, version: this.#version, bytes: Buffer.from(JSON.stringify(versioned)) };
  }

  #record(found: Collection, event: StoreEvent): void {
    found.history.push(event);
    // Cut in larger steps than one, so that a full history does not shift on every write.
    if (found.history.length > this.#historyLength * 1.25) {
      const cut = found.history.length - this.#historyLength;
      found.compactedThrough = found.history[cut - 1]?.version ?? found.compactedThrough;
      found.history.splice(0, cut);
    }
    for (const listener of [...found.listeners]) listener(event);
  }

  #collection(name: string): Collection {
    let found = this.#collections.get(name);
    if (found === undefined) {
      found = {
        entries: new Map(),
        namespaces: new Map(),
        sorted: undefined,
        history: [],
        compactedThrough: 0,
        listeners: new Set(),
      };
      this.#collections.set(name, found);
    }
    return found;
  }
}

const byKey = (a: Entry, b: Entry): number => (a.key < b.key ? -1 : a.key > b.key ? 1 : 0);

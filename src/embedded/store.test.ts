import fc from "fast-check";
import { expect, test } from "vitest";
import type { KubeObject } from "../api/meta.ts";
import { Store, type StoreEvent, storeKey } from "./store.ts";

const object = (name: string, namespace?: string): KubeObject => ({
  metadata: namespace === undefined ? { name } : { name, namespace },
});

test("every write of any kind is one resourceVersion later, and the bytes are the object", () => {
  const store = new Store();
  const start = store.version;
  const first = store.put("pools", object("a"));
  const second = store.put("nodes", object("a"));
  expect([first.version, second.version]).toEqual([start + 1, start + 2]);
  expect(JSON.parse(second.bytes.toString())).toEqual(second.object);
  expect(second.object.metadata.resourceVersion).toBe(String(start + 2));
});

test("a deleted event carries the resourceVersion of the deletion", () => {
  const store = new Store();
  store.put("pools", object("a"));
  const removed = store.remove("pools", "a");
  expect(removed?.object.metadata.resourceVersion).toBe(String(store.version));
  expect(store.since("pools", 0)?.at(-1)).toMatchObject({ type: "DELETED", version: store.version });
});

test("lists are in key order, over all namespaces or in one", () => {
  const store = new Store();
  for (const [name, namespace] of [
    ["b", "two"],
    ["a", "two"],
    ["c", "one"],
  ]) {
    store.put("services", object(name ?? "", namespace));
  }
  expect(store.list("services").map(({ key }) => key)).toEqual(["one/c", "two/a", "two/b"]);
  expect(store.list("services", "two").map(({ key }) => key)).toEqual(["two/a", "two/b"]);
  expect(store.collectionsIn("one")).toEqual(["services"]);
});

test("a list that was handed out does not change with the store", () => {
  const store = new Store();
  store.put("pools", object("a"));
  const before = store.list("pools");
  store.put("pools", object("a"));
  store.put("pools", object("b"));
  expect(before).toHaveLength(1);
  expect(before[0]?.version).toBe(2);
});

test("history that was cut or compacted is told from history without events", () => {
  const store = new Store(4);
  for (let i = 0; i < 10; i++) store.put("pools", object("a"));
  expect(store.since("pools", 1)).toBeUndefined();
  expect(store.since("pools", store.version)).toEqual([]);
  store.compact();
  expect(store.since("pools", store.version - 1)).toBeUndefined();
  expect(store.since("pools", store.version)).toEqual([]);
});

test("a restore brings objects and resourceVersions back, and resuming from after it is too late", () => {
  const store = new Store();
  store.put("services", object("a", "one"));
  const snapshot = store.snapshot();
  store.put("services", object("a", "one"));
  store.put("services", object("b", "two"));
  store.restore(snapshot);
  expect(store.version).toBe(snapshot.version);
  expect(store.list("services").map(({ version }) => version)).toEqual([2]);
  expect(store.collectionsIn("two")).toEqual([]);
  expect(store.since("services", snapshot.version - 1)).toBeUndefined();
});

test("property: a list and the events after it give what the next list shows", () => {
  const write = fc.record({ name: fc.constantFrom("a", "b", "c"), remove: fc.boolean() });
  fc.assert(
    fc.property(fc.array(write), fc.array(write), (before, after) => {
      const store = new Store();
      const apply = (writes: typeof before) => {
        for (const { name, remove } of writes)
          remove ? store.remove("x", storeKey("n", name)) : store.put("x", object(name, "n"));
      };
      apply(before);
      const replayed = new Map(store.list("x").map((entry) => [entry.key, entry.version]));
      const version = store.version;
      const heard: StoreEvent[] = [];
      store.subscribe("x", (event) => heard.push(event));
      apply(after);
      expect(store.since("x", version)).toEqual(heard);
      for (const { type, entry } of heard) {
        if (type === "DELETED") replayed.delete(entry.key);
        else replayed.set(entry.key, entry.version);
      }
      expect([...replayed].sort()).toEqual(store.list("x").map((entry) => [entry.key, entry.version]));
    }),
  );
});

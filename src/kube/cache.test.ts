import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { KubeObject } from "../api/meta.ts";
import { ObjectCache } from "./cache.ts";
import type { InformerEvent } from "./port.ts";

const object = (name: string, version: number, uid = name): KubeObject => ({
  metadata: { name, uid, resourceVersion: String(version) },
});
const cacheOf = (version: number, ...items: KubeObject[]) => {
  const cache = new ObjectCache<KubeObject>((item) => item);
  cache.applyList(String(version), items);
  return cache;
};
/** `+name@version`, `-name`. */
const told = (verdict: { events?: readonly InformerEvent<KubeObject>[] }) =>
  (verdict.events ?? []).map((event) =>
    event.type === "synced"
      ? "synced"
      : `${event.type === "delete" ? "-" : "+"}${event.object.metadata.name}@${event.object.metadata.resourceVersion}`,
  );

describe("a list", () => {
  test("tells only what is new, deletes first", () => {
    const cache = cacheOf(5, object("a", 1), object("b", 2), object("c", 3));
    const verdict = cache.applyList("9", [object("d", 8), object("b", 7), object("a", 1)]);
    expect(verdict).toMatchObject({ type: "applied", changes: [] });
    expect(told(verdict as never)).toEqual(["-c@3", "+d@8", "+b@7"]);
  });

  test("in another order tells nothing", () => {
    const cache = cacheOf(5, object("a", 1), object("b", 2), object("c", 3));
    expect(told(cache.applyList("5", [object("c", 3), object("a", 1), object("b", 2)]) as never)).toEqual([]);
  });

  test("older than what was seen is not applied", () => {
    const cache = cacheOf(9, object("a", 8));
    expect(cache.applyList("7", [])).toEqual({ type: "stale", seen: "9" });
    expect([...cache.objects.keys()]).toEqual(["a"]);
    expect(cache.eventVersion).toBe("9");
  });

  test("older than a bookmark is not applied either", () => {
    const cache = cacheOf(9, object("a", 8));
    cache.applyEvent("BOOKMARK", object("", 20));
    expect(cache.applyList("19", []).type).toBe("stale");
  });

  test("that is older and believed is applied, and says that the store went back", () => {
    const cache = cacheOf(9, object("a", 8), object("b", 4));
    const verdict = cache.applyList("7", [object("a", 6)], true);
    expect(told(verdict as never)).toEqual(["-b@4", "+a@6"]);
    expect(verdict).toMatchObject({
      changes: [
        { what: "ListWentBack", seen: "9", found: "7" },
        { what: "ObjectWentBack", key: "a", seen: "8", found: "6" },
      ],
    });
  });

  test("that is newer but holds an older version of an object says that the store went back", () => {
    const cache = cacheOf(9, object("a", 8));
    expect(cache.applyList("30", [object("a", 6)])).toMatchObject({ changes: [{ what: "ObjectWentBack", key: "a" }] });
  });

  test("with the same name under another uid is a delete and an upsert without previous", () => {
    const cache = cacheOf(9, object("a", 8, "old"));
    const verdict = cache.applyList("12", [object("a", 11, "new")]);
    expect(told(verdict as never)).toEqual(["-a@8", "+a@11"]);
    expect(verdict).toMatchObject({ changes: [] });
  });
});

describe("an event", () => {
  test.each([
    ["ADDED", object("b", 10), ["+b@10"]],
    ["MODIFIED", object("a", 10), ["+a@10"]],
    ["DELETED", object("a", 10), ["-a@10"]],
    ["DELETED", object("b", 10), []],
    ["ADDED", object("a", 10, "new"), ["-a@8", "+a@10"]],
    ["DELETED", object("a", 10, "new"), ["-a@8"]],
  ] as const)("%s %j tells %j", (type, item, expected) => {
    expect(told(cacheOf(9, object("a", 8)).applyEvent(type, item) as never)).toEqual(expected);
  });

  test("that was seen is not told twice", () => {
    const cache = cacheOf(9, object("a", 8));
    cache.applyEvent("MODIFIED", object("a", 10));
    expect(cache.applyEvent("MODIFIED", object("a", 10))).toEqual({ type: "nothing" });
  });

  test.each(["ADDED", "MODIFIED", "DELETED", "BOOKMARK"])("%s that went back breaks the stream", (type) => {
    const cache = cacheOf(9, object("a", 8));
    expect(cache.applyEvent(type, object("b", 7)).type).toBe("broken");
    expect([...cache.objects.keys()]).toEqual(["a"]);
  });

  test("of a type that does not exist, or without version or name, breaks the stream", () => {
    const cache = cacheOf(9);
    expect(cache.applyEvent("MOVED", object("a", 10)).type).toBe("broken");
    expect(cache.applyEvent("ADDED", { metadata: { name: "a" } }).type).toBe("broken");
    expect(cache.applyEvent("ADDED", {} as KubeObject).type).toBe("broken");
    expect(cache.applyEvent("ADDED", { metadata: { resourceVersion: "10" } } as KubeObject).type).toBe("broken");
  });

  test("a bookmark moves the position and not the event version", () => {
    const cache = cacheOf(9, object("a", 8));
    cache.applyEvent("BOOKMARK", object("", 20));
    expect([cache.position, cache.eventVersion]).toEqual(["20", "9"]);
    cache.applyEvent("DELETED", object("a", 21));
    expect([cache.position, cache.eventVersion]).toEqual(["21", "21"]);
  });
});

test("managedFields and last-applied are gone before the projection sees the object", () => {
  const cache = new ObjectCache<KubeObject>((item) => {
    expect(JSON.stringify(item)).not.toMatch(/managedFields|last-applied/);
    return item;
  });
  cache.project({
    metadata: {
      ...object("a", 1).metadata,
      annotations: { "kubectl.kubernetes.io/last-applied-configuration": "{}", kept: "yes" },
      ...{ managedFields: [{}] },
    },
  });
});

test("a projection that loses the identity is a bug and throws", () => {
  const cache = new ObjectCache<KubeObject>(({ metadata: { name } }) => ({ metadata: { name } }));
  expect(() => cache.project(object("a", 1))).toThrow(/lost its identity/);
});

test("whatever lists, events and gaps come, the events that were told give the cache", () => {
  const step = fc.oneof(
    fc.record({ do: fc.constant("put" as const), name: fc.constantFrom("a", "b", "c"), seen: fc.boolean() }),
    fc.record({ do: fc.constant("remove" as const), name: fc.constantFrom("a", "b", "c"), seen: fc.boolean() }),
    fc.record({ do: fc.constant("list" as const) }),
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const cache = cacheOf(1);
      const replayed = new Map<string, KubeObject>();
      const store = new Map<string, KubeObject>();
      let version = 1;
      const replay = (events: readonly InformerEvent<KubeObject>[]) => {
        for (const event of events) {
          if (event.type === "upsert") {
            expect(event.previous).toEqual(replayed.get(event.object.metadata.name));
            replayed.set(event.object.metadata.name, event.object);
          } else if (event.type === "delete") {
            expect(replayed.delete(event.object.metadata.name)).toBe(true);
          }
        }
      };
      const list = () => {
        const verdict = cache.applyList(String(version), [...store.values()]);
        expect(verdict.type).toBe("applied");
        if (verdict.type === "applied") replay(verdict.events);
      };
      /** Once an event is missed the stream is over until the next list. */
      let following = true;
      for (const next of steps) {
        if (next.do === "list") {
          list();
          following = true;
          continue;
        }
        const known = store.get(next.name);
        if (next.do === "remove" && known === undefined) continue;
        version++;
        const item = object(next.name, version, known?.metadata.uid ?? `${next.name}${version}`);
        if (next.do === "put") store.set(next.name, item);
        else store.delete(next.name);
        following &&= next.seen;
        if (!following) continue;
        const type = next.do === "remove" ? "DELETED" : known === undefined ? "ADDED" : "MODIFIED";
        const verdict = cache.applyEvent(type, item);
        expect(verdict.type).toBe("applied");
        if (verdict.type === "applied") replay(verdict.events);
      }
      list();
      expect(new Map(cache.objects)).toEqual(store);
      expect(replayed).toEqual(store);
    }),
  );
});

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import type { Node } from "../api/foreign.ts";
import type { KubeObject } from "../api/meta.ts";
import { NODE } from "../api/resource.ts";
import type { Instant } from "../core/instant.ts";
import { silentLog } from "../core/log.ts";
import { type Embedded, startEmbedded } from "../embedded/embedded.ts";
import { clock } from "../host/clock.ts";
import type { StoreChange } from "./cache.ts";
import { createClient, type WatchClient } from "./client.ts";
import { loadConfig } from "./config.ts";
import { type InformerLimits, startInformer } from "./informer.ts";
import type { ApiClient, Informer } from "./port.ts";

const FAST: Partial<InformerLimits> = {
  backoff: { firstMilliseconds: 2, lastMilliseconds: 40 },
  healthyMilliseconds: 20,
  idleMilliseconds: 30_000,
};
/** Faults hit this user only; the tests write as another. */
const WATCHER = "watcher";
const LIST = { verb: "list", resource: "nodes", user: WATCHER } as const;
const WATCH = { verb: "watch", resource: "nodes", user: WATCHER } as const;

let directory: string;
let embedded: Embedded;
let writer: WatchClient;
const closers: (() => unknown)[] = [];

beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), "belfry-informer-"));
});
afterAll(() => rmSync(directory, { recursive: true }));
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

async function start(): Promise<void> {
  embedded = await startEmbedded({ bookmarkSeconds: 0.05 });
  closers.push(() => embedded.close());
  writer = connect("writer");
}

function kubeconfig(user: string): string {
  const path = join(directory, `${user}.kubeconfig`);
  writeFileSync(path, embedded.kubeconfigFor(user));
  return path;
}

function connect(user: string): WatchClient {
  const client = createClient(loadConfig({ kubeconfig: kubeconfig(user) }), {
    clock,
    log: silentLog,
    limits: {
      backoff: { firstMilliseconds: 2, lastMilliseconds: 40 },
      connectTimeoutMilliseconds: 1_000,
      requestTimeoutMilliseconds: 1_000,
      listTimeoutMilliseconds: 1_000,
    },
  });
  closers.push(() => client.close());
  return client;
}

type Follower = {
  readonly informer: Informer<KubeObject>;
  readonly client: WatchClient;
  /** `+name`, `~name` (changed), `-name`, `synced`, `fresh`, `broken`, `!what` (the store changed). */
  readonly told: string[];
  /** What someone has who only hears the events. */
  readonly replayed: Map<string, KubeObject>;
};

function follow(limits: Partial<InformerLimits> = {}, user = WATCHER): Follower {
  const stop = new AbortController();
  closers.push(() => stop.abort());
  const told: string[] = [];
  const replayed = new Map<string, KubeObject>();
  const client = connect(user);
  const informer = startInformer({
    client,
    resource: NODE,
    project: ({ metadata }) => ({ metadata }),
    onEvent(event) {
      if (event.type === "synced") return void told.push("synced");
      const { name } = event.object.metadata;
      if (event.type === "delete") {
        told.push(`-${name}`);
        if (!replayed.delete(name)) throw new Error(`${name} deleted twice`);
        return;
      }
      told.push(`${event.previous === undefined ? "+" : "~"}${name}`);
      const known = replayed.get(name);
      if (known?.metadata.resourceVersion !== event.previous?.metadata.resourceVersion) {
        throw new Error(`${name} was told out of order`);
      }
      if (known?.metadata.resourceVersion === event.object.metadata.resourceVersion) {
        throw new Error(`${name} was told twice`);
      }
      replayed.set(name, event.object);
    },
    onFresh: (fresh) => void told.push(fresh ? "fresh" : "broken"),
    onStoreChanged: (change: StoreChange) => void told.push(`!${change.what}`),
    clock,
    log: silentLog,
    signal: stop.signal,
    limits: { ...FAST, ...limits },
  });
  return { informer, client, told, replayed };
}

const versions = (objects: Iterable<KubeObject>) =>
  Object.fromEntries([...objects].map(({ metadata }) => [metadata.name, metadata.resourceVersion]).sort());
const stored = () => versions(embedded.store.list("nodes").map(({ object }) => object));

/** Waits until the cache and those who replay its events have what the store has. */
const settled = ({ informer, replayed }: Follower) =>
  vi.waitFor(
    () => {
      expect(versions(informer.values())).toEqual(stored());
      expect(versions(replayed.values())).toEqual(stored());
      expect(informer.fresh).toBe(true);
    },
    { timeout: 8_000, interval: 2 },
  );

const node = (name: string, label = "0"): Node => ({ metadata: { name, labels: { label } } });
async function must<T>(answer: ReturnType<ApiClient["create"]> | Promise<{ ok: boolean }>): Promise<T> {
  const got = await answer;
  if (!got.ok) throw new Error(JSON.stringify(got));
  return got as T;
}
const add = (name: string) => must(writer.create(NODE, node(name)));
const change = (name: string, label: string) =>
  must(writer.mergePatch(NODE, { name }, { metadata: { labels: { label } } }));
const remove = (name: string) => must(writer.delete(NODE, { name }));
const lists = () => embedded.audit.filter(({ verb, user }) => verb === "list" && user === WATCHER).length;
const watches = () => embedded.faults.watches(WATCH);
/** The one watch that runs, once the server has it. */
async function running() {
  await vi.waitFor(() => expect(watches().length).toBe(1), { interval: 2 });
  const [watch] = watches();
  if (watch === undefined) throw new Error("no watch");
  return watch;
}

/** A follower of a, b, c that has seen one event, so that its watch may resume; what was told so far is forgotten. */
async function following(limits: Partial<InformerLimits> = {}): Promise<Follower> {
  await start();
  for (const name of ["a", "b", "c"]) await add(name);
  const follower = follow(limits);
  await running();
  await change("a", "1");
  await settled(follower);
  follower.told.length = 0;
  embedded.audit.length = 0;
  return follower;
}
/** One of each, while the follower may not see it. */
async function writeBehindItsBack(): Promise<void> {
  await change("a", "2");
  await remove("b");
  await add("d");
}

test("the first list comes before synced, and the watch after it", async () => {
  await start();
  for (const name of ["a", "b", "c", "d"]) await add(name);
  const follower = follow();
  expect([follower.informer.synced, follower.informer.fresh, follower.informer.lastEventVersion]).toEqual([
    false,
    false,
    undefined,
  ]);
  await settled(follower);
  expect(follower.told).toEqual(["+a", "+b", "+c", "+d", "synced", "fresh"]);
  await remove("c");
  await settled(follower);
  expect(follower.told.slice(6)).toEqual(["-c"]);
  expect(follower.informer.get("c")).toBeUndefined();
  expect(follower.informer.get("d")?.metadata.name).toBe("d");
});

test("bookmarks move no event version, and a deletion does", async () => {
  const follower = await following();
  const before = follower.informer.lastEventVersion;
  const heard = follower.informer.lastHeardAt ?? 0;
  await must(writer.create({ ...NODE, kind: "Namespace", plural: "namespaces" }, { metadata: { name: "elsewhere" } }));
  await vi.waitFor(() => expect(follower.informer.lastHeardAt ?? 0).toBeGreaterThan(heard), { interval: 2 });
  expect(follower.informer.lastEventVersion).toBe(before);
  await remove("a");
  await settled(follower);
  expect(Number(follower.informer.lastEventVersion)).toBe(embedded.store.version);
});

test("an event says when its bytes were read, and comes in the same turn", async () => {
  await start();
  const times: { receivedAt: Instant; deliveredAt: Instant }[] = [];
  const stop = new AbortController();
  closers.push(() => stop.abort());
  const informer = startInformer({
    client: connect(WATCHER),
    resource: NODE,
    project: ({ metadata }) => ({ metadata }),
    onEvent: (_event, receivedAt) => times.push({ receivedAt, deliveredAt: clock.now() }),
    clock,
    log: silentLog,
    signal: stop.signal,
    limits: FAST,
  });
  await running();
  const before = clock.now();
  await add("a");
  await vi.waitFor(() => expect(informer.size).toBe(1));
  const last = times.at(-1);
  expect(last?.receivedAt).toBeGreaterThan(before);
  expect(last?.deliveredAt).toBeGreaterThanOrEqual(last?.receivedAt ?? 0);
});

describe("comes back by itself, with no event lost and none told twice, from", () => {
  const MISSED = ["-b", "+d", "~a"];

  test("a clean end: resumes without a list", async () => {
    const follower = await following();
    (await running()).end();
    await writeBehindItsBack();
    await settled(follower);
    expect(follower.told).toEqual(["~a", "-b", "+d"]);
    expect(lists()).toBe(0);
  });

  test("a clean end over and over that tells nothing: lists, and not in a hot loop", async () => {
    const follower = await following({
      backoff: { firstMilliseconds: 20, lastMilliseconds: 40 },
      healthyMilliseconds: 9e9,
    });
    const injection = embedded.faults.inject(WATCH, { type: "end" }, { times: 1_000 });
    (await running()).end();
    await writeBehindItsBack();
    await vi.waitFor(() => expect(lists()).toBeGreaterThan(2), { timeout: 4_000 });
    expect(injection.hits).toBeLessThan(12);
    embedded.faults.clear();
    await settled(follower);
  });

  type Break = (follower: Follower) => Promise<void> | void;
  const broken: [string, Break, Partial<InformerLimits>?][] = [
    ["a TCP reset", async () => (await running()).reset()],
    ["a frozen stream", async () => (await running()).freeze(), { idleMilliseconds: 200 }],
    ["half a JSON line", async () => (await running()).halfLine()],
    ["410 in the stream", async () => (await running()).expire()],
    [
      "410 as the answer",
      async () => {
        embedded.faults.inject(WATCH, { type: "status", code: 410, reason: "Expired" });
        (await running()).end();
      },
    ],
    [
      "500 for the watch and twice for the list",
      async () => {
        embedded.faults.inject(WATCH, { type: "status", code: 500 });
        embedded.faults.inject(LIST, { type: "status", code: 500 }, { times: 2 });
        (await running()).end();
      },
    ],
    [
      "GOAWAY",
      async ({ client }) => {
        embedded.faults.inject({ verb: "get", user: WATCHER }, { type: "goaway" });
        const watch = await running();
        await client.get(NODE, { name: "a" });
        await vi.waitFor(() => expect(client.connection).toBeUndefined(), { interval: 2 });
        // The server ends what is left; to resume over another connection would be blind.
        watch.end();
      },
    ],
    [
      "a connection lost in the middle of the next list",
      async () => {
        embedded.faults.inject(LIST, { type: "drop" });
        (await running()).reset();
      },
    ],
    [
      "half a list",
      async () => {
        embedded.faults.inject(LIST, { type: "halfLine" });
        (await running()).reset();
      },
    ],
    [
      "a list that is never answered",
      async () => {
        embedded.faults.inject(LIST, { type: "stall" });
        (await running()).reset();
      },
    ],
    [
      "a server that went away and came back",
      async () => {
        await embedded.stopListening();
        await embedded.resume();
        writer = connect("writer");
      },
    ],
    [
      "a server that came back with another authority's certificate",
      async () => {
        await embedded.stopListening();
        await embedded.resume("newAuthority");
        kubeconfig(WATCHER);
        writer = connect("writer");
      },
    ],
    [
      "a shuffled list",
      async () => {
        embedded.faults.inject(LIST, { type: "shuffle" }, { times: 5 });
        (await running()).reset();
      },
    ],
  ];
  test.each(broken)("%s: lists before it tells anything", async (_name, breaks, limits) => {
    const follower = await following(limits);
    await breaks(follower);
    await writeBehindItsBack();
    await settled(follower);
    const changes = follower.told.filter((what) => !["fresh", "broken"].includes(what));
    expect([...changes].sort()).toEqual([...MISSED].sort());
    await vi.waitFor(() => expect(follower.told).toContain("fresh"));
    expect(follower.told[0]).toBe("broken");
    expect(follower.told.filter((what) => what === "synced")).toEqual([]);
    expect(lists()).toBeGreaterThan(0);
    // And it follows again.
    follower.told.length = 0;
    await running();
    await change("d", "9");
    await settled(follower);
    expect(follower.told.filter((what) => !["fresh", "broken"].includes(what))).toEqual(["~d"]);
  });

  test("410 when it resumes: lists before it tells anything", async () => {
    const follower = await following();
    const watch = await running();
    watch.freeze();
    await writeBehindItsBack();
    embedded.expireAll();
    watch.end();
    await settled(follower);
    expect(follower.told).toEqual(["broken", "-b", "~a", "+d", "fresh"]);
    expect(lists()).toBeGreaterThan(0);
  });

  test("429 with Retry-After: waits for as long as asked", async () => {
    const follower = await following();
    embedded.faults.inject(LIST, { type: "status", code: 429, retryAfterSeconds: 1 });
    const asked = clock.now();
    (await running()).reset();
    await writeBehindItsBack();
    await settled(follower);
    expect(clock.now() - asked).toBeGreaterThanOrEqual(1_000);
    expect(lists()).toBe(1 + 1);
  });

  test("a stale list: tells nothing of it", async () => {
    const follower = await following();
    const old = embedded.snapshot();
    await writeBehindItsBack();
    await settled(follower);
    follower.told.length = 0;
    const injection = embedded.faults.inject(LIST, { type: "stale", snapshot: old }, { times: 2 });
    (await running()).reset();
    await vi.waitFor(() => expect(follower.told).toEqual(["broken", "fresh"]), { interval: 2 });
    await settled(follower);
    expect(injection.hits).toBe(2);
    expect(follower.told).toEqual(["broken", "fresh"]);
  });

  test("events that come late: nothing is missing in the end", async () => {
    const follower = await following();
    embedded.faults.inject(WATCH, { type: "delay", milliseconds: 60 });
    (await running()).end();
    await writeBehindItsBack();
    await settled(follower);
    expect(follower.told).toEqual(["~a", "-b", "+d"]);
  });
});

test("while the API server is away it is not fresh, and tells nothing", async () => {
  const follower = await following();
  await embedded.stopListening();
  await vi.waitFor(() => expect(follower.informer.fresh).toBe(false));
  expect(follower.told).toEqual(["broken"]);
  expect(follower.informer.size).toBe(3);
});

test("a store that was restored is reported before its state is told", async () => {
  const follower = await following();
  const backup = embedded.snapshot();
  await writeBehindItsBack();
  await settled(follower);
  follower.told.length = 0;
  embedded.restore(backup);
  await settled(follower);
  expect(follower.told).toEqual(["broken", "!ListWentBack", "!ObjectWentBack", "-d", "~a", "+b", "fresh"]);
});

test("a store that was restored and has overtaken its old version since is known by its objects", async () => {
  const follower = await following();
  const backup = embedded.snapshot();
  await change("a", "2");
  await settled(follower);
  follower.told.length = 0;
  // Nobody is let in before the store is ahead again.
  embedded.faults.inject(LIST, { type: "stall" }, { times: 1_000 });
  embedded.restore(backup);
  for (const name of ["x", "y", "z"]) embedded.seed({ apiVersion: "v1", kind: "Node", ...node(name) });
  embedded.faults.clear();
  await settled(follower);
  expect(follower.told.filter((what) => what.startsWith("!"))).toEqual(["!ObjectWentBack"]);
});

test("one that is made to doubt is not fresh from that moment, and lists before it goes on", async () => {
  const follower = await following();
  follower.told.length = 0;
  follower.informer.doubt("a Lease went back");
  expect(follower.informer.fresh).toBe(false);
  await settled(follower);
  expect(follower.told).toEqual(["broken", "fresh"]);
  await change("a", "2");
  await settled(follower);
  expect(follower.told).toEqual(["broken", "fresh", "~a"]);
});

test("a namespace and a field selector narrow what is followed", async () => {
  await start();
  await add("a");
  await add("b");
  const stop = new AbortController();
  closers.push(() => stop.abort());
  const informer = startInformer({
    client: connect(WATCHER),
    resource: NODE,
    fieldSelector: "metadata.name=b",
    project: ({ metadata }) => ({ metadata }),
    onEvent() {},
    clock,
    log: silentLog,
    signal: stop.signal,
    limits: FAST,
  });
  await vi.waitFor(() => expect(informer.synced).toBe(true));
  expect([...informer.values()].map(({ metadata }) => metadata.name)).toEqual(["b"]);
});

test("after the signal nothing is asked and nothing is told", async () => {
  await start();
  const stop = new AbortController();
  const told: string[] = [];
  startInformer({
    client: connect(WATCHER),
    resource: NODE,
    project: ({ metadata }) => ({ metadata }),
    onEvent: ({ type }) => told.push(type),
    clock,
    log: silentLog,
    signal: stop.signal,
    limits: FAST,
  });
  await running();
  stop.abort();
  await vi.waitFor(() => expect(watches()).toEqual([]));
  embedded.audit.length = 0;
  await add("a");
  expect(told).toEqual(["synced"]);
  expect(lists()).toBe(0);
});

describe("two informers", () => {
  const name = fc.constantFrom("a", "b", "c", "d", "e");
  const fault = fc.constantFrom(
    "reset",
    "end",
    "halfLine",
    "expire",
    "freeze",
    "compact",
    "list 500",
    "list drop",
    "list half",
    "list shuffle",
    "list stale",
    "list expired",
    "watch 429",
    "watch end",
    "watch half",
    "watch delay",
    "restart",
  );
  const step = fc.oneof(
    { weight: 5, arbitrary: fc.record({ put: name }) },
    { weight: 3, arbitrary: fc.record({ remove: name }) },
    { weight: 3, arbitrary: fc.record({ fault, other: fc.boolean() }) },
    { weight: 2, arbitrary: fc.record({ wait: fc.integer({ min: 1, max: 12 }) }) },
  );

  test("whatever goes wrong, both end with what the store has, and so does who replays their events", async () => {
    await start();
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 20, maxLength: 40, size: "max" }), async (steps) => {
        const mark = closers.length;
        const followers = [follow({ idleMilliseconds: 250 }, WATCHER), follow({ idleMilliseconds: 250 }, "other")];
        for (const follower of followers) await settled(follower);
        let count = 0;
        const old = embedded.snapshot();
        for (const next of steps) {
          if ("put" in next) {
            const known = await writer.get(NODE, { name: next.put });
            if (known.ok) await change(next.put, String(++count));
            else await add(next.put);
          } else if ("remove" in next) {
            await writer.delete(NODE, { name: next.remove });
          } else if ("wait" in next) {
            await new Promise((resolve) => setTimeout(resolve, next.wait));
          } else {
            const user = next.other ? "other" : WATCHER;
            const list = { ...LIST, user };
            const watch = { ...WATCH, user };
            const live = embedded.faults.watches(watch);
            switch (next.fault) {
              case "reset":
              case "end":
              case "halfLine":
              case "expire":
              case "freeze":
                for (const one of live) one[next.fault]();
                break;
              case "compact":
                embedded.expireAll();
                break;
              case "list 500":
                embedded.faults.inject(list, { type: "status", code: 500 });
                break;
              case "list drop":
                embedded.faults.inject(list, { type: "drop" });
                break;
              case "list half":
                embedded.faults.inject(list, { type: "halfLine" });
                break;
              case "list shuffle":
                embedded.faults.inject(list, { type: "shuffle" });
                break;
              case "list stale":
                embedded.faults.inject(list, { type: "stale", snapshot: old });
                break;
              case "list expired":
                embedded.faults.inject(list, { type: "status", code: 410 });
                break;
              case "watch 429":
                embedded.faults.inject(watch, { type: "status", code: 429 });
                break;
              case "watch end":
                embedded.faults.inject(watch, { type: "end", afterLines: 2 });
                break;
              case "watch half":
                embedded.faults.inject(watch, { type: "halfLine" });
                break;
              case "watch delay":
                embedded.faults.inject(watch, { type: "delay", milliseconds: 15 });
                break;
              case "restart":
                await embedded.stopListening();
                await embedded.resume();
                await vi.waitFor(async () =>
                  expect((await writer.get(NODE, { name: "a" })).ok !== undefined).toBe(true),
                );
                break;
            }
          }
        }
        embedded.faults.clear();
        for (const follower of followers) await settled(follower);
        for (const close of closers.splice(mark).reverse()) await close();
      }),
      { numRuns: 8, interruptAfterTimeLimit: 8_000 },
    );
  }, 30_000);
});

/** The server as clients meet it on the wire: TLS, two HTTPs, watches, pages, faults. */
import { connect } from "node:http2";
import { request as httpsRequest } from "node:https";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { KubeObject } from "../api/meta.ts";
import { type Embedded, startEmbedded } from "./embedded.ts";

const POOLS = "/apis/belfry.dev/v1alpha1/ipaddresspools";
const pool = (name: string, labels?: Record<string, string>): KubeObject =>
  ({
    apiVersion: "belfry.dev/v1alpha1",
    kind: "IPAddressPool",
    metadata: { name, ...(labels === undefined ? {} : { labels }) },
    spec: { addresses: ["192.0.2.0/24"] },
  }) as KubeObject;

/** Machines that run tests are slow at times; what is awaited here comes in milliseconds otherwise. */
const eventually = <T>(read: () => T) => expect.poll(read, { timeout: 10_000 });

let embedded: Embedded;
beforeEach(async () => {
  embedded = await startEmbedded({ bookmarkSeconds: 0.05 });
});
afterEach(() => embedded.close());

type Answer = { code: number; headers: Record<string, unknown>; body: string };

/** One HTTP/1.1 request on a connection of its own. Rejects when the connection breaks before the answer ends. */
function ask(
  method: string,
  path: string,
  body?: object,
  headers: Record<string, string> = {},
  patience = 10_000,
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const request = httpsRequest(
      embedded.url + path,
      {
        method,
        ca: embedded.caPem,
        agent: false,
        headers: {
          authorization: `Bearer ${embedded.token("tester")}`,
          "content-type": "application/json",
          ...headers,
        },
      },
      (response) => {
        let text = "";
        response.on("data", (chunk) => {
          text += chunk;
        });
        response.on("error", reject);
        response.on("end", () => resolve({ code: response.statusCode ?? 0, headers: response.headers, body: text }));
      },
    );
    request.on("error", reject);
    request.setTimeout(patience, () => request.destroy(new Error("no answer")));
    request.end(body === undefined ? undefined : JSON.stringify(body));
  });
}
const get = async (path: string) => JSON.parse((await ask("GET", path)).body);
const namesOf = (list: { items: KubeObject[] }): string[] => list.items.map(({ metadata }) => metadata.name);

type Line = { type: string; object: KubeObject & { code?: number } };

/** An HTTP/2 watch on a connection of its own: what it got so far, and whether and how it ended. */
function watch(path: string) {
  const session = connect(embedded.url, { ca: embedded.caPem });
  const got: { text: string; lines: Line[]; ended: "no" | "clean" | "broken"; goAway: boolean } = {
    text: "",
    lines: [],
    ended: "no",
    goAway: false,
  };
  session.on("error", () => {});
  session.on("goaway", () => {
    got.goAway = true;
  });
  const stream = session.request({ ":path": path, authorization: `Bearer ${embedded.token("watcher")}` });
  stream.on("error", () => {});
  stream.on("data", (chunk) => {
    got.text += chunk;
    const parts = got.text.split("\n");
    got.lines = parts.slice(0, -1).map((line) => JSON.parse(line) as Line);
  });
  let sawEnd = false;
  stream.on("end", () => {
    sawEnd = true;
  });
  stream.on("close", () => {
    // A reset that Node meets while writing shows as an end, with another rstCode than NO_ERROR.
    got.ended = sawEnd && stream.rstCode === 0 ? "clean" : "broken";
    session.destroy();
  });
  const events = (): string[] =>
    got.lines
      .filter(({ type }) => type !== "BOOKMARK")
      .map(({ type, object }) => `${type} ${object.metadata?.name ?? object.code}`);
  return { got, events, close: () => session.destroy() };
}
const watching = () => eventually(() => embedded.faults.watches({ verb: "watch" }).length).toBeGreaterThan(0);

test("the certificate holds for Node's and therefore OpenSSL's checks, and nobody gets in without a token", async () => {
  expect((await ask("GET", "/version")).code).toBe(200);
  expect((await ask("GET", POOLS, undefined, { authorization: "Bearer wrong" })).code).toBe(401);
  expect((await ask("GET", "/healthz", undefined, { authorization: "" })).body).toBe("ok");
});

test("writes over the wire are audited with verb, user, manager and code", async () => {
  expect((await ask("POST", `${POOLS}?fieldManager=me`, pool("lan"))).code).toBe(201);
  expect((await ask("POST", POOLS, pool("lan"), { "user-agent": "tool/1.0" })).code).toBe(409);
  expect(
    embedded.audit.map(({ verb, resource, user, manager, code }) => [verb, resource, user, manager, code]),
  ).toEqual([
    ["create", "ipaddresspools", "tester", "me", 201],
    ["create", "ipaddresspools", "tester", "tool", 409],
  ]);
});

test("strategic merge patches are refused with the words what to use", async () => {
  embedded.seed(pool("lan"));
  const answer = await ask("PATCH", `${POOLS}/lan`, {}, { "content-type": "application/strategic-merge-patch+json" });
  expect([answer.code, answer.body]).toEqual([415, expect.stringContaining("--server-side")]);
});

test("events are one object under two names", async () => {
  const event = {
    apiVersion: "events.k8s.io/v1",
    kind: "Event",
    metadata: { name: "e", namespace: "default" },
    regarding: { kind: "Gateway", name: "web" },
    note: "hello",
    eventTime: "2026-01-01T00:00:00Z",
  };
  expect((await ask("POST", "/apis/events.k8s.io/v1/namespaces/default/events", event)).code).toBe(201);
  const path = "/api/v1/namespaces/default/events?fieldSelector=involvedObject.name=web";
  expect((await get(path)).items).toMatchObject([
    { apiVersion: "v1", involvedObject: { name: "web" }, message: "hello" },
  ]);
  expect((await get(path.replace("=web", "=other"))).items).toEqual([]);
});

describe("lists", () => {
  beforeEach(() => embedded.seed(pool("a", { x: "1" }), pool("b", { x: "2" }), pool("c")));

  test.each([
    ["labelSelector=x=1", ["a"]],
    ["labelSelector=x!=1", ["b", "c"]],
    ["labelSelector=x", ["a", "b"]],
    ["labelSelector=!x", ["c"]],
    ["labelSelector=x in (1,2),x notin (2)", ["a"]],
    ["fieldSelector=metadata.name=b", ["b"]],
    ["fieldSelector=metadata.name!=b", ["a", "c"]],
  ])("%s finds %j", async (query, names) => {
    const [name = "", value = ""] = [query.slice(0, query.indexOf("=")), query.slice(query.indexOf("=") + 1)];
    expect(namesOf(await get(`${POOLS}?${name}=${encodeURIComponent(value)}`))).toEqual(names);
  });

  test("come in pages out of one moment, until the token expires", async () => {
    const first = await get(`${POOLS}?limit=2`);
    expect([namesOf(first), first.metadata.remainingItemCount]).toEqual([["a", "b"], 1]);
    embedded.seed(pool("bb"));
    const second = await get(`${POOLS}?limit=2&continue=${first.metadata.continue}`);
    expect([namesOf(second), second.metadata]).toEqual([["c"], { resourceVersion: first.metadata.resourceVersion }]);
    const again = await get(`${POOLS}?limit=1`);
    embedded.expireAll();
    expect((await ask("GET", `${POOLS}?continue=${again.metadata.continue}`)).code).toBe(410);
  });

  test("can be shuffled or stale on order", async () => {
    const snapshot = embedded.snapshot();
    embedded.seed(pool("d"));
    embedded.faults.inject({ verb: "list" }, { type: "stale", snapshot });
    embedded.faults.inject({ verb: "list" }, { type: "shuffle" });
    const stale = await get(POOLS);
    expect([namesOf(stale), stale.metadata.resourceVersion]).toEqual([["a", "b", "c"], String(snapshot.version)]);
    expect(namesOf(await get(POOLS)).sort()).toEqual(["a", "b", "c", "d"]);
  });
});

describe("watches", () => {
  test("go on from a resourceVersion, tell every change once, and send bookmarks", async () => {
    embedded.seed(pool("a"));
    const version = embedded.store.version;
    embedded.seed(pool("b"));
    const { got, events, close } = watch(`${POOLS}?watch=1&allowWatchBookmarks=true&resourceVersion=${version}`);
    await eventually(events).toEqual(["ADDED b"]);
    await ask("DELETE", `${POOLS}/a`);
    await eventually(events).toEqual(["ADDED b", "DELETED a"]);
    await eventually(() => got.lines.at(-1)?.type).toBe("BOOKMARK");
    expect(got.lines.at(-1)?.object.metadata.resourceVersion).toBe(String(embedded.store.version));
    close();
  });

  test("with sendInitialEvents begin with the state and the bookmark that ends it", async () => {
    embedded.seed(pool("a"), pool("b"));
    const query = "watch=1&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan";
    const { got, close } = watch(`${POOLS}?${query}`);
    await eventually(() => got.lines.length).toBeGreaterThan(2);
    expect(got.lines.slice(0, 3).map(({ type }) => type)).toEqual(["ADDED", "ADDED", "BOOKMARK"]);
    expect(got.lines[2]?.object.metadata.annotations).toEqual({ "k8s.io/initial-events-end": "true" });
    close();
  });

  test("through a selector see entering as ADDED and leaving as DELETED", async () => {
    embedded.seed(pool("a", { x: "1" }));
    const { events, close } = watch(`${POOLS}?watch=1&labelSelector=x%3D1`);
    await eventually(events).toEqual(["ADDED a"]);
    const label = (x: string) =>
      ask("PATCH", `${POOLS}/a`, { metadata: { labels: { x } } }, { "content-type": "application/merge-patch+json" });
    await label("2");
    embedded.seed(pool("other"));
    await label("1");
    await eventually(events).toEqual(["ADDED a", "DELETED a", "ADDED a"]);
    close();
  });

  test("from a resourceVersion that is still to come are silent until it has come", async () => {
    const { events, close } = watch(`${POOLS}?watch=1&resourceVersion=${embedded.store.version + 2}`);
    await watching();
    embedded.seed(pool("a"), pool("b"), pool("c"));
    await eventually(events).toEqual(["ADDED c"]);
    close();
  });

  test("that resume from before a compaction get 410 Expired as an event", async () => {
    embedded.seed(pool("a"));
    embedded.expireAll();
    const { got, events } = watch(`${POOLS}?watch=1&resourceVersion=1`);
    await eventually(() => got.ended).toBe("clean");
    expect(events()).toEqual(["ERROR 410"]);
  });

  test("end cleanly after timeoutSeconds", async () => {
    const { got } = watch(`${POOLS}?watch=1&resourceVersion=1&timeoutSeconds=1`);
    await eventually(() => got.ended).toBe("clean");
  });
});

describe("faults", () => {
  test("hit the requests that match, in order, as often as said", async () => {
    const injection = embedded.faults.inject(
      { verb: "create", resource: "ipaddresspools", user: "tester" },
      { type: "status", code: 429, retryAfterSeconds: 3 },
      { skip: 1, times: 2 },
    );
    const codes: number[] = [];
    for (const name of ["a", "b", "c", "d"]) codes.push((await ask("POST", POOLS, pool(name))).code);
    expect(codes).toEqual([201, 429, 429, 201]);
    expect(injection.hits).toBe(2);
    embedded.faults.inject({ name: "e" }, { type: "status", code: 503, retryAfterSeconds: 7 });
    const answer = await ask("GET", `${POOLS}/e`);
    expect([answer.code, answer.headers["retry-after"]]).toEqual([503, "7"]);
  });

  test.each([
    ["before", undefined],
    ["after", "a"],
  ] as const)("drop %s the write breaks the connection and leaves %s in the store", async (when, name) => {
    embedded.faults.inject({ verb: "create" }, { type: "drop", when });
    await expect(ask("POST", POOLS, pool("a"))).rejects.toThrow("read ECONNRESET");
    expect(embedded.read("IPAddressPool", "a")?.metadata.name).toBe(name);
    expect(embedded.audit.at(-1)?.code).toBe(0);
  });

  test("stall answers nothing", async () => {
    embedded.faults.inject({ verb: "list" }, { type: "stall" });
    await expect(ask("GET", POOLS, undefined, {}, 300)).rejects.toThrow("no answer");
    expect((await ask("GET", POOLS)).code).toBe(200);
  });

  test("halfLine gives half of a list, or of a watch's next line, and then the end", async () => {
    embedded.seed(pool("a"));
    embedded.faults.inject({ verb: ["list", "watch"] }, { type: "halfLine" }, { times: 2 });
    const { body } = await ask("GET", POOLS);
    expect(() => JSON.parse(body)).toThrow();
    const { got } = watch(`${POOLS}?watch=1`);
    await eventually(() => got.ended).toBe("clean");
    expect(got.text).toMatch(/^\{"type":"ADDED"[^\n]+$/);
  });

  test("freeze holds lines back until thaw; delay only makes them late; end ends after so many", async () => {
    embedded.seed(pool("a"));
    const frozen = watch(`${POOLS}?watch=1&resourceVersion=${embedded.store.version}`);
    await watching();
    embedded.faults.watches()[0]?.freeze();
    embedded.seed(pool("b"));
    embedded.faults.inject({ verb: "watch" }, { type: "end", afterLines: 1 });
    const ending = watch(`${POOLS}?watch=1`);
    await eventually(() => ending.got.ended).toBe("clean");
    expect(ending.events()).toEqual(["ADDED a"]);
    expect(frozen.events()).toEqual([]);
    embedded.faults.watches()[0]?.thaw();
    await eventually(frozen.events).toEqual(["ADDED b"]);
    frozen.close();
  });

  test("goaway is heard by the client, whose request is answered still", async () => {
    embedded.faults.inject({ verb: "watch" }, { type: "goaway" });
    embedded.seed(pool("a"));
    const { got, events, close } = watch(`${POOLS}?watch=1`);
    await eventually(events).toEqual(["ADDED a"]);
    await eventually(() => got.goAway).toBe(true);
    close();
  });

  test("running watches can be reset, cut in a line, and expired", async () => {
    for (const [act, ended] of [
      ["reset", "broken"],
      ["halfLine", "clean"],
      ["expire", "clean"],
      ["end", "clean"],
    ] as const) {
      const { got } = watch(`${POOLS}?watch=1&resourceVersion=${embedded.store.version}`);
      await watching();
      embedded.faults.watches()[0]?.[act]();
      await eventually(() => got.ended).toBe(ended);
    }
  });

  test("a server that stopped and came back has its objects, and another certificate when told", async () => {
    embedded.seed(pool("a"));
    const before = embedded.caPem;
    const { got } = watch(`${POOLS}?watch=1`);
    await watching();
    await embedded.stopListening();
    await eventually(() => got.ended).toBe("broken");
    await expect(ask("GET", POOLS)).rejects.toThrow("ECONNREFUSED");
    await embedded.resume("newAuthority");
    expect(embedded.caPem).not.toBe(before);
    expect(namesOf(await get(POOLS))).toEqual(["a"]);
    const stranger = new Promise((resolve) => {
      httpsRequest(embedded.url, { ca: before, agent: false }).on("error", resolve).end();
    });
    expect(await stranger).toMatchObject({ message: expect.stringMatching(/certificate/) });
  });

  test("a restore rewinds resourceVersions and cuts everybody off", async () => {
    embedded.seed(pool("a"));
    const snapshot = embedded.snapshot();
    embedded.seed(pool("b"));
    const { got } = watch(`${POOLS}?watch=1`);
    await watching();
    embedded.restore(snapshot);
    await eventually(() => got.ended).toBe("broken");
    const list = await get(POOLS);
    expect([namesOf(list), list.metadata.resourceVersion]).toEqual([["a"], String(snapshot.version)]);
  });
});

test("a client that leaves in the middle of its body does no harm", async () => {
  const headers = { authorization: `Bearer ${embedded.token("tester")}`, "content-length": 100 };
  const request = httpsRequest(embedded.url + POOLS, { method: "POST", ca: embedded.caPem, agent: false, headers });
  request.on("error", () => {});
  await new Promise<void>((resolve) => request.write("{", () => resolve()));
  request.destroy();
  expect((await ask("GET", POOLS)).code).toBe(200);
});

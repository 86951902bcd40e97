import { setTimeout as delay } from "node:timers/promises";
import { afterEach, describe, expect, test, vi } from "vitest";
import { LEASE, SERVICE, VIRTUALIP } from "../api/resource.ts";
import { silentLog } from "../core/log.ts";
import { createAuthority, issueServerCertificate } from "../embedded/certificate.ts";
import { clock } from "../host/clock.ts";
import { type ClientLimits, createClient, type WatchClient, type WatchEnd } from "./client.ts";
import type { ApiConfig } from "./config.ts";
import { configFor, type ScriptedApi, type ScriptedRequest, startRelay, startScriptedApi } from "./scripted-api.ts";

const FAST: Partial<ClientLimits> = {
  backoff: { firstMilliseconds: 1, lastMilliseconds: 20 },
  requestTimeoutMilliseconds: 2_000,
  listTimeoutMilliseconds: 2_000,
};
const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

async function serve(answer: (request: ScriptedRequest) => void, port?: number): Promise<ScriptedApi> {
  const api = await startScriptedApi({ answer, ...(port === undefined ? {} : { port }) });
  closers.push(() => api.close());
  return api;
}
function client(config: ApiConfig, limits: Partial<ClientLimits> = {}): WatchClient {
  const made = createClient(config, { clock, log: silentLog, limits: { ...FAST, ...limits } });
  closers.push(() => made.close());
  return made;
}
const VIP = { metadata: { name: "192.0.2.1", uid: "u", resourceVersion: "7" } };
const ok = (request: ScriptedRequest) => request.json(200, VIP);

describe("each call becomes the request that the API knows", () => {
  const precondition = { uid: "u", resourceVersion: "7" };
  const service = { metadata: { namespace: "n", name: "s", resourceVersion: "3" } };
  const calls: [string, (api: WatchClient) => Promise<unknown>, string, string, string?, unknown?][] = [
    ["get", (api) => api.get(VIRTUALIP, VIP.metadata), "GET", "/apis/belfry.dev/v1alpha1/virtualips/192.0.2.1"],
    ["get", (api) => api.get(SERVICE, service.metadata), "GET", "/api/v1/namespaces/n/services/s"],
    [
      "create",
      (api) => api.create(SERVICE, service),
      "POST",
      "/api/v1/namespaces/n/services",
      "application/json",
      { apiVersion: "v1", kind: "Service", ...service },
    ],
    [
      "update",
      (api) => api.update(SERVICE, service, "status"),
      "PUT",
      "/api/v1/namespaces/n/services/s/status",
      "application/json",
      { apiVersion: "v1", kind: "Service", ...service },
    ],
    [
      "mergePatch",
      (api) => api.mergePatch(VIRTUALIP, VIP.metadata, { status: null }, "status"),
      "PATCH",
      "/apis/belfry.dev/v1alpha1/virtualips/192.0.2.1/status",
      "application/merge-patch+json",
      { status: null },
    ],
    [
      "apply",
      (api) => api.apply(SERVICE, service, { fieldManager: "belfry", force: true }),
      "PATCH",
      "/api/v1/namespaces/n/services/s?fieldManager=belfry&force=true",
      "application/apply-patch+yaml",
      { apiVersion: "v1", kind: "Service", ...service },
    ],
    [
      "delete",
      (api) => api.delete(VIRTUALIP, VIP.metadata, precondition),
      "DELETE",
      "/apis/belfry.dev/v1alpha1/virtualips/192.0.2.1",
      "application/json",
      { apiVersion: "v1", kind: "DeleteOptions", preconditions: precondition },
    ],
  ];
  test.each(calls)("%s %#", async (_verb, call, method, path, contentType, body) => {
    const api = await serve(ok);
    expect(await call(client(configFor(api.origin)))).toEqual({ ok: true, object: VIP });
    const [request] = api.requests;
    expect(`${request?.method} ${request?.path}`).toBe(`${method} ${path.split("?")[0]}`);
    expect(request?.query.toString()).toBe(path.split("?")[1] ?? "");
    expect(request?.contentType).toBe(contentType);
    expect(request?.token).toBe("token");
    if (body !== undefined) expect(await request?.body()).toEqual(body);
  });
});

describe("a failure says what it knows", () => {
  const status = (code: number, reason: string) => ({ kind: "Status", code, reason, message: "because" });
  test.each([
    [404, "NotFound", {}, undefined],
    [409, "Conflict", {}, undefined],
    [429, "TooManyRequests", { "retry-after": "7" }, 7],
    [503, "ServiceUnavailable", { "retry-after": "1" }, 1],
    [500, "InternalError", {}, undefined],
  ])("%i %s", async (code, reason, headers, retryAfterSeconds) => {
    const api = await serve((request) => request.json(code, status(code, reason), headers as Record<string, string>));
    const answer = await client(configFor(api.origin)).get(VIRTUALIP, { name: "x" });
    expect(answer).toEqual({
      ok: false,
      failure: {
        status: code,
        reason,
        message: "because",
        ...(retryAfterSeconds === undefined ? {} : { retryAfterSeconds }),
      },
    });
    expect(api.requests.length).toBe(1);
  });

  test.each<[string, (request: ScriptedRequest) => void]>([
    [
      "half an answer, ended cleanly",
      ({ stream }) => {
        stream.respond({ ":status": 200 });
        stream.end('{"metadata":{"na');
      },
    ],
    [
      "half an answer, then a reset stream",
      ({ stream }) => {
        stream.respond({ ":status": 200 });
        stream.write('{"metadata":{"na', () => stream.destroy(new Error()));
      },
    ],
    ["a lost connection", ({ session }) => session.destroy()],
    ["no answer in time", () => {}],
    [
      "half an answer, and no more",
      ({ stream }) => {
        stream.respond({ ":status": 200 });
        stream.write("{");
      },
    ],
  ])("%s is status 0, and is not tried again", async (_name, answer) => {
    const api = await serve(answer);
    const made = client(configFor(api.origin), { requestTimeoutMilliseconds: 100 });
    expect(await made.create(VIRTUALIP, VIP)).toMatchObject({ ok: false, failure: { status: 0, reason: "NoAnswer" } });
    expect(api.requests.length).toBe(1);
  });

  test("a server that is not there is status 0, and the next call reaches it when it is back", async () => {
    const first = await serve(ok);
    const port = Number(new URL(first.origin).port);
    const made = client(configFor(first.origin));
    await made.get(VIRTUALIP, VIP.metadata);
    await first.close();
    expect(await made.get(VIRTUALIP, VIP.metadata)).toMatchObject({ ok: false, failure: { status: 0 } });
    await serve(ok, port);
    await vi.waitFor(async () => expect((await made.get(VIRTUALIP, VIP.metadata)).ok).toBe(true));
  });
});

test("a call that is aborted ends at once", async () => {
  const api = await serve(() => {});
  const ending = new AbortController();
  const answer = client(configFor(api.origin)).get(VIRTUALIP, VIP.metadata, { signal: ending.signal });
  await vi.waitFor(() => expect(api.requests.length).toBe(1));
  ending.abort();
  expect(await answer).toMatchObject({ ok: false, failure: { status: 0, message: "aborted" } });
});

test("calls share one connection; after GOAWAY new ones take a new connection and old ones are still answered", async () => {
  const api = await serve((request) => {
    if (api.requests.length === 1) return;
    ok(request);
  });
  const made = client(configFor(api.origin));
  const old = made.get(VIRTUALIP, VIP.metadata);
  await vi.waitFor(() => expect(api.requests.length).toBe(1));
  await made.get(VIRTUALIP, VIP.metadata);
  expect(api.sessions.size).toBe(1);
  const [first] = api.requests;
  first?.session.goaway(0);
  await vi.waitFor(() => expect(made.connection).toBeUndefined());
  expect((await made.get(VIRTUALIP, VIP.metadata)).ok).toBe(true);
  expect(api.requests[2]?.session).not.toBe(first?.session);
  if (first !== undefined) ok(first);
  expect((await old).ok).toBe(true);
});

test("a write that the server refused unseen (REFUSED_STREAM) is sent again, once", async () => {
  const api = await serve((request) => (api.requests.length === 1 ? request.stream.close(7) : ok(request)));
  expect((await client(configFor(api.origin)).create(VIRTUALIP, VIP)).ok).toBe(true);
  expect(api.requests.length).toBe(2);
  api.answer = ({ stream }) => stream.close(7);
  expect((await client(configFor(api.origin)).create(VIRTUALIP, VIP)).ok).toBe(false);
  expect(api.requests.length).toBe(4);
});

test("after a 401 the token is read again, and the call repeated only with another one", async () => {
  const api = await serve((request) =>
    request.token === "new" ? ok(request) : request.json(401, { reason: "Unauthorized" }),
  );
  const config = configFor(api.origin);
  config.tokens = ["old", "new"];
  expect((await client(config).get(VIRTUALIP, VIP.metadata)).ok).toBe(true);
  expect(api.requests.map(({ token }) => token)).toEqual(["old", "new"]);
  config.tokens = ["wrong"];
  config.forgetToken();
  expect(await client(config).get(VIRTUALIP, VIP.metadata)).toMatchObject({ failure: { status: 401 } });
  expect(api.requests.length).toBe(3);
});

test("a peer that died without a word is found by PING", async () => {
  const api = await serve(() => {});
  const relay = await startRelay(Number(new URL(api.origin).port));
  closers.push(() => relay.close());
  const made = client(configFor(`http://127.0.0.1:${relay.port}`), { pingMilliseconds: 30 });
  const answer = made.get(VIRTUALIP, VIP.metadata);
  await vi.waitFor(() => expect(api.requests.length).toBe(1));
  relay.silent = true;
  expect(await answer).toMatchObject({ failure: { status: 0, message: expect.stringContaining("PING") } });
});

test("a proxy that accepts and says nothing is given up", async () => {
  const relay = await startRelay(1);
  closers.push(() => relay.close());
  relay.silent = true;
  const made = client(configFor(`http://127.0.0.1:${relay.port}`), { connectTimeoutMilliseconds: 50 });
  expect(await made.get(VIRTUALIP, VIP.metadata)).toMatchObject({ ok: false, failure: { status: 0 } });
});

test("a server that came back with a certificate of another authority is reached with the new CA file", async () => {
  const now = new Date();
  const [one, two] = ["one", "two"].map((name) => {
    const authority = createAuthority(name, now);
    return { ca: authority.certificatePem, certificate: issueServerCertificate(authority, name, ["127.0.0.1"], now) };
  });
  if (one === undefined || two === undefined) throw new Error("two authorities");
  let ca = one.ca;
  const first = await startScriptedApi({ answer: ok, certificate: one.certificate });
  const made = client(configFor(first.origin, () => ca));
  expect((await made.get(VIRTUALIP, VIP.metadata)).ok).toBe(true);
  await first.close();
  const port = Number(new URL(first.origin).port);
  const second = await startScriptedApi({ answer: ok, certificate: two.certificate, port });
  closers.push(() => second.close());
  expect(await made.get(VIRTUALIP, VIP.metadata)).toMatchObject({ failure: { status: 0 } });
  expect(second.requests.length).toBe(0);
  ca = two.ca;
  await vi.waitFor(async () => expect((await made.get(VIRTUALIP, VIP.metadata)).ok).toBe(true));
});

describe("a list", () => {
  const item = (name: string) => ({ metadata: { name, resourceVersion: "1" } });
  const names = (answer: { ok: boolean }) =>
    "object" in answer
      ? (answer.object as { items: { metadata: { name: string } }[] }).items.map((i) => i.metadata.name)
      : answer;

  test("is asked for in one piece, and its items say what they are", async () => {
    const api = await serve(({ json }) =>
      json(200, { metadata: { resourceVersion: "9" }, items: [item("a"), item("b")] }),
    );
    const answer = await client(configFor(api.origin)).list(LEASE, {
      namespace: "n",
      fieldSelector: "metadata.name=a",
    });
    expect(names(answer)).toEqual(["a", "b"]);
    expect(answer).toMatchObject({
      object: { resourceVersion: "9", items: [{ kind: "Lease", apiVersion: "coordination.k8s.io/v1" }, {}] },
    });
    expect(api.requests.map(({ query }) => query.toString())).toEqual(["fieldSelector=metadata.name%3Da"]);
  });

  test("may take long as long as something comes, and an item is told as soon as it is there", async () => {
    const told: string[] = [];
    const tellSlowly = async ({ stream }: ScriptedRequest) => {
      stream.respond({ ":status": 200 });
      stream.write('{"metadata":{"resourceVersion":"9"},"items":[');
      for (const name of ["a", "b", "c", "d"]) {
        await delay(60);
        stream.write(`${told.length > 0 ? "," : ""}${JSON.stringify(item(name))}`);
        // The next one is not written before this one was told.
        await vi.waitFor(() => expect(told.at(-1)).toBe(name));
      }
      stream.end("]}");
    };
    const api = await serve((request) => void tellSlowly(request));
    const limits = { listTimeoutMilliseconds: 150 };
    const answer = await client(configFor(api.origin), limits).readList(LEASE, {}, ({ metadata }) => {
      told.push(metadata.name);
    });
    expect(answer).toMatchObject({ ok: true, object: { resourceVersion: "9" } });
    expect(told).toEqual(["a", "b", "c", "d"]);
  });

  test.each([
    ["that stops coming", '{"metadata":{"resourceVersion":"9"},"items":[{"metadata":', false],
    ["that ends in the middle", '{"metadata":{"resourceVersion":"9"},"items":[{"metadata":', true],
    ["that ends after an item", `{"metadata":{"resourceVersion":"9"},"items":[${JSON.stringify(item("a"))}`, true],
    ["that is only a part", '{"metadata":{"resourceVersion":"9","continue":"more"},"items":[]}', true],
  ])("%s is no answer", async (_what, text, ends) => {
    const api = await serve(({ stream }) => {
      stream.respond({ ":status": 200 });
      stream.write(text);
      if (ends) stream.end();
    });
    const answer = await client(configFor(api.origin), { listTimeoutMilliseconds: 100 }).list(LEASE);
    expect(answer).toMatchObject({ ok: false, failure: { status: 0 } });
  });

  test.each([
    [{}],
    [{ metadata: { resourceVersion: "9" }, items: [{}] }],
    [{ metadata: { resourceVersion: "9" }, items: "x" }],
    [{ metadata: { resourceVersion: "9" }, items: [null] }],
  ])("that is none is no answer: %j", async (body) => {
    const api = await serve(({ json }) => json(200, body));
    expect(await client(configFor(api.origin)).list(LEASE)).toMatchObject({ ok: false, failure: { status: 0 } });
  });

  test("without items (null) is empty", async () => {
    const api = await serve(({ json }) => json(200, { metadata: { resourceVersion: "9" }, items: null }));
    expect(names(await client(configFor(api.origin)).list(LEASE))).toEqual([]);
  });
});

describe("a watch", () => {
  async function follow(answer: (request: ScriptedRequest) => void, signal = new AbortController().signal) {
    const api = await serve(answer);
    const heard: string[] = [];
    const end: WatchEnd = await client(configFor(api.origin), { requestTimeoutMilliseconds: 200 }).watch(
      VIRTUALIP,
      { resourceVersion: "5", timeoutSeconds: 300, signal },
      {
        opened: () => heard.push("opened"),
        heard: () => {},
        event: (type, { metadata }) => heard.push(`${type} ${metadata.name}`),
      },
    );
    return { api, heard, end };
  }
  const event = (type: string, name: string) => `${JSON.stringify({ type, object: { metadata: { name } } })}\n`;

  test("asks for bookmarks and ends cleanly after whole events", async () => {
    const { api, heard, end } = await follow(({ stream }) => {
      stream.respond({ ":status": 200 });
      stream.end(event("ADDED", "a") + event("BOOKMARK", "b"));
    });
    expect(heard).toEqual(["opened", "ADDED a", "BOOKMARK b"]);
    expect(end).toEqual({ type: "ended" });
    expect(api.requests[0]?.query.toString()).toBe(
      "watch=true&allowWatchBookmarks=true&resourceVersion=5&timeoutSeconds=300",
    );
  });

  test.each<[string, (request: ScriptedRequest) => void, string[], object]>([
    [
      "half an event at the end",
      ({ stream }) => stream.end(`${event("ADDED", "a")}{"type":"ADD`),
      ["opened", "ADDED a"],
      { type: "broken" },
    ],
    [
      "a line that is not JSON",
      ({ stream }) => stream.end(`{"type\n${event("ADDED", "a")}`),
      ["opened"],
      { type: "broken" },
    ],
    [
      "a reset",
      ({ stream }) => stream.write(event("ADDED", "a"), () => stream.destroy(new Error())),
      ["opened", "ADDED a"],
      { type: "broken" },
    ],
    [
      "a lost connection",
      ({ stream, session }) => stream.write(event("ADDED", "a"), () => setImmediate(() => session.destroy())),
      ["opened", "ADDED a"],
      { type: "broken" },
    ],
    [
      "an ERROR event",
      ({ stream }) =>
        stream.write('{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"old"}}\n'),
      ["opened"],
      { type: "refused", failure: { status: 410, reason: "Expired", message: "old" } },
    ],
  ])("after %s says so", async (_name, say, heard, end) => {
    const told = await follow((request) => {
      request.stream.respond({ ":status": 200 });
      say(request);
    });
    expect(told.heard).toEqual(heard);
    expect(told.end).toMatchObject(end);
  });

  test.each([
    [410, { reason: "Expired" }, {}, { status: 410 }],
    [429, { reason: "TooManyRequests" }, { "retry-after": "3" }, { status: 429, retryAfterSeconds: 3 }],
  ])("refused with %i says so", async (code, body, headers, failure) => {
    const { end } = await follow(({ json }) => json(code, body, headers as Record<string, string>));
    expect(end).toMatchObject({ type: "refused", failure });
  });

  test("that the server never opens is broken", async () => {
    expect((await follow(() => {})).end.type).toBe("broken");
  });

  test("goes on over a given connection only while that lives", async () => {
    const api = await serve(ok);
    const made = client(configFor(api.origin));
    await made.get(VIRTUALIP, VIP.metadata);
    const sink = { opened() {}, heard() {}, event() {} };
    const end = await made.watch(
      VIRTUALIP,
      {
        resourceVersion: "5",
        timeoutSeconds: 300,
        onConnection: (made.connection ?? 0) + 1,
        signal: new AbortController().signal,
      },
      sink,
    );
    expect(end.type).toBe("broken");
    expect(api.requests.length).toBe(1);
  });
});

/** One request from its first byte to its last: who asks, for what, what goes wrong, what is answered. */
import { parse as parseYaml } from "yaml";
import type { KubeObject } from "../api/meta.ts";
import { apiVersionOf } from "../api/resource.ts";
import type { Connection, Request, Response } from "./connection.ts";
import { discover } from "./discovery.ts";
import type { Fault, Faults, Subject } from "./fault.ts";
import { type Listings, listBytes, type Page } from "./listing.ts";
import { openApiDocument, openApiIndex } from "./openapi.ts";
import * as refuse from "./refusal.ts";
import { Refusal, type Status } from "./refusal.ts";
import { type Route, routeOf, type Verb, type View } from "./route.ts";
import { isRecord } from "./schema.ts";
import type { Snapshot, Store } from "./store.ts";
import { type IncludeObject, partialOf, tableOf } from "./table.ts";
import type { Verbs, WriteOptions, Written } from "./verbs.ts";
import { type Stream, shuffled, startWatch } from "./watch.ts";

/** One request, for tests to count. Watches are entered when they start. */
export type AuditEntry = Subject & {
  /** HTTP status; 0 when nothing was answered. */
  readonly code: number;
  /** Field manager of a write. */
  readonly manager: string | undefined;
  readonly at: Date;
};

export type RequestContext = {
  readonly views: readonly View[];
  readonly store: Store;
  readonly verbs: Verbs;
  readonly listings: Listings;
  readonly faults: Faults;
  readonly bookmarkSeconds: number;
  /** The user of a bearer token, or undefined when nobody has it. */
  userOf(token: string): string | undefined;
  audit(entry: AuditEntry): void;
  now(): Date;
};

type Reply = { code: number; body: Uint8Array; contentType?: string; warnings?: readonly string[] };

const JSON_TYPE = "application/json";
const MOST_BODY_BYTES = 8 * 1024 * 1024;

export async function handleRequest(
  context: RequestContext,
  request: Request,
  response: Response,
  connection: Connection | undefined,
): Promise<void> {
  response.on("error", () => {});
  const url = new URL(request.url ?? "/", "https://embedded.invalid");
  const accept = String(request.headers.accept ?? "");
  let exchange: Exchange | undefined;
  try {
    if (["/healthz", "/livez", "/readyz"].includes(url.pathname)) {
      send(response, { code: 200, body: Buffer.from("ok"), contentType: "text/plain" });
      return;
    }
    const user = context.userOf(/^Bearer (.+)$/.exec(request.headers.authorization ?? "")?.[1] ?? "");
    if (user === undefined) throw refuse.unauthorized();
    const known = request.method === "GET" ? describe(context.views, url.pathname, accept) : undefined;
    if (known !== undefined) {
      send(response, known);
      return;
    }
    const route = routeOf(context.views, url.pathname);
    if (route === undefined) {
      // No Status: nothing that knows the API has seen the request.
      send(response, {
        code: 404,
        body: Buffer.from("404 page not found\n"),
        contentType: "text/plain; charset=utf-8",
      });
      return;
    }
    exchange = new Exchange(context, request, response, connection, url, route, user, accept);
    await exchange.run();
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    if (exchange === undefined) send(response, statusReply(error.status));
    else exchange.refuse(error.status);
  }
}

/** The answers that are the same for everybody: discovery and OpenAPI. */
function describe(views: readonly View[], path: string, accept: string): Reply | undefined {
  const json = (body: object, contentType = JSON_TYPE): Reply => ({
    code: 200,
    body: Buffer.from(JSON.stringify(body)),
    contentType,
  });
  if (path === "/openapi/v3") return json(openApiIndex(views));
  if (path.startsWith("/openapi/v3/")) {
    const document = openApiDocument(views, path.slice("/openapi/v3/".length));
    return document === undefined ? undefined : json(document);
  }
  const found = discover(views, path, accept);
  return found === undefined ? undefined : json(found.body, found.contentType);
}

class Exchange {
  readonly #context: RequestContext;
  readonly #request: Request;
  readonly #response: Response;
  readonly #connection: Connection | undefined;
  readonly #url: URL;
  readonly #route: Route;
  readonly #accept: string;
  readonly #subject: Subject;
  readonly #manager: string;
  readonly #fault: Fault | undefined;

  constructor(
    context: RequestContext,
    request: Request,
    response: Response,
    connection: Connection | undefined,
    url: URL,
    route: Route,
    user: string,
    accept: string,
  ) {
    this.#context = context;
    this.#request = request;
    this.#response = response;
    this.#connection = connection;
    this.#url = url;
    this.#route = route;
    this.#accept = accept;
    const agent = String(request.headers["user-agent"] ?? "").split("/")[0];
    this.#manager = url.searchParams.get("fieldManager") || agent || "unknown";
    this.#subject = {
      verb: verbOf(request, url, route),
      resource: route.view.resource.plural,
      namespace: route.namespace,
      name: route.name ?? nameSelected(url),
      subresource: route.subresource,
      user,
    };
    this.#fault = context.faults.take(this.#subject);
  }

  async run(): Promise<void> {
    const fault = this.#fault;
    if (fault?.type === "goaway") this.#connection?.goAway();
    const body = await readBody(this.#request);
    if (body === undefined) return;
    if (this.#goesWrong("before")) return;
    if (this.#subject.verb === "watch") {
      this.#watch();
      return;
    }
    const reply = this.#carryOut(body);
    if (this.#goesWrong("after")) return;
    if (fault?.type === "delay") await new Promise((resolve) => setTimeout(resolve, fault.milliseconds));
    this.#answer(reply);
  }

  refuse(status: Status): void {
    if (this.#fault !== undefined && this.#goesWrong("after")) return;
    this.#answer(statusReply(status));
  }

  /** Does what the ordered fault says for this moment; true when there is nothing left to do. */
  #goesWrong(when: "before" | "after"): boolean {
    const fault = this.#fault;
    if (fault === undefined || !("when" in fault || when === "before")) return false;
    switch (fault.type) {
      case "status":
        if ((fault.when ?? "before") !== when) return false;
        this.#answer(faultReply(fault));
        return true;
      case "stall":
      case "drop":
        if ((fault.when ?? "before") !== when) return false;
        this.#note(0);
        if (fault.type === "drop") this.#connection?.reset();
        return true;
      default:
        return false;
    }
  }

  #answer(reply: Reply): void {
    this.#note(reply.code);
    if (this.#fault?.type === "halfLine") sendHalf(this.#response, reply);
    else send(this.#response, reply);
  }

  #note(code: number): void {
    const isWrite = !["get", "list", "watch"].includes(this.#subject.verb);
    this.#context.audit({
      ...this.#subject,
      code,
      manager: isWrite ? this.#manager : undefined,
      at: this.#context.now(),
    });
  }

  #carryOut(body: Uint8Array): Reply {
    const { verbs } = this.#context;
    const { view, namespace } = this.#route;
    const { kind } = view;
    const options = this.#writeOptions();
    const read = (): unknown => {
      const object = parseBody(body, this.#contentType());
      return view.convert === undefined ? object : view.convert.read(object as KubeObject);
    };
    const name = this.#route.name ?? "";
    switch (this.#subject.verb) {
      case "get":
        return this.#showOne(verbs.get(kind, namespace, name).object, 200);
      case "list":
        return this.#list();
      case "create": {
        if (view.resource.namespaced && namespace === undefined) throw refuse.methodNotAllowed();
        return this.#showWritten(verbs.create(kind, namespace, read(), options));
      }
      case "update":
        return this.#showWritten(verbs.update(kind, namespace, name, read(), options));
      case "apply": {
        if (!this.#url.searchParams.get("fieldManager")) {
          throw refuse.invalid({ group: "meta.k8s.io", plural: "" }, "PatchOptions", [
            {
              field: "fieldManager",
              reason: "FieldValueRequired",
              message: "Required value: is required for apply patch",
            },
          ]);
        }
        const force = this.#url.searchParams.get("force") === "true";
        return this.#showWritten(verbs.apply(kind, namespace, name, read(), { ...options, force }));
      }
      case "patch":
        return this.#showWritten(verbs.patch(kind, namespace, name, this.#change(body), options));
      case "delete":
        return this.#delete(body);
      case "deletecollection":
        return this.#deleteCollection();
      case "watch":
        throw new Error("watches are answered elsewhere");
    }
  }

  #contentType(): string {
    return String(this.#request.headers["content-type"] ?? JSON_TYPE).split(";")[0] ?? JSON_TYPE;
  }

  #writeOptions(): WriteOptions {
    const { searchParams } = this.#url;
    const { subresource, view } = this.#route;
    if (subresource !== undefined && (subresource !== "status" || !view.kind.hasStatus)) throw refuse.noSuchPath();
    const validation = searchParams.get("fieldValidation");
    return {
      manager: this.#manager,
      subresource: subresource === "status" ? "status" : undefined,
      dryRun: searchParams.get("dryRun") === "All",
      fieldValidation: validation === "Strict" || validation === "Ignore" ? validation : "Warn",
    };
  }

  /** What the patch makes of an object. */
  #change(body: Uint8Array): (live: KubeObject) => unknown {
    const type = this.#contentType();
    const { view } = this.#route;
    const { show, read } = view.convert ?? {
      show: (object: KubeObject) => object,
      read: (object: KubeObject) => object,
    };
    const patch = parseBody(body, JSON_TYPE);
    if (type === "application/merge-patch+json") return (live) => read(mergePatch(show(live), patch) as KubeObject);
    if (type === "application/json-patch+json") return (live) => read(jsonPatch(show(live), patch) as KubeObject);
    throw refuse.unsupportedMediaType(
      type === "application/strategic-merge-patch+json"
        ? "the embedded API of Belfry knows no strategic merge patches: use `kubectl apply --server-side`, or `kubectl patch --type=merge`"
        : `the body of the request was in an unknown format - accepted media types include: application/merge-patch+json, application/json-patch+json, application/apply-patch+yaml; got ${type}`,
    );
  }

  #delete(body: Uint8Array): Reply {
    const { view, namespace, name = "" } = this.#route;
    const options = body.length === 0 ? {} : parseBody(body, this.#contentType());
    const { preconditions, dryRun } = options as {
      preconditions?: { uid?: string; resourceVersion?: string };
      dryRun?: string[];
    };
    const dry = this.#url.searchParams.get("dryRun") === "All" || dryRun?.includes("All") === true;
    const { object, gone } = this.#context.verbs.delete(view.kind, namespace, name, preconditions ?? {}, dry);
    if (!gone) return this.#showOne(object, 200);
    const { group, plural } = view.resource;
    const uid = object.metadata.uid;
    const details = { name, ...(group === "" ? {} : { group }), kind: plural, ...(uid === undefined ? {} : { uid }) };
    return jsonReply(200, { kind: "Status", apiVersion: "v1", metadata: {}, status: "Success", details });
  }

  #deleteCollection(): Reply {
    const { view } = this.#route;
    const page = this.#context.listings.page(this.#route, this.#url.searchParams, undefined);
    for (const { object } of page.entries) {
      this.#context.verbs.delete(view.kind, object.metadata.namespace, object.metadata.name, {});
    }
    return { code: 200, body: listBytes(view, page, apiVersionOf(view.resource)) };
  }

  #list(): Reply {
    const { view } = this.#route;
    const stale: Snapshot | undefined = this.#fault?.type === "stale" ? this.#fault.snapshot : undefined;
    let page: Page = this.#context.listings.page(this.#route, this.#url.searchParams, stale);
    if (this.#fault?.type === "shuffle") page = { ...page, entries: shuffled(page.entries) };
    const objects = (): KubeObject[] => page.entries.map(({ object }) => object);
    const form = formOf(this.#accept);
    switch (form.type) {
      case "Object":
        return { code: 200, body: listBytes(view, page, apiVersionOf(view.resource)) };
      case "Table":
        return jsonReply(200, this.#table(objects(), page.metadata));
      case "Partial":
        return jsonReply(200, {
          kind: "PartialObjectMetadataList",
          apiVersion: "meta.k8s.io/v1",
          metadata: page.metadata,
          items: objects().map(partialOf),
        });
    }
  }

  #table(objects: readonly KubeObject[], metadata: object): object {
    const include = (this.#url.searchParams.get("includeObject") ?? "Metadata") as IncludeObject;
    const { kind, convert } = this.#route.view;
    return tableOf(kind, objects, metadata, include, this.#context.now(), convert?.show);
  }

  #showOne(object: KubeObject, code: number, warnings: readonly string[] = []): Reply {
    const { view } = this.#route;
    const form = formOf(this.#accept);
    const shown = view.convert?.show(object) ?? object;
    if (form.type === "Table") {
      const { resourceVersion } = object.metadata;
      return { ...jsonReply(code, this.#table([object], { resourceVersion })), warnings };
    }
    if (form.type === "Partial") return { ...jsonReply(code, partialOf(shown)), warnings };
    return { ...jsonReply(code, shown), warnings };
  }

  #showWritten({ object, created, warnings }: Written): Reply {
    return this.#showOne(object, created ? 201 : 200, warnings);
  }

  #watch(): void {
    const { store, listings, faults, bookmarkSeconds } = this.#context;
    const form = formOf(this.#accept);
    const render =
      form.type === "Object"
        ? undefined
        : (object: KubeObject): object =>
            form.type === "Table"
              ? this.#table([object], { resourceVersion: object.metadata.resourceVersion })
              : partialOf(object);
    const query = new URLSearchParams(this.#url.searchParams);
    const { name } = this.#route;
    if (name !== undefined) query.set("fieldSelector", `metadata.name=${name}`);
    const open = (): Stream => {
      this.#note(200);
      this.#response.writeHead(200, { "content-type": JSON_TYPE });
      this.#response.flushHeaders();
      return streamOf(this.#response, this.#connection);
    };
    startWatch(
      { store, listings, faults, bookmarkSeconds },
      this.#route,
      query,
      this.#subject,
      open,
      render,
      this.#fault,
    );
  }
}

function streamOf(response: Response, connection: Connection | undefined): Stream {
  return {
    write: (line) => {
      if (!response.writableEnded && !response.destroyed) response.write(line);
    },
    end: () => response.end(),
    reset: () => connection?.reset(),
    onClose: (listener) => response.on("close", listener),
  };
}

function verbOf(request: Request, url: URL, route: Route): Verb {
  const { name } = route;
  const watch = url.searchParams.get("watch");
  switch (request.method) {
    case "GET":
    case "HEAD":
      if (watch === "true" || watch === "1") return "watch";
      return name === undefined ? "list" : "get";
    case "POST":
      if (name === undefined) return "create";
      break;
    case "PUT":
      if (name !== undefined) return "update";
      break;
    case "PATCH":
      if (name === undefined) break;
      return String(request.headers["content-type"] ?? "").startsWith("application/apply-patch") ? "apply" : "patch";
    case "DELETE":
      return name === undefined ? "deletecollection" : "delete";
  }
  throw refuse.methodNotAllowed();
}

/** The one name that a list or watch asks for, so that tests can match it as they match a get. */
const nameSelected = (url: URL): string | undefined =>
  /(?:^|,)metadata\.name=([^,]+)/.exec(url.searchParams.get("fieldSelector") ?? "")?.[1];

type Form = { readonly type: "Object" | "Table" | "Partial" };

/** The first form of the Accept header that is served. */
function formOf(accept: string): Form {
  for (const one of accept.split(",")) {
    if (!/application\/json|\*\/\*/.test(one)) continue;
    if (/as=Table/.test(one) && /v=v1(;|$)/.test(one.trim())) return { type: "Table" };
    if (/as=PartialObjectMetadata(List)?/.test(one)) return { type: "Partial" };
    if (!/as=/.test(one)) return { type: "Object" };
  }
  return { type: "Object" };
}

/** The whole body; undefined when the client left in the middle of it. */
async function readBody(request: Request): Promise<Uint8Array | undefined> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  try {
    for await (const chunk of request) {
      chunks.push(chunk as Uint8Array);
      length += (chunk as Uint8Array).length;
      if (length > MOST_BODY_BYTES) throw new Refusal(413, "RequestEntityTooLarge", "the request is too large");
    }
  } catch (error) {
    if (error instanceof Refusal) throw error;
    return undefined;
  }
  return Buffer.concat(chunks);
}

/** @throws Refusal 400 when it is neither JSON nor, where that is allowed, YAML */
function parseBody(body: Uint8Array, contentType: string): unknown {
  const text = Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString();
  if (contentType.includes("protobuf") || contentType.includes("cbor")) {
    throw refuse.unsupportedMediaType(`the embedded API of Belfry reads JSON and YAML, not ${contentType}`);
  }
  try {
    return JSON.parse(text);
  } catch (error) {
    if (!contentType.includes("yaml")) throw refuse.badRequest(`the body is not JSON: ${(error as Error).message}`);
  }
  try {
    return parseYaml(text);
  } catch (error) {
    throw refuse.badRequest(`the body is not YAML: ${(error as Error).message}`);
  }
}

/** RFC 7386. */
export function mergePatch(target: unknown, patch: unknown): unknown {
  if (!isRecord(patch)) return patch;
  const merged: Record<string, unknown> = isRecord(target) ? { ...target } : {};
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) delete merged[name];
    else merged[name] = mergePatch(merged[name], value);
  }
  return merged;
}

type Operation = { op: string; path: string; value?: unknown; from?: string };

/** RFC 6902; `move` and `copy` are not spoken. @throws Refusal 422 when an operation does not fit the object */
export function jsonPatch(target: unknown, patch: unknown): unknown {
  if (!Array.isArray(patch)) throw refuse.badRequest("a JSON patch is a list of operations");
  const root = { root: structuredClone(target) } as Record<string, unknown>;
  for (const operation of patch as Operation[]) applyOperation(root, operation);
  return root["root"];
}

function applyOperation(root: Record<string, unknown>, { op, path, value }: Operation): void {
  const bad = (why: string): Refusal => new Refusal(422, "Invalid", `JSON patch: ${op} ${path}: ${why}`);
  const steps = [
    "root",
    ...path
      .split("/")
      .slice(1)
      .map((step) => step.replaceAll("~1", "/").replaceAll("~0", "~")),
  ];
  const last = steps.pop() ?? "root";
  const parent = steps.reduce<unknown>((inner, step) => (inner as Record<string, unknown> | undefined)?.[step], root);
  if (typeof parent !== "object" || parent === null) throw bad("there is no such place");
  const fields = parent as Record<string, unknown>;
  if (op !== "add" && !(last in fields)) throw bad("there is no such field");
  if (op === "test") {
    if (JSON.stringify(fields[last]) !== JSON.stringify(value)) throw bad("the value is another one");
  } else if (Array.isArray(parent) && op === "add")
    parent.splice(last === "-" ? parent.length : Number(last), 0, value);
  else if (Array.isArray(parent) && op === "remove") parent.splice(Number(last), 1);
  else if (op === "add" || op === "replace") fields[last] = value;
  else if (op === "remove") delete fields[last];
  else throw bad("the operation is not spoken here");
}

const jsonReply = (code: number, body: object): Reply => ({ code, body: Buffer.from(JSON.stringify(body)) });

const statusReply = (status: Status): Reply => jsonReply(status.code, status);

const REASONS: Readonly<Record<number, string>> = {
  409: "Conflict",
  410: "Expired",
  429: "TooManyRequests",
  500: "InternalError",
  503: "ServiceUnavailable",
  504: "Timeout",
};

function faultReply(fault: Extract<Fault, { type: "status" }>): Reply {
  const { code, message = `ordered fault ${code}`, retryAfterSeconds } = fault;
  const reason = fault.reason ?? REASONS[code] ?? "Unknown";
  return statusReply(
    new Refusal(code, reason, message, retryAfterSeconds === undefined ? {} : { retryAfterSeconds }).status,
  );
}

function send(response: Response, reply: Reply): void {
  if (response.destroyed || response.headersSent) return;
  response.writeHead(reply.code, headersOf(reply));
  response.end(reply.body);
}

/** Half of the body and then the end, while the length promised all of it to nobody. */
function sendHalf(response: Response, reply: Reply): void {
  const { "content-length": _length, ...headers } = headersOf(reply);
  response.writeHead(reply.code, headers);
  response.end(reply.body.subarray(0, reply.body.length >> 1));
}

function headersOf(reply: Reply): Record<string, string | string[] | number> {
  const status = reply.code === 429 || reply.code >= 500 ? retryAfter(reply.body) : undefined;
  return {
    "content-type": reply.contentType ?? JSON_TYPE,
    "content-length": reply.body.length,
    ...(reply.warnings === undefined || reply.warnings.length === 0
      ? {}
      : { warning: reply.warnings.map((text) => `299 - "${text.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`) }),
    ...(status === undefined ? {} : { "retry-after": String(status) }),
  };
}

const retryAfter = (body: Uint8Array): number | undefined =>
  (JSON.parse(Buffer.from(body).toString()) as Status).details?.retryAfterSeconds;

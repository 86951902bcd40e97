import type { IncomingHttpHeaders } from "node:http2";
import type { KubeObject } from "../api/meta.ts";
import { apiVersionOf, type Resource } from "../api/resource.ts";
import type { Instant } from "../core/instant.ts";
import type { Log } from "../core/log.ts";
import type { Clock } from "../host/port.ts";
import type { ApiConfig } from "./config.ts";
import { type ConnectionLimits, createConnector, messageOf } from "./connection.ts";
import { LineCutter } from "./lines.ts";
import { ListCutter } from "./list-cutter.ts";
import { type KubeMetrics, NO_METRICS } from "./metrics.ts";
import type { Answer, ApiClient, ApiFailure, List, ListOptions } from "./port.ts";
import { type Call, openStream } from "./stream.ts";

export type ClientLimits = ConnectionLimits & {
  /** For a get or a write, until its answer is whole. */
  readonly requestTimeoutMilliseconds: number;
  /** For a list, until it begins, and while nothing more of it comes. */
  readonly listTimeoutMilliseconds: number;
};

/** For a client of Leases: an answer that comes later than this is of no use to its holder. */
export const LEASE_CLIENT_LIMITS: Partial<ClientLimits> = {
  connectTimeoutMilliseconds: 2_000,
  pingMilliseconds: 2_000,
  requestTimeoutMilliseconds: 2_000,
  backoff: { firstMilliseconds: 100, lastMilliseconds: 2_000 },
};

export type WatchOptions = {
  readonly namespace?: string | undefined;
  readonly labelSelector?: string | undefined;
  readonly fieldSelector?: string | undefined;
  /** Events after this one. */
  readonly resourceVersion: string;
  /** After this the server ends the watch cleanly. */
  readonly timeoutSeconds: number;
  /** Watch only over this connection; another one answers `broken`. */
  readonly onConnection?: number;
  readonly signal: AbortSignal;
};

export type WatchSink = {
  /** The server accepted the watch. */
  opened(connection: number): void;
  /** Bytes came, whatever they say. */
  heard(at: Instant): void;
  /** One event, in order. `receivedAt`: when the chunk with its last byte was read. */
  event(type: string, object: KubeObject, receivedAt: Instant): void;
};

/** How a watch ended. */
export type WatchEnd =
  /** Cleanly: every event was whole. */
  | { readonly type: "ended" }
  /** The server said no, with a status code or by an ERROR event; 410 means list again. */
  | { readonly type: "refused"; readonly failure: ApiFailure }
  /** The connection, or an event, ended in the middle. */
  | { readonly type: "broken"; readonly message: string };

export type WatchClient = ApiClient & {
  /**
   * A consistent list, told item by item while it comes: nothing that was told counts unless the answer is ok. In one
   * piece, since the API server makes it from its cache, in half the time that pages or a stream (KEP-3157) take it.
   */
  readList(
    resource: Resource,
    options: ListOptions,
    onItem: (item: KubeObject) => void,
  ): Promise<Answer<{ readonly resourceVersion: string; readonly receivedAt: Instant }>>;
  watch(resource: Resource, options: WatchOptions, sink: WatchSink): Promise<WatchEnd>;
  /** Number of the live connection. */
  readonly connection: number | undefined;
};

const DEFAULT_CLIENT_LIMITS = {
  requestTimeoutMilliseconds: 10_000,
  listTimeoutMilliseconds: 30_000,
};

/** Of an item or an event. An object is at most 1.5 MiB in etcd; JSON with managedFields is larger. */
const LONGEST_OBJECT_BYTES = 16 * 1024 * 1024;

/** Reads one answer. */
type Reader<T> = {
  /** Why nothing more is wanted, if so. */
  data(chunk: Buffer, status: number): string | undefined;
  end(status: number, headers: IncomingHttpHeaders): Answer<T>;
};

/**
 * A client with one connection of its own. Leases deserve one for themselves (with `LEASE_CLIENT_LIMITS`): then no list
 * or burst of writes can hold up a renewal.
 */
export function createClient(
  config: ApiConfig,
  options: { clock: Clock; log: Log; metrics?: KubeMetrics; limits?: Partial<ClientLimits> },
): WatchClient {
  const { clock, metrics = NO_METRICS } = options;
  const limits = { ...DEFAULT_CLIENT_LIMITS, ...options.limits };
  const connector = createConnector(config, options);

  /** One request and its whole answer; once more when it certainly was not carried out. */
  async function send<T>(
    resource: Resource,
    verb: string,
    call: Omit<Call, "token">,
    reader: () => Reader<T> = readObject,
  ): Promise<Answer<T>> {
    let outcome = await sendOnce(call, reader());
    if (outcome.again) outcome = await sendOnce(call, reader());
    const { answer } = outcome;
    metrics.request(verb, resource.plural, answer.ok ? 200 : answer.failure.status);
    return answer;
  }

  function sendOnce<T>(call: Omit<Call, "token">, reader: Reader<T>): Promise<{ answer: Answer<T>; again: boolean }> {
    return new Promise((resolve) => {
      let token: string | undefined;
      try {
        token = config.token(clock.now());
      } catch (error) {
        return resolve({ answer: noAnswer(messageOf(error)), again: false });
      }
      let status = 0;
      let headers: IncomingHttpHeaders = {};
      const done = (answer: Answer<T>, again: boolean) => {
        clearTimeout(patience);
        resolve({ answer, again });
      };
      const stop = openStream(
        connector,
        { ...call, token },
        {
          headers(code, received) {
            status = code;
            headers = received;
          },
          data(chunk) {
            const why = reader.data(chunk, status);
            if (why !== undefined) stop(why);
            else if (call.isLong) patience.refresh();
          },
          end() {
            // A 401 is given before anything is done, and the token may have been rotated under us.
            const again = status === 401 && isRotated(token);
            done(reader.end(status, headers), again);
          },
          broken: (message, again) => done(noAnswer(message), again),
        },
      );
      // The stream's own patience ends with the headers; this one goes on until the body is whole.
      const patience = setTimeout(
        () => stop("half an answer, and no more came"),
        Math.max(1, call.timeoutMilliseconds) + 1,
      );
    });
  }

  /** Reads the token's file anew: does it hold another token than the one that was refused? */
  function isRotated(refused: string | undefined): boolean {
    config.forgetToken();
    try {
      return config.token(clock.now()) !== refused;
    } catch {
      return false;
    }
  }

  const read = (path: string, signal: AbortSignal | undefined, timeoutMilliseconds: number) =>
    ({ method: "GET", path, signal, timeoutMilliseconds }) as const;
  const write = (method: "POST" | "PUT" | "PATCH" | "DELETE", path: string, body: unknown, contentType?: string) => ({
    method,
    path,
    body: JSON.stringify(body),
    timeoutMilliseconds: limits.requestTimeoutMilliseconds,
    ...(contentType === undefined ? {} : { contentType }),
  });

  const client: WatchClient = {
    get: (resource, key, { signal } = {}) =>
      send(resource, "get", read(pathOf(resource, key.namespace, key.name), signal, limits.requestTimeoutMilliseconds)),

    async list<T extends KubeObject>(resource: Resource, listing: ListOptions = {}): Promise<Answer<List<T>>> {
      const items: T[] = [];
      // The caller names the type of what it lists, as with `get`.
      const answer = await client.readList(resource, listing, (item) => void items.push(item as T));
      return answer.ok ? { ok: true, object: { resourceVersion: answer.object.resourceVersion, items } } : answer;
    },

    async readList(resource, { namespace, labelSelector, fieldSelector, signal }, onItem) {
      const path = pathOf(resource, namespace) + queryOf({ labelSelector, fieldSelector });
      const call = { ...read(path, signal, limits.listTimeoutMilliseconds), isLong: true };
      const answer = await send(resource, "list", call, () => readItems(resource, onItem));
      if (!answer.ok) return answer;
      return { ok: true, object: { resourceVersion: answer.object.resourceVersion, receivedAt: clock.now() } };
    },

    create: (resource, object) =>
      send(resource, "create", write("POST", pathOf(resource, object.metadata.namespace), typed(resource, object))),

    update: (resource, object, subresource) =>
      send(
        resource,
        "update",
        write(
          "PUT",
          pathOf(resource, object.metadata.namespace, object.metadata.name, subresource),
          typed(resource, object),
        ),
      ),

    mergePatch: (resource, key, patch, subresource) =>
      send(
        resource,
        "patch",
        write("PATCH", pathOf(resource, key.namespace, key.name, subresource), patch, "application/merge-patch+json"),
      ),

    apply: (resource, object, { fieldManager, force, subresource }) =>
      send(
        resource,
        "apply",
        write(
          "PATCH",
          pathOf(resource, object.metadata.namespace, object.metadata.name, subresource) +
            queryOf({ fieldManager, force: force === true ? "true" : undefined }),
          typed(resource, object),
          // Every JSON text is YAML.
          "application/apply-patch+yaml",
        ),
      ),

    delete: (resource, key, preconditions) =>
      send(
        resource,
        "delete",
        write("DELETE", pathOf(resource, key.namespace, key.name), {
          apiVersion: "v1",
          kind: "DeleteOptions",
          ...(preconditions === undefined ? {} : { preconditions }),
        }),
      ),

    watch: (resource, watching, sink) => {
      if (watching.onConnection !== undefined && watching.onConnection !== connector.current) {
        return Promise.resolve({ type: "broken", message: "the connection was lost" });
      }
      return new Promise((resolve) => {
        let token: string | undefined;
        try {
          token = config.token(clock.now());
        } catch (error) {
          return resolve({ type: "broken", message: messageOf(error) });
        }
        const lines = new LineCutter(LONGEST_OBJECT_BYTES);
        let status = 0;
        let headers: IncomingHttpHeaders = {};
        const refusal = readObject();
        let verdict: WatchEnd | undefined;
        const finish = (end: WatchEnd) => {
          verdict ??= end;
          metrics.request("watch", resource.plural, status);
          if (verdict.type === "refused" && verdict.failure.status === 401) config.forgetToken();
          resolve(verdict);
        };
        const giveUp = (end: WatchEnd) => {
          verdict ??= end;
          stop("given up");
        };
        const stop = openStream(
          connector,
          {
            method: "GET",
            path:
              pathOf(resource, watching.namespace) +
              queryOf({
                watch: "true",
                allowWatchBookmarks: "true",
                resourceVersion: watching.resourceVersion,
                timeoutSeconds: String(watching.timeoutSeconds),
                labelSelector: watching.labelSelector,
                fieldSelector: watching.fieldSelector,
              }),
            token,
            signal: watching.signal,
            timeoutMilliseconds: limits.requestTimeoutMilliseconds,
          },
          {
            headers(code, received, connection) {
              status = code;
              headers = received;
              if (code !== 200) return;
              sink.heard(clock.now());
              sink.opened(connection);
            },
            data(chunk) {
              const receivedAt = clock.now();
              if (status !== 200) return void refusal.data(chunk, status);
              sink.heard(receivedAt);
              const bounded = lines.push(chunk, (line) => {
                // After a line that can't be trusted nothing of this stream counts.
                if (verdict !== undefined) return;
                const event = readEvent(line);
                if (event === undefined) return giveUp({ type: "broken", message: "an event is not JSON" });
                if (event.type === "ERROR") {
                  return giveUp({ type: "refused", failure: failureOf(0, {}, event.object as unknown as Status) });
                }
                sink.event(event.type, event.object, receivedAt);
              });
              if (!bounded)
                giveUp({ type: "broken", message: `an event is longer than ${LONGEST_OBJECT_BYTES} bytes` });
            },
            end() {
              if (status !== 200) {
                const answer = refusal.end(status, headers);
                return finish(
                  answer.ok
                    ? { type: "broken", message: `status ${status}` }
                    : { type: "refused", failure: answer.failure },
                );
              }
              finish(
                lines.pendingBytes === 0 ? { type: "ended" } : { type: "broken", message: "half an event at the end" },
              );
            },
            broken: (message) => finish({ type: "broken", message }),
          },
        );
      });
    },

    get connection() {
      return connector.current;
    },

    close: () => connector.close(),
  };
  return client;
}

/** metav1.Status, as far as we read it. */
type Status = {
  kind?: string;
  code?: number;
  reason?: string;
  message?: string;
  details?: { retryAfterSeconds?: number };
};

/** The least that the cache needs; anything may have come over the wire. */
export const isIdentified = (item: KubeObject): boolean =>
  typeof item?.metadata?.name === "string" && typeof item.metadata.resourceVersion === "string";

function pathOf(resource: Resource, namespace?: string, name?: string, subresource?: string): string {
  const group = resource.group === "" ? `/api/${resource.version}` : `/apis/${resource.group}/${resource.version}`;
  const scope = resource.namespaced && namespace !== undefined ? `/namespaces/${encodeURIComponent(namespace)}` : "";
  const object = name === undefined ? "" : `/${encodeURIComponent(name)}`;
  return `${group}${scope}/${resource.plural}${object}${subresource === undefined ? "" : `/${subresource}`}`;
}

function queryOf(parameters: Readonly<Record<string, string | undefined>>): string {
  const pairs = Object.entries(parameters)
    .filter(([, value]) => value !== undefined && value !== "")
    .map(([name, value]) => `${name}=${encodeURIComponent(value ?? "")}`);
  return pairs.length === 0 ? "" : `?${pairs.join("&")}`;
}

const typed = (resource: Resource, object: KubeObject): KubeObject => ({
  ...object,
  apiVersion: apiVersionOf(resource),
  kind: resource.kind,
});

/** Reads an answer that is one object, which is what the caller asked for. */
function readObject<T>(): Reader<T> {
  const chunks: Buffer[] = [];
  return {
    data: (chunk) => void chunks.push(chunk),
    end: (status, headers) => readAnswer(status, headers, Buffer.concat(chunks).toString("utf8")),
  };
}

/** Reads a list, and tells each item as soon as it is there. */
function readItems(resource: Resource, onItem: (item: KubeObject) => void): Reader<{ resourceVersion: string }> {
  const cutter = new ListCutter(LONGEST_OBJECT_BYTES);
  const refusal = readObject<{ resourceVersion: string }>();
  const apiVersion = apiVersionOf(resource);
  let isList = true;
  const take = (text: string): void => {
    const item = isList ? parse<KubeObject>(text) : undefined;
    if (item === undefined || !isIdentified(item)) {
      isList = false;
      return;
    }
    // Items of a list carry neither; who writes an object back needs both.
    item.apiVersion ??= apiVersion;
    item.kind ??= resource.kind;
    onItem(item);
  };
  return {
    data(chunk, status) {
      if (status !== 200) return refusal.data(chunk, status);
      if (!cutter.push(chunk, take)) isList = false;
      return isList ? undefined : NO_LIST;
    },
    end(status, headers) {
      if (status !== 200) return refusal.end(status, headers);
      const around = parse<{ metadata?: { resourceVersion?: string; continue?: string }; items?: unknown }>(
        cutter.rest() ?? "",
      );
      const { resourceVersion, continue: more = "" } = around?.metadata ?? {};
      const whole = Array.isArray(around?.items ?? []) && more === "";
      return typeof resourceVersion === "string" && whole
        ? { ok: true, object: { resourceVersion } }
        : noAnswer(NO_LIST);
    },
  };
}

const NO_LIST = "not a list of objects";

/** Undefined for what is not JSON; nobody has looked at the shape. */
function parse<T>(text: string): T | undefined {
  try {
    return JSON.parse(text) as T;
  } catch {
    return undefined;
  }
}

function readAnswer<T>(status: number, headers: IncomingHttpHeaders, text: string): Answer<T> {
  const body = parse<unknown>(text);
  const whole = typeof body === "object" && body !== null;
  if (status >= 200 && status < 300) {
    // Half an answer to a write says nothing about what was done, so it is no answer. `T` is what the caller asked for.
    return whole ? { ok: true, object: body as T } : noAnswer("the answer is not whole");
  }
  if (status === 0) return noAnswer("no status");
  return { ok: false, failure: failureOf(status, headers, whole ? (body as Status) : { message: text.slice(0, 200) }) };
}

/** `status` 0 takes the code from the Status object (an ERROR event has no other). */
function failureOf(status: number, headers: IncomingHttpHeaders, body: Status): ApiFailure {
  // RFC 9110 10.2.3: seconds or a date; the API server sends seconds.
  const header = Number(headers["retry-after"] ?? Number.NaN);
  const seconds = Number.isFinite(header) ? header : body.details?.retryAfterSeconds;
  const code = status === 0 ? (body.code ?? 500) : status;
  return {
    status: code,
    reason: body.reason ?? `Status${code}`,
    message: body.message ?? `the API server answered ${code}`,
    ...(seconds === undefined ? {} : { retryAfterSeconds: Math.max(0, seconds) }),
  };
}

const noAnswer = (message: string): { ok: false; failure: ApiFailure } => ({
  ok: false,
  failure: { status: 0, reason: "NoAnswer", message },
});

function readEvent(line: string): { type: string; object: KubeObject } | undefined {
  const event = parse<{ type?: unknown; object?: unknown }>(line);
  if (typeof event?.type !== "string" || typeof event.object !== "object" || event.object === null) return undefined;
  // metadata is looked at by the cache before it is believed.
  return { type: event.type, object: event.object as KubeObject };
}

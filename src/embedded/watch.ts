/** Watches: events of the store as JSON lines, with bookmarks, selectors and the faults that tests order. */
import type { KubeObject } from "../api/meta.ts";
import { apiVersionOf } from "../api/resource.ts";
import type { Fault, Faults, RunningWatch, Subject } from "./fault.ts";
import { collectionOf } from "./kind.ts";
import { bytesOf, type Listings, matcherOf } from "./listing.ts";
import { badRequest, expired, type Refusal } from "./refusal.ts";
import type { Route } from "./route.ts";
import type { Match } from "./selector.ts";
import type { Entry, EventType, Store, StoreEvent } from "./store.ts";

/** Where the lines go. */
export type Stream = {
  write(line: Uint8Array): void;
  end(): void;
  /** TCP reset of the connection. */
  reset(): void;
  /** Called once when the client has gone or the stream has ended. */
  onClose(listener: () => void): void;
};

export type WatchContext = {
  readonly store: Store;
  readonly listings: Listings;
  readonly faults: Faults;
  readonly bookmarkSeconds: number;
};

/** How a stored object stands in an event: as a Table of one row, or as its metadata alone. */
export type RenderObject = (object: KubeObject) => object;

const NEWLINE = Buffer.from("}\n");
const DEFAULT_TIMEOUT_SECONDS = 1800;
/** A bookmark is sent so long before the watch times out, as the API server does. */
const LAST_BOOKMARK_MILLISECONDS = 2000;

/**
 * Starts the watch that the query asks for. Events after `resourceVersion` are sent at once; without one, or with "0",
 * the objects that are there come first as ADDED.
 * @throws Refusal 400 for a bad query
 */
export function startWatch(
  context: WatchContext,
  route: Route,
  query: URLSearchParams,
  subject: Subject,
  open: () => Stream,
  render: RenderObject | undefined,
  fault: Fault | undefined,
): void {
  const { store } = context;
  const collection = collectionOf(route.view.kind.resource);
  const version = query.get("resourceVersion") ?? "";
  if (!/^\d*$/.test(version)) throw badRequest(`invalid resource version "${version}"`);
  const initial = query.get("sendInitialEvents") === "true";
  if (initial && query.get("resourceVersionMatch") !== "NotOlderThan") {
    throw badRequest("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan");
  }
  const match = matcherOf(route.view, query);
  const inNamespace: Match | undefined =
    route.namespace === undefined ? undefined : (object) => object.metadata.namespace === route.namespace;
  const line = lineMaker(route, render);

  const stream = open();
  const outlet = new Outlet(stream, fault);
  const bookmarks = query.get("allowWatchBookmarks") === "true";
  const wantsState = initial || version === "" || version === "0";
  let seen = Number(version);

  const deliver = (event: StoreEvent): void => {
    if (event.version <= seen) return;
    seen = event.version;
    if (inNamespace?.(event.entry.object) === false) return;
    const shown = asSeenThrough(match, event);
    if (shown !== undefined) outlet.line(line(shown.type, shown.entry));
  };
  const bookmark = (annotations?: Record<string, string>): void => {
    const metadata = {
      resourceVersion: String(Math.max(seen, store.version)),
      creationTimestamp: null,
      ...annotations,
    };
    const object = { kind: route.view.resource.kind, apiVersion: apiVersionOf(route.view.resource), metadata };
    outlet.line(Buffer.from(`${JSON.stringify({ type: "BOOKMARK", object })}\n`));
  };

  const endings: (() => void)[] = [];
  const stop = (): void => {
    for (const ending of endings.splice(0)) ending();
  };
  stream.onClose(stop);
  outlet.onEnd = stop;

  const running: RunningWatch = {
    subject,
    end: () => outlet.end(),
    reset: () => stream.reset(),
    halfLine: () => outlet.half(),
    freeze: () => outlet.freeze(),
    thaw: () => outlet.thaw(),
    expire: () => {
      outlet.line(errorLine(expired("The resourceVersion for the provided watch is too old.")));
      outlet.end();
    },
  };
  endings.push(context.faults.noteWatch(running));

  if (wantsState) {
    const stale = fault?.type === "stale" ? fault.snapshot : undefined;
    const unpaged = new URLSearchParams(query);
    for (const name of ["resourceVersion", "resourceVersionMatch", "limit", "continue"]) unpaged.delete(name);
    const page = context.listings.page(route, unpaged, stale);
    const entries = fault?.type === "shuffle" ? shuffled(page.entries) : page.entries;
    for (const entry of entries) outlet.line(line("ADDED", entry));
    seen = Number(page.metadata.resourceVersion);
    if (initial && bookmarks) bookmark({ annotations: { "k8s.io/initial-events-end": "true" } } as never);
  }
  const missed = store.since(collection, seen);
  if (missed === undefined) {
    outlet.line(errorLine(expired(`too old resource version: ${seen} (${store.version})`)));
    outlet.end();
    return;
  }
  for (const event of missed) deliver(event);
  endings.push(store.subscribe(collection, deliver));

  const asked = Number(query.get("timeoutSeconds") ?? 0);
  const timeoutSeconds = asked > 0 ? asked : DEFAULT_TIMEOUT_SECONDS * (1 + Math.random());
  const timeout = setTimeout(() => outlet.end(), timeoutSeconds * 1000);
  endings.push(() => clearTimeout(timeout));
  if (bookmarks) {
    const every = setInterval(bookmark, context.bookmarkSeconds * 1000);
    const last = setTimeout(bookmark, Math.max(0, timeoutSeconds * 1000 - LAST_BOOKMARK_MILLISECONDS));
    endings.push(
      () => clearInterval(every),
      () => clearTimeout(last),
    );
  }
  if (fault?.type === "end" && (fault.afterLines ?? 0) === 0) outlet.end();
}

/** The event as a watcher with a selector sees it: entering is ADDED, leaving is DELETED. */
function asSeenThrough(match: Match | undefined, event: StoreEvent): { type: EventType; entry: Entry } | undefined {
  const { type, entry, previous } = event;
  if (match === undefined) return { type, entry };
  const before = previous !== undefined && match(previous.object);
  const after = type !== "DELETED" && match(entry.object);
  if (after) return { type: before ? "MODIFIED" : "ADDED", entry };
  if (!before) return undefined;
  if (type === "DELETED") return { type, entry };
  // It left: the last state that matched, with the resourceVersion of now.
  const metadata = { ...previous.object.metadata, resourceVersion: String(event.version) };
  const object = { ...previous.object, metadata };
  return { type: "DELETED", entry: { ...entry, object, bytes: Buffer.from(JSON.stringify(object)) } };
}

/** Makes event lines; those of plain objects are made once for all watchers. */
function lineMaker(route: Route, render: RenderObject | undefined): (type: EventType, entry: Entry) => Buffer {
  if (render !== undefined) {
    return (type, entry) => Buffer.from(`${JSON.stringify({ type, object: render(entry.object) })}\n`);
  }
  if (route.view.convert !== undefined) return (type, entry) => eventLine(type, bytesOf(route.view, entry));
  return (type, entry) => {
    const key = `${type}` as const;
    const known = LINES.get(entry)?.[key];
    if (known !== undefined) return known;
    const made = eventLine(type, entry.bytes);
    LINES.set(entry, { ...LINES.get(entry), [key]: made });
    return made;
  };
}

const LINES = new WeakMap<Entry, Partial<Record<EventType, Buffer>>>();

const eventLine = (type: EventType, object: Buffer): Buffer =>
  Buffer.concat([Buffer.from(`{"type":"${type}","object":`), object, NEWLINE]);

const errorLine = (refusal: Refusal): Buffer =>
  Buffer.from(`${JSON.stringify({ type: "ERROR", object: refusal.status })}\n`);

export function shuffled<T>(items: readonly T[]): T[] {
  const mixed = [...items];
  for (let i = mixed.length - 1; i > 0; i--) {
    const j = Math.floor(Math.random() * (i + 1));
    [mixed[i], mixed[j]] = [mixed[j] as T, mixed[i] as T];
  }
  return mixed;
}

/** The stream behind what may go wrong with it. */
class Outlet {
  readonly #stream: Stream;
  readonly #delayMilliseconds: number;
  #halfNext: boolean;
  #linesLeft: number;
  #frozen: boolean;
  #held: Uint8Array[] = [];
  #ended = false;
  onEnd: () => void = () => {};

  constructor(stream: Stream, fault: Fault | undefined) {
    this.#stream = stream;
    this.#delayMilliseconds = fault?.type === "delay" ? fault.milliseconds : 0;
    this.#halfNext = fault?.type === "halfLine";
    this.#frozen = fault?.type === "freeze";
    this.#linesLeft = fault?.type === "end" && fault.afterLines ? fault.afterLines : Number.POSITIVE_INFINITY;
  }

  line(bytes: Uint8Array): void {
    if (this.#ended) return;
    if (this.#frozen) {
      this.#held.push(bytes);
      return;
    }
    if (this.#delayMilliseconds > 0) {
      setTimeout(() => this.#send(bytes), this.#delayMilliseconds);
      return;
    }
    this.#send(bytes);
  }

  #send(bytes: Uint8Array): void {
    if (this.#ended) return;
    if (this.#halfNext) {
      this.#stream.write(bytes.subarray(0, bytes.length >> 1));
      this.end();
      return;
    }
    this.#stream.write(bytes);
    this.#linesLeft--;
    if (this.#linesLeft <= 0) this.end();
  }

  half(): void {
    this.#stream.write(Buffer.from('{"type":"MODIFIED","object":{"metadata":{"name":"ha'));
    this.end();
  }

  freeze(): void {
    this.#frozen = true;
  }

  thaw(): void {
    this.#frozen = false;
    for (const bytes of this.#held.splice(0)) this.line(bytes);
  }

  end(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.onEnd();
    this.#stream.end();
  }
}

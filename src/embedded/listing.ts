/** Lists: selectors, pages with continue tokens, and the bytes of a list. */
import { randomUUID } from "node:crypto";
import type { KubeObject } from "../api/meta.ts";
import { collectionOf } from "./kind.ts";
import { badRequest, expired, Refusal } from "./refusal.ts";
import type { Route, View } from "./route.ts";
import { type Match, parseFieldSelector, parseLabelSelector } from "./selector.ts";
import type { Entry, Snapshot, Store } from "./store.ts";

export type Page = {
  readonly entries: readonly Entry[];
  /** ListMeta. */
  readonly metadata: { resourceVersion: string; continue?: string; remainingItemCount?: number };
};

type Pending = { readonly version: number; readonly entries: readonly Entry[] };

/** Lists that somebody is in the middle of; older ones are forgotten and answer 410. */
const PENDING_LISTS = 64;

export class Listings {
  readonly #store: Store;
  readonly #pending = new Map<string, Pending>();

  constructor(store: Store) {
    this.#store = store;
  }

  /** Every continue token is expired from now on. */
  expire(): void {
    this.#pending.clear();
  }

  /** One page, all of it out of one moment. `stale` is an older state to answer from. */
  page(route: Route, query: URLSearchParams, stale: Snapshot | undefined): Page {
    const limit = Number(query.get("limit") ?? 0);
    const token = query.get("continue");
    if (token) return this.#next(token, limit);
    const wanted = Number(query.get("resourceVersion") ?? 0);
    const exact = query.get("resourceVersionMatch") === "Exact";
    if (stale === undefined && wanted > this.#store.version) throw tooLarge(wanted, this.#store.version);
    if (exact && wanted !== this.#store.version) {
      throw expired(`The provided resource version (${wanted}) is not available; list without one`);
    }
    const all = stale === undefined ? this.#current(route) : staleEntries(route, stale);
    const match = matcherOf(route.view, query);
    const entries = match === undefined ? all : all.filter((entry) => match(entry.object));
    return this.#cut({ version: stale?.version ?? this.#store.version, entries }, 0, limit);
  }

  #current(route: Route): readonly Entry[] {
    return this.#store.list(collectionOf(route.view.kind.resource), route.namespace);
  }

  #next(token: string, limit: number): Page {
    const [id = "", from = ""] = Buffer.from(token, "base64url").toString().split(" ");
    const pending = this.#pending.get(id);
    if (!/^\d+$/.test(from)) throw badRequest("continue key is not valid");
    if (pending === undefined) {
      throw expired(
        "The provided continue parameter is too old to display a consistent list result. You must start a new list without the continue parameter.",
      );
    }
    this.#pending.delete(id);
    return this.#cut(pending, Number(from), limit);
  }

  #cut(pending: Pending, from: number, limit: number): Page {
    const resourceVersion = String(pending.version);
    const to = limit > 0 ? from + limit : pending.entries.length;
    const entries = from === 0 && to >= pending.entries.length ? pending.entries : pending.entries.slice(from, to);
    if (to >= pending.entries.length) return { entries, metadata: { resourceVersion } };
    const id = randomUUID();
    this.#pending.set(id, pending);
    const oldest = this.#pending.keys().next().value;
    if (this.#pending.size > PENDING_LISTS && oldest !== undefined) this.#pending.delete(oldest);
    return {
      entries,
      metadata: {
        resourceVersion,
        continue: Buffer.from(`${id} ${to}`).toString("base64url"),
        remainingItemCount: pending.entries.length - to,
      },
    };
  }
}

function staleEntries(route: Route, snapshot: Snapshot): readonly Entry[] {
  const all = snapshot.collections.get(collectionOf(route.view.kind.resource)) ?? [];
  return route.namespace === undefined
    ? all
    : all.filter((entry) => entry.object.metadata.namespace === route.namespace);
}

const tooLarge = (wanted: number, current: number): Refusal =>
  new Refusal(504, "Timeout", `Too large resource version: ${wanted}, current: ${current}`, { retryAfterSeconds: 1 });

/** What the selectors of the query let through, on stored objects; undefined when there are none. */
export function matcherOf(view: View, query: URLSearchParams): Match | undefined {
  const labels = query.get("labelSelector");
  const fields = query.get("fieldSelector");
  const custom = view.resource.group.includes("belfry") || view.resource.group.startsWith("gateway.");
  const matches: Match[] = [];
  if (labels) matches.push(parseLabelSelector(labels));
  if (fields) {
    const match = parseFieldSelector(fields, !custom);
    const show = view.convert?.show ?? ((object: KubeObject) => object);
    matches.push((object) => match(show(object)));
  }
  return matches.length === 0 ? undefined : (object) => matches.every((match) => match(object));
}

const COMMA = Buffer.from(",");
const END = Buffer.from("]}");

/** The list as JSON: the stored bytes of each entry, joined. */
export function listBytes(view: View, page: Page, apiVersion: string): Buffer {
  const head = JSON.stringify({ kind: `${view.resource.kind}List`, apiVersion, metadata: page.metadata });
  const parts: Buffer[] = [Buffer.from(`${head.slice(0, -1)},"items":[`)];
  for (const [i, entry] of page.entries.entries()) {
    if (i > 0) parts.push(COMMA);
    parts.push(bytesOf(view, entry));
  }
  parts.push(END);
  return Buffer.concat(parts);
}

/** The object's JSON as the view shows it. */
export const bytesOf = (view: View, entry: Entry): Buffer =>
  view.convert === undefined ? entry.bytes : Buffer.from(JSON.stringify(view.convert.show(entry.object)));

/** What the rest of Belfry sees of the API server. `client.ts` and `informer.ts` fulfil it. */

import type { KubeObject } from "../api/meta.ts";
import type { Resource } from "../api/resource.ts";
import type { Instant } from "../core/instant.ts";

export type Key = { readonly namespace?: string; readonly name: string };

/** `namespace/name`, or `name` for cluster-scoped objects: the key of every cache and queue. */
export const keyOf = (object: KubeObject): string =>
  object.metadata.namespace === undefined
    ? object.metadata.name
    : `${object.metadata.namespace}/${object.metadata.name}`;

/** Why a request failed. `status` is the HTTP code, or 0 when no answer came (then it may have been carried out). */
export type ApiFailure = {
  readonly status: number;
  /** metav1.Status.reason such as `Conflict`, `NotFound`, `AlreadyExists`; `NoAnswer` for status 0. */
  readonly reason: string;
  readonly message: string;
  readonly retryAfterSeconds?: number;
};

export type Answer<T> =
  | { readonly ok: true; readonly object: T }
  | { readonly ok: false; readonly failure: ApiFailure };

export type ListOptions = {
  readonly namespace?: string;
  readonly labelSelector?: string;
  readonly fieldSelector?: string;
  readonly signal?: AbortSignal;
};

export type List<T> = { readonly resourceVersion: string; readonly items: T[] };

/** All calls resolve; none rejects, except for a bug of ours. A consistent read is one without resourceVersion. */
export type ApiClient = {
  get<T extends KubeObject>(resource: Resource, key: Key, options?: { signal?: AbortSignal }): Promise<Answer<T>>;
  /** A consistent list. */
  list<T extends KubeObject>(resource: Resource, options?: ListOptions): Promise<Answer<List<T>>>;
  create<T extends KubeObject>(resource: Resource, object: T): Promise<Answer<T>>;
  /** PUT with the object's own resourceVersion as precondition. */
  update<T extends KubeObject>(resource: Resource, object: T, subresource?: "status"): Promise<Answer<T>>;
  /** JSON merge patch; put metadata.resourceVersion into the patch to make it conditional. */
  mergePatch<T extends KubeObject>(
    resource: Resource,
    key: Key,
    patch: unknown,
    subresource?: "status",
  ): Promise<Answer<T>>;
  /** Server-side apply. */
  apply<T extends KubeObject>(
    resource: Resource,
    object: T,
    options: { fieldManager: string; force?: boolean; subresource?: "status" },
  ): Promise<Answer<T>>;
  delete(
    resource: Resource,
    key: Key,
    preconditions?: { uid?: string; resourceVersion?: string },
  ): Promise<Answer<KubeObject>>;
  close(): void;
};

/** One event of an informer. Everything before `synced` is the first consistent list. */
export type InformerEvent<T> =
  | { readonly type: "synced" }
  | { readonly type: "upsert"; readonly object: T; readonly previous?: T }
  | { readonly type: "delete"; readonly object: T };

/** A cache kept true by list and watch. `T` is the projected object: only the fields that we use. */
export type Informer<T extends KubeObject> = {
  readonly resource: Resource;
  get(key: string): T | undefined;
  values(): IterableIterator<T>;
  readonly size: number;
  /** True once the first consistent list was delivered. */
  readonly synced: boolean;
  /** resourceVersion of the last list or event applied (not of a bookmark); undefined before the first list. */
  readonly lastEventVersion: string | undefined;
  /** When the server was last heard on this watch (event, bookmark, or list). */
  readonly lastHeardAt: Instant | undefined;
  /** False while the watch is broken or silent for too long; true again after the next consistent list. */
  readonly fresh: boolean;
  /** Somebody learned elsewhere that the server is not as this cache has it: not fresh from now on, until it has listed. */
  doubt(why: string): void;
};

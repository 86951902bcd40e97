/**
 * The verbs of the API over the store: what create, update, patch, apply and delete mean, with everything that the API
 * server adds by itself. It knows nothing of HTTP. Refused requests throw `Refusal`.
 */
import { randomBytes, randomUUID } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import type { KubeObject } from "../api/meta.ts";
import { apiVersionOf } from "../api/resource.ts";
import type { StructuralSchema } from "../api/structural.ts";
import { defaulted } from "../api/structural-value.ts";
import { collectionOf, type ServedKind } from "./kind.ts";
import { afterUpdate, applyConfig, type ManagedFieldsEntry, type Writer } from "./managed-fields.ts";
import * as refuse from "./refusal.ts";
import { isRecord, prune, type Schema } from "./schema.ts";
import { type Entry, type Store, storeKey } from "./store.ts";

export type Subresource = "status" | undefined;

export type WriteOptions = {
  readonly manager: string;
  readonly subresource?: Subresource;
  readonly dryRun?: boolean;
  readonly fieldValidation?: "Ignore" | "Warn" | "Strict";
};

export type Written = {
  readonly object: KubeObject;
  readonly created: boolean;
  /** Texts for the Warning header. */
  readonly warnings: readonly string[];
};

export type Preconditions = { readonly uid?: string; readonly resourceVersion?: string };

export type Deleted = {
  /** The object as it is now when finalizers hold it, or as it was last. */
  readonly object: KubeObject;
  readonly gone: boolean;
};

type Place = { readonly kind: ServedKind; readonly namespace: string | undefined; readonly name: string };

const NAME_PATTERN = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;
const NAMESPACES = "namespaces";

export class Verbs {
  readonly store: Store;
  readonly #kinds: ReadonlyMap<string, ServedKind>;
  readonly #now: () => Date;
  /** uid of an owner → dependents, as `collection` and key. */
  readonly #dependents = new Map<string, Map<string, { collection: string; key: string }>>();

  constructor(store: Store, kinds: readonly ServedKind[], now: () => Date) {
    this.store = store;
    this.#kinds = new Map(kinds.map((kind) => [collectionOf(kind.resource), kind]));
    this.#now = now;
  }

  get(kind: ServedKind, namespace: string | undefined, name: string): Entry {
    const entry = this.store.get(collectionOf(kind.resource), storeKey(namespace, name));
    if (entry === undefined) throw refuse.notFound(targetOf({ kind, namespace, name }));
    return entry;
  }

  create(kind: ServedKind, namespace: string | undefined, body: unknown, options: WriteOptions): Written {
    const object = this.#accept(kind, namespace, undefined, body);
    if (object.metadata.resourceVersion) {
      throw refuse.badRequest("resourceVersion should not be set on objects to be created");
    }
    const generateName = (object.metadata as { generateName?: string }).generateName;
    if (!object.metadata.name && generateName) object.metadata.name = generateName + randomSuffix();
    const place = { kind, namespace, name: object.metadata.name };
    const key = storeKey(namespace, place.name);
    if (this.store.get(collectionOf(kind.resource), key) !== undefined) throw refuse.alreadyExists(targetOf(place));
    if (kind.hasStatus && kind.resource.plural !== "nodes") delete (object as { status?: unknown }).status;
    return this.#write(place, undefined, object, options, undefined);
  }

  update(kind: ServedKind, namespace: string | undefined, name: string, body: unknown, options: WriteOptions): Written {
    const object = this.#accept(kind, namespace, name, body);
    const entry = this.get(kind, namespace, name);
    const place = { kind, namespace, name };
    // Custom resources take no unconditional PUT; most built-in kinds do.
    if (!object.metadata.resourceVersion && isCustom(kind)) {
      throw refuse.invalid(targetOf(place), kind.resource.kind, [
        { field: "metadata.resourceVersion", message: "Invalid value: 0: must be specified for an update" },
      ]);
    }
    this.#expect(place, entry, object.metadata);
    return this.#write(place, entry, object, options, undefined);
  }

  /** JSON merge patch (RFC 7386), or any other function from the live object, which it must not change, to the wanted one. */
  patch(
    kind: ServedKind,
    namespace: string | undefined,
    name: string,
    change: (live: KubeObject) => unknown,
    options: WriteOptions,
  ): Written {
    const entry = this.get(kind, namespace, name);
    const object = this.#accept(kind, namespace, name, change(entry.object));
    const place = { kind, namespace, name };
    this.#expectPatched(place, entry, object.metadata, options);
    return this.#write(place, entry, object, options, undefined);
  }

  /** Server-side apply; creates the object when there is none. */
  apply(
    kind: ServedKind,
    namespace: string | undefined,
    name: string,
    body: unknown,
    options: WriteOptions & { readonly force: boolean },
  ): Written {
    const place = { kind, namespace, name };
    const config = this.#accept(kind, namespace, name, body);
    if ((config.metadata as { managedFields?: unknown[] }).managedFields?.length) {
      throw refuse.badRequest("metadata.managedFields must be nil");
    }
    const entry = this.store.get(collectionOf(kind.resource), storeKey(namespace, name));
    if (entry === undefined && options.subresource !== undefined) throw refuse.notFound(targetOf(place));
    if (entry !== undefined) this.#expectPatched(place, entry, config.metadata, options);
    else if (config.metadata.resourceVersion) throw refuse.conflict(targetOf(place), refuse.MODIFIED);
    const { config: own, warnings } = this.#prune(place, reset(kind, config, options.subresource), options);
    const applied = applyConfig(entry?.object, own, kind.schema, this.#writer(options), options.force);
    const object = applied.object;
    if (entry === undefined) object.metadata = { ...object.metadata, name, ...(namespace ? { namespace } : {}) };
    const written = this.#write(place, entry, object, options, applied.managedFields);
    return { ...written, warnings };
  }

  delete(
    kind: ServedKind,
    namespace: string | undefined,
    name: string,
    preconditions: Preconditions,
    dryRun = false,
  ): Deleted {
    const place = { kind, namespace, name };
    const entry = this.get(kind, namespace, name);
    const { uid, resourceVersion } = entry.object.metadata;
    if (preconditions.uid !== undefined && preconditions.uid !== uid) {
      throw refuse.conflict(
        targetOf(place),
        `Precondition failed: UID in precondition: ${preconditions.uid}, UID in object meta: ${uid}`,
      );
    }
    if (preconditions.resourceVersion !== undefined && preconditions.resourceVersion !== resourceVersion) {
      throw refuse.conflict(
        targetOf(place),
        `Precondition failed: ResourceVersion in precondition: ${preconditions.resourceVersion}, ResourceVersion in object meta: ${resourceVersion}`,
      );
    }
    if (dryRun) return { object: entry.object, gone: true };
    if (collectionOf(kind.resource) === NAMESPACES) return this.#deleteNamespace(place, entry);
    if ((entry.object.metadata.finalizers?.length ?? 0) > 0) {
      return { object: this.#markDeleted(place, entry), gone: false };
    }
    return { object: this.#remove(place), gone: true };
  }

  /** A namespace that is written to exists from then on. */
  ensureNamespace(name: string): void {
    if (this.store.get(NAMESPACES, name) !== undefined) return;
    const kind = this.#kinds.get(NAMESPACES);
    if (kind === undefined) return;
    this.create(
      kind,
      undefined,
      { apiVersion: "v1", kind: "Namespace", metadata: { name } },
      { manager: "belfry-embedded" },
    );
  }

  /** The body as an object of the kind in that place; a copy whose first two levels may be changed. */
  #accept(kind: ServedKind, namespace: string | undefined, name: string | undefined, body: unknown): KubeObject {
    if (!isRecord(body)) throw refuse.badRequest("the body is not an object");
    // Shallow copies are enough here: defaulting makes the deep one.
    const object = { ...body } as KubeObject;
    const { resource } = kind;
    const apiVersion = apiVersionOf(resource);
    object.apiVersion ??= apiVersion;
    object.kind ??= resource.kind;
    if (object.apiVersion === apiVersion && object.kind !== resource.kind && isCustom(kind)) {
      throw refuse.invalid({ group: resource.group, plural: resource.plural }, resource.kind, [
        { field: "kind", message: `Invalid value: "${object.kind}": must be ${resource.kind}` },
      ]);
    }
    if (object.apiVersion !== apiVersion || object.kind !== resource.kind) {
      throw refuse.badRequest(
        `the object is ${object.apiVersion} ${object.kind}, but the path is of ${apiVersion} ${resource.kind}`,
      );
    }
    object.metadata = isRecord(object.metadata) ? { ...object.metadata } : { name: "" };
    const { metadata } = object;
    for (const texts of [metadata.labels, metadata.annotations]) {
      const other = Object.entries(texts ?? {}).find(([, value]) => typeof value !== "string");
      if (other !== undefined) throw refuse.badRequest(`cannot unmarshal ${other[0]} of metadata into a string`);
    }
    if (name !== undefined) {
      metadata.name ||= name;
      if (metadata.name !== name) {
        throw refuse.badRequest(
          `the name of the object (${metadata.name}) does not match the name on the URL (${name})`,
        );
      }
    }
    if (!resource.namespaced) delete metadata.namespace;
    else if (namespace !== undefined) {
      metadata.namespace ||= namespace;
      if (metadata.namespace !== namespace) {
        throw refuse.badRequest(
          "the namespace of the provided object does not match the namespace sent on the request",
        );
      }
    }
    return object;
  }

  #expect(place: Place, entry: Entry, wanted: KubeObject["metadata"]): void {
    if (wanted.uid && wanted.uid !== entry.object.metadata.uid) {
      throw refuse.conflict(
        targetOf(place),
        `Precondition failed: UID in precondition: ${wanted.uid}, UID in object meta: ${entry.object.metadata.uid}`,
      );
    }
    if (wanted.resourceVersion && wanted.resourceVersion !== entry.object.metadata.resourceVersion) {
      throw refuse.conflict(targetOf(place), refuse.MODIFIED);
    }
  }

  /** Completes, checks and stores the wanted object; `managed` are the managedFields of an apply. */
  #write(
    place: Place,
    entry: Entry | undefined,
    wanted: KubeObject,
    options: WriteOptions,
    managed: ManagedFieldsEntry[] | undefined,
  ): Written {
    const { kind } = place;
    const old = entry?.object;
    const isolated = old === undefined ? wanted : isolate(kind, old, wanted, options.subresource);
    const { config: pruned, warnings } = this.#prune(place, isolated, options);
    // A deep copy, since parts of the old object may be shared and are in the store.
    const object = defaulted(wholeSchema(kind) as StructuralSchema, pruned) as KubeObject;
    kind.complete?.(object, old);
    try {
      this.#check(place, object, old);
    } catch (error) {
      if (old === undefined) kind.released?.(object);
      throw error;
    }
    const next = this.#seal(place, object, old, options, managed);
    if (old !== undefined && sameButTimes(old, next)) return { object: old, created: false, warnings };
    if (options.dryRun) {
      if (old === undefined) kind.released?.(object);
      return { object: next, created: old === undefined, warnings };
    }
    if (old === undefined && place.namespace !== undefined) this.#requireNamespace(place, place.namespace);
    if (next.metadata.deletionTimestamp !== undefined && (next.metadata.finalizers?.length ?? 0) === 0) {
      return { object: this.#remove(place, next), created: false, warnings };
    }
    const stored = this.store.put(collectionOf(kind.resource), next).object;
    this.#noteOwners(place, stored);
    return { object: stored, created: old === undefined, warnings };
  }

  #prune(place: Place, object: KubeObject, options: WriteOptions): { config: KubeObject; warnings: string[] } {
    const unknown: string[] = [];
    const config = prune(object, wholeSchema(place.kind), "", unknown) as KubeObject;
    const texts = unknown.map((field) => `unknown field "${field}"`);
    if (texts.length > 0 && options.fieldValidation === "Strict") {
      throw refuse.badRequest(
        `${place.kind.resource.kind} in version "${place.kind.resource.version}" cannot be handled as a ${
          place.kind.resource.kind
        }: strict decoding error: ${texts.join(", ")}`,
      );
    }
    return { config, warnings: options.fieldValidation === "Ignore" ? [] : texts };
  }

  #check(place: Place, object: KubeObject, old: KubeObject | undefined): void {
    const { kind } = place;
    const causes = [...checkMetadata(object, old), ...kind.validate(object, old)];
    if (causes.length > 0) throw refuse.invalid(targetOf(place), kind.resource.kind, causes);
  }

  /** Of a patch, unlike of a PUT, the uid is no precondition but a field that can't change. */
  #expectPatched(place: Place, entry: Entry, wanted: KubeObject["metadata"], options: WriteOptions): void {
    const { uid, ...rest } = wanted;
    this.#expect(place, entry, rest);
    // Of what is sent to the status of a custom resource, only the resourceVersion counts of all metadata.
    if (options.subresource !== undefined && isCustom(place.kind)) return;
    if (!uid || uid === entry.object.metadata.uid) return;
    throw refuse.invalid(targetOf(place), place.kind.resource.kind, [
      { field: "metadata.uid", message: `Invalid value: "${uid}": field is immutable` },
    ]);
  }

  /** Puts in the metadata that only the server writes. */
  #seal(
    place: Place,
    object: KubeObject,
    old: KubeObject | undefined,
    options: WriteOptions,
    managed: ManagedFieldsEntry[] | undefined,
  ): KubeObject {
    const { kind } = place;
    const { metadata } = object;
    const system: Record<string, unknown> = {
      uid: old?.metadata.uid ?? randomUUID(),
      creationTimestamp: old?.metadata.creationTimestamp ?? this.#timestamp(),
      resourceVersion: old?.metadata.resourceVersion,
      deletionTimestamp: old?.metadata.deletionTimestamp,
      deletionGracePeriodSeconds: (old?.metadata as { deletionGracePeriodSeconds?: number } | undefined)
        ?.deletionGracePeriodSeconds,
      generation: generationOf(kind, object, old),
      managedFields: managed ?? afterUpdate(old, object, kind.schema, this.#writer(options)),
    };
    const sealed: Record<string, unknown> = { ...metadata };
    for (const [name, value] of Object.entries(system)) {
      if (value === undefined) delete sealed[name];
      else sealed[name] = value;
    }
    for (const [name, value] of Object.entries(sealed)) if (isEmpty(value)) delete sealed[name];
    const { apiVersion, kind: kindName, metadata: _metadata, ...rest } = object;
    return { apiVersion, kind: kindName, metadata: sealed, ...rest } as KubeObject;
  }

  #markDeleted(place: Place, entry: Entry): KubeObject {
    const { object } = entry;
    if (object.metadata.deletionTimestamp !== undefined) return object;
    const { generation } = object.metadata;
    const metadata = {
      ...object.metadata,
      deletionTimestamp: this.#timestamp(),
      deletionGracePeriodSeconds: 0,
      // As the API server does: a deletion counts as a change of the specification.
      ...(generation === undefined ? {} : { generation: generation + 1 }),
    };
    return this.store.put(collectionOf(place.kind.resource), { ...object, metadata }).object;
  }

  /** Takes the object out of the store, and with it what only it owned. */
  #remove(place: Place, last?: KubeObject): KubeObject {
    const collection = collectionOf(place.kind.resource);
    const key = storeKey(place.namespace, place.name);
    const removed = this.store.remove(collection, key, last);
    if (removed === undefined) throw refuse.notFound(targetOf(place));
    place.kind.released?.(removed.object);
    for (const owner of removed.object.metadata.ownerReferences ?? []) {
      this.#dependents.get(owner.uid)?.delete(`${collection} ${key}`);
    }
    this.#collectDependents(removed.object.metadata.uid ?? "");
    if (place.namespace !== undefined) this.#finishNamespace(place.namespace);
    return removed.object;
  }

  #noteOwners(place: Place, object: KubeObject): void {
    const collection = collectionOf(place.kind.resource);
    const key = storeKey(place.namespace, place.name);
    for (const owner of object.metadata.ownerReferences ?? []) {
      const dependents = this.#dependents.get(owner.uid) ?? new Map();
      dependents.set(`${collection} ${key}`, { collection, key });
      this.#dependents.set(owner.uid, dependents);
    }
  }

  #collectDependents(uid: string): void {
    const dependents = this.#dependents.get(uid);
    this.#dependents.delete(uid);
    for (const { collection, key } of dependents?.values() ?? []) {
      const kind = this.#kinds.get(collection);
      const object = this.store.get(collection, key)?.object;
      const owners = object?.metadata.ownerReferences ?? [];
      if (kind === undefined || object === undefined || !owners.some((owner) => owner.uid === uid)) continue;
      // Another owner that may still live keeps it.
      if (owners.length === 1) this.delete(kind, object.metadata.namespace, object.metadata.name, {});
    }
  }

  #requireNamespace(place: Place, namespace: string): void {
    this.ensureNamespace(namespace);
    const found = this.store.get(NAMESPACES, namespace)?.object;
    if (found?.metadata.deletionTimestamp === undefined) return;
    throw refuse.forbidden(
      targetOf(place),
      `unable to create new content in namespace ${namespace} because it is being terminated`,
    );
  }

  #deleteNamespace(place: Place, entry: Entry): Deleted {
    const terminating = { ...entry.object, status: { phase: "Terminating" } };
    const object = this.#markDeleted(place, { ...entry, object: terminating });
    for (const collection of this.store.collectionsIn(place.name)) {
      const kind = this.#kinds.get(collection);
      if (kind === undefined) continue;
      for (const { object: inside } of this.store.list(collection, place.name)) {
        // A dependent may be gone with its owner by now.
        const there = this.store.get(collection, storeKey(place.name, inside.metadata.name));
        if (there !== undefined) this.delete(kind, place.name, inside.metadata.name, {});
      }
    }
    this.#finishNamespace(place.name);
    return { object, gone: this.store.get(NAMESPACES, place.name) === undefined };
  }

  /** Removes a namespace that is being deleted once nothing is in it. */
  #finishNamespace(name: string): void {
    const found = this.store.get(NAMESPACES, name)?.object;
    if (found?.metadata.deletionTimestamp === undefined) return;
    if (this.store.collectionsIn(name).length === 0) this.store.remove(NAMESPACES, name);
  }

  #timestamp(): string {
    return `${this.#now().toISOString().slice(0, 19)}Z`;
  }

  #writer(options: WriteOptions): Writer {
    return { manager: options.manager, subresource: options.subresource, at: this.#timestamp() };
  }
}

const targetOf = (place: Place): refuse.Target => ({
  group: place.kind.resource.group,
  plural: place.kind.resource.plural,
  name: place.name,
});

/** Kinds that a real cluster has as custom resources: their groups are not the core's. */
const isCustom = (kind: ServedKind): boolean =>
  kind.resource.group === "gateway.networking.k8s.io" || kind.resource.group === "belfry.dev";

const schemas = new WeakMap<ServedKind, Schema>();

/** The kind's schema with metadata, apiVersion and kind let through. */
function wholeSchema(kind: ServedKind): Schema {
  const known = schemas.get(kind);
  if (known !== undefined) return known;
  const text = { type: "string" };
  const whole = {
    ...kind.schema,
    properties: { ...kind.schema.properties, metadata: { additionalProperties: true }, apiVersion: text, kind: text },
  };
  schemas.set(kind, whole);
  return whole;
}

/** A spec write does not touch the status, and the reverse. */
function isolate(kind: ServedKind, old: KubeObject, wanted: KubeObject, subresource: Subresource): KubeObject {
  if (!kind.hasStatus) return wanted;
  const [body, shown] = subresource === "status" ? [old, wanted] : [wanted, old];
  const { status: _status, ...rest } = body as KubeObject & { status?: unknown };
  const { status } = shown as { status?: unknown };
  return status === undefined ? rest : ({ ...rest, status } as KubeObject);
}

/** The part of an applied configuration that the endpoint takes. */
function reset(kind: ServedKind, config: KubeObject, subresource: Subresource): KubeObject {
  if (!kind.hasStatus) return config;
  const { status, ...rest } = config as KubeObject & { status?: unknown };
  if (subresource === undefined) return rest;
  const { name, namespace, resourceVersion, uid } = config.metadata;
  const metadata = { name, namespace, resourceVersion, uid } as KubeObject["metadata"];
  return { apiVersion: config.apiVersion, kind: config.kind, metadata, status } as KubeObject;
}

function generationOf(kind: ServedKind, object: KubeObject, old: KubeObject | undefined): number | undefined {
  if (!kind.hasGeneration) return undefined;
  if (old === undefined) return 1;
  const before = old.metadata.generation ?? 1;
  return isDeepStrictEqual(specOf(object), specOf(old)) ? before : before + 1;
}

function specOf(object: KubeObject): unknown {
  const { metadata: _metadata, status: _status, ...rest } = object as KubeObject & { status?: unknown };
  return withoutUndefined(rest);
}

const withoutUndefined = (record: object): object =>
  Object.fromEntries(Object.entries(record).filter(([, value]) => value !== undefined));

/** True when a write would change nothing but the times in managedFields. */
function sameButTimes(a: KubeObject, b: KubeObject): boolean {
  const plain = (object: KubeObject): unknown => {
    const managedFields = (object.metadata as { managedFields?: ManagedFieldsEntry[] }).managedFields ?? [];
    const timeless = managedFields.map(({ time: _time, ...rest }) => rest);
    return withoutUndefined({ ...object, metadata: { ...object.metadata, managedFields: timeless } });
  };
  return isDeepStrictEqual(plain(a), plain(b));
}

function checkMetadata(object: KubeObject, old: KubeObject | undefined): refuse.StatusCause[] {
  const { name, finalizers } = object.metadata;
  const causes: refuse.StatusCause[] = [];
  if (!name) {
    causes.push({
      field: "metadata.name",
      reason: "FieldValueRequired",
      message: "Required value: name or generateName is required",
    });
  } else if (name.length > 253 || !NAME_PATTERN.test(name)) {
    causes.push({
      field: "metadata.name",
      message: `Invalid value: ${JSON.stringify(name)}: a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character`,
    });
  }
  causes.push(...checkLabels(object), ...checkFinalizers(object), ...checkOwners(object));
  if (old?.metadata.deletionTimestamp !== undefined) {
    const added = (finalizers ?? []).filter((one) => !old.metadata.finalizers?.includes(one));
    if (added.length > 0) {
      causes.push({
        field: "metadata.finalizers",
        reason: "FieldValueForbidden",
        message: `Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers ${JSON.stringify(added)}`,
      });
    }
  }
  return causes;
}

/** `prefix/name`, the prefix a DNS subdomain (k8s.io/apimachinery validation.IsQualifiedName). */
const QUALIFIED = /^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?\/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$/;
const LABEL_VALUE = /^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$/;

const checkLabels = ({ metadata }: KubeObject): refuse.StatusCause[] =>
  Object.entries(metadata.labels ?? {}).flatMap(([key, value]) =>
    [
      QUALIFIED.test(key) ? [] : [`Invalid value: ${JSON.stringify(key)}: name part must be a label key`],
      LABEL_VALUE.test(value)
        ? []
        : [`Invalid value: ${JSON.stringify(value)}: a valid label has at most 63 characters`],
    ]
      .flat()
      .map((message) => ({ field: "metadata.labels", message })),
  );

const checkFinalizers = ({ metadata }: KubeObject): refuse.StatusCause[] =>
  (metadata.finalizers ?? [])
    .filter((name) => !QUALIFIED.test(name))
    .map((name) => ({
      field: "metadata.finalizers",
      message: `Invalid value: ${JSON.stringify(name)}: name part must be a qualified name`,
    }));

const checkOwners = ({ metadata }: KubeObject): refuse.StatusCause[] =>
  (metadata.ownerReferences ?? []).flatMap((owner, i) =>
    (["apiVersion", "kind", "name", "uid"] as const)
      .filter((field) => !owner[field])
      .map((field) => ({
        field: `metadata.ownerReferences[${i}].${field}`,
        message: `Invalid value: "": must not be empty`,
      })),
  );

const isEmpty = (value: unknown): boolean =>
  (Array.isArray(value) && value.length === 0) || (isRecord(value) && Object.keys(value).length === 0);

/** Five characters without vowels, as the API server makes them. */
const randomSuffix = (): string => [...randomBytes(5)].map((byte) => "bcdfghjklmnpqrstvwxz2456789"[byte % 27]).join("");

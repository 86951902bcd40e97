import type { KubeObject, ObjectMeta } from "../src/api/meta.ts";
import { lengthen, shorten } from "./shorthand.ts";

/** So few objects stay inflated that they die young: what lives through two collections swells the heap for good. */
const MOST_INFLATED = 16;
const MOST_SHARED = 20_000;

type Rest = { readonly spec?: unknown; readonly status?: unknown };

/** In the order of their last inflation. */
const inflated = new Map<Compact, Rest>();

/**
 * An object whose spec and status are kept as JSON text: a third of the memory. Reading one inflates it for a while, so
 * take a field once where it is needed often. It must not be changed.
 */
class Compact {
  readonly metadata: ObjectMeta;
  readonly #text: string;

  constructor({ metadata, spec, status }: KubeObject & Rest) {
    this.metadata = shareStrings(metadata);
    this.#text = shorten(JSON.stringify(status === undefined ? { spec } : { spec, status }));
  }

  get spec(): unknown {
    return this.#inflate().spec;
  }

  get status(): unknown {
    return this.#inflate().status;
  }

  #inflate(): Rest {
    const known = inflated.get(this);
    if (known !== undefined) return known;
    const rest: Rest = JSON.parse(lengthen(this.#text));
    remember(this, rest);
    return rest;
  }
}

function remember(compact: Compact, rest: Rest): void {
  if (inflated.size >= MOST_INFLATED) {
    for (const oldest of inflated.keys()) {
      inflated.delete(oldest);
      break;
    }
  }
  inflated.set(compact, rest);
}

/** Texts that many objects have in common: JSON.parse makes each of them anew. */
const shared = new Map<string, string>();

function share(text: string): string {
  const known = shared.get(text);
  if (known !== undefined) return known;
  if (shared.size >= MOST_SHARED) shared.clear();
  shared.set(text, text);
  return text;
}

function shareStrings(metadata: ObjectMeta): ObjectMeta {
  if (metadata.namespace !== undefined) metadata.namespace = share(metadata.namespace);
  if (metadata.creationTimestamp !== undefined) metadata.creationTimestamp = share(metadata.creationTimestamp);
  if (metadata.finalizers !== undefined) metadata.finalizers = metadata.finalizers.map(share);
  return metadata;
}

/** The object in little memory. Only metadata, spec and status are kept. */
export const compact = <T extends KubeObject>(object: T): T =>
  // It has every field that a T of ours is read by.
  new Compact(object) as unknown as T;

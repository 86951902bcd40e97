import type { KubeObject, ObjectMeta } from "../src/api/meta.ts";
import { lengthen, shorten } from "./shorthand.ts";

/**
 * Objects that stay inflated: as many as a burst has in its hands, so that what has just come is not parsed once more. So
 * few that they die young: what lives through two collections swells the heap for good.
 */
const MOST_INFLATED = 256;
const MOST_SHARED = 20_000;

type Rest = { readonly spec?: unknown; readonly status?: unknown };

/** The objects that are inflated, in a ring: who comes takes the place of who came first. */
const inflated: Compact[] = [];
let nextPlace = 0;

/**
 * An object whose spec and status are kept as JSON text: a third of the memory. Reading one inflates it for a while, so
 * take a field once where it is needed often. It must not be changed.
 */
class Compact {
  readonly metadata: ObjectMeta;
  readonly brief: unknown;
  readonly #text: string;
  #rest: Rest | undefined;

  constructor({ metadata, spec, status }: KubeObject & Rest, brief: unknown) {
    this.metadata = shareStrings(metadata);
    this.brief = brief;
    const rest = status === undefined ? { spec } : { spec, status };
    this.#text = shorten(JSON.stringify(rest));
    // Whoever is told of it looks at it next.
    this.#remember(rest);
  }

  get spec(): unknown {
    return this.#inflate().spec;
  }

  get status(): unknown {
    return this.#inflate().status;
  }

  #inflate(): Rest {
    return this.#rest ?? this.#remember(JSON.parse(lengthen(this.#text)));
  }

  #remember(rest: Rest): Rest {
    const first = inflated[nextPlace];
    if (first !== undefined) first.#rest = undefined;
    inflated[nextPlace] = this;
    nextPlace = (nextPlace + 1) % MOST_INFLATED;
    this.#rest = rest;
    return rest;
  }
}

/** Texts that many objects have in common: JSON.parse makes each of them anew. */
const shared = new Map<string, string>();

export function share(text: string): string {
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

/**
 * The object in little memory. Only metadata, spec and status are kept; and `brief`, what is read of every object in a row,
 * as after a list, so that nothing is inflated for it.
 */
export const compact = <T extends KubeObject>(object: T, brief?: unknown): T =>
  // It has every field that a T of ours is read by.
  new Compact(object, brief) as unknown as T;

/** What the object was given as its brief, by the same function; made anew for one that is not compact. */
export const briefOf = <T extends KubeObject, B>(object: T, make: (object: T) => B): B =>
  object instanceof Compact ? (object.brief as B) : make(object);

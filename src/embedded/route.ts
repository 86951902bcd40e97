/** Which kind, place and verb a request names: the paths of the Kubernetes API. */
import type { KubeObject } from "../api/meta.ts";
import type { Resource } from "../api/resource.ts";
import { CORE_EVENT, fromCoreEvent, toCoreEvent } from "./event-view.ts";
import type { ServedKind } from "./kind.ts";

export type Verb = "get" | "list" | "watch" | "create" | "update" | "patch" | "apply" | "delete" | "deletecollection";

/** A kind as one group version shows it. Only Events have a second one. */
export type View = {
  readonly kind: ServedKind;
  readonly resource: Resource;
  /** Absent where objects are shown as they are stored. */
  readonly convert?: {
    readonly show: (stored: KubeObject) => KubeObject;
    readonly read: (shown: KubeObject) => KubeObject;
  };
};

export type Route = {
  readonly view: View;
  readonly namespace: string | undefined;
  readonly name: string | undefined;
  readonly subresource: string | undefined;
};

/** Every view that is served: one per kind, and the core one of Events. */
export const viewsOf = (kinds: readonly ServedKind[]): View[] =>
  kinds.flatMap((kind) => {
    const own: View = { kind, resource: kind.resource };
    return kind.resource.plural === "events"
      ? [own, { kind, resource: CORE_EVENT, convert: { show: toCoreEvent, read: fromCoreEvent } }]
      : [own];
  });

/** The route of a resource path, or undefined when the path is none that is served. */
export function routeOf(views: readonly View[], path: string): Route | undefined {
  const parts = path
    .split("/")
    .filter((part) => part !== "")
    .map(decodePart);
  const [root, ...rest] = parts;
  if (root === "api") return place(views, "", rest[0], rest.slice(1));
  if (root === "apis") return place(views, rest[0] ?? "", rest[1], rest.slice(2));
  return undefined;
}

function decodePart(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function place(views: readonly View[], group: string, version: string | undefined, rest: string[]): Route | undefined {
  const find = (plural: string | undefined): View | undefined =>
    views.find(
      ({ resource }) => resource.group === group && resource.version === version && resource.plural === plural,
    );
  // /namespaces/NS/PLURAL…, while /namespaces/NS and /namespaces/NS/status are the Namespace itself.
  const inside = rest[0] === "namespaces" && rest.length > 2 ? find(rest[2]) : undefined;
  if (inside !== undefined) {
    return inside.resource.namespaced
      ? { view: inside, namespace: rest[1], name: rest[3], subresource: subresourceOf(rest, 4) }
      : undefined;
  }
  const view = find(rest[0]);
  if (view === undefined) return undefined;
  // A namespaced object is reached through its namespace only; without one there are lists over all.
  if (view.resource.namespaced && rest.length > 1) return undefined;
  return { view, namespace: undefined, name: rest[1], subresource: subresourceOf(rest, 2) };
}

const subresourceOf = (rest: readonly string[], from: number): string | undefined =>
  rest.length > from ? rest.slice(from).join("/") : undefined;

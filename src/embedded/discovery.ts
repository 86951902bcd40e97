/** What is served: /version, /api, /apis, their old and their aggregated (v2) forms. */
import type { Resource } from "../api/resource.ts";
import type { View } from "./route.ts";

const VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
const STATUS_VERBS = ["get", "patch", "update"];

/** The version that kubectl and other clients are told; the API that is spoken is a part of it. */
const KUBERNETES_VERSION = { major: "1", minor: "37", gitVersion: "v1.37.2+belfry" };

export const AGGREGATED =
  /g=apidiscovery\.k8s\.io;v=v2;as=APIGroupDiscoveryList|v=v2;g=apidiscovery\.k8s\.io;as=APIGroupDiscoveryList/;
export const AGGREGATED_TYPE = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

export type Discovered = { readonly body: object; readonly contentType: string };

/** The answer to a discovery path, or undefined when the path is none. */
export function discover(views: readonly View[], path: string, accept: string): Discovered | undefined {
  const aggregated = AGGREGATED.test(accept);
  const json = (body: object): Discovered => ({ body, contentType: "application/json" });
  const v2 = (body: object): Discovered => ({ body, contentType: AGGREGATED_TYPE });
  const trimmed = path.replace(/\/$/, "");
  if (trimmed === "/version") return json({ ...KUBERNETES_VERSION, platform: "belfry/embedded", goVersion: "" });
  if (trimmed === "/api") {
    if (aggregated) return v2(aggregate(views, [""]));
    return json({ kind: "APIVersions", versions: ["v1"], serverAddressByClientCIDRs: [] });
  }
  const groups = [...new Set(views.map(({ resource }) => resource.group))].filter((group) => group !== "").sort();
  if (trimmed === "/apis") {
    if (aggregated) return v2(aggregate(views, groups));
    return json({ kind: "APIGroupList", apiVersion: "v1", groups: groups.map((group) => apiGroup(views, group)) });
  }
  const [root, group, version, ...rest] = trimmed.slice(1).split("/");
  if (rest.length > 0) return undefined;
  if (root === "api" && group === "v1" && version === undefined) return json(resourceList(views, "", "v1"));
  if (root !== "apis" || group === undefined || !groups.includes(group)) return undefined;
  if (version === undefined) return json({ kind: "APIGroup", apiVersion: "v1", ...apiGroup(views, group) });
  return versionsOf(views, group).includes(version) ? json(resourceList(views, group, version)) : undefined;
}

const versionsOf = (views: readonly View[], group: string): string[] => [
  ...new Set(views.filter(({ resource }) => resource.group === group).map(({ resource }) => resource.version)),
];

function apiGroup(views: readonly View[], group: string): object {
  const versions = versionsOf(views, group).map((version) => ({ groupVersion: `${group}/${version}`, version }));
  return { name: group, versions, preferredVersion: versions[0] };
}

function resourceList(views: readonly View[], group: string, version: string): object {
  const resources = viewsIn(views, group, version).flatMap(({ kind, resource }) => {
    const names = { singularName: kind.singular, shortNames: kind.shortNames, categories: kind.categories };
    const common = { namespaced: resource.namespaced, kind: resource.kind };
    const own = { name: resource.plural, ...names, ...common, verbs: VERBS };
    const status = { name: `${resource.plural}/status`, singularName: "", ...common, verbs: STATUS_VERBS };
    return kind.hasStatus ? [own, status] : [own];
  });
  return {
    kind: "APIResourceList",
    apiVersion: "v1",
    groupVersion: group === "" ? version : `${group}/${version}`,
    resources,
  };
}

const viewsIn = (views: readonly View[], group: string, version: string): View[] =>
  views.filter(({ resource }) => resource.group === group && resource.version === version);

/** apidiscovery.k8s.io/v2 APIGroupDiscoveryList of the groups. */
function aggregate(views: readonly View[], groups: readonly string[]): object {
  const items = groups.map((group) => ({
    metadata: group === "" ? {} : { name: group },
    versions: versionsOf(views, group).map((version) => ({
      version,
      freshness: "Current",
      resources: viewsIn(views, group, version).map(({ kind, resource }) => ({
        resource: resource.plural,
        responseKind: kindOf(resource),
        scope: resource.namespaced ? "Namespaced" : "Cluster",
        singularResource: kind.singular,
        verbs: VERBS,
        shortNames: kind.shortNames,
        categories: kind.categories,
        subresources: kind.hasStatus
          ? [{ subresource: "status", responseKind: kindOf(resource), verbs: STATUS_VERBS }]
          : [],
      })),
    })),
  }));
  return { kind: "APIGroupDiscoveryList", apiVersion: "apidiscovery.k8s.io/v2", metadata: {}, items };
}

const kindOf = ({ group, version, kind }: Resource): object => ({ group, version, kind });

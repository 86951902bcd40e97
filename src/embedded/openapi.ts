/** /openapi/v3: one document per group version, for `kubectl explain` and for validation on the server. */
import { createHash } from "node:crypto";
import { apiVersionOf, type Resource } from "../api/resource.ts";
import type { View } from "./route.ts";
import type { Schema } from "./schema.ts";

/** Paths of the documents, as /openapi/v3 lists them. */
export function openApiIndex(views: readonly View[]): object {
  const paths: Record<string, { serverRelativeURL: string }> = {};
  for (const root of rootsOf(views)) {
    const hash = createHash("sha256")
      .update(JSON.stringify(openApiDocument(views, root)))
      .digest("hex");
    paths[root] = { serverRelativeURL: `/openapi/v3/${root}?hash=${hash.slice(0, 32).toUpperCase()}` };
  }
  return { paths };
}

/** The document of `api/v1` or `apis/GROUP/VERSION`, or undefined when that is not served. */
export function openApiDocument(views: readonly View[], root: string): object | undefined {
  const inside = views.filter(({ resource }) => rootOf(resource) === root);
  if (inside.length === 0) return undefined;
  const schemas: Record<string, object> = { [OBJECT_META]: OBJECT_META_SCHEMA };
  const paths: Record<string, object> = {};
  for (const view of inside) {
    schemas[schemaName(view.resource)] = objectSchema(view);
    Object.assign(paths, pathsOf(view));
  }
  return {
    openapi: "3.0.0",
    info: { title: "Belfry embedded API", version: "v1.37.2" },
    paths,
    components: { schemas },
  };
}

const rootOf = (resource: Resource): string =>
  resource.group === "" ? `api/${resource.version}` : `apis/${resource.group}/${resource.version}`;

const rootsOf = (views: readonly View[]): string[] => [...new Set(views.map(({ resource }) => rootOf(resource)))];

const schemaName = ({ group, version, kind }: Resource): string =>
  `${(group === "" ? "core" : group).split(".").reverse().join(".")}.${version}.${kind}`;

const OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const text = (description: string) => ({ type: "string", description });
const texts = (description: string) => ({ type: "object", description, additionalProperties: { type: "string" } });
const OBJECT_META_SCHEMA = {
  type: "object",
  description: "Metadata that every object has.",
  properties: {
    name: text("Name, unique in its namespace."),
    generateName: text("Begin of a name that the server completes."),
    namespace: text("Namespace of the object."),
    uid: text("Unlike any other object's, ever."),
    resourceVersion: text("Changes with every write."),
    creationTimestamp: text("When it was created."),
    deletionTimestamp: text("When it was deleted, while finalizers hold it."),
    generation: { type: "integer", description: "Counts the changes of the specification." },
    labels: texts("Labels, for selectors."),
    annotations: texts("Notes."),
    finalizers: { type: "array", items: { type: "string" }, description: "Who must act before a deleted object goes." },
    ownerReferences: { type: "array", items: { type: "object" }, description: "Objects that it goes with." },
    managedFields: { type: "array", items: { type: "object" }, description: "Who wrote which field." },
  },
};

function objectSchema({ kind, resource, convert }: View): object {
  const { properties, required, ...rest } = exported(convert === undefined ? kind.schema : {});
  return {
    ...rest,
    type: "object",
    description: kind.description,
    properties: {
      apiVersion: text(`Always ${apiVersionOf(resource)}.`),
      kind: text(`Always ${resource.kind}.`),
      ...properties,
      metadata: {
        description: "Metadata that every object has.",
        allOf: [{ $ref: `#/components/schemas/${OBJECT_META}` }],
        default: {},
      },
    },
    ...(required === undefined ? {} : { required }),
    "x-kubernetes-group-version-kind": [gvkOf(resource)],
  };
}

/** The schema as OpenAPI 3.0 has it: open objects keep unknown fields, `integer | string` has its own word. */
function exported(schema: Schema): Schema & Record<string, unknown> {
  const { additionalProperties, anyOf, properties, items, ...rest } = schema as Schema & Record<string, unknown>;
  delete rest["$schema"];
  const types = (anyOf ?? []).map(({ type }) => type);
  if (types.includes("null")) return { ...exported(anyOf?.find(({ type }) => type !== "null") ?? {}), ...rest };
  if (types.includes("integer"))
    return { ...rest, "x-kubernetes-int-or-string": true } as Schema & Record<string, unknown>;
  const open = typeof additionalProperties === "object" && Object.keys(additionalProperties).length === 0;
  return {
    ...rest,
    ...(properties === undefined
      ? {}
      : { properties: Object.fromEntries(Object.entries(properties).map(([name, inner]) => [name, exported(inner)])) }),
    ...(items === undefined ? {} : { items: exported(items) }),
    ...(open ? { "x-kubernetes-preserve-unknown-fields": true } : {}),
    ...(typeof additionalProperties === "object" && !open
      ? { additionalProperties: exported(additionalProperties) }
      : {}),
  };
}

const gvkOf = ({ group, version, kind }: Resource): object => ({ group, version, kind });

const query = (name: string): object => ({ name, in: "query", schema: { type: "string", uniqueItems: true } });

/** Enough of the paths for clients to see what can be patched, dry-run and validated. */
function pathsOf({ kind, resource }: View): Record<string, object> {
  const base = `/${rootOf(resource)}${resource.namespaced ? "/namespaces/{namespace}" : ""}/${resource.plural}`;
  const operation = (action: string, parameters: object[]): object => ({
    operationId: `${action}${schemaName(resource).replaceAll(/[^A-Za-z0-9]/g, "")}`,
    parameters,
    responses: { 200: { description: "OK" } },
    "x-kubernetes-action": action,
    "x-kubernetes-group-version-kind": gvkOf(resource),
  });
  const written = [query("dryRun"), query("fieldManager"), query("fieldValidation")];
  const one = {
    get: operation("get", []),
    put: operation("put", written),
    patch: operation("patch", [...written, query("force")]),
    delete: operation("delete", [query("dryRun")]),
  };
  return {
    [base]: { get: operation("list", []), post: operation("post", written) },
    [`${base}/{name}`]: one,
    ...(kind.hasStatus ? { [`${base}/{name}/status`]: { get: one.get, put: one.put, patch: one.patch } } : {}),
  };
}

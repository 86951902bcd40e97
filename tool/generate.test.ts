import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { KINDS } from "../src/api/kinds.ts";
import type { StructuralSchema } from "../src/api/structural.ts";
import { generated, stale } from "./generate.ts";

const files = generated();

it("the files on disk are the ones that generating would write", () => {
  expect(stale(files)).toEqual([]);
});

it("a changed and a missing file both count as stale", () => {
  const [first] = files.keys();
  const changed = new Map(files).set(first as string, "# by hand\n").set("config/crd/never-written.yaml", "");
  expect(stale(changed)).toEqual([first, "config/crd/never-written.yaml"]);
});

describe.each(KINDS.map((kind) => [kind.resource.kind, kind] as const))("the CRD of %s", (_name, kind) => {
  const text = files.get(`config/crd/belfry.dev_${kind.resource.plural}.yaml`) ?? "";
  const schema: StructuralSchema = parse(text).spec.versions[0].schema.openAPIV3Schema;
  const fields = [...every(schema)].filter(([path]) => !/^(apiVersion|kind|metadata)/.test(path));

  it("bounds every list, string and map, so that the cost of its rules can be estimated", () => {
    const unbounded = fields.filter(
      ([, field]) =>
        (field.type === "array" && field.maxItems === undefined) ||
        (field.type === "string" && (field.maxLength ?? field.enum ?? field.format) === undefined) ||
        (field.additionalProperties !== undefined && field.maxProperties === undefined),
    );
    expect(unbounded.map(([path]) => path)).toEqual([]);
  });

  it("describes every field and names its default", () => {
    const named = fields.filter(([path]) => !path.endsWith("[]") && !path.endsWith("{}"));
    expect(named.filter(([, field]) => !field.description?.endsWith(".")).map(([path]) => path)).toEqual([]);
  });

  it("has only patterns that RE2 reads as JavaScript does", () => {
    const patterns = fields.flatMap(([, field]) => field.pattern ?? []);
    expect(patterns.filter((pattern) => /\(\?|\\[1-9]|\\p/.test(pattern))).toEqual([]);
  });

  it("names every field of its specification on the reference page", () => {
    const page = files.get("docs/reference/api.md") ?? "";
    for (const name of Object.keys(schema.properties?.["spec"]?.properties ?? {})) expect(page).toContain(name);
  });
});

function* every(schema: StructuralSchema, path = ""): Generator<[string, StructuralSchema]> {
  if (path !== "") yield [path, schema];
  for (const [name, field] of Object.entries(schema.properties ?? {})) {
    yield* every(field, path === "" ? name : `${path}.${name}`);
  }
  if (schema.items !== undefined) yield* every(schema.items, `${path}[]`);
  if (schema.additionalProperties !== undefined) yield* every(schema.additionalProperties, `${path}{}`);
}

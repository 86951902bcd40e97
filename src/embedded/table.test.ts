import { expect, test } from "vitest";
import type { KubeObject } from "../api/meta.ts";
import { compileJsonPath } from "./json-path.ts";
import type { ServedKind } from "./kind.ts";
import { ageOf, tableOf } from "./table.ts";

const OBJECT = {
  metadata: { name: "web", creationTimestamp: "2026-01-01T00:00:00Z", labels: { "a.b/c": "d" } },
  spec: { addresses: ["x", "y"], port: 80, on: true },
  status: {
    conditions: [
      { type: "Accepted", status: "True" },
      { type: "Programmed", status: "False" },
    ],
  },
};

test.each([
  [".metadata.name", ["web"]],
  ["{.metadata.name}", ["web"]],
  [".spec.addresses[1]", ["y"]],
  [".spec.addresses[9]", []],
  [".spec.addresses[*]", ["x", "y"]],
  [".spec.addresses", [["x", "y"]]],
  ['.status.conditions[?(@.type=="Programmed")].status', ["False"]],
  [".status.conditions[?(@.type=='Accepted')].status", ["True"]],
  [".metadata.labels.a\\.b/c", ["d"]],
  [".metadata.labels['a.b/c']", ["d"]],
  [".nothing.at.all", []],
])("the path %s finds %j", (path, found) => {
  expect(compileJsonPath(path)(OBJECT)).toEqual(found);
});

test.each([
  [0, "0s"],
  [119, "119s"],
  [120, "2m"],
  [200, "3m20s"],
  [599, "9m59s"],
  [600, "10m"],
  [3 * 3600 - 1, "179m"],
  [3 * 3600, "3h"],
  [3 * 3600 + 61, "3h1m"],
  [8 * 3600, "8h"],
  [47 * 3600, "47h"],
  [50 * 3600, "2d2h"],
  [9 * 86400, "9d"],
  [-5, "0s"],
])("an age of %d s reads %s", (seconds, text) => {
  const start = "2026-01-01T00:00:00Z";
  expect(ageOf(start, new Date(Date.parse(start) + seconds * 1000))).toBe(text);
});

test("a table has a cell per column: ages as text, absent text empty, absent numbers null, of many values the first", () => {
  const kind = {
    columns: [
      { name: "Name", type: "string", jsonPath: ".metadata.name" },
      { name: "Addresses", type: "string", jsonPath: ".spec.addresses[*]" },
      { name: "Port", type: "integer", jsonPath: ".spec.port" },
      { name: "None", type: "string", jsonPath: ".spec.none" },
      { name: "Count", type: "integer", jsonPath: ".spec.none" },
      { name: "Age", type: "date", jsonPath: ".metadata.creationTimestamp" },
      { name: "Wide", type: "string", priority: 1, value: () => "w" },
    ],
  } as unknown as ServedKind;
  const table = tableOf(kind, [OBJECT as KubeObject], {}, "None", new Date("2026-01-01T00:00:09Z"));
  expect(table).toMatchObject({
    kind: "Table",
    rows: [{ cells: ["web", "x", 80, "", null, "9s", "w"] }],
  });
  expect((table as { columnDefinitions: { type: string }[] }).columnDefinitions.map(({ type }) => type)).toEqual([
    "string",
    "string",
    "integer",
    "string",
    "integer",
    "string",
    "string",
  ]);
});

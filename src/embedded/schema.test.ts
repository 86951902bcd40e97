import { expect, test } from "vitest";
import { check, prune, type Schema } from "./schema.ts";

const SCHEMA: Schema = {
  type: "object",
  required: ["name"],
  properties: {
    name: { type: "string", minLength: 1, maxLength: 5, pattern: "^[a-z]+$" },
    size: { type: "integer", minimum: 1, maximum: 9 },
    mode: { type: "string", enum: ["a", "b"] },
    open: { type: "object", additionalProperties: {}, properties: { known: { type: "object", properties: {} } } },
    labels: { type: "object", additionalProperties: { type: "string" } },
    ports: {
      type: "array",
      minItems: 1,
      maxItems: 2,
      "x-kubernetes-list-type": "map",
      "x-kubernetes-list-map-keys": ["port", "protocol"],
      items: {
        type: "object",
        properties: { port: { type: "integer" }, protocol: { type: "string", default: "TCP" } },
      },
    },
    either: { anyOf: [{ type: "integer" }, { type: "string" }] },
  },
};

test("unknown fields go and are named; open objects and maps keep theirs, with all that is in them", () => {
  const unknown: string[] = [];
  const value = {
    name: "a",
    x: 1,
    open: { free: { deep: [{ y: 1 }] }, known: { z: 1 } },
    labels: { any: "thing" },
    ports: [{ port: 1, q: 1 }],
  };
  expect(prune(value, SCHEMA, "", unknown)).toEqual({
    name: "a",
    open: { free: { deep: [{ y: 1 }] }, known: {} },
    labels: { any: "thing" },
    ports: [{ port: 1 }],
  });
  expect(unknown).toEqual(["x", "open.known.z", "ports[0].q"]);
});

test.each([
  [{ name: "a" }, []],
  [{}, ["name: Required value"]],
  [{ name: 1 }, ["name: Invalid value"]],
  [{ name: "" }, ["name: Invalid value"]],
  [{ name: "abcdef" }, ["name: Too long"]],
  [{ name: "A" }, ["name: Invalid value"]],
  [{ name: "a", size: 0 }, ["size: Invalid value: 0"]],
  [{ name: "a", size: 10 }, ["size: Invalid value: 10"]],
  [{ name: "a", size: 1.5 }, ["size: Invalid value"]],
  [{ name: "a", mode: "c" }, ["mode: Unsupported value"]],
  [{ name: "a", labels: { x: 1 } }, ["labels.x: Invalid value"]],
  [{ name: "a", ports: [] }, ["ports: Invalid value: 0"]],
  [{ name: "a", ports: [{ port: 1 }, { port: 2 }, { port: 3 }] }, ["ports: Too many: 3"]],
  // A key that is absent counts with its default.
  [{ name: "a", ports: [{ port: 1 }, { port: 1, protocol: "TCP" }] }, ["ports[1]: Duplicate value"]],
  [{ name: "a", ports: [{ port: 1 }, { port: 1, protocol: "UDP" }] }, []],
  [{ name: "a", either: 1 }, []],
  [{ name: "a", either: "b" }, []],
  [{ name: "a", either: true }, ["either: Invalid value"]],
])("%j has the faults %j", (value, faults) => {
  const found = check(value, SCHEMA, "").map(({ field, message }) => `${field}: ${message}`);
  expect(found).toEqual(faults.map((fault) => expect.stringContaining(fault)));
});

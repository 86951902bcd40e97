import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { difference, fieldsOf, fromFieldsV1, merge, printField, toFieldsV1, without } from "./field-set.ts";
import type { Schema } from "./schema.ts";

const SCHEMA: Schema = {
  type: "object",
  properties: {
    spec: {
      type: "object",
      properties: {
        ports: {
          type: "array",
          "x-kubernetes-list-type": "map",
          "x-kubernetes-list-map-keys": ["protocol", "port"],
          items: { type: "object", properties: { protocol: { type: "string", default: "TCP" } } },
        },
        finalizers: { type: "array", "x-kubernetes-list-type": "set" },
        addresses: { type: "array" },
        selector: { type: "object", additionalProperties: { type: "string" } },
      },
    },
  },
};

test("a value's fields have the FieldsV1 form that a real API server writes", () => {
  const value = {
    spec: { ports: [{ port: 80, name: "web" }], finalizers: ["a"], addresses: ["x", "y"], selector: { app: "web" } },
  };
  expect(toFieldsV1(fieldsOf(value, SCHEMA))).toEqual({
    "f:spec": {
      // Keys are in order of name, and a key that is absent has its default.
      "f:ports": { 'k:{"port":80,"protocol":"TCP"}': { ".": {}, "f:port": {}, "f:name": {} } },
      "f:finalizers": { 'v:"a"': {} },
      "f:addresses": {},
      "f:selector": { "f:app": {} },
    },
  });
});

const PORTS = (...ports: object[]) => ({ spec: { ports } });

describe("merge", () => {
  test.each([
    ["maps field by field", { spec: { a: 1, b: 1 } }, { spec: { b: 2 } }, { spec: { a: 1, b: 2 } }],
    [
      "keyed lists item by item",
      PORTS({ port: 1, x: 1 }, { port: 2 }),
      PORTS({ port: 1, y: 1 }),
      PORTS({ port: 1, x: 1, y: 1 }, { port: 2 }),
    ],
    ["new items of keyed lists at the end", PORTS({ port: 1 }), PORTS({ port: 2 }), PORTS({ port: 1 }, { port: 2 })],
    [
      "sets as unions",
      { spec: { finalizers: ["a"] } },
      { spec: { finalizers: ["b", "a"] } },
      { spec: { finalizers: ["a", "b"] } },
    ],
    [
      "other lists whole",
      { spec: { addresses: ["a"] } },
      { spec: { addresses: ["b"] } },
      { spec: { addresses: ["b"] } },
    ],
  ])("takes %s", (_what, base, applied, merged) => {
    expect(merge(base, applied, SCHEMA)).toEqual(merged);
  });
});

test("the difference names leaves that were added or changed, and leaves that went", () => {
  const before = { spec: { ports: [{ port: 1, x: 1 }, { port: 2 }], addresses: ["a"] } };
  const after = { spec: { ports: [{ port: 1, x: 2 }, { port: 3 }], selector: { app: "web" } } };
  const { changed, removed } = difference(before, after, SCHEMA);
  expect([...changed].map(printField).sort()).toEqual([
    '.spec.ports[port=1,protocol="TCP"].x',
    '.spec.ports[port=3,protocol="TCP"]',
    '.spec.ports[port=3,protocol="TCP"].port',
    ".spec.selector.app",
  ]);
  expect([...removed].map(printField).sort()).toEqual([
    ".spec.addresses",
    '.spec.ports[port=2,protocol="TCP"]',
    '.spec.ports[port=2,protocol="TCP"].port',
  ]);
});

const json = fc.letrec((tie) => ({
  leaf: fc.oneof(fc.integer(), fc.string(), fc.boolean()),
  value: fc.oneof({ maxDepth: 3 }, tie("leaf"), fc.dictionary(fc.constantFrom("a", "b", "c"), tie("value"))),
})).value;
const port = fc.record({ port: fc.integer({ min: 1, max: 4 }), x: json }, { requiredKeys: ["port"] });
const object = fc.record({
  spec: fc.record(
    { ports: fc.uniqueArray(port, { selector: (one) => one.port }), addresses: fc.array(fc.string()), free: json },
    { requiredKeys: [] },
  ),
});

test("property: sets survive the FieldsV1 form", () => {
  fc.assert(
    fc.property(object, (value) => {
      const set = fieldsOf(value, SCHEMA);
      expect(fromFieldsV1(toFieldsV1(set))).toEqual(set);
    }),
  );
});

test("property: a value has no difference to itself, and merging it into itself changes nothing", () => {
  fc.assert(
    fc.property(object, (value) => {
      expect(difference(value, structuredClone(value), SCHEMA)).toEqual({ changed: new Set(), removed: new Set() });
      expect(merge(value, structuredClone(value), SCHEMA)).toEqual(value);
    }),
  );
});

test("property: applying twice is applying once", () => {
  fc.assert(
    fc.property(object, object, (base, applied) => {
      const once = merge(base, applied, SCHEMA);
      expect(merge(once, applied, SCHEMA)).toEqual(once);
    }),
  );
});

test("property: an object without the fields it has is empty", () => {
  fc.assert(
    fc.property(object, (value) => {
      const rest = without(value, SCHEMA, fieldsOf(value, SCHEMA)) as { spec?: object };
      expect(rest.spec ?? {}).toEqual({});
    }),
  );
});

test("removing the last field of a map removes the map, but never a top-level field", () => {
  const value = { spec: { selector: { app: "web" } } };
  expect(without(value, SCHEMA, fieldsOf(value, SCHEMA))).toEqual({ spec: {} });
});

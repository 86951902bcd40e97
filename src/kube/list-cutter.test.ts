import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { ListCutter } from "./list-cutter.ts";

/** The list as its reader sees it, fed in chunks of these lengths over and over; undefined when it is given up. */
function read(text: string, lengths: readonly number[], limitBytes = 1 << 20) {
  const cutter = new ListCutter(limitBytes);
  const items: unknown[] = [];
  const bytes = Buffer.from(text);
  for (let at = 0, turn = 0; at < bytes.length; turn++) {
    const length = lengths[turn % lengths.length] ?? 1;
    if (!cutter.push(bytes.subarray(at, at + length), (item) => items.push(JSON.parse(item)))) return undefined;
    at += length;
  }
  const rest = cutter.rest();
  return rest === undefined ? undefined : { items, around: JSON.parse(rest) as unknown };
}

// What brackets and quotes in strings, nesting and several bytes for a character can do.
const text = fc.oneof(fc.string({ unit: "grapheme" }), fc.string({ unit: fc.constantFrom(...'"\\[]{},:é€😀 ') }));
const value = fc.jsonValue({ maxDepth: 3, stringUnit: "grapheme" });
const item = fc.dictionary(fc.oneof(text, fc.constantFrom("items", "metadata")), fc.oneof(text, value));
const around = fc.record({ kind: text, metadata: fc.record({ resourceVersion: text, labels: fc.array(text) }) });
const chunks = fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 5 });

test("any list, cut anywhere, gives its items in order and what is around them", () => {
  fc.assert(
    fc.property(
      fc.array(item),
      around,
      fc.boolean(),
      fc.constantFrom(0, 2),
      chunks,
      (items, rest, last, indent, lengths) => {
        const list = last ? { ...rest, items } : { items, ...rest };
        const seen = read(JSON.stringify(list, null, indent), lengths);
        const wanted = JSON.parse(JSON.stringify({ items, around: { ...rest, items: [] } })) as unknown;
        expect(seen).toEqual(wanted);
      },
    ),
    { numRuns: 500 },
  );
});

describe("managedFields", () => {
  const fields = [{ manager: 'a"[]{}\\', fieldsV1: { "f:metadata": { ".": {} } } }, { manager: "b" }];
  const other = { managedFields: [1], annotations: { a: '"managedFields":[1],"' }, labels: { managedFields: "x" } };
  const withFields = (managedFields: unknown[]) => ({
    items: [
      { metadata: { ...other.annotations, managedFields, name: "a" }, spec: other },
      { metadata: { name: "b", managedFields, more: [[1], "]"] }, managedFields: [2] },
      { metadata: { name: "c", annotations: other }, status: { metadata: { managedFields: [3] } } },
    ],
    metadata: { resourceVersion: "1", managedFields: [4] },
  });

  test("of an item are left out, and nothing else that is called so", () => {
    const text = JSON.stringify(withFields(fields));
    const { items, metadata } = withFields([]);
    expect(read(text, [text.length])).toEqual({ items, around: { items: [], metadata } });
  });

  test("are left out or there, wherever the list is cut", () => {
    const text = JSON.stringify(withFields(fields));
    const wanted = JSON.stringify(withFields([]).items);
    for (let length = 1; length < text.length; length++) {
      const seen = JSON.stringify(read(text, [length])?.items);
      expect(seen.replaceAll(JSON.stringify(fields), "[]"), `${length}`).toBe(wanted);
    }
  });
});

test("half a list is none, wherever it is cut off", () => {
  const whole = '{"items":[{"a":"\\"]}"},{"b":[1]}],"metadata":{"c":"}"}}';
  expect(read(whole, [7])).toBeDefined();
  for (let length = 1; length < whole.length; length++)
    expect(read(whole.slice(0, length), [5]), `${length}`).toBeUndefined();
});

describe("is given up:", () => {
  test.each([
    ["an item that is a number", '{"items":[1]}'],
    ["an item that is a text", '{"items":["a"]}'],
    ["an item that is a list", '{"items":[[{}]]}'],
    ["null among the items", '{"items":[{},null]}'],
  ])("%s", (_what, list) => {
    expect(read(list, [3])).toBeUndefined();
  });

  test("an item, or what is around them, that is longer than the limit", () => {
    const long = "x".repeat(100);
    expect(read(`{"items":[{"a":"${long}"}]}`, [10], 60)).toBeUndefined();
    expect(read(`{"metadata":"${long}","items":[]}`, [10], 60)).toBeUndefined();
    expect(read(`{"items":[${Array.from({ length: 20 }, () => '{"a":"x"}').join(",")}]}`, [10], 60)).toBeDefined();
  });
});

test("items of another shape, or none, are left in place", () => {
  expect(read('{"items":null,"metadata":{"items":[1,{}]}}', [4])).toEqual({
    items: [],
    around: { items: null, metadata: { items: [1, {}] } },
  });
  expect(read('{"items":{"a":[{}]}}', [4])).toEqual({ items: [], around: { items: { a: [{}] } } });
});

import { expect, test } from "vitest";
import { selects } from "./label-selector.ts";
import type { LabelSelector } from "./meta.ts";

const rows: [LabelSelector, Record<string, string> | undefined, boolean][] = [
  [{}, undefined, true],
  [{}, { a: "1" }, true],
  [{ matchLabels: { a: "1" } }, { a: "1", b: "2" }, true],
  [{ matchLabels: { a: "1" } }, { a: "2" }, false],
  [{ matchLabels: { a: "" } }, {}, false],
  [{ matchLabels: { toString: "x" } }, {}, false],
  [{ matchLabels: { a: "1", b: "2" } }, { a: "1" }, false],
  [{ matchExpressions: [{ key: "a", operator: "In", values: ["1", "2"] }] }, { a: "2" }, true],
  [{ matchExpressions: [{ key: "a", operator: "In", values: [""] }] }, {}, false],
  [{ matchExpressions: [{ key: "a", operator: "NotIn", values: ["1"] }] }, {}, true],
  [{ matchExpressions: [{ key: "a", operator: "NotIn", values: ["1"] }] }, { a: "1" }, false],
  [{ matchExpressions: [{ key: "a", operator: "Exists" }] }, { a: "" }, true],
  [{ matchExpressions: [{ key: "a", operator: "Exists" }] }, undefined, false],
  [{ matchExpressions: [{ key: "a", operator: "DoesNotExist" }] }, {}, true],
  [{ matchExpressions: [{ key: "a", operator: "DoesNotExist" }] }, { a: "" }, false],
  [{ matchExpressions: [{ key: "a", operator: "Gt" as "In", values: ["1"] }] }, { a: "2" }, false],
];

test.each(rows)("selector %j on labels %j: %s", (selector, labels, expected) => {
  expect(selects(selector, labels)).toBe(expected);
});

import { expect, test } from "vitest";
import type { L2Advertisement } from "../api/l2-advertisement.ts";
import { advertisementsOf } from "./advertise.ts";

const l2 = (name: string, spec: object): L2Advertisement => ({
  metadata: { name },
  spec: spec as L2Advertisement["spec"],
});
const pool = { name: "one", labels: { zone: "a" } };

test.each<[string, object, object, boolean]>([
  ["nothing selected is everything", {}, {}, true],
  ["the pool by name", { ipAddressPools: ["one"] }, {}, true],
  ["another pool by name", { ipAddressPools: ["two"] }, {}, false],
  ["the pool by label", { ipAddressPoolSelectors: [{ matchLabels: { zone: "a" } }] }, {}, true],
  ["another label", { ipAddressPoolSelectors: [{ matchLabels: { zone: "b" } }] }, {}, false],
  [
    "by name or by label",
    { ipAddressPools: ["two"], ipAddressPoolSelectors: [{ matchLabels: { zone: "a" } }] },
    {},
    true,
  ],
  ["the holder's label", { serviceSelectors: [{ matchLabels: { app: "x" } }] }, { app: "x" }, true],
  ["not the holder's label", { serviceSelectors: [{ matchLabels: { app: "x" } }] }, {}, false],
])("%s", (_, spec, labels, announced) => {
  expect(advertisementsOf(pool, labels as Record<string, string>, [l2("lan", spec)])).toEqual(announced ? ["lan"] : []);
});

test("a pool that is gone is still named, and selected by no label", () => {
  const gone = { name: "one", labels: undefined };
  const all = [l2("b", { ipAddressPools: ["one"] }), l2("a", {}), l2("c", { ipAddressPoolSelectors: [{}] })];
  expect(advertisementsOf(gone, {}, all)).toEqual(["a", "b"]);
});

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { toHex } from "../core/bytes.ts";
import { MessageWriter } from "../netlink/message.ts";
import { beginBatch, NFNL_SUBSYS_NFTABLES } from "../netlink/nfnetlink.ts";
import { type Element, type NftSet, putChain, putElements, putRule, putSet, type Rule } from "../netlink/nftables.ts";
import { findDifference, HeldElements } from "./adopt.ts";
import { CHAINS, RULES, SETS, TABLE } from "./ruleset.ts";

/** Messages as a dump would give them: what we write and what the kernel tells have the same attributes. */
function dumped(put: (batch: ReturnType<typeof beginBatch>) => void): Uint8Array[] {
  const writer = new MessageWriter();
  put(beginBatch(writer, NFNL_SUBSYS_NFTABLES, 1));
  const messages: Uint8Array[] = [];
  const bytes = writer.bytes().slice(20);
  const view = new DataView(bytes.buffer);
  for (let at = 0; at < bytes.length; at += (view.getUint32(at, true) + 3) & ~3) {
    messages.push(bytes.subarray(at, at + view.getUint32(at, true)));
  }
  return messages;
}

const told = (change: { sets?: readonly NftSet[]; chains?: typeof CHAINS; rules?: readonly Rule[]; table?: string }) =>
  dumped((batch) => {
    const table = change.table ?? TABLE;
    for (const [i, set] of (change.sets ?? SETS).entries()) putSet(batch, table, set, i);
    for (const chain of change.chains ?? CHAINS) putChain(batch, table, chain);
    for (const rule of change.rules ?? RULES) putRule(batch, table, rule);
  });

describe("chains, sets and rules", () => {
  test("our own table has no difference, in whatever order the kernel tells it, with others' tables beside it", () => {
    expect(findDifference(told({}))).toBeUndefined();
    expect(findDifference([...told({}), ...told({ table: "kube-proxy", rules: RULES.slice(0, 3) })])).toBeUndefined();
    expect(findDifference(told({ chains: [...CHAINS].reverse(), sets: [...SETS].reverse() }))).toBeUndefined();
  });

  const first = RULES[0] as Rule;
  test.each([
    ["a rule is missing", { rules: RULES.slice(1) }, "rules of chain"],
    ["a rule is there twice", { rules: [...RULES, first] }, "rules of chain"],
    ["two rules of a chain changed places", { rules: [...RULES].reverse() }, "rules of chain"],
    ["a rule of a chain we don't have", { rules: [...RULES, { ...first, chain: "x" }] }, "rules of chain x"],
    ["a chain is missing", { chains: CHAINS.slice(1) }, "is missing"],
    ["a chain more", { chains: [...CHAINS, { name: "x" }] }, "chain x is not ours"],
    ["a base chain hangs elsewhere", { chains: CHAINS.map(({ name }) => ({ name })) }, "is another one"],
    ["a set is missing", { sets: SETS.slice(1) }, "is missing"],
    ["a set more", { sets: [...SETS, { name: "x", keyType: 7, keyLength: 4 }] }, "set x is not ours"],
    ["a set of another type", { sets: SETS.map((set) => ({ ...set, keyType: 1 })) }, "is another one"],
    ["nothing at all", { sets: [], chains: [], rules: [] }, "is missing"],
  ])("found: %s", (_, change, why) => expect(findDifference(told(change))).toContain(why));
});

describe("elements", () => {
  const set: NftSet = { name: "s", keyType: 7, keyLength: 4, interval: true, data: { type: 7, length: 4 } };
  const element: fc.Arbitrary<Element> = fc.record(
    {
      key: fc.uint8Array({ minLength: 4, maxLength: 4, max: 3 }),
      data: fc.uint8Array({ minLength: 4, maxLength: 4, max: 1 }),
      intervalEnd: fc.constant(true as const),
    },
    { requiredKeys: ["key", "data"] },
  );
  const nameOf = (one: Element): string => `${toHex(one.key)}${one.intervalEnd ? "]" : "["}`;
  const distinct = fc.uniqueArray(element, { selector: nameOf, maxLength: 200 });

  test("taking wanted elements from held ones tells same, other data and absent, and leaves the rest", () => {
    fc.assert(
      fc.property(distinct, distinct, (held, wanted) => {
        const model = new Map(held.map((one) => [nameOf(one), one.data]));
        const elements = new HeldElements(set);
        elements.read(dumped((batch) => putElements(batch, "add", TABLE, "s", held)));
        expect(elements.count).toBe(held.length);
        for (const one of wanted) {
          const data = model.get(nameOf(one));
          const expected = data === undefined ? "absent" : String(data) === String(one.data) ? "same" : "otherData";
          expect(elements.take(one)).toBe(expected);
        }
        const names = new Set(wanted.map(nameOf));
        const left = [...elements.leftovers()].map((placed) => nameOf(placed.element)).sort();
        expect(left).toEqual(
          held
            .map(nameOf)
            .filter((name) => !names.has(name))
            .sort(),
        );
        expect(elements.strange).toBe(false);
      }),
    );
  });

  test("verdicts are told apart by kind and chain", () => {
    const map: NftSet = { name: "v", keyType: 13, keyLength: 2, data: { type: "verdict" } };
    const key = Uint8Array.of(0, 80);
    const verdicts = [
      { type: "drop" },
      { type: "accept" },
      { type: "return" },
      { type: "goto", chain: "a" },
      { type: "goto", chain: "b" },
      { type: "jump", chain: "a" },
    ] as const;
    for (const held of verdicts) {
      for (const wanted of verdicts) {
        const elements = new HeldElements(map);
        elements.read(dumped((batch) => putElements(batch, "add", TABLE, "v", [{ key, data: held }])));
        expect(elements.take({ key, data: wanted })).toBe(held === wanted ? "same" : "otherData");
      }
    }
  });

  test("a key of another length is strange: the set is not what it should be", () => {
    const elements = new HeldElements(set);
    elements.read(dumped((batch) => putElements(batch, "add", TABLE, "s", [{ key: Uint8Array.of(1, 2) }])));
    expect(elements.strange).toBe(true);
  });
});

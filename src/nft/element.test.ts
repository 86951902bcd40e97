import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { fromHex, toHex } from "../core/bytes.ts";
import type { Address } from "../net/address.ts";
import type { Prefix } from "../net/prefix.ts";
import type { BucketCount, Buckets, Endpoint, FrontendPlan, NodeSurroundings, VipPlan } from "../plan/vip-plan.ts";
import { compareElements, compareVips } from "./compare.ts";
import { elementsOfSurroundings, elementsOfVip, localElement, localEndpointsOf, type Placed } from "./element.ts";
import { CHAINS, SETS } from "./ruleset.ts";

/** `set key[-keyEnd][ ]][ : data]`, sorted. */
const shown = (placed: readonly Placed[]): string[] =>
  placed
    .map(({ set, element }) => {
      const { key, keyEnd, intervalEnd, data } = element;
      const end = keyEnd === undefined ? "" : `-${toHex(keyEnd)}`;
      const value = data instanceof Uint8Array ? toHex(data) : data && "chain" in data ? data.chain : data?.type;
      return `${set} ${toHex(key)}${end}${intervalEnd ? " end" : ""}${value === undefined ? "" : ` : ${value}`}`;
    })
    .sort();

const a: Endpoint = { address: "198.18.1.2" as Address, port: 8080, local: true };
const b: Endpoint = { address: "198.18.2.3" as Address, port: 8080, local: false };
const plan = (
  action: FrontendPlan["action"],
  sourceRanges: string[] = [],
  scope: VipPlan["scope"] = "External",
): VipPlan => ({
  address: "203.0.113.10" as Address,
  scope,
  frontends: [{ protocol: "TCP", port: 80, sourceRanges: sourceRanges as Prefix[], action }],
});
const even = (count: BucketCount, ...endpoints: (Endpoint | undefined)[]): Buckets =>
  Array.from({ length: count }, (_, i) => endpoints[i % endpoints.length]);

/** 203.0.113.10 . tcp . 80 */
const KEY = "cb00710a0600000000500000";

describe("elements of a VIP", () => {
  test.each<[string, VipPlan, string[]]>([
    [
      "one endpoint",
      plan({ type: "balance", affinity: "None", buckets: [a] }),
      ["vip4 cb00710a", `frontend4 ${KEY} : choose4-flow-1`, `endpoint4 ${KEY}00000000 : c61201021f900000`],
    ],
    [
      "affinity",
      plan({ type: "balance", affinity: "ClientIP", buckets: [a] }),
      ["vip4 cb00710a", `frontend4 ${KEY} : choose4-source-1`, `endpoint4 ${KEY}00000000 : c61201021f900000`],
    ],
    [
      "LocalOnly without a local endpoint",
      plan({ type: "balance", affinity: "None", buckets: [b], outside: "drop" }),
      [
        "vip4 cb00710a",
        `frontend4 ${KEY} : split4`,
        `inside4 ${KEY} : choose4-flow-1`,
        `outside4 ${KEY} : drop`,
        `endpoint4 ${KEY}00000000 : c61202031f900000`,
      ],
    ],
    [
      "LocalOnly with one: buckets of the outside are numbered from 65536",
      plan({ type: "balance", affinity: "None", buckets: [b], outside: [a] }),
      [
        "vip4 cb00710a",
        `frontend4 ${KEY} : split4`,
        `inside4 ${KEY} : choose4-flow-1`,
        `outside4 ${KEY} : choose4-flow-1-outside`,
        `endpoint4 ${KEY}00000000 : c61202031f900000`,
        `endpoint4 ${KEY}00000100 : c61201021f900000`,
      ],
    ],
    [
      "source ranges, of which one holds another and one is of the other family",
      plan({ type: "balance", affinity: "None", buckets: [a] }, ["192.0.2.0/24", "192.0.2.64/26", "2001:db8::/32"]),
      [
        "vip4 cb00710a",
        `frontend4 ${KEY} : range4`,
        `ranged4 ${KEY} : choose4-flow-1`,
        `range4 ${KEY}c0000200-${KEY}c00002ff`,
        `endpoint4 ${KEY}00000000 : c61201021f900000`,
      ],
    ],
    ["no endpoint: the guard refuses", plan({ type: "refuse" }), ["vip4 cb00710a"]],
    [
      "no endpoint, source ranges: who is outside is dropped first",
      plan({ type: "refuse" }, ["192.0.2.0/24"]),
      ["vip4 cb00710a", `frontend4 ${KEY} : range4`, `range4 ${KEY}c0000200-${KEY}c00002ff`],
    ],
    ["another data path", plan({ type: "pass" }), ["vip4 cb00710a", `pass4 ${KEY}`]],
    [
      "a node's own address is not guarded",
      plan({ type: "balance", affinity: "None", buckets: [a] }, [], "Node"),
      [`node-frontend4 ${KEY}`, `frontend4 ${KEY} : choose4-flow-1`, `endpoint4 ${KEY}00000000 : c61201021f900000`],
    ],
    ["a node's own address on another data path is nothing to us", plan({ type: "pass" }, [], "Node"), []],
  ])("%s", (_, vip, wanted) => expect(shown(elementsOfVip(vip))).toEqual(wanted.sort()));

  test("IPv6 and UDP, sixteen buckets, one of them dead", () => {
    const six: VipPlan = {
      address: "2001:db8::10" as Address,
      scope: "External",
      frontends: [
        {
          protocol: "UDP",
          port: 53,
          sourceRanges: [],
          action: {
            type: "balance",
            affinity: "None",
            buckets: even(16, { address: "2001:db8:1::2" as Address, port: 53, local: true }).with(5, undefined),
          },
        },
      ],
    };
    const lines = shown(elementsOfVip(six));
    expect(lines.filter((line) => line.startsWith("endpoint6"))).toHaveLength(15);
    const key = "20010db8000000000000000000000010" + "11000000" + "00350000";
    expect(lines).toContain(`endpoint6 ${key}0f000000 : 20010db8000100000000000000000002${"00350000"}`);
    expect(lines.some((line) => line.includes(`${key}05000000`))).toBe(false);
  });

  test("a number of buckets that no chain has is a bug and throws", () => {
    expect(() => elementsOfVip(plan({ type: "balance", affinity: "None", buckets: [a, b] }))).toThrow("2 buckets");
  });

  test("local endpoints are those of any bucket, once each", () => {
    expect([
      ...localEndpointsOf(plan({ type: "balance", affinity: "None", buckets: even(16, a, b), outside: [a] })),
    ]).toEqual([a.address]);
    expect(shown([localElement(a.address)])).toEqual(["local4 c6120102c6120102"]);
  });
});

test("surroundings: intervals are merged, end after their last address, and the last address of all has no end", () => {
  const around: NodeSurroundings = {
    ownPods: ["198.18.1.0/24", "2001:db8:1::/64"] as Prefix[],
    clusterPods: ["198.18.1.0/24", "198.18.0.0/24", "198.18.1.128/25", "255.0.0.0/8"] as Prefix[],
    nodeAddresses: ["192.0.2.11"] as Address[],
    bridgeNetfilter: { IPv4: true, IPv6: false },
    echoTargets: [{ interfaceIndex: 0x0102, address: "192.0.2.11" as Address }],
  };
  expect(shown(elementsOfSurroundings(around))).toEqual(
    [
      "own-pods4 c6120100",
      "own-pods4 c6120200 end",
      "own-pods6 20010db8000100000000000000000000",
      "own-pods6 20010db8000100010000000000000000 end",
      "cluster4 c000020b",
      "cluster4 c000020c end",
      "cluster4 c6120000",
      "cluster4 c6120200 end",
      "cluster4 ff000000",
      "plain-bridge 0a",
      "echo4 02010000 : c000020b",
    ].sort(),
  );
});

/** The sets as a value, changed as the kernel would: adding over other data and deleting what is not there are refused. */
class Held {
  readonly elements = new Map<string, string>();
  change({ deletes, adds }: { deletes: readonly Placed[]; adds: readonly Placed[] }): void {
    for (const one of deletes) {
      const [line] = shown([{ ...one, element: { ...one.element, data: undefined } as never }]);
      if (!this.elements.delete(line ?? "")) throw new Error(`not there: ${line}`);
    }
    for (const one of adds) {
      const [line] = shown([{ ...one, element: { ...one.element, data: undefined } as never }]);
      if (this.elements.has(line ?? "")) throw new Error(`there already: ${line}`);
      this.elements.set(line ?? "", shown([one])[0] ?? "");
    }
  }
}

describe("changes of a VIP", () => {
  const endpoint = fc.constantFrom<Endpoint | undefined>(a, b, { ...a, port: 9090 }, { ...b, local: true }, undefined);
  const buckets = fc
    .constantFrom<BucketCount>(1, 16, 64)
    .chain((count) => fc.array(endpoint, { minLength: count, maxLength: count }));
  const action: fc.Arbitrary<FrontendPlan["action"]> = fc.oneof(
    fc.constant({ type: "refuse" as const }),
    fc.constant({ type: "pass" as const }),
    fc.record(
      {
        type: fc.constant("balance" as const),
        affinity: fc.constantFrom("None", "ClientIP" as const),
        buckets,
        outside: fc.oneof(buckets, fc.constant("drop" as const)),
      },
      { requiredKeys: ["type", "affinity", "buckets"] },
    ),
  );
  const frontend: fc.Arbitrary<FrontendPlan> = fc.record({
    protocol: fc.constantFrom("TCP", "UDP" as const),
    port: fc.integer({ min: 80, max: 83 }),
    sourceRanges: fc.subarray(["192.0.2.0/24", "192.0.2.0/25", "192.0.3.0/24", "0.0.0.0/0"] as Prefix[]),
    action,
  });
  const vip: fc.Arbitrary<VipPlan | undefined> = fc.option(
    fc.record({
      address: fc.constant("203.0.113.10" as Address),
      scope: fc.constantFrom("External", "Cluster", "Node" as const),
      frontends: fc.uniqueArray(frontend, { selector: (one) => `${one.protocol}${one.port}`, maxLength: 4 }),
    }),
    { nil: undefined },
  );

  test("after any sequence of plans the sets hold exactly the last one's elements", () => {
    fc.assert(
      fc.property(fc.array(vip, { minLength: 1, maxLength: 4 }), (plans) => {
        const held = new Held();
        let applied: VipPlan | undefined;
        for (const wanted of plans) {
          held.change(compareVips(applied, wanted));
          applied = wanted;
          expect([...held.elements.values()].sort()).toEqual(wanted === undefined ? [] : shown(elementsOfVip(wanted)));
        }
      }),
    );
  });

  test("an equal plan changes nothing, and every element has a set and, if it goes anywhere, a chain", () => {
    const sets = new Set(SETS.map((set) => set.name));
    const chains = new Set(CHAINS.map((chain) => chain.name));
    fc.assert(
      fc.property(vip, (one) => {
        expect(compareVips(one, structuredClone(one))).toEqual({ deletes: [], adds: [] });
        for (const { set, element } of one === undefined ? [] : elementsOfVip(one)) {
          expect(sets).toContain(set);
          const { data } = element;
          if (data !== undefined && !(data instanceof Uint8Array) && "chain" in data)
            expect(chains).toContain(data.chain);
        }
      }),
    );
  });

  test("one endpoint replaced touches only the elements of its buckets", () => {
    const before = plan({ type: "balance", affinity: "None", buckets: even(16, a, b) });
    const replaced = even(16, a, b).map((one, i) =>
      i === 3 || i === 7 ? { ...b, address: "198.18.2.9" as Address } : one,
    );
    const { deletes, adds } = compareVips(before, plan({ type: "balance", affinity: "None", buckets: replaced }));
    expect(shown(adds)).toEqual([
      `endpoint4 ${KEY}03000000 : c61202091f900000`,
      `endpoint4 ${KEY}07000000 : c61202091f900000`,
    ]);
    expect(deletes).toHaveLength(2);
  });

  test("surroundings that grow by one node add that node's elements only", () => {
    const around = (...nodes: string[]): NodeSurroundings => ({
      ownPods: [],
      clusterPods: ["198.18.0.0/16"] as Prefix[],
      nodeAddresses: nodes as Address[],
    });
    const { deletes, adds } = compareElements(
      elementsOfSurroundings(around("192.0.2.11")),
      elementsOfSurroundings(around("192.0.2.11", "192.0.2.20")),
    );
    expect([shown(deletes), shown(adds)]).toEqual([[], ["cluster4 c0000214", "cluster4 c0000215 end"]]);
  });

  test("the key of an element is what the kernel told of one", () => {
    expect(elementsOfVip(plan({ type: "balance", affinity: "None", buckets: even(16, a) }))).toContainEqual({
      set: "endpoint4",
      element: { key: fromHex(`${KEY}03000000`), data: fromHex("c6120102 1f900000") },
    });
  });
});

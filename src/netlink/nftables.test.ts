import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { fromHex, toHex } from "../core/bytes.ts";
import { decodeMessage, MessageWriter } from "./message.ts";
import { beginBatch, NFNL_SUBSYS_NFTABLES } from "./nfnetlink.ts";
import {
  type Chain,
  decodeTold,
  type Element,
  type Expression,
  forEachElement,
  type NftSet,
  putChain,
  putElements,
  putRule,
  putSet,
  putTable,
  type Rule,
  tableOf,
  type Verdict,
} from "./nftables.ts";

/** The one message that `put` writes into a batch. */
function written(put: (batch: ReturnType<typeof beginBatch>) => void): Uint8Array {
  const writer = new MessageWriter();
  const batch = beginBatch(writer, NFNL_SUBSYS_NFTABLES, 1);
  put(batch);
  const bytes = writer.bytes();
  const beginLength = 20;
  return bytes.slice(beginLength);
}

/** What a kernel 6.18 told of a small table that the nft program had made; names after what they hold. */
const TOLD = {
  table:
    "38000000000a0200010000005839000001000002060001007400000008000300000000050c00040000000000000000010800020000000000",
  chain:
    "38000000030a0200020000005839000001000002060001007400000006000300630000000c00020000000000000000010800060000000002",
  baseChain:
    "64000000030a0200020000005839000001000002060001007400000006000300620000000c000200000000000000000214000400080001000000000008000200ffffff970800050000000001080007006e61740008000a00000000010800060000000002",
  intervalSet:
    "9c000000090a0200030000005839000001000002060001007400000006000200720000000c0010000000000000000004080003000000008408000400000001cd080005000000000814000d00000400000000030800040d0000000100200009001c0002000c00010008000100000000040c00010008000100000000021700130030786666666666666666383235303931613000000800140000000001",
  verdictMap:
    "94000000090a0200030000005839000001000002060001007400000006000200760000000c00100000000000000000050800030000000008080004000000000d080005000000000208000600ffffff00080007000000001016000d000004020000000104000000000604000000000000040009001700130030786666666666666666383235303866343000000800140000000001",
  dnatRule:
    "38020000060a0208040000005839000001000002060001007400000006000200630000000c00030000000000000000060802040024000100090001006d6574610000000014000200080002000000000f08000100000000012c00010008000100636d700020000200080001000000000108000200000000000c0003000500010002000000340001000c0001007061796c6f61640024000200080001000000000108000200000000010800030000000010080004000000000424000100090001006d657461000000001400020008000200000000100800010000000009340001000c0001007061796c6f61640024000200080001000000000a080002000000000208000300000000020800040000000002340001000c0001007061796c6f6164002400020008000100000000030800020000000001080003000000000c0800040000000004340001000c0001007061796c6f61640024000200080001000000001108000200000000020800030000000000080004000000000244000100090001006861736800000000340002000800010000000003080002000000000b080003000000000808000400000000100800050062656c660800070000000000340001000b0001006c6f6f6b7570000024000200060001006d00000008000200000000010800030000000001080005000000000048000100080001006e6174003c0002000800010000000001080002000000000208000300000000010800040000000001080005000000000908000600000000090800070000000003",
  stateRule:
    "fc000000060a0208040000005839000001000002060001007400000006000200620000000c0003000000000000000007cc00040020000100070001006374000014000200080001000000000108000200000000004c0001000c00010062697477697365003c00020008000100000000010800020000000001080003000000000408000600000000000c00040008000100060000000c00050008000100000000002c00010008000100636d700020000200080001000000000108000200000000010c0003000800010000000000300001000e000100696d6d6564696174650000001c0002000800010000000000100002000c0002000800010000000001",
  mapElement:
    "540000000c0a02000500000058390000010000020600010074000000060002006d000000300003002c0001001800010014000100cb00710a060000000050000003000000100002000c000100c61201021f900000",
  rangeElement:
    "4c0000000c0a0200060000005839000001000002060001007400000006000200720000002800030024000100100001000c000100c00002000050000010000a000c000100c00002ff00500000",
  verdictElement:
    "500000000c0a0200070000005839000001000002060001007400000006000200760000002c000300280001000c0001000600010000500000180002001400020008000100fffffffc0600020063000000",
};

const elementsIn = (bytes: Uint8Array): Element[] => {
  const elements: Element[] = [];
  forEachElement(bytes, (element) => elements.push(element));
  return elements;
};

describe("what the kernel tells", () => {
  test("a table, a chain, a base chain", () => {
    expect(decodeTold(fromHex(TOLD.table))).toEqual({ type: "table", table: { name: "t", flags: 0 } });
    expect(decodeTold(fromHex(TOLD.chain))).toEqual({ type: "chain", table: "t", chain: { name: "c" } });
    expect(decodeTold(fromHex(TOLD.baseChain))).toEqual({
      type: "chain",
      table: "t",
      chain: { name: "b", base: { type: "nat", hook: "prerouting", priority: -105 } },
    });
  });

  test("a set of intervals over a concatenation, and a map to verdicts", () => {
    expect(decodeTold(fromHex(TOLD.intervalSet))).toEqual({
      type: "set",
      table: "t",
      set: { name: "r", keyType: (7 << 6) | 13, keyLength: 8, interval: true, fields: [4, 2], count: 1 },
    });
    expect(decodeTold(fromHex(TOLD.verdictMap))).toEqual({
      type: "set",
      table: "t",
      set: { name: "v", keyType: 13, keyLength: 2, data: { type: "verdict" }, count: 1 },
    });
  });

  test("rules: registers, defaults and the ends of ranges are canonical", () => {
    expect(decodeTold(fromHex(TOLD.dnatRule))).toEqual({
      type: "rule",
      table: "t",
      rule: {
        chain: "c",
        expressions: [
          { type: "meta", key: "nfproto", into: 0 },
          { type: "compare", from: 0, op: "eq", value: "02" },
          { type: "payload", base: "network", offset: 16, length: 4, into: 0 },
          { type: "meta", key: "l4proto", into: 1 },
          { type: "payload", base: "transport", offset: 2, length: 2, into: 2 },
          { type: "payload", base: "network", offset: 12, length: 4, into: 8 },
          { type: "payload", base: "transport", offset: 0, length: 2, into: 9 },
          { type: "hash", from: 8, length: 8, modulus: 16, seed: 0x62656c66, offset: 0, into: 3 },
          { type: "lookup", set: "m", from: 0, into: 0 },
          { type: "dnat", family: "IPv4", address: 0, port: 1 },
        ],
      },
    });
    expect(decodeTold(fromHex(TOLD.stateRule))).toMatchObject({
      rule: {
        expressions: [
          { type: "ct", key: "state", into: 0 },
          { type: "mask", from: 0, into: 0, mask: "06000000" },
          { type: "compare", from: 0, op: "neq", value: "00000000" },
          { type: "verdict", verdict: { type: "accept" } },
        ],
      },
    });
  });

  test("elements: of a map, of intervals, with a verdict", () => {
    expect(elementsIn(fromHex(TOLD.mapElement))).toEqual([
      // 203.0.113.10 . tcp . 80 . bucket 3 in host order : 198.18.1.2 . 8080
      { key: fromHex("cb00710a 06000000 00500000 03000000"), data: fromHex("c6120102 1f900000") },
    ]);
    expect(elementsIn(fromHex(TOLD.rangeElement))).toEqual([
      { key: fromHex("c0000200 00500000"), keyEnd: fromHex("c00002ff 00500000") },
    ]);
    expect(elementsIn(fromHex(TOLD.verdictElement))).toEqual([
      { key: fromHex("0050"), data: { type: "goto", chain: "c" } },
    ]);
  });

  test("the table of any message of the group, but not of a generation", () => {
    for (const hex of Object.values(TOLD)) expect(tableOf(fromHex(hex))).toBe("t");
    expect(tableOf(fromHex("1c0000000f0a00000000000000000000000000000800010000000001"))).toBeUndefined();
  });

  test.each([
    // lookup flags 2, bitwise with an xor, a payload write, a quota, a ct direction kept
    [
      "lookup",
      [
        [1, "6d00"],
        [2, "00000001"],
        [5, "00000002"],
      ],
    ],
    [
      "bitwise",
      [
        [1, "00000001"],
        [2, "00000001"],
        [4, "08000100ff000000"],
        [5, "0800010001000000"],
      ],
    ],
    [
      "payload",
      [
        [5, "00000001"],
        [2, "00000001"],
        [3, "00000000"],
        [4, "00000004"],
      ],
    ],
    ["quota", []],
    [
      "nat",
      [
        [1, "00000000"],
        [2, "00000002"],
        [3, "00000001"],
      ],
    ],
    [
      "nat",
      [
        [1, "00000001"],
        [2, "00000002"],
        [3, "00000001"],
        [7, "00000010"],
      ],
    ],
    [
      "reject",
      [
        [1, "00000002"],
        [2, "03"],
      ],
    ],
    ["immediate", [[1, "00000001"]]],
  ] as const)(
    "an expression that holds more than we speak is unknown, and so equals none of ours: %s %j",
    (name, attributes) => {
      const bytes = written((batch) => {
        const { writer } = batch;
        const at = batch.begin(NFNL_SUBSYS_NFTABLES, 6, 0, 1);
        writer.text(1, "t");
        writer.text(2, "c");
        const list = writer.begin(4);
        const expression = writer.begin(1);
        writer.text(1, name);
        const data = writer.begin(2);
        for (const [type, hex] of attributes) writer.attribute(type, fromHex(hex));
        writer.end(data);
        writer.end(expression);
        writer.end(list);
        writer.endMessage(at);
      });
      expect(decodeTold(bytes)).toMatchObject({ rule: { expressions: [{ type: "unknown", name }] } });
    },
  );

  test("an element with a timeout is not one of ours", () => {
    // NFTA_SET_ELEM_TIMEOUT beside the key
    const bytes = fromHex(
      "3c0000000c0a0200 0700000058390000 01000002 06000100 74000000 06000200 76000000 18000300 14000100 0c000100 06000100 00500000 04000400".replace(
        / /g,
        "",
      ),
    );
    expect(forEachElement(bytes, () => undefined)).toBe(false);
  });
});

describe("round trips", () => {
  const name = fc.stringMatching(/^[a-z][a-z0-9-]{0,20}$/);
  const register = fc.integer({ min: 0, max: 15 });
  const word = fc.integer({ min: 0, max: 0xffffffff });
  const hex = fc.uint8Array({ minLength: 1, maxLength: 16 }).map(toHex);
  const verdict: fc.Arbitrary<Verdict> = fc.oneof(
    fc.record({ type: fc.constantFrom("accept", "drop", "return" as const) }),
    fc.record({ type: fc.constantFrom("goto", "jump" as const), chain: name }),
  );
  const expression: fc.Arbitrary<Expression> = fc.oneof(
    fc.record({
      type: fc.constant("payload" as const),
      base: fc.constantFrom("network", "transport" as const),
      offset: word,
      length: word,
      into: register,
    }),
    fc.record({
      type: fc.constant("meta" as const),
      key: fc.constantFrom("iif", "oif", "nfproto", "l4proto", "iifkind", "oifkind" as const),
      into: register,
    }),
    fc.record(
      {
        type: fc.constant("ct" as const),
        key: fc.constantFrom("state", "proto-dst", "ip daddr", "ip6 daddr" as const),
        direction: fc.constantFrom("original", "reply" as const),
        into: register,
      },
      { requiredKeys: ["type", "key", "into"] },
    ),
    fc.record({ type: fc.constant("fibSourceType" as const), into: register }),
    fc.record({
      type: fc.constant("compare" as const),
      from: register,
      op: fc.constantFrom("eq", "neq", "lt", "lte", "gt", "gte" as const),
      value: hex,
    }),
    fc.record({ type: fc.constant("mask" as const), from: register, into: register, mask: hex }),
    fc.record(
      {
        type: fc.constant("lookup" as const),
        set: name,
        from: register,
        into: fc.oneof(register, fc.constant("verdict" as const)),
        invert: fc.constant(true as const),
      },
      { requiredKeys: ["type", "set", "from"] },
    ),
    fc.record({
      type: fc.constant("hash" as const),
      from: register,
      length: word,
      modulus: word,
      seed: word,
      offset: word,
      into: register,
    }),
    fc.record({ type: fc.constant("verdict" as const), verdict }),
    fc.record(
      {
        type: fc.constant("dnat" as const),
        family: fc.constantFrom("IPv4", "IPv6" as const),
        address: register,
        port: register,
      },
      { requiredKeys: ["type", "family", "address"] },
    ),
    fc.record({ type: fc.constant("masquerade" as const), flags: fc.constantFrom(0, 16) }),
    fc.record({ type: fc.constant("redirect" as const) }),
    fc.record({
      type: fc.constant("reject" as const),
      with: fc.constantFrom("tcp-reset", "port-unreachable" as const),
    }),
  );

  test("a rule comes back as it was written", () => {
    const rule: fc.Arbitrary<Rule> = fc.record({ chain: name, expressions: fc.array(expression, { maxLength: 8 }) });
    fc.assert(
      fc.property(rule, (one) => {
        expect(decodeTold(written((batch) => putRule(batch, "t", one)))).toEqual({
          type: "rule",
          table: "t",
          rule: one,
        });
      }),
    );
  });

  test("tables, chains and sets come back as they were written", () => {
    const chain: fc.Arbitrary<Chain> = fc.record(
      {
        name,
        base: fc.record({
          type: fc.constantFrom("nat", "filter" as const),
          hook: fc.constantFrom("prerouting", "input", "forward", "output", "postrouting" as const),
          priority: fc.integer({ min: -400, max: 400 }),
        }),
      },
      { requiredKeys: ["name"] },
    );
    const set: fc.Arbitrary<NftSet> = fc.record(
      {
        name,
        keyType: word,
        keyLength: fc.integer({ min: 1, max: 64 }),
        data: fc.oneof(
          fc.constant({ type: "verdict" as const }),
          fc.record({ type: fc.integer({ min: 1, max: 0xfffffff }), length: fc.integer({ min: 1, max: 64 }) }),
        ),
        interval: fc.constant(true as const),
      },
      { requiredKeys: ["name", "keyType", "keyLength"] },
    );
    fc.assert(
      fc.property(chain, set, fc.integer({ min: 0, max: 7 }), (oneChain, oneSet, flags) => {
        expect(decodeTold(written((batch) => putTable(batch, { name: "t", flags })))).toEqual({
          type: "table",
          table: { name: "t", flags },
        });
        expect(decodeTold(written((batch) => putChain(batch, "t", oneChain)))).toMatchObject({ chain: oneChain });
        expect(decodeTold(written((batch) => putSet(batch, "t", oneSet, 1)))).toEqual({
          type: "set",
          table: "t",
          set: oneSet,
        });
      }),
    );
  });

  test("elements come back as they were written, in messages that the kernel takes", () => {
    const element: fc.Arbitrary<Element> = fc.record(
      {
        key: fc.uint8Array({ minLength: 1, maxLength: 64 }),
        keyEnd: fc.uint8Array({ minLength: 1, maxLength: 64 }),
        intervalEnd: fc.constant(true as const),
        data: fc.oneof(fc.uint8Array({ minLength: 1, maxLength: 64 }), verdict),
      },
      { requiredKeys: ["key"] },
    );
    fc.assert(
      fc.property(fc.array(element, { minLength: 1, maxLength: 40 }), (elements) => {
        const bytes = written((batch) => putElements(batch, "add", "t", "s", elements));
        expect(elementsIn(bytes)).toEqual(elements);
      }),
    );
    const many = Array.from({ length: 5000 }, (_, i) => ({
      key: Uint8Array.of(i >> 8, i & 255, ...new Uint8Array(26)),
    }));
    const seen: Element[] = [];
    let rest = written((batch) => putElements(batch, "delete", "t", "s", many));
    while (rest.length > 0) {
      const message = decodeMessage(rest);
      if (message === undefined) throw new Error("not a message");
      expect(message.payload.length).toBeLessThan(65_000);
      seen.push(...elementsIn(rest));
      rest = rest.slice((16 + message.payload.length + 3) & ~3);
    }
    expect(seen.map((one) => toHex(one.key))).toEqual(many.map((one) => toHex(one.key)));
  });

  test("no bytes throw, whatever was changed in what the kernel tells", () => {
    const told = fc.constantFrom(...Object.values(TOLD)).map(fromHex);
    fc.assert(
      fc.property(
        told,
        fc.array(fc.tuple(fc.nat(600), fc.nat(255)), { maxLength: 6 }),
        fc.nat(600),
        (bytes, edits, cut) => {
          const changed = bytes.slice();
          for (const [at, value] of edits) if (at < changed.length) changed[at] = value;
          for (const input of [changed, changed.subarray(0, cut)]) {
            decodeTold(input);
            tableOf(input);
            forEachElement(input, () => undefined);
          }
        },
      ),
      { numRuns: 2000 },
    );
  });
});

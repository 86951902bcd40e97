import { expect, test } from "vitest";
import { fromHex, toHex } from "../core/bytes.ts";
import { decodeMessages, MessageWriter } from "./message.ts";
import { beginBatch, endsBatch, endsDump, errnoOf, faultOf, NFNL_SUBSYS_NFTABLES, refusalsOf } from "./nfnetlink.ts";
import { putTable } from "./nftables.ts";

/** An NLMSG_ERROR for the sequence number, with its original capped. */
const answer = (sequence: number, errno: number): Uint8Array => {
  const bytes = new Uint8Array(36);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, 36, true);
  view.setUint16(4, 2, true);
  view.setUint16(6, 0x100, true);
  view.setUint32(8, sequence, true);
  view.setInt32(16, -errno, true);
  return bytes;
};

test("a batch is begin, messages and end, numbered in order; the last message asks for the acknowledgement", () => {
  const writer = new MessageWriter();
  const batch = beginBatch(writer, NFNL_SUBSYS_NFTABLES, 5);
  putTable(batch, { name: "t", flags: 6 });
  putTable(batch, { name: "u", flags: 0 });
  expect(batch.end()).toEqual({ first: 5, last: 7 });
  expect(toHex(writer.bytes())).toBe(
    toHex(
      fromHex(
        // begin: type 0x10, REQUEST, subsystem 10 as resource id
        `14000000 1000 0100 05000000 00000000 00 00 000a
         24000000 000a 0104 06000000 00000000 01 00 0000
           0600 0100 7400 0000
           0800 0200 00000006
         24000000 000a 0504 07000000 00000000 01 00 0000
           0600 0100 7500 0000
           0800 0200 00000000
         14000000 1100 0100 08000000 00000000 00 00 000a`,
      ),
    ),
  );
  expect(decodeMessages(writer.bytes()).map((message) => message.sequence)).toEqual([5, 6, 7, 8]);
});

test("a batch without messages is a bug and throws", () => {
  expect(() => beginBatch(new MessageWriter(), NFNL_SUBSYS_NFTABLES, 1).end()).toThrow("empty batch");
});

test.each([
  ["the last message's acknowledgement", 9, 0, true],
  ["the last message's refusal", 9, 17, true],
  ["a refusal on the way", 7, 17, false],
  ["the refusal of the whole", 5, 1, true],
  ["an acknowledgement of the begin", 5, 0, false],
])("%s ends the wait: as it should", (_, sequence, errno, ends) => {
  expect(endsBatch(answer(sequence, errno), { first: 5, last: 9 })).toBe(ends);
});

test("refusals are those with an errno, and read as one Fault", () => {
  const replies = [answer(6, 17), answer(7, 2), answer(9, 0)];
  const refusals = refusalsOf(replies);
  expect(refusals.map(({ sequence, errno }) => [sequence, errno])).toEqual([
    [6, 17],
    [7, 2],
  ]);
  expect(faultOf("x", refusals)).toEqual({ what: "x", message: "EEXIST: exists already (and 1 more)" });
});

test("a dump ends with NLMSG_DONE or an error, and an error in either is told", () => {
  // captured from a kernel 6.18: the end of a dump
  const done = fromHex("1400000003000200010000007938000000000000");
  const interrupted = fromHex("140000000300020001000000793800 00fcffffff".replace(/\s/g, ""));
  expect([endsDump(done), endsDump(answer(1, 2)), endsDump(fromHex("00"))]).toEqual([true, true, false]);
  expect([errnoOf([done]), errnoOf([interrupted]), errnoOf([answer(1, 2)]), errnoOf([])]).toEqual([0, 4, 2, 0]);
});

import fc from "fast-check";
import { expect, test } from "vitest";
import { fromHex, toHex } from "../core/bytes.ts";
import type { Address } from "../net/address.ts";
import { decodeFlow, putFlowDelete, putFlowDump } from "./conntrack.ts";
import { MessageWriter } from "./message.ts";

/** What a kernel 6.18 told of one datagram from 192.0.2.1:4000 to 203.0.113.10:53 that nobody had answered. */
const FLOW = `a400000000012200080000005839000002000000
  34000180 14000180 08000100c0000201 08000200cb00710a 1c000280 0500010011000000 060002000fa00000 0600030000350000
  34000280 14000180 08000100cb00710a 08000200c0000201 1c000280 0500010011000000 0600020000350000 060003000fa00000
  0800030000000188 0800080000000000 08000c005dd9894c 08000b0000000001 080007000000001b`;

test("a flow that the kernel tells", () => {
  expect(decodeFlow(fromHex(FLOW))).toMatchObject({
    family: "IPv4",
    original: {
      source: "192.0.2.1",
      destination: "203.0.113.10",
      protocol: 17,
      sourcePort: 4000,
      destinationPort: 53,
    },
    reply: { source: "203.0.113.10", destination: "192.0.2.1", protocol: 17, sourcePort: 53, destinationPort: 4000 },
  });
});

test("a dump is filtered by original destination and protocol", () => {
  const writer = new MessageWriter();
  putFlowDump(writer, 8, "IPv4", { destination: "203.0.113.10" as Address, protocol: 17 });
  expect(toHex(writer.bytes())).toBe(
    toHex(
      fromHex(
        // IPCTNL_MSG_CT_GET, REQUEST|DUMP, family 2; tuple: IP {dst}, proto {number}; filter: IP_DST | PROTO_NUM
        `3c000000 0101 0103 08000000 00000000 02 00 0000
         1c00 0180  0c00 0180 0800 0200 cb00710a  0c00 0280 0500 0100 11 000000
         0c00 1980  0800 0100 0a000000`,
      ),
    ),
  );
});

test("for IPv6 only the protocol is asked for: the kernel compares addresses the wrong way round", () => {
  const writer = new MessageWriter();
  putFlowDump(writer, 8, "IPv6", { destination: "2001:db8::1" as Address, protocol: 17 });
  expect(toHex(writer.bytes())).toContain(toHex(fromHex("0c00 1980 0800 0100 08000000")));
  expect(toHex(writer.bytes())).not.toContain("20010db8");
});

test("a delete names the flow by its original tuple and its id, as they came", () => {
  const flow = decodeFlow(fromHex(FLOW));
  if (flow === undefined) throw new Error("no flow");
  const writer = new MessageWriter();
  putFlowDelete(writer, 3, flow);
  expect(toHex(writer.bytes())).toBe(
    toHex(
      fromHex(
        `50000000 0201 0500 03000000 00000000 02 00 0000
         34000180 14000180 08000100c0000201 08000200cb00710a 1c000280 0500010011000000 060002000fa00000 0600030000350000
         0800 0c00 5dd9894c`,
      ),
    ),
  );
});

test("no bytes throw", () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.nat(170), fc.nat(255)), { maxLength: 8 }), fc.nat(170), (edits, cut) => {
      const changed = fromHex(FLOW);
      for (const [at, value] of edits) if (at < changed.length) changed[at] = value;
      decodeFlow(changed);
      decodeFlow(changed.subarray(0, cut));
    }),
    { numRuns: 2000 },
  );
});

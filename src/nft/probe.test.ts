import { describe, expect, test } from "vitest";
import { decodeMessages, MessageWriter } from "../netlink/message.ts";
import { encodeProbe, missingFrom, PROBE_MESSAGES } from "./probe.ts";

const probe = encodeProbe(new MessageWriter(), 100);
const asking = (what: string): number => [...probe.asks].find(([, asked]) => asked.startsWith(what))?.[0] ?? -1;
/** A kernel answers the last message with ENOENT: that is what keeps the probe from changing anything. */
const always = { sequence: asking("must fail"), errno: 2, text: undefined };

test("a probe asks about every kind of expression, and fits into its sequence numbers", () => {
  const asked = [...probe.asks.values()].join("\n");
  for (const option of ["NFT_CT", "NFT_FIB_INET", "NFT_HASH", "NFT_NAT", "NFT_MASQ", "NFT_REDIR", "NFT_REJECT_INET"]) {
    expect(asked).toContain(option);
  }
  expect(probe.last - probe.first + 2).toBeLessThanOrEqual(PROBE_MESSAGES);
  expect(always.sequence).toBe(probe.last);
  expect(decodeMessages(probe.bytes).at(-1)?.sequence).toBe(probe.last + 1);
});

describe("DP-21: what a kernel lacks is named in one line", () => {
  test.each([
    ["nothing", [], { type: "able", ownership: true }],
    ["ownership (before Linux 6.9)", [["ownership", 95]], { type: "able", ownership: false }],
    [
      "fib",
      [["fibSourceType", 2]],
      {
        type: "fault",
        fault: { message: expect.stringMatching(/^this kernel lacks fibSourceType \(NFT_FIB_INET\): ENOENT/) },
      },
    ],
    [
      "fib and hash",
      [
        ["fibSourceType", 2],
        ["hash", 2],
      ],
      { type: "fault", fault: { message: expect.stringMatching(/NFT_FIB_INET.*NFT_HASH|NFT_HASH.*NFT_FIB_INET/) } },
    ],
    [
      "tables of family inet, and so everything",
      [
        ["tables", 97],
        ["sets", 2],
        ["hash", 2],
      ],
      { type: "fault", fault: { message: expect.not.stringContaining("hash") } },
    ],
  ] as const)("%s", (_, refused, outcome) => {
    const refusals = refused.map(([what, errno]) => ({ sequence: asking(what), errno, text: undefined }));
    expect(missingFrom(probe, [...refusals, always])).toMatchObject(outcome);
  });

  test("a missing capability is named", () => {
    const whole = { sequence: probe.first, errno: 1, text: undefined };
    expect(missingFrom(probe, [whole])).toMatchObject({
      type: "fault",
      fault: { message: expect.stringContaining("NET_ADMIN") },
    });
  });

  test("a kernel without nf_tables is named", () => {
    const whole = { sequence: probe.first, errno: 95, text: undefined };
    expect(missingFrom(probe, [whole])).toMatchObject({
      type: "fault",
      fault: { message: expect.stringContaining("NF_TABLES") },
    });
  });
});

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { concat, fromHex, toHex } from "../core/bytes.ts";
import type { Address } from "../net/address.ts";
import type { Mac } from "../net/mac.ts";
import { ARP_FRAMES, NDP_FRAMES, patched, patchedNdp } from "./frames.fixture.ts";
import { judge, type Standing, type Station } from "./responder.ts";

const STRANGER = "02:00:00:00:00:c1";

/** Node `…0a` owns .200 and ::200, has yielded .202 and ::202, and answers for .203 on another interface. */
const STANDING: Record<string, Standing> = {
  "192.0.2.200": "answering",
  "2001:db8::200": "answering",
  "192.0.2.202": "silent",
  "2001:db8::202": "silent",
  "192.0.2.203": "elsewhere",
};
const station: Station = {
  mac: "02:00:00:00:00:0a" as Mac,
  isOurs: (mac) => mac === "02:00:00:00:00:0a" || mac === "02:00:00:00:01:0a",
  standingOf: (address) => STANDING[address],
  sentNonce: (nonce) => nonce === "a1a2a3a4a5a6",
};

const { request, probe } = ARP_FRAMES;
const { solicitation, unicastSolicitation, duplicateTest, unsolicited, advertisement } = NDP_FRAMES;
/** Offsets in an ARP frame. */
const AT = { destination: 0, source: 6, operation: 20, senderMac: 22, sender: 28, targetMac: 32, target: 38 } as const;
/** Offsets in an NDP frame. */
const N = { source: 6, from: 22, to: 38, flags: 58, target: 62, option: 78 } as const;
const VIP6 = "20010db8000000000000000000000200";
const SILENT6 = "20010db8000000000000000000000202";
const foreign = (frame: Uint8Array): Uint8Array =>
  patched(frame, [AT.source, "0200000000c1"], [AT.senderMac, "0200000000c1"]);
const withNonce = (nonce: string): Uint8Array =>
  patchedNdp(concat(duplicateTest, fromHex(`0e01${nonce}`)), [18, "0020"]);

const show = (frame: Uint8Array): object => {
  const verdict = judge(frame, station);
  return verdict.type === "reply" ? { ...verdict, frame: toHex(verdict.frame) } : verdict;
};
const reply = (address: string, frame: Uint8Array) => ({ type: "reply", address, frame: toHex(frame) });
const claim = (address: string) => ({ type: "claim", address, mac: STRANGER });
const rival = (address: string) => ({ type: "rival", address, mac: STRANGER });
const ignored = (reason: string) => ({ type: "ignore", reason });

describe("the frame table", () => {
  it.each<[string, Uint8Array, object]>([
    ["I-10: a broadcast request", request, reply("192.0.2.200", ARP_FRAMES.reply)],
    ["I-10: a unicast request", ARP_FRAMES.unicastRequest, reply("192.0.2.200", ARP_FRAMES.reply)],
    ["a padded request", concat(request, new Uint8Array(18)), reply("192.0.2.200", ARP_FRAMES.reply)],
    ["AR-10: a probe", probe, reply("192.0.2.200", ARP_FRAMES.probeReply)],
    ["I-10: a request to another MAC", ARP_FRAMES.toOtherMac, ignored("otherHost")],
    ["I-10: a request for an address that is nobody's", patched(request, [AT.target, "c00002c9"]), ignored("notOurs")],
    [
      "I-10: a request that came in outside the policy",
      patched(request, [AT.target, "c00002cb"]),
      ignored("interface"),
    ],
    ["I-10: a request for a VIP that another node owns", patched(request, [AT.target, "c00002ca"]), ignored("silent")],
    ["a probe for a VIP that another node owns", patched(probe, [AT.target, "c00002ca"]), rival("192.0.2.202")],
    ["I-10: an ordinary reply", patched(request, [AT.operation, "0002"]), ignored("notARequest")],
    ["I-10: hardware type 6", patched(request, [14, "0006"]), ignored("hardwareType")],
    ["I-10: lengths that are not 6 and 4", patched(request, [18, "0810"]), ignored("addressLength")],
    ["I-10: a frame of 41 bytes", request.slice(0, 41), ignored("truncated")],
    ["operation 8 (InARP)", patched(request, [AT.operation, "0008"]), ignored("operation")],
    ["our own frame looped back", ARP_FRAMES.announceRequest, ignored("ownFrame")],
    [
      "a frame of our other interface in the same segment",
      patched(ARP_FRAMES.announceReply, [AT.source, "02000000010a"], [AT.senderMac, "02000000010a"]),
      ignored("ownFrame"),
    ],
    [
      "our own MAC as sender in a stranger's frame",
      patched(request, [AT.senderMac, "02000000000a"]),
      ignored("ownFrame"),
    ],
    [
      "a sender MAC that is a group",
      patched(request, [AT.source, "01005e000001"], [AT.senderMac, "01005e000001"]),
      ignored("senderMac"),
    ],
    ["a sender MAC of broadcast", patched(request, [AT.senderMac, "ffffffffffff"]), ignored("senderMac")],
    [
      "a sender MAC of zero",
      patched(request, [AT.source, "000000000000"], [AT.senderMac, "000000000000"]),
      ignored("senderMac"),
    ],
    [
      "a sender MAC that the frame does not come from",
      patched(request, [AT.senderMac, "0200000000c2"]),
      ignored("senderMac"),
    ],
    ["another station's announcement, as a request", foreign(ARP_FRAMES.announceRequest), claim("192.0.2.200")],
    ["another station's announcement, as a reply", foreign(ARP_FRAMES.announceReply), claim("192.0.2.200")],
    [
      "a request sent from the VIP, for another address",
      patched(request, [AT.sender, "c00002c8"], [AT.target, "c0000201"]),
      claim("192.0.2.200"),
    ],
    [
      "a request sent from the VIP, for another of our VIPs",
      patched(request, [AT.sender, "c00002ca"]),
      claim("192.0.2.202"),
    ],
    [
      "a reply that gives the VIP to another MAC, to us",
      patched(request, [AT.destination, "02000000000a"], [AT.operation, "0002"], [AT.sender, "c00002c8"]),
      claim("192.0.2.200"),
    ],
    [
      "a claim of a VIP that we yielded",
      patched(foreign(ARP_FRAMES.announceReply), [AT.sender, "c00002ca"]),
      claim("192.0.2.202"),
    ],
    [
      "a claim of a VIP that is ours on other interfaces",
      patched(foreign(ARP_FRAMES.announceReply), [AT.sender, "c00002cb"]),
      ignored("notARequest"),
    ],
    ["IPv4", patched(request, [12, "0800"]), ignored("etherType")],
    ["a VLAN tag that was not stripped", patched(request, [12, "81000064"]), ignored("etherType")],
    ["no bytes", new Uint8Array(), ignored("etherType")],

    ["I-12: a multicast solicitation", solicitation, reply("2001:db8::200", advertisement)],
    [
      "ND-02: a unicast solicitation without option",
      unicastSolicitation,
      reply("2001:db8::200", NDP_FRAMES.unicastAdvertisement),
    ],
    ["I-12: a duplicate test", duplicateTest, reply("2001:db8::200", unsolicited)],
    ["a duplicate test with a stranger's nonce", withNonce("b1b2b3b4b5b6"), reply("2001:db8::200", unsolicited)],
    ["a duplicate test with a nonce of ours", withNonce("a1a2a3a4a5a6"), ignored("ownFrame")],
    ["ND-09: hop limit 64", NDP_FRAMES.hopLimit64, ignored("hopLimit")],
    ["ND-09: code 1", patchedNdp(solicitation, [55, "01"]), ignored("icmpCode")],
    ["ND-09: a wrong checksum", patched(solicitation, [56, "0000"]), ignored("checksum")],
    ["a multicast target", patchedNdp(solicitation, [N.target, "ff02"]), ignored("targetMulticast")],
    ["an option of length 0", patchedNdp(solicitation, [N.option, "0100"]), ignored("optionLength")],
    [
      "a source link-layer address in a duplicate test",
      patchedNdp(solicitation, [N.from, "00".repeat(16)]),
      ignored("duplicateTest"),
    ],
    ["a solicitation to another MAC", patched(unicastSolicitation, [0, "02000000000b"]), ignored("otherHost")],
    ["our own solicitation looped back", patched(solicitation, [N.source, "02000000000a"]), ignored("ownFrame")],
    ["a solicitation from a group MAC", patched(solicitation, [N.source, "333300000001"]), ignored("senderMac")],
    ["a solicitation for an address that is nobody's", patchedNdp(solicitation, [76, "0201"]), ignored("notOurs")],
    [
      "a solicitation for a VIP that another node owns",
      patchedNdp(solicitation, [N.target, SILENT6]),
      ignored("silent"),
    ],
    [
      "a duplicate test for a VIP that another node owns",
      patchedNdp(duplicateTest, [N.target, SILENT6]),
      rival("2001:db8::202"),
    ],
    ["a solicitation sent from the VIP", patchedNdp(solicitation, [N.from, VIP6]), claim("2001:db8::200")],
    [
      "another station's advertisement",
      patchedNdp(unsolicited, [N.source, "0200000000c1"], [N.option, "02010200000000c1"]),
      claim("2001:db8::200"),
    ],
    [
      "a router's advertisement in another station's name (RFC 6957)",
      patchedNdp(unsolicited, [N.source, "0200000000ff"], [N.option, "02010200000000c1"]),
      claim("2001:db8::200"),
    ],
    ["our own advertisement looped back", unsolicited, ignored("ownFrame")],
    [
      "our own advertisement from a stranger's MAC",
      patched(unsolicited, [N.source, "0200000000c1"]),
      ignored("ownFrame"),
    ],
    [
      "an advertisement of another address",
      patchedNdp(unsolicited, [N.source, "0200000000c1"], [N.option, "02010200000000c1"], [N.target, "fe80"]),
      ignored("notARequest"),
    ],
  ])("%s", (_, frame, expected) => {
    expect(show(frame)).toEqual(expected);
  });

  it("whatever comes, a reply goes to one station or to all nodes, for an address that is answered, from our MAC", () => {
    const any = fc
      .tuple(
        fc.constantFrom(...Object.values(ARP_FRAMES), ...Object.values(NDP_FRAMES)),
        fc.array(fc.tuple(fc.nat(85), fc.integer({ min: 0, max: 255 })), { maxLength: 4 }),
        fc.boolean(),
      )
      .map(([frame, changes, mend]) => {
        const copy = frame.slice();
        for (const [at, byte] of changes) copy[at % copy.length] = byte;
        return mend && copy.length > 57 ? patchedNdp(copy) : copy;
      });
    fc.assert(
      fc.property(fc.oneof(any, fc.uint8Array({ maxLength: 120 })), (bytes) => {
        const verdict = judge(bytes, station);
        if (verdict.type !== "reply") return;
        expect(STANDING[verdict.address as Address]).toBe("answering");
        expect(toHex(verdict.frame).slice(12, 24)).toBe("02000000000a");
        const destination = toHex(verdict.frame).slice(0, 12);
        if (destination !== "333300000001") expect(Number.parseInt(destination.slice(0, 2), 16) & 1).toBe(0);
      }),
      { numRuns: 3000 },
    );
  });
});

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { concat, toHex } from "../core/bytes.ts";
import { type Address, addressFromBytes } from "../net/address.ts";
import { type Mac, macFromBytes } from "../net/mac.ts";
import { type ArpPacket, arpAnnouncements, arpProbe, arpReply, decodeArp, encodeArp } from "./arp.ts";
import { ARP_FRAMES, patched } from "./frames.fixture.ts";

const NODE = "02:00:00:00:00:0a" as Mac;
const VIP = "192.0.2.200" as Address;

const decoded = (frame: Uint8Array): ArpPacket => {
  const result = decodeArp(frame);
  if (!result.ok) throw new Error(result.malformed.reason);
  return result.packet;
};

const mac = fc.uint8Array({ minLength: 6, maxLength: 6 }).map(macFromBytes);
const address = fc.uint8Array({ minLength: 4, maxLength: 4 }).map(addressFromBytes);
const packet: fc.Arbitrary<ArpPacket> = fc.record({
  destination: mac,
  source: mac,
  operation: fc.constantFrom("request", "reply"),
  senderMac: mac,
  senderAddress: address,
  targetMac: mac,
  targetAddress: address,
});

describe("ARP frames", () => {
  it.each(Object.entries(ARP_FRAMES))("I-10: %s reads and writes to the same bytes", (_, frame) => {
    expect(toHex(encodeArp(decoded(frame)))).toBe(toHex(frame));
  });

  it("I-10: a request reads field by field", () => {
    expect(decoded(ARP_FRAMES.request)).toEqual({
      destination: "ff:ff:ff:ff:ff:ff",
      source: "02:00:00:00:00:c1",
      operation: "request",
      senderMac: "02:00:00:00:00:c1",
      senderAddress: "192.0.2.50",
      targetMac: "00:00:00:00:00:00",
      targetAddress: "192.0.2.200",
    });
  });

  it.each([
    ["request", "reply"],
    ["unicastRequest", "reply"],
    ["probe", "probeReply"],
  ] as const)("I-10: the reply to a %s is %s", (asked, reply) => {
    expect(toHex(encodeArp(arpReply(decoded(ARP_FRAMES[asked]), NODE)))).toBe(toHex(ARP_FRAMES[reply]));
  });

  it("AR-07: an announcement is a request without target MAC and a reply with our own", () => {
    expect(arpAnnouncements(VIP, NODE).map((one) => toHex(encodeArp(one)))).toEqual([
      toHex(ARP_FRAMES.announceRequest),
      toHex(ARP_FRAMES.announceReply),
    ]);
  });

  it("our probe names no sender address, so that no cache learns it", () => {
    expect(toHex(encodeArp(arpProbe(VIP, NODE)))).toBe(
      "ffffffffffff02000000000a080600010800060400010200000000" + "0a00000000000000000000c00002c8",
    );
  });

  it("padding after the packet changes nothing", () => {
    expect(decoded(concat(ARP_FRAMES.request, new Uint8Array(18)))).toEqual(decoded(ARP_FRAMES.request));
  });

  it.each([
    ["41 bytes", ARP_FRAMES.request.slice(0, 41), "truncated"],
    ["no bytes", new Uint8Array(), "truncated"],
    ["RARP", patched(ARP_FRAMES.request, [12, "8035"]), "notArp"],
    ["IEEE 802 hardware", patched(ARP_FRAMES.request, [14, "0006"]), "hardwareType"],
    ["a protocol that is not IPv4", patched(ARP_FRAMES.request, [16, "86dd"]), "protocolType"],
    ["hardware length 8", patched(ARP_FRAMES.request, [18, "08"]), "addressLength"],
    ["protocol length 16", patched(ARP_FRAMES.request, [19, "10"]), "addressLength"],
    ["operation 0", patched(ARP_FRAMES.request, [20, "0000"]), "operation"],
    ["operation 3 (RARP request)", patched(ARP_FRAMES.request, [20, "0003"]), "operation"],
    ["operation 257", patched(ARP_FRAMES.request, [20, "0101"]), "operation"],
  ])("%s is refused as it should", (_, frame, reason) => {
    expect(decodeArp(frame)).toEqual({ ok: false, malformed: { reason } });
  });

  it("any packet comes back from its bytes", () => {
    fc.assert(
      fc.property(packet, (one) => {
        expect(decoded(encodeArp(one))).toEqual(one);
      }),
    );
  });

  it("no bytes make the decoder throw, and what it takes it writes back", () => {
    const near = fc
      .tuple(fc.constantFrom(...Object.values(ARP_FRAMES)), fc.nat(60), fc.uint8Array({ maxLength: 6 }), fc.nat(60))
      .map(([frame, at, bytes, cut]) => {
        const copy = concat(frame, new Uint8Array(20)).slice(0, 62 - cut);
        copy.set(bytes.subarray(0, Math.max(0, copy.length - at)), Math.min(at, copy.length));
        return copy;
      });
    fc.assert(
      fc.property(fc.oneof(near, fc.uint8Array({ maxLength: 100 })), (bytes) => {
        const result = decodeArp(bytes);
        if (result.ok) expect(toHex(encodeArp(result.packet))).toBe(toHex(bytes.subarray(0, 42)));
      }),
      { numRuns: 2000 },
    );
  });
});

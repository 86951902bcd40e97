import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { concat, fromHex, toHex } from "../core/bytes.ts";
import { type Address, addressFromBytes } from "../net/address.ts";
import { type Mac, macFromBytes } from "../net/mac.ts";
import { isStationMac } from "./ethernet.ts";
import { NDP_FRAMES, patched, patchedNdp } from "./frames.fixture.ts";
import {
  decodeNdp,
  duplicateTest,
  encodeNdp,
  multicastMac,
  type NdpPacket,
  type NeighborSolicitation,
  solicitedAdvertisement,
  solicitedNodeGroup,
  unsolicitedAdvertisement,
} from "./ndp.ts";

const NODE = "02:00:00:00:00:0a" as Mac;
const VIP = "2001:db8::200" as Address;

const decoded = (frame: Uint8Array): NdpPacket => {
  const result = decodeNdp(frame);
  if (!result.ok) throw new Error(result.malformed.reason);
  return result.packet;
};
const asked = (frame: Uint8Array): NeighborSolicitation => {
  const packet = decoded(frame);
  if (packet.type !== "solicitation") throw new Error("not a solicitation");
  return packet;
};

/** The solicitation with other options: the payload length and the checksum follow. */
const withOptions = (options: string): Uint8Array => {
  const bytes = fromHex(options);
  const frame = concat(NDP_FRAMES.solicitation.slice(0, 78), bytes);
  return patchedNdp(frame, [18, (24 + bytes.length).toString(16).padStart(4, "0")]);
};

const mac = fc.uint8Array({ minLength: 6, maxLength: 6 }).map(macFromBytes);
const stationMac = mac.filter(isStationMac);
const unicast = fc
  .uint8Array({ minLength: 16, maxLength: 16 })
  .filter((bytes) => bytes[0] !== 0xff && bytes[0] !== 0)
  .map(addressFromBytes);
const nonce = fc.uint8Array({ minLength: 6, maxLength: 6 }).map(toHex);
const packet: fc.Arbitrary<NdpPacket> = fc.oneof(
  fc.record(
    {
      type: fc.constant("solicitation" as const),
      destination: mac,
      source: mac,
      sourceAddress: unicast,
      destinationAddress: unicast,
      target: unicast,
      sourceLinkLayer: stationMac,
      nonce,
    },
    { requiredKeys: ["type", "destination", "source", "sourceAddress", "destinationAddress", "target"] },
  ),
  fc.record(
    {
      type: fc.constant("advertisement" as const),
      destination: mac,
      source: mac,
      sourceAddress: unicast,
      destinationAddress: unicast,
      target: unicast,
      router: fc.boolean(),
      solicited: fc.boolean(),
      override: fc.boolean(),
      targetLinkLayer: stationMac,
    },
    {
      requiredKeys: [
        ...(["type", "destination", "source", "sourceAddress", "destinationAddress", "target"] as const),
        ...(["router", "solicited", "override"] as const),
      ],
    },
  ),
);

describe("neighbour discovery frames", () => {
  const { hopLimit64, ...good } = NDP_FRAMES;

  it.each(Object.entries(good))("I-12: %s reads and writes to the same bytes", (_, frame) => {
    expect(toHex(encodeNdp(decoded(frame)))).toBe(toHex(frame));
  });

  it("I-12: a solicitation reads field by field", () => {
    expect(decoded(NDP_FRAMES.solicitation)).toEqual({
      type: "solicitation",
      destination: "33:33:ff:00:02:00",
      source: "02:00:00:00:00:c1",
      sourceAddress: "fe80::c1",
      destinationAddress: "ff02::1:ff00:200",
      target: "2001:db8::200",
      sourceLinkLayer: "02:00:00:00:00:c1",
    });
  });

  it.each([
    ["solicitation", "advertisement"],
    ["unicastSolicitation", "unicastAdvertisement"],
    ["duplicateTest", "unsolicited"],
  ] as const)("I-12: the answer to %s is %s", (question, answer) => {
    expect(toHex(encodeNdp(solicitedAdvertisement(asked(NDP_FRAMES[question]), NODE)))).toBe(toHex(NDP_FRAMES[answer]));
  });

  it("ND-04: the announcement goes to all nodes with override and the target's MAC, not the source's", () => {
    expect(toHex(encodeNdp(unsolicitedAdvertisement(VIP, NODE)))).toBe(toHex(NDP_FRAMES.unsolicited));
  });

  it("our probe is a duplicate test with a nonce", () => {
    const frame = encodeNdp(duplicateTest(VIP, NODE, "0102030405ff"));
    expect(decoded(frame)).toEqual({
      type: "solicitation",
      destination: "33:33:ff:00:02:00",
      source: NODE,
      sourceAddress: "::",
      destinationAddress: "ff02::1:ff00:200",
      target: VIP,
      nonce: "0102030405ff",
    });
    expect(toHex(frame.slice(78))).toBe("0e010102030405ff");
  });

  it.each([
    ["2001:db8::200", "ff02::1:ff00:200", "33:33:ff:00:02:00"],
    ["2001:db8:1::200", "ff02::1:ff00:200", "33:33:ff:00:02:00"],
    ["2001:db8::ab12:cdef", "ff02::1:ff12:cdef", "33:33:ff:12:cd:ef"],
  ])("the solicited-node group of %s is %s on %s", (address, group, groupMac) => {
    expect(solicitedNodeGroup(address as Address)).toBe(group);
    expect(multicastMac(group as Address)).toBe(groupMac);
  });

  it.each([
    ["ND-09: hop limit 64 (it crossed a router)", hopLimit64, "hopLimit"],
    ["ND-09: hop limit 254 with a right checksum", patchedNdp(good.solicitation, [21, "fe"]), "hopLimit"],
    ["ND-09: code 1", patchedNdp(good.solicitation, [55, "01"]), "icmpCode"],
    ["ND-09: a wrong checksum", patched(good.solicitation, [56, "45e4"]), "checksum"],
    ["ND-09: a payload of 23 bytes", patchedNdp(good.solicitation, [18, "0017"]), "payloadLength"],
    ["ND-09: a payload longer than the frame", patchedNdp(good.solicitation, [18, "0028"]), "truncated"],
    ["53 bytes", good.solicitation.slice(0, 53), "truncated"],
    ["no bytes", new Uint8Array(), "truncated"],
    ["IPv4", patched(good.solicitation, [12, "0800"]), "notIpv6"],
    ["IP version 4 under the EtherType of IPv6", patched(good.solicitation, [14, "45"]), "ipVersion"],
    ["a hop-by-hop header first", patched(good.solicitation, [20, "00"]), "nextHeader"],
    ["a fragment (RFC 6980)", patched(good.solicitation, [20, "2c"]), "nextHeader"],
    ["an echo request", patchedNdp(good.solicitation, [54, "80"]), "icmpType"],
    ["a router solicitation", patchedNdp(good.solicitation, [54, "85"]), "icmpType"],
    ["a multicast target", patchedNdp(good.solicitation, [62, "ff02"]), "targetMulticast"],
    ["a multicast source", patchedNdp(good.solicitation, [22, "ff02"]), "sourceMulticast"],
    ["an option of length 0", withOptions("0100 0200000000c1"), "optionLength"],
    ["an option beyond the end", withOptions("0102 0200000000c1"), "optionLength"],
    ["one stray byte of options", withOptions("01"), "optionLength"],
    ["a link-layer address of 14 bytes", withOptions("0102 0200000000c1 0000000000000000"), "linkLayerAddress"],
    ["a multicast link-layer address", withOptions("0101 3333ff000200"), "linkLayerAddress"],
    ["a zero link-layer address", withOptions("0101 000000000000"), "linkLayerAddress"],
    [
      "a duplicate test that names a link-layer address",
      patchedNdp(good.solicitation, [22, "00000000000000000000000000000000"]),
      "duplicateTest",
    ],
    [
      "a duplicate test to the address itself",
      patchedNdp(good.duplicateTest, [38, "20010db8000000000000000000000200"]),
      "duplicateTest",
    ],
    ["a solicited advertisement to a group", patchedNdp(good.unsolicited, [58, "60"]), "solicitedMulticast"],
  ])("%s is refused as it should", (_, frame, reason) => {
    expect(decodeNdp(frame)).toEqual({ ok: false, malformed: { reason } });
  });

  it("an unknown option is skipped", () => {
    expect(asked(withOptions("fd01 000000000000 0101 0200000000c1")).sourceLinkLayer).toBe("02:00:00:00:00:c1");
  });

  it("padding after the payload changes nothing", () => {
    expect(decoded(concat(good.solicitation, new Uint8Array(7)))).toEqual(decoded(good.solicitation));
  });

  it("any packet comes back from its bytes", () => {
    const legal = packet.filter((one) => !(one.type === "solicitation" && one.sourceAddress === "::"));
    fc.assert(
      fc.property(legal, (one) => {
        expect(decoded(encodeNdp(one))).toEqual(one);
      }),
    );
  });

  it("no bytes make the decoder throw or loop", () => {
    const near = fc
      .tuple(fc.constantFrom(...Object.values(NDP_FRAMES)), fc.nat(90), fc.uint8Array({ maxLength: 16 }), fc.nat(90))
      .map(([frame, at, bytes, cut]) => {
        const copy = concat(frame, bytes).slice(0, Math.max(frame.length + bytes.length - cut, 0));
        copy.set(bytes.subarray(0, Math.max(0, copy.length - at)), Math.min(at, copy.length));
        return cut % 2 === 0 && copy.length > 57 ? patchedNdp(copy) : copy;
      });
    fc.assert(
      fc.property(fc.oneof(near, fc.uint8Array({ maxLength: 200 })), (bytes) => {
        decodeNdp(bytes);
      }),
      { numRuns: 3000 },
    );
  });
});

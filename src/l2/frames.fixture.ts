/**
 * Frames of two stations in documentation networks, byte for byte: node `…0a` owns 192.0.2.200 and 2001:db8::200,
 * client `…c1` asks. Written by hand after RFC 826, 5227, 4861 and 4862; checksums by RFC 8200 8.1.
 */
import { fromHex } from "../core/bytes.ts";

export const ARP_FRAMES = {
  /** dst broadcast · src c1 · 0806 · Ethernet, IPv4, 6, 4, op 1 · sha c1, spa .50 · tha 0, tpa .200 */
  request: fromHex("ffffffffffff 0200000000c1 0806 0001 0800 06 04 0001 0200000000c1 c0000232 000000000000 c00002c8"),
  /** the same to the node alone: a cache that checks its entry */
  unicastRequest: fromHex(
    "02000000000a 0200000000c1 0806 0001 0800 06 04 0001 0200000000c1 c0000232 000000000000 c00002c8",
  ),
  /** dst c1 · src 0a · op 2 · sha 0a, spa .200 · tha c1, tpa .50 */
  reply: fromHex("0200000000c1 02000000000a 0806 0001 0800 06 04 0002 02000000000a c00002c8 0200000000c1 c0000232"),
  /** spa 0.0.0.0: RFC 5227 */
  probe: fromHex("ffffffffffff 0200000000c1 0806 0001 0800 06 04 0001 0200000000c1 00000000 000000000000 c00002c8"),
  probeReply: fromHex(
    "0200000000c1 02000000000a 0806 0001 0800 06 04 0002 02000000000a c00002c8 0200000000c1 00000000",
  ),
  /** dst 0b: seen only by a promiscuous interface */
  toOtherMac: fromHex(
    "02000000000b 0200000000c1 0806 0001 0800 06 04 0001 0200000000c1 c0000232 000000000000 c00002c8",
  ),
  /** spa = tpa = .200, tha 0 */
  announceRequest: fromHex(
    "ffffffffffff 02000000000a 0806 0001 0800 06 04 0001 02000000000a c00002c8 000000000000 c00002c8",
  ),
  /** spa = tpa = .200, tha = own */
  announceReply: fromHex(
    "ffffffffffff 02000000000a 0806 0001 0800 06 04 0002 02000000000a c00002c8 02000000000a c00002c8",
  ),
} as const;

export const NDP_FRAMES = {
  /** to ff02::1:ff00:200 from fe80::c1, hop limit 255 · type 135 · target ::200 · option 1 c1 */
  solicitation: fromHex(
    "3333ff000200 0200000000c1 86dd 60000000 0020 3a ff fe8000000000000000000000000000c1 ff0200000000000000000001ff000200" +
      "87 00 45e3 00000000 20010db8000000000000000000000200 01 01 0200000000c1",
  ),
  /** to fe80::c1 from ::200 · type 136 · S and O · option 2 0a */
  advertisement: fromHex(
    "0200000000c1 02000000000a 86dd 60000000 0020 3a ff 20010db8000000000000000000000200 fe8000000000000000000000000000c1" +
      "88 00 b4e5 60000000 20010db8000000000000000000000200 02 01 02000000000a",
  ),
  /** to ::200 itself from a global address, no option: a router checks its entry */
  unicastSolicitation: fromHex(
    "02000000000a 0200000000c1 86dd 60000000 0018 3a ff 20010db80000000000000000000000c1 20010db8000000000000000000000200" +
      "87 00 eac0 00000000 20010db8000000000000000000000200",
  ),
  unicastAdvertisement: fromHex(
    "0200000000c1 02000000000a 86dd 60000000 0020 3a ff 20010db8000000000000000000000200 20010db80000000000000000000000c1" +
      "88 00 85ad 60000000 20010db8000000000000000000000200 02 01 02000000000a",
  ),
  /** from ::, no option: duplicate address detection */
  duplicateTest: fromHex(
    "3333ff000200 0200000000c1 86dd 60000000 0018 3a ff 00000000000000000000000000000000 ff0200000000000000000001ff000200" +
      "87 00 48ef 00000000 20010db8000000000000000000000200",
  ),
  /** to all nodes · O alone: the defence, and the announcement at take-over */
  unsolicited: fromHex(
    "333300000001 02000000000a 86dd 60000000 0020 3a ff 20010db8000000000000000000000200 ff020000000000000000000000000001" +
      "88 00 f523 20000000 20010db8000000000000000000000200 02 01 02000000000a",
  ),
  hopLimit64: fromHex(
    "3333ff000200 0200000000c1 86dd 60000000 0020 3a 40 fe8000000000000000000000000000c1 ff0200000000000000000001ff000200" +
      "87 00 45e3 00000000 20010db8000000000000000000000200 01 01 0200000000c1",
  ),
} as const;

/** The frame with some bytes replaced: `[offset, hex]`. */
export function patched(frame: Uint8Array, ...patches: readonly (readonly [number, string])[]): Uint8Array {
  const copy = frame.slice();
  for (const [at, hex] of patches) copy.set(fromHex(hex), at);
  return copy;
}

/** The NDP frame with some bytes replaced and its ICMPv6 checksum made right again. */
export function patchedNdp(frame: Uint8Array, ...patches: readonly (readonly [number, string])[]): Uint8Array {
  const copy = patched(frame, ...patches, [56, "0000"]);
  const view = new DataView(copy.buffer);
  const length = view.getUint16(18);
  let sum = length + 58;
  for (let at = 22; at < 54 + length && at < copy.length; at++) sum += (copy[at] ?? 0) << (at % 2 === 0 ? 8 : 0);
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >>> 16);
  view.setUint16(56, ~sum & 0xffff);
  return copy;
}

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { fromHex, toHex } from "../core/bytes.ts";
import type { Address } from "../net/address.ts";
import { decodeMessage, MessageWriter } from "./message.ts";
import { decodeRouteMessage, dumpAddresses, dumpLinks, dumpRoutes, getLink, type RouteMessage } from "./rtnetlink.ts";
import { LinkTable } from "./rtnetlink-links.ts";

const decoded = (bytes: Uint8Array): RouteMessage | undefined => {
  const message = decodeMessage(bytes);
  return message && decodeRouteMessage(message);
};

/** A whole message of the type: fixed header in hex, then attributes. */
function message(type: number, header: string, write: (writer: MessageWriter) => void): Uint8Array {
  const writer = new MessageWriter();
  const at = writer.beginMessage(type, 0, 7);
  writer.raw(fromHex(header));
  write(writer);
  writer.endMessage(at);
  return writer.bytes();
}

/** ifinfomsg: family 0 · type 1 · index 2 · flags · change; then name, MAC, master 9, kind veth, IPv6 conf. */
const link = (type: number, flags: string, disableIpv6 = 0, family = "00"): Uint8Array =>
  message(type, `${family} 00 0100 02000000 ${flags} 00000000`, (writer) => {
    writer.text(3, "eth0");
    writer.attribute(1, fromHex("02000000000a"));
    writer.u32(10, 9);
    const info = writer.begin(18);
    writer.text(1, "veth");
    writer.end(info);
    const spec = writer.begin(26);
    const inet6 = writer.begin(10);
    const conf = new Uint8Array(4 * 60);
    conf[4 * 26] = disableIpv6;
    writer.attribute(2, conf);
    writer.end(inet6);
    writer.end(spec);
  });

/** ifaddrmsg: family · prefix length · flags · scope · index 2. */
const address = (type: number, family: string, length: string, bytes: string, flags = 0x80): Uint8Array =>
  message(type, `${family} ${length} 00 00 02000000`, (writer) => {
    if (family === "02") {
      writer.attribute(1, fromHex("c0000263"));
      writer.attribute(2, fromHex(bytes));
    } else writer.attribute(1, fromHex(bytes));
    writer.u32(8, flags);
  });

/** rtmsg: family · destination length · 0 · 0 · table · protocol 4 · scope 0 · type · flags. */
const route = (type: number, header: string, write: (writer: MessageWriter) => void) => message(type, header, write);
const DEFAULT4 = "02 00 00 00 fe 04 00 01 00000000";
const via = (gateway: string, oif: number) => (writer: MessageWriter) => {
  writer.attribute(5, fromHex(gateway));
  writer.u32(4, oif);
};

const UP = "43000100"; // IFF_UP | IFF_BROADCAST | IFF_RUNNING | IFF_LOWER_UP

describe("rtnetlink messages", () => {
  it("a link reads field by field", () => {
    expect(decoded(link(16, UP))).toEqual({
      type: "link",
      link: {
        index: 2,
        name: "eth0",
        mac: "02:00:00:00:00:0a",
        up: true,
        noArp: false,
        loopback: false,
        master: 9,
        kind: "veth",
        ipv6Disabled: false,
      },
    });
  });

  it.each([
    ["administratively down", "02000000", { up: false }],
    ["up without carrier", "03000000", { up: false }],
    ["without ARP", "c3000100", { up: true, noArp: true }],
    ["loopback", "49000100", { up: true, loopback: true }],
  ])("flags: %s", (_, flags, expected) => {
    expect(decoded(link(16, flags))).toMatchObject({ link: expected });
  });

  it("disable_ipv6 is read from the link's IPv6 configuration", () => {
    expect(decoded(link(16, UP, 1))).toMatchObject({ link: { ipv6Disabled: true } });
  });

  it("a port that leaves its bridge is not a link that is gone", () => {
    expect(decoded(link(17, UP, 0, "07"))).toBeUndefined();
    expect(decoded(link(16, UP, 0, "07"))).toBeUndefined();
    expect(decoded(link(17, UP))).toEqual({ type: "linkGone", index: 2 });
  });

  it("an address is the local one, and tentative and failed ones are marked", () => {
    expect(decoded(address(20, "02", "18", "c000020a"))).toEqual({
      type: "address",
      address: { linkIndex: 2, address: "192.0.2.10", prefixLength: 24, tentative: false },
    });
    const v6 = (flags: number) => decoded(address(21, "0a", "40", "fe80000000000000000000000000000a", flags));
    expect(v6(0x80)).toMatchObject({ type: "addressGone", address: { address: "fe80::a", tentative: false } });
    expect(v6(0xc0)).toMatchObject({ address: { tentative: true } });
    expect(v6(0x88)).toMatchObject({ address: { tentative: true } });
  });

  it.each([
    ["a default route", DEFAULT4, via("c0000201", 2), [{ linkIndex: 2, gateway: "192.0.2.1" }]],
    ["one without next hop", DEFAULT4, (writer: MessageWriter) => writer.u32(4, 2), []],
    [
      "one by an IPv6 next hop",
      DEFAULT4,
      (writer: MessageWriter) => {
        writer.u32(4, 2);
        writer.attribute(18, fromHex("0a00 fe800000000000000000000000000001"));
      },
      [{ linkIndex: 2, gateway: "fe80::1" }],
    ],
    [
      "one over two links",
      DEFAULT4,
      (writer: MessageWriter) =>
        writer.attribute(9, fromHex("1000 00 00 02000000 0800 0500 c0000201  1000 00 00 03000000 0800 0500 c6336401")),
      [
        { linkIndex: 2, gateway: "192.0.2.1" },
        { linkIndex: 3, gateway: "198.51.100.1" },
      ],
    ],
  ])("%s gives its next hops", (_, header, write, hops) => {
    expect(decoded(route(24, header, write))).toEqual({ type: "defaultRoute", gone: false, hops });
  });

  it.each([
    ["a route to a network", "02 18 00 00 fe 04 00 01 00000000"],
    ["a default route of another table", "02 00 00 00 64 04 00 01 00000000"],
    ["an unreachable default", "02 00 00 00 fe 04 00 07 00000000"],
  ])("%s is none of ours", (_, header) => {
    expect(decoded(route(24, header, via("c0000201", 2)))).toBeUndefined();
  });

  it("requests are what the kernel wants", () => {
    // nlmsghdr: length, type, flags, sequence, port id; then the family's header.
    expect(toHex(dumpLinks(1))).toBe(`200000001200010301000000${"00".repeat(4)}${"00".repeat(16)}`);
    expect(toHex(getLink(2, 3))).toBe(`200000001200010003000000${"00".repeat(4)}00000000020000000000000000000000`);
    expect(toHex(dumpAddresses(4))).toBe(`180000001600010304000000${"00".repeat(4)}${"00".repeat(8)}`);
    expect(toHex(dumpRoutes("IPv6", 5))).toBe(`1c0000001a00010305000000${"00".repeat(4)}0a000000fe00000000000000`);
  });

  it("no bytes make the decoder throw", () => {
    const good = [
      link(16, UP),
      address(20, "0a", "40", "fe80000000000000000000000000000a"),
      route(24, DEFAULT4, via("c0000201", 2)),
    ];
    const near = fc
      .tuple(fc.constantFrom(...good), fc.array(fc.tuple(fc.nat(), fc.nat(255)), { maxLength: 5 }), fc.nat(40))
      .map(([bytes, changes, cut]) => {
        const copy = bytes.slice(16, bytes.length - cut);
        for (const [at, byte] of changes) if (copy.length > 0) copy[at % copy.length] = byte;
        return copy;
      });
    fc.assert(
      fc.property(
        fc.constantFrom(16, 17, 20, 21, 24, 25, 99),
        fc.oneof(near, fc.uint8Array({ maxLength: 120 })),
        (type, payload) => {
          decodeRouteMessage({ type, flags: 0, sequence: 0, portId: 0, payload });
        },
      ),
      { numRuns: 3000 },
    );
  });
});

describe("the table of links", () => {
  const take = (table: LinkTable, bytes: Uint8Array) => {
    const told = decoded(bytes);
    return told === undefined ? [] : table.take(told);
  };

  it("shows links with their addresses and next hops, and forgets all of a link that is gone", () => {
    const table = new LinkTable();
    take(table, link(16, UP));
    take(table, address(20, "02", "18", "c000020a"));
    table.replaceHops([
      { linkIndex: 2, gateway: "192.0.2.1" as Address },
      { linkIndex: 2, gateway: "192.0.2.1" as Address },
      { linkIndex: 3, gateway: "198.51.100.1" as Address },
    ]);
    expect(table.view()).toMatchObject([
      {
        name: "eth0",
        addresses: [{ address: "192.0.2.10", prefixLength: 24, tentative: false }],
        defaultGateways: ["192.0.2.1"],
      },
    ]);
    take(table, link(17, UP));
    take(table, link(16, UP));
    expect(table.view()).toMatchObject([{ addresses: [] }]);
  });

  it("asks for what a message leaves open: routes of a link that went down, disable_ipv6 behind an address", () => {
    const table = new LinkTable();
    expect(take(table, link(16, UP))).toEqual([{ type: "routes" }]);
    expect(take(table, link(16, UP))).toEqual([]);
    expect(take(table, link(16, "02000000"))).toEqual([{ type: "routes" }]);
    expect(take(table, address(21, "0a", "40", "fe80000000000000000000000000000a"))).toEqual([
      { type: "link", index: 2 },
    ]);
    expect(take(table, address(20, "02", "18", "c000020a"))).toEqual([]);
    expect(take(table, route(24, DEFAULT4, via("c0000201", 2)))).toEqual([{ type: "routes" }]);
  });
});

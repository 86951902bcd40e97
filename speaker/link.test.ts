import { expect, test } from "vitest";
import type { HostLink } from "../src/host/port.ts";
import type { Address } from "../src/net/address.ts";
import type { Mac } from "../src/net/mac.ts";
import { reportedLinks } from "./link.ts";

const link = (index: number, name: string, more: Partial<HostLink> = {}): HostLink => ({
  index,
  name,
  mac: "02:00:00:00:00:0a" as Mac,
  up: true,
  master: undefined,
  kind: undefined,
  noArp: false,
  loopback: false,
  addresses: [],
  defaultGateways: [],
  ...more,
});
const names = (...links: HostLink[]) => reportedLinks(links).map(({ name }) => name);

test("AR-04: a bridge is taken and its ports are not, a bond likewise; a port of a VRF is a link like others", () => {
  expect(
    names(
      link(1, "br0", { kind: "bridge" }),
      link(2, "eth0", { master: 1 }),
      link(3, "bond0", { kind: "bond" }),
      link(4, "eth1", { master: 3 }),
      link(5, "vrf-blue", { kind: "vrf", noArp: true }),
      link(6, "eth2", { master: 5 }),
    ),
  ).toEqual(["bond0", "br0", "eth2"]);
});

test("loopback, tunnels, links without ARP or MAC are no links for a VIP; a veth may be one, by its name alone", () => {
  expect(
    names(
      link(1, "lo", { loopback: true }),
      link(2, "wan", { kind: "wireguard" }),
      link(3, "ppp0", { noArp: true }),
      link(4, "x", { mac: undefined }),
      link(5, "overlay", { kind: "vxlan" }),
      link(6, "eth0", { kind: "veth" }),
    ),
  ).toEqual(["eth0"]);
});

test("subnets are told as addresses with length, without link-local ones; a link that is down is told as such", () => {
  const eth0 = link(1, "eth0", {
    up: false,
    addresses: [
      { address: "fe80::1" as Address, prefixLength: 64, tentative: false },
      { address: "2001:db8::11" as Address, prefixLength: 64, tentative: false },
      { address: "192.0.2.11" as Address, prefixLength: 24, tentative: false },
    ],
    defaultGateways: ["192.0.2.1" as Address],
  });
  expect(reportedLinks([eth0])).toEqual([
    {
      name: "eth0",
      mac: "02:00:00:00:00:0a",
      up: false,
      subnets: ["192.0.2.11/24", "2001:db8::11/64"],
      defaultGateways: ["192.0.2.1"],
    },
  ]);
});

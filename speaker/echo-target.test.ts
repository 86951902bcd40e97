import { expect, test } from "vitest";
import type { HostLink } from "../src/host/port.ts";
import type { Address } from "../src/net/address.ts";
import { echoTargets } from "./echo-target.ts";

const link = (index: number, addresses: string[], more: Partial<HostLink> = {}): HostLink => ({
  index,
  name: `eth${index}`,
  mac: undefined,
  up: true,
  master: undefined,
  kind: undefined,
  noArp: false,
  loopback: false,
  addresses: addresses.map((address) => ({ address: address as Address, prefixLength: 24, tentative: false })),
  defaultGateways: [],
  ...more,
});
const LO = link(1, ["127.0.0.1", "::1"], { loopback: true });
const targets = (links: HostLink[], nodeAddresses: string[] = []) =>
  echoTargets(links, new Set(nodeAddresses)).map(({ interfaceIndex, address }) => [interfaceIndex, address]);

test.each<[string, HostLink[], string[], [number, string][]]>([
  ["every interface has both families", [LO, link(2, ["192.0.2.11", "2001:db8::11"])], [], []],
  ["one has no address at all", [LO, link(2, ["192.0.2.11"]), link(3, [])], [], [[3, "192.0.2.11"]]],
  [
    "one has the other family only",
    [LO, link(2, ["192.0.2.11", "2001:db8::11"]), link(3, ["192.0.2.12"])],
    [],
    [[3, "2001:db8::11"]],
  ],
  [
    "a link-local or a tentative address is none",
    [
      LO,
      link(2, ["192.0.2.11", "2001:db8::11"]),
      link(3, ["fe80::1", "169.254.0.1"]),
      link(4, ["192.0.2.14"], {
        addresses: [
          { address: "192.0.2.14" as Address, prefixLength: 24, tentative: false },
          { address: "2001:db8::14" as Address, prefixLength: 64, tentative: true },
        ],
      }),
    ],
    [],
    [
      [3, "192.0.2.11"],
      [3, "2001:db8::11"],
      [4, "2001:db8::11"],
    ],
  ],
  [
    "the Node's address goes before that of the link with the default gateway, and that before the lowest index",
    [link(2, ["192.0.2.12"]), link(3, ["192.0.2.13"], { defaultGateways: ["192.0.2.1" as Address] }), link(4, [])],
    [],
    [[4, "192.0.2.13"]],
  ],
  [
    "the Node's address",
    [link(2, ["192.0.2.12"]), link(3, ["192.0.2.13"], { defaultGateways: ["192.0.2.1" as Address] }), link(4, [])],
    ["192.0.2.12", "198.51.100.1"],
    [[4, "192.0.2.12"]],
  ],
  [
    "a node whose address is on the loopback interface (unnumbered)",
    [link(1, ["127.0.0.1", "192.0.2.11"], { loopback: true }), link(2, ["fe80::2"])],
    [],
    [[2, "192.0.2.11"]],
  ],
  [
    "ports of a bridge are not where packets come in, ports of a VRF are",
    [
      link(2, ["192.0.2.11"], { kind: "bridge" }),
      link(3, [], { master: 2 }),
      link(4, ["192.0.2.14"], { kind: "vrf" }),
      link(5, [], { master: 4 }),
    ],
    [],
    [[5, "192.0.2.11"]],
  ],
  ["nobody has an address", [LO, link(2, [])], [], []],
])("echo requests that come in where %s", (_, links, nodeAddresses, expected) => {
  expect(targets(links, nodeAddresses)).toEqual(expected);
  expect(targets([...links].reverse(), nodeAddresses)).toEqual(expected);
});

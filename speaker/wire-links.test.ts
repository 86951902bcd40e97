import { describe, expect, it } from "vitest";
import type { HostLink } from "../src/host/port.ts";
import type { Mac } from "../src/net/mac.ts";
import { usabilityOf } from "./wire-links.ts";

const link = (name: string, changes: Partial<HostLink> = {}): HostLink => ({
  index: 2,
  name,
  mac: "02:00:00:00:00:0a" as Mac,
  up: true,
  master: undefined,
  kind: undefined,
  noArp: false,
  loopback: false,
  addresses: [],
  defaultGateways: [],
  ...changes,
});
const bridge = link("br0", { index: 9, kind: "bridge" });

describe("whether an interface can speak", () => {
  it.each<[string, HostLink[], "IPv4" | "IPv6", string | undefined]>([
    ["a plain one", [link("eth0")], "IPv4", undefined],
    ["a bridge", [link("eth0", { kind: "bridge" })], "IPv6", undefined],
    ["a port of a VRF", [link("eth0", { master: 9 }), link("vrf0", { index: 9, kind: "vrf" })], "IPv4", undefined],
    ["IPv4 where IPv6 is disabled", [link("eth0", { ipv6Disabled: true })], "IPv4", undefined],
    ["a missing one", [], "IPv4", "does not exist"],
    ["AR-03: one that is down", [link("eth0", { up: false })], "IPv4", "is down"],
    ["one without ARP", [link("eth0", { noArp: true })], "IPv4", "no ARP"],
    ["one without MAC", [link("eth0", { mac: undefined })], "IPv4", "no ARP"],
    ["loopback", [link("eth0", { loopback: true })], "IPv4", "no ARP"],
    ["AR-04: a port of a bridge", [link("eth0", { master: 9 }), bridge], "IPv4", "name br0"],
    ["ND-03: IPv6 where it is disabled", [link("eth0", { ipv6Disabled: true })], "IPv6", "disable_ipv6=0"],
  ])("%s", (_, links, family, refusal) => {
    const usable = usabilityOf("eth0", family, new Map(links.map((one) => [one.name, one])));
    if (refusal === undefined) expect(usable).toEqual({ type: "usable", index: 2, mac: "02:00:00:00:00:0a" });
    else expect(usable).toEqual({ type: "unusable", message: expect.stringContaining(refusal) });
  });
});

import { describe, expect, test } from "vitest";
import type { Link } from "../api/speaker-status.ts";
import type { Address } from "../net/address.ts";
import { answeringInterfaces, type InterfaceChoice, whyNoInterface } from "./interface.ts";

const link = (name: string, more: Partial<Link> = {}): Link => ({
  name,
  mac: "02:00:00:00:00:0a",
  up: true,
  subnets: ["192.0.2.11/24"],
  defaultGateways: [],
  ...more,
});
const choice = (more: Partial<InterfaceChoice> = {}): InterfaceChoice => ({
  interfaces: [],
  requireSubnet: true,
  ...more,
});
const VIP = "192.0.2.200" as Address;
const answering = (one: InterfaceChoice, ...links: Link[]) => answeringInterfaces(VIP, [one], links);

describe("which interfaces answer", () => {
  const skipped = [
    ...["lo", "veth0a1b", "cni0", "docker0", "br-0123456789ab", "virbr0", "cali1234", "cilium_host", "lxc123"],
    ...["flannel.1", "tunl0", "kube-ipvs0", "kube-bridge", "nodelocaldns", "wg0", "tun0", "vxlan.calico", "dummy0"],
  ];
  test.each(skipped)("CV-08: %s is skipped where no interface is named", (name) => {
    expect(answering(choice(), link(name), link("eth0"))).toEqual(["eth0"]);
  });

  test.each(["eth0", "ens3", "enp1s0f0", "eno1", "bond0", "br0", "br-lan", "vlan10", "eth0.10", "team0", "wlan0"])(
    "%s is taken where no interface is named",
    (name) => expect(answering(choice(), link(name))).toEqual([name]),
  );

  test("CV-08: /^eth[0-9]+/ takes what it matches and nothing else", () => {
    const only = choice({ interfaces: ["/^eth[0-9]+/"] });
    expect(answering(only, link("eth0"), link("eth12"), link("ens3"), link("veth0"), link("wg0"))).toEqual([
      "eth0",
      "eth12",
    ]);
  });

  test("a name is exact, and named exactly it is taken though the default excludes have it", () => {
    expect(answering(choice({ interfaces: ["eth1", "wg0"] }), link("eth1"), link("eth10"), link("wg0"))).toEqual([
      "eth1",
      "wg0",
    ]);
    expect(answering(choice({ interfaces: ["/./"] }), link("eth1"), link("wg0"))).toEqual(["eth1"]);
  });

  test("excludeInterfaces takes the place of the default and always wins", () => {
    expect(answering(choice({ excludeInterfaces: ["eth1"] }), link("eth0"), link("eth1"), link("wg0"))).toEqual([
      "eth0",
      "wg0",
    ]);
    expect(answering(choice({ interfaces: ["eth1"], excludeInterfaces: ["/eth/"] }), link("eth1"))).toEqual([]);
  });

  test("a pattern that is no regular expression matches nothing", () => {
    expect(answering(choice({ interfaces: ["/(/"] }), link("("))).toEqual([]);
  });

  test("AR-03: an interface that is down does not answer", () => {
    expect(answering(choice(), link("eth0", { up: false }), link("eth1"))).toEqual(["eth1"]);
  });

  test("FO-11: any of a node's subnets will do", () => {
    const links = [
      link("eth0", { subnets: ["198.51.100.11/24"] }),
      link("eth1", { subnets: ["203.0.113.1/24", "192.0.2.11/24"] }),
    ];
    expect(answering(choice(), ...links)).toEqual(["eth1"]);
  });

  test("AR-05: in no subnet there is no interface, unless requireSubnet is off", () => {
    const far = link("eth0", { subnets: ["198.51.100.11/24"] });
    expect(answering(choice(), far)).toEqual([]);
    expect(whyNoInterface(VIP, [choice()], [far])).toBe("NotInSubnet");
    expect(answering(choice({ requireSubnet: false }), far)).toEqual(["eth0"]);
  });

  test("a subnet of the other family, a host address and a link-local prefix hold no VIP", () => {
    const v6 = "2001:db8::200" as Address;
    const of = (...subnets: string[]) => answeringInterfaces(v6, [choice()], [link("eth0", { subnets })]);
    expect(of("192.0.2.11/24")).toEqual([]);
    expect(of("2001:db8::11/128")).toEqual([]);
    expect(of("fe80::1/64")).toEqual([]);
    expect(of("2001:db8::11/64")).toEqual(["eth0"]);
    expect(answeringInterfaces("fe80::5" as Address, [choice()], [link("eth0", { subnets: ["fe80::1/64"] })])).toEqual(
      [],
    );
  });

  test("the cause is told from the most basic on", () => {
    expect(whyNoInterface(VIP, [choice({ interfaces: ["eth9"] })], [link("eth0")])).toBe("NoInterface");
    expect(whyNoInterface(VIP, [choice()], [link("eth0", { up: false })])).toBe("LinkDown");
  });

  test("what any of several advertisements allows is taken", () => {
    const both = [choice({ interfaces: ["eth0"] }), choice({ interfaces: ["eth1"] })];
    expect(answeringInterfaces(VIP, both, [link("eth1"), link("eth0"), link("eth2")])).toEqual(["eth0", "eth1"]);
  });
});

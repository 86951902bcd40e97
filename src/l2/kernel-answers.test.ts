import { describe, expect, it } from "vitest";
import type { Address } from "../net/address.ts";
import { kernelAnswers } from "./kernel-answers.ts";

const VIP = "192.0.2.200" as Address;
const VIP6 = "2001:db8::200" as Address;
const VIPS = new Set([VIP, VIP6]);
const link = (name: string, addresses: string[], noArp = false, loopback = false) => ({
  name,
  noArp,
  loopback,
  addresses: addresses.map((address) => ({ address: address as Address })),
});

describe("AR-06: VIPs that the kernel answers for", () => {
  it.each<[string, ReturnType<typeof link>[], Record<string, number>, [string, string[]][]]>([
    ["no VIP assigned", [link("eth0", ["192.0.2.10"])], {}, []],
    [
      "kube-ipvs0, strictARP off",
      [link("eth0", ["192.0.2.10"]), link("kube-ipvs0", [VIP], true)],
      {},
      [[VIP, ["eth0"]]],
    ],
    ["kube-ipvs0, strictARP on", [link("eth0", ["192.0.2.10"]), link("kube-ipvs0", [VIP], true)], { eth0: 1 }, []],
    [
      "one of two interfaces ignores",
      [link("eth0", []), link("eth1", []), link("kube-ipvs0", [VIP], true)],
      { eth1: 1 },
      [[VIP, ["eth0"]]],
    ],
    ["on loopback", [link("lo", [VIP], false, true), link("eth0", [])], {}, [[VIP, ["eth0"]]]],
    ["on the LAN interface itself, whatever it ignores", [link("eth0", [VIP])], { eth0: 2 }, [[VIP, ["eth0"]]]],
    ["IPv6 on another interface", [link("eth0", []), link("kube-ipvs0", [VIP6], true)], {}, []],
    ["IPv6 on the LAN interface", [link("eth0", [VIP6])], {}, [[VIP6, ["eth0"]]]],
  ])("%s", (_, links, ignored, expected) => {
    const answers = kernelAnswers(VIPS, links, (name) => ignored[name] ?? 0);
    expect(answers.map(({ address, answersOn }) => [address, answersOn])).toEqual(expected);
  });

  it("the message says what to do", () => {
    const [ipvs] = kernelAnswers(VIPS, [link("eth0", []), link("kube-ipvs0", [VIP], true)], () => 0);
    expect(ipvs?.message).toBe(
      "192.0.2.200 is assigned to kube-ipvs0, so the kernel answers for it on eth0, whoever owns it; set strictARP: true in kube-proxy's IPVS mode, or net.ipv4.conf.all.arp_ignore=1 and arp_announce=2",
    );
    const [lan] = kernelAnswers(VIPS, [link("eth0", [VIP])], () => 0);
    expect(lan?.message).toContain("take the address off the interface");
  });
});

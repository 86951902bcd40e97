import { execFileSync } from "node:child_process";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { canLab, inNamespace, until, WireLab } from "../../speaker/wire-lab.ts";
import { observeLinks } from "./link-observer.ts";
import type { LinkObserver } from "./port.ts";

describe.skipIf(!canLab)("the link observer", { timeout: 30_000 }, () => {
  let lab: WireLab;
  let observer: LinkObserver;
  const troubles: unknown[] = [];
  beforeEach(async () => {
    lab = new WireLab();
    lab.bridge("sw", "br0");
    lab.plug("a", "lan0", "02:00:00:00:00:0a", ["192.0.2.10/24", "2001:db8::a/64"], ["sw", "br0"]);
    lab.ip("a", "route", "add", "default", "via", "192.0.2.1");
    troubles.length = 0;
    observer = await inNamespace(lab.namespace("a"), () => observeLinks((trouble) => troubles.push(trouble)));
  });
  afterEach(() => {
    observer.close();
    return lab.close();
  });
  const lan0 = () => observer.links().find(({ name }) => name === "lan0");
  const see = (what: string, suits: () => boolean) => until(what, () => (suits() ? true : undefined));

  it("knows at once what `ip` knows", async () => {
    await see("link-local address", () => lan0()?.addresses.length === 3);
    const shown = JSON.parse(lab.ip("a", "-j", "address", "show", "dev", "lan0"))[0];
    expect(lan0()).toMatchObject({
      index: shown.ifindex,
      mac: shown.address,
      kind: "veth",
      up: true,
      ipv6Disabled: false,
      defaultGateways: ["192.0.2.1"],
    });
    expect(
      lan0()
        ?.addresses.map(({ address, prefixLength }) => `${address}/${prefixLength}`)
        .sort(),
    ).toEqual(
      shown.addr_info.map((info: { local: string; prefixlen: number }) => `${info.local}/${info.prefixlen}`).sort(),
    );
  });

  it("tells of every change, and of nothing when nothing changed", async () => {
    let told = 0;
    observer.onChange(() => told++);
    lab.ip("a", "address", "add", "192.0.2.99/24", "dev", "lan0");
    await see("address", () => lan0()?.addresses.some(({ address }) => address === "192.0.2.99") === true);
    lab.ip("a", "route", "replace", "default", "via", "192.0.2.2");
    await see("gateway", () => lan0()?.defaultGateways.join() === "192.0.2.2");
    // IPv4 routes of a link that goes down go without a message of their own.
    lab.ip("a", "link", "set", "lan0", "down");
    await see("down, without gateway", () => lan0()?.up === false && lan0()?.defaultGateways.length === 0);
    lab.ip("a", "link", "set", "lan0", "up");
    lab.exec("a", "sysctl", "-qw", "net.ipv6.conf.lan0.disable_ipv6=1");
    await see("IPv6 disabled", () => lan0()?.ipv6Disabled === true);
    lab.ip("a", "link", "delete", "lan0");
    await see("gone", () => lan0() === undefined);
    const before = told;
    expect(before).toBeGreaterThanOrEqual(6);
    lab.ip("a", "link", "set", "lo", "up");
    expect(told).toBe(before);
    expect(troubles).toEqual([]);
  });

  it("a flap is seen, however short", async () => {
    const states: (boolean | undefined)[] = [];
    observer.onChange(() => states.push(lan0()?.up));
    lab.exec("a", "sh", "-c", "ip link set lan0 down; ip link set lan0 up");
    await see("down and up", () => states.includes(false) && lan0()?.up === true);
  });

  it("a port that leaves its bridge stays", async () => {
    lab.ip("a", "link", "add", "br1", "type", "bridge");
    lab.ip("a", "link", "set", "lan0", "master", "br1");
    await see("port", () => lan0()?.master === observer.links().find(({ name }) => name === "br1")?.index);
    lab.ip("a", "link", "set", "lan0", "nomaster");
    await see("no port", () => lan0() !== undefined && lan0()?.master === undefined);
  });

  it("what is lost when too much comes at once is asked for again", async () => {
    const batch = Array.from({ length: 40_000 }, (_, i) => `route add 198.18.${i >> 8}.${i & 255}/32 dev lan0`)
      .concat("address add 192.0.2.77/24 dev lan0")
      .join("\n");
    // Synchronous: nothing is read meanwhile, so the receive buffer overflows.
    execFileSync("ip", ["-n", lab.namespace("a"), "-batch", "-"], { input: batch });
    await until(
      "the address after the flood",
      () => (lan0()?.addresses.some(({ address }) => address === "192.0.2.77") ? true : undefined),
      20_000,
    );
  });
});

import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { type Frame, startCapture } from "../../lab/capture.ts";
import { ip } from "../../lab/command.ts";
import { eventually } from "../../lab/eventually.ts";
import type { LabNode } from "../../lab/network.ts";
import type { Resident } from "../../lab/resident.ts";
import { concat, toHex } from "../core/bytes.ts";
import { bytesOf } from "../net/address.ts";
import { type Mac, macBytes } from "../net/mac.ts";
import type { VipPlan } from "../plan/vip-plan.ts";
import {
  balance,
  canRun,
  deal,
  endpoint,
  type LabPod,
  OTHER_VIP,
  openPlaneLab,
  type PlaneLab,
  VIP,
  vip,
} from "./lab.fixture.ts";
import type { PlaneActions } from "./plane.fixture.ts";

const able = await canRun();

/** The Internet checksum of RFC 1071 over the parts, each of even length but the last. */
function checksum(...parts: Uint8Array[]): number {
  const bytes = concat(...parts);
  let sum = 0;
  for (let i = 0; i < bytes.length; i += 2) sum += ((bytes[i] ?? 0) << 8) | (bytes[i + 1] ?? 0);
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >>> 16);
  return ~sum & 0xffff;
}

const be16 = (value: number): Uint8Array => Uint8Array.of(value >> 8, value & 0xff);

/** A TCP segment with ACK and one byte, sequence number 1: far outside any window. */
function strayTcp(from: { mac: string; lanIPv4: string }, toMac: string, address: string, sourcePort: number): string {
  const [source, destination] = [bytesOf(from.lanIPv4 as never), bytesOf(address as never)];
  const tcp = (sum: number) =>
    concat(
      be16(sourcePort),
      be16(80),
      Uint8Array.of(0, 0, 0, 1, 0, 0, 0, 1), // sequence, acknowledgement
      Uint8Array.of(0x50, 0x18), // 20 bytes, PSH ACK
      be16(512), // window
      be16(sum),
      be16(0),
      Uint8Array.of(0x78, 0), // data "x" and a zero
    );
  const pseudo = concat(source, destination, Uint8Array.of(0, 6), be16(22));
  const header = (sum: number) =>
    concat(Uint8Array.of(0x45, 0), be16(42), Uint8Array.of(0, 1, 0x40, 0, 64, 6), be16(sum), source, destination);
  return toHex(
    concat(
      macBytes(toMac as Mac),
      macBytes(from.mac as Mac),
      be16(0x0800),
      header(checksum(header(0))),
      tcp(checksum(pseudo, tcp(0))),
    ),
  );
}

/** A neighbour solicitation for the address, sent to that address itself (RFC 4861 7.3: confirming reachability). */
function unicastSolicitation(from: { mac: string; lanIPv6: string }, toMac: string, address: string): string {
  const [source, destination] = [bytesOf(from.lanIPv6 as never), bytesOf(address as never)];
  const icmp = (sum: number) =>
    concat(
      Uint8Array.of(135, 0),
      be16(sum),
      new Uint8Array(4),
      destination,
      Uint8Array.of(1, 1), // option: source link-layer address
      macBytes(from.mac as Mac),
    );
  const pseudo = concat(source, destination, Uint8Array.of(0, 0, 0, 32, 0, 0, 0, 58));
  return toHex(
    concat(
      macBytes(toMac as Mac),
      macBytes(from.mac as Mac),
      be16(0x86dd),
      Uint8Array.of(0x60, 0, 0, 0, 0, 32, 58, 255),
      source,
      destination,
      icmp(checksum(pseudo, icmp(0))),
    ),
  );
}

describe.skipIf(!able)("guard and conntrack", () => {
  let lab: PlaneLab;
  let node: LabNode;
  let plane: Resident<PlaneActions>;
  let here: LabPod;
  let there: LabPod;

  beforeAll(async () => {
    lab = await openPlaneLab();
    const [one, two] = lab.network.nodes as [LabNode, LabNode];
    node = one;
    here = await lab.pod(one, "here", 2);
    there = await lab.pod(two, "there", 2);
    plane = await lab.plane(one);
    // Where nothing translates them, packets for VIPs leave for a host that is not there.
    await ip(one.namespace, [
      "neigh replace 192.0.2.250 lladdr 02:00:00:00:00:fa dev eth0",
      "neigh replace 2001:db8:0:1::250 lladdr 02:00:00:00:00:fa dev eth0",
      "route replace 203.0.113.0/24 via 192.0.2.250",
      "route replace 2001:db8:0:f::/64 via 2001:db8:0:1::250",
    ]);
  });
  afterAll(() => lab?.close());
  beforeEach(async () => {
    await lab.route(node);
    await restart();
    await lab.inside(node, "sh", "-c", "conntrack -F 2>/dev/null");
  });

  const at = (pod: LabPod, family: "IPv4" | "IPv6" = "IPv4") => endpoint(pod, family, node);
  const restart = async (): Promise<void> => {
    await plane.call("die");
    await eventually("the table is free again", 3000, async () => (await plane.call("start")).ok);
  };
  const hold = async (...plans: VipPlan[]): Promise<void> => {
    expect(await plane.call("adopt", plans, lab.surroundings(node))).toMatchObject({ failed: new Map() });
    await plane.call("flowsCleaned");
  };
  const apply = async (...plans: VipPlan[]): Promise<void> => {
    const changes = plans.map((plan) => [plan.address, plan] as const);
    expect(await plane.call("apply", changes)).toMatchObject({ failed: new Map() });
    await plane.call("flowsCleaned");
    expect(await plane.call("flowFaults")).toEqual([]);
  };
  const captured = async (work: () => Promise<unknown>, ...filter: string[]): Promise<Frame[]> => {
    const capture = await startCapture(lab.claim, node.namespace, "eth0", filter);
    await work();
    return capture.stop();
  };
  /** Conntrack entries of the node whose original destination is the address: protocol, and source of replies. */
  const flows = async (address: string): Promise<string[]> => {
    const text = await lab.inside(node, "sh", "-c", `conntrack -L --orig-dst ${address} 2>/dev/null || true`);
    return text
      .split("\n")
      .filter((line) => line.includes("dst="))
      .map((line) => `${line.split(/\s+/)[0]} ${[...line.matchAll(/src=(\S+)/g)].at(1)?.[1]}`)
      .sort();
  };

  test("without the guard a packet to an undeclared port loops between router and node; with it one packet, one refusal", async () => {
    await ip(lab.network.client.namespace, [`route replace 203.0.113.0/24 via ${lab.network.router.lanIPv4}`]);
    await ip(lab.network.router.namespace, [`route replace 203.0.113.0/24 via ${node.lanIPv4}`]);
    await ip(node.namespace, ["route del 203.0.113.0/24"]);
    await lab.inside(
      node,
      "sh",
      "-c",
      "echo 0 > /proc/sys/net/ipv4/conf/all/send_redirects; echo 0 > /proc/sys/net/ipv4/conf/eth0/send_redirects",
    );
    const ask = () => lab.client.call("ask", "TCP", VIP.IPv4, 9999, 500);
    const filter = ["dst", "host", VIP.IPv4, "and", "tcp", "port", "9999"];
    await hold(vip(VIP.IPv4, balance("TCP", 80, [at(here)])));
    await plane.call("die");
    await lab.inside(node, "nft", "flush chain inet belfry guard4; flush chain inet belfry masquerade4");
    expect((await captured(ask, ...filter)).length).toBeGreaterThan(50);
    await restart();
    await hold(vip(VIP.IPv4, balance("TCP", 80, [at(here)])));
    await lab.inside(node, "sh", "-c", "conntrack -F 2>/dev/null");
    expect(await captured(async () => expect(await ask()).toMatchObject({ type: "refused" }), ...filter)).toHaveLength(
      1,
    );
  });

  test("an out-of-window segment does not hurt its connection, and draws nothing", async () => {
    await hold(vip(VIP.IPv4, balance("TCP", 80, [at(here)])));
    await lab.client.call("openStreams", VIP.IPv4, 80, 5);
    await lab.client.call("beatStreams", 50);
    const text = await lab.inside(node, "conntrack", "-L", "-p", "tcp", "--orig-dst", VIP.IPv4);
    const ports = [...text.matchAll(/^tcp.*? src=\S+ dst=\S+ sport=(\d+)/gm)].map((match) => Number(match[1]));
    expect(ports).toHaveLength(5);
    const frames = ports.map((port) => strayTcp(lab.network.client, node.mac, VIP.IPv4, port));
    const resets = await captured(
      () => lab.client.call("sendFrames", "eth0", frames),
      "src",
      "host",
      VIP.IPv4,
      "and",
      "tcp[tcpflags] & tcp-rst != 0",
    );
    expect(resets).toEqual([]);
    await delay(300);
    const { broken, sent, received } = await lab.client.call("closeStreams");
    expect({ broken, lost: sent - received }).toEqual({ broken: [], lost: 0 });
  });

  test("a unicast neighbour solicitation for a VIP draws nothing from netfilter and is not forwarded", async () => {
    await hold(vip(VIP.IPv6, balance("TCP", 80, [at(here, "IPv6")])));
    const solicitation = unicastSolicitation(lab.network.client, node.mac, VIP.IPv6);
    const frames = await captured(
      async () => {
        await lab.client.call("sendFrames", "eth0", [solicitation, solicitation]);
        await delay(500);
      },
      "icmp6",
      "and",
      "host",
      VIP.IPv6,
      "or",
      "(icmp6",
      "and",
      "ip6[40]",
      "==",
      "1)",
    );
    expect(frames.map((frame) => toHex(frame.bytes))).toEqual([solicitation, solicitation]);
  });

  test.each(["IPv4", "IPv6"] as const)(
    "%s: a UDP flow that began before its frontend is translated soon after",
    async (family) => {
      await hold();
      const asked = lab.client.call("ask", "UDP", VIP[family], 53, 6000);
      await delay(300);
      expect(await flows(VIP[family])).toEqual([`udp ${VIP[family]}`]);
      await apply(vip(VIP[family], balance("UDP", 53, [at(here, family)])));
      expect(await asked).toMatchObject({ type: "answer" });
    },
  );

  test("an echo flow that began before its VIP is answered soon after", async () => {
    await hold();
    const ping = lab.inside(
      { ...node, namespace: lab.network.client.namespace },
      "sh",
      "-c",
      `ping -c 8 -i 0.3 -W 1 ${VIP.IPv4} || true`,
    );
    await delay(700);
    await apply(vip(VIP.IPv4, balance("UDP", 53, [at(here)])));
    expect(await ping).toMatch(/[3-7] received/);
  });

  test.each(["IPv4", "IPv6"] as const)(
    "%s: when an endpoint leaves, its UDP flows go at once and no others; its TCP flows stay",
    async (family) => {
      const both = deal(16, [at(here, family), at(there, family)]);
      await hold(vip(VIP[family], balance("UDP", 53, both), balance("UDP", 54, both), balance("TCP", 80, both)));
      await lab.client.call("survey", "UDP", VIP[family], 53, 40);
      await lab.client.call("survey", "UDP", VIP[family], 54, 20);
      await lab.client.call("openStreams", VIP[family], 80, 20);
      const before = await flows(VIP[family]);
      expect(new Set(before)).toEqual(new Set([here[family], there[family]].flatMap((a) => [`udp ${a}`, `tcp ${a}`])));
      const left = deal(16, [at(there, family)]);
      await apply(vip(VIP[family], balance("UDP", 53, left), balance("UDP", 54, left), balance("TCP", 80, left)));
      expect(await flows(VIP[family])).toEqual(before.filter((flow) => flow !== `udp ${here[family]}`));
      expect((await lab.client.call("closeStreams")).broken).toEqual([]);
    },
  );

  test("DP-06: a restart with the same endpoints deletes no flow, one with others only their mismatches", async () => {
    const both = deal(16, [at(here), at(there)]);
    const plan = vip(VIP.IPv4, balance("UDP", 53, both), balance("TCP", 80, both));
    await hold(plan);
    await lab.client.call("survey", "UDP", VIP.IPv4, 53, 40);
    await lab.client.call("openStreams", VIP.IPv4, 80, 10);
    const before = await flows(VIP.IPv4);
    expect(before.length).toBe(50);
    await restart();
    await hold(plan);
    expect(await flows(VIP.IPv4)).toEqual(before);
    await restart();
    await hold(vip(VIP.IPv4, balance("UDP", 53, deal(16, [at(here)])), balance("TCP", 80, both)));
    expect(await flows(VIP.IPv4)).toEqual(before.filter((flow) => flow !== `udp ${there.IPv4}`));
    await lab.client.call("closeStreams");
  });

  test("a released VIP leaves no flow behind, also when it was released while no speaker lived", async () => {
    const plan = (address: typeof VIP.IPv4) =>
      vip(address, balance("UDP", 53, [at(here)]), balance("TCP", 80, [at(there)]));
    const use = async () => {
      for (const address of [VIP.IPv4, OTHER_VIP.IPv4]) {
        await lab.client.call("survey", "UDP", address, 53, 5);
        await lab.client.call("survey", "TCP", address, 80, 5);
      }
    };
    await hold(plan(VIP.IPv4), plan(OTHER_VIP.IPv4));
    await use();
    expect(await flows(VIP.IPv4)).toHaveLength(10);
    await plane.call("apply", [[VIP.IPv4, undefined]]);
    await plane.call("flowsCleaned");
    expect(await flows(VIP.IPv4)).toEqual([]);
    expect(await flows(OTHER_VIP.IPv4)).toHaveLength(10);
    await restart();
    await hold(plan(VIP.IPv4));
    expect(await flows(OTHER_VIP.IPv4)).toEqual([]);
    await use();
    await plane.call("forgetFlows", VIP.IPv4);
    await plane.call("flowsCleaned");
    expect(await flows(VIP.IPv4)).toEqual([]);
  });
});

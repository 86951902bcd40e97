import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { toHex } from "../src/core/bytes.ts";
import { clock } from "../src/host/clock.ts";
import { observeLinks } from "../src/host/link-observer.ts";
import { arpIgnoreOf } from "../src/host/link-sysctl.ts";
import { ARP_FRAMES, NDP_FRAMES, patched } from "../src/l2/frames.fixture.ts";
import { kernelAnswers } from "../src/l2/kernel-answers.ts";
import { canLab, inNamespace, type Peer, sleep, until, WireLab, type WireProcess } from "./wire-lab.ts";

const VIP = "192.0.2.200";
const VIP6 = "2001:db8::200";
const hex = (frame: Uint8Array): string => toHex(frame);
const arp = Object.fromEntries(Object.entries(ARP_FRAMES).map(([name, frame]) => [name, hex(frame)])) as Record<
  keyof typeof ARP_FRAMES,
  string
>;
const ndp = Object.fromEntries(Object.entries(NDP_FRAMES).map(([name, frame]) => [name, hex(frame)])) as Record<
  keyof typeof NDP_FRAMES,
  string
>;
/** The answer to the client's request from this MAC. */
const replyFrom = (mac: string): string =>
  hex(patched(ARP_FRAMES.reply, [6, mac.replaceAll(":", "")], [22, mac.replaceAll(":", "")]));

/** A node `a` and a client `c` on one bridge, and a peer with the client's MAC. */
async function twoOnALan(): Promise<{ lab: WireLab; a: WireProcess; peer: Peer }> {
  const lab = new WireLab();
  lab.bridge("sw", "br0");
  lab.plug("a", "lan0", "02:00:00:00:00:0a", ["192.0.2.10/24", "2001:db8::a/64"], ["sw", "br0"]);
  lab.plug("c", "eth0", "02:00:00:00:00:c1", ["192.0.2.50/24", "2001:db8::c1/64"], ["sw", "br0"]);
  // The peer speaks for the client: its kernel must not answer in between.
  const peer = await lab.peer("c", "eth0");
  const a = lab.wire("a");
  await a.heard("ready");
  a.lease(600_000);
  return { lab, a, peer };
}

describe.skipIf(!canLab)("the wire on a LAN", { timeout: 60_000 }, () => {
  let lab: WireLab;
  let a: WireProcess;
  let peer: Peer;
  let term = 1;

  beforeAll(async () => {
    ({ lab, a, peer } = await twoOnALan());
  });
  afterAll(() => lab.close());

  /** A take-over of both VIPs; resolves once both were announced. */
  async function takeOver(interfaces = ["lan0"]): Promise<number> {
    const since = clock.now();
    term++;
    for (const address of [VIP, VIP6]) a.announce(address, interfaces, term);
    for (const address of [VIP, VIP6]) {
      await a.heard("announced", (message) => message.address === address, since);
    }
    return since;
  }

  it("I-10, AR-07, ND-04: take-over is announced in both ARP forms and by unsolicited NA, five times 1.1 s apart", async () => {
    const since = await takeOver();
    await sleep(5_000);
    const timesOf = (frame: string) =>
      peer.frames.filter(({ at, hex: seen }) => at >= since && seen.startsWith(frame)).map(({ at }) => at - since);
    for (const frame of [arp.announceRequest, arp.announceReply, ndp.unsolicited]) {
      const times = timesOf(frame);
      expect(times).toHaveLength(5);
      for (const [i, at] of times.entries()) expect(Math.abs(at - (times[0] ?? 0) - i * 1100)).toBeLessThan(600);
    }
  });

  it.each([
    ["I-10: a broadcast request", arp.request, arp.reply],
    ["I-10: a unicast request", arp.unicastRequest, arp.reply],
    ["AR-10: a probe", arp.probe, arp.probeReply],
    ["I-12: a multicast solicitation", ndp.solicitation, ndp.advertisement],
    ["ND-02: a unicast solicitation without option", ndp.unicastSolicitation, ndp.unicastAdvertisement],
    ["I-12: a duplicate test", ndp.duplicateTest, ndp.unsolicited],
    ["a priority-tagged request (VID 0)", `${arp.request.slice(0, 24)}8100e000${arp.request.slice(24)}`, arp.reply],
  ])("%s is answered, byte for byte", async (_, question, answer) => {
    await peer.ask(question, answer);
  });

  it.each([
    ["I-10: to another MAC, on a promiscuous interface", arp.toOtherMac],
    ["I-10: for an address that is not a VIP", hex(patched(ARP_FRAMES.request, [38, "c00002c9"]))],
    ["I-10: a reply", hex(patched(ARP_FRAMES.request, [20, "0002"]))],
    ["I-10: of hardware type 6", hex(patched(ARP_FRAMES.request, [14, "0006"]))],
    ["I-10: of 41 bytes", arp.request.slice(0, 82)],
    ["ND-09: with hop limit 64", ndp.hopLimit64],
    ["ND-09: with a wrong checksum", hex(patched(NDP_FRAMES.solicitation, [56, "ffff"]))],
    ["of VLAN 100", `${arp.request.slice(0, 24)}81000064${arp.request.slice(24)}`],
    ["of VLAN 100 in VLAN 200", `${arp.request.slice(0, 24)}88a800c881000064${arp.request.slice(24)}`],
  ])("%s draws nothing", async (_, frame) => {
    lab.ip("a", "link", "set", "lan0", "promisc", "on");
    expect(await peer.answersTo(frame)).toEqual([]);
    lab.ip("a", "link", "set", "lan0", "promisc", "off");
  });

  it("AR-10: a host that probes before it takes an address finds the VIP taken, and a free one free", () => {
    // Sender 0.0.0.0; the program succeeds when somebody answers.
    const probe = (address: string) => lab.tryExec("c", "arping", "-0", "-c", "2", "-w", "2", "-I", "eth0", address);
    expect(probe(VIP).status).toBe(0);
    expect(probe("192.0.2.201").status).toBe(1);
  });

  it("AR-11: the node's own question on the wire draws no answer from itself", async () => {
    const since = clock.now();
    lab.tryExec("a", "arping", "-c", "1", "-w", "1", "-I", "lan0", VIP);
    expect(peer.frames.filter((frame) => frame.at >= since && frame.hex.startsWith("02000000000a"))).toEqual([]);
    expect(await peer.answersTo(arp.request)).toHaveLength(1);
  });

  it.each([
    [
      "ND-07: 10,000 solicitations in a second for others",
      hex(patched(NDP_FRAMES.solicitation, [76, "0201"], [56, "45e2"])),
      0,
    ],
    ["I-10: 10,000 requests in a second", arp.request, 9_900],
  ])("%s make no line of log", async (_, frame, answers) => {
    await sleep(200);
    const printed = a.output;
    const { flooded, seen } = await peer.flood(frame, 10_000, 10_000);
    expect(flooded).toBe(10_000);
    expect(seen).toBeGreaterThanOrEqual(answers);
    if (answers === 0) expect(seen).toBeLessThan(50);
    expect(a.output).toBe(printed);
    expect(a.told.filter(({ type }) => type !== "counters" && type !== "ready").length).toBeLessThan(100);
  });

  it("AR-03: a link that is down is a fault, and is taken up when it comes; a VIP on another family stays as it was", async () => {
    const since = clock.now();
    lab.ip("a", "link", "set", "lan0", "down");
    const fault = await a.heard("fault", ({ family }) => family === "IPv4", since);
    expect(fault).toMatchObject({ interface: "lan0", message: expect.stringContaining("down") });
    expect(await peer.answersTo(arp.request)).toEqual([]);
    lab.ip("a", "link", "set", "lan0", "up");
    await a.heard("cleared", ({ family }) => family === "IPv4", since);
    await peer.ask(arp.request, arp.reply);
  });

  /** Until a request is answered after the change, asking every 20 ms; counted from the change's return. */
  async function millisecondsToAnswer(change: () => void, answer = arp.reply): Promise<number> {
    change();
    const start = clock.now();
    const asking = setInterval(() => peer.send(arp.request), 20);
    try {
      const frame = await peer.saw("answer", (seen) => seen.startsWith(answer), start, 5_000);
      return frame.at - start;
    } finally {
      clearInterval(asking);
    }
  }

  it("a flapped link, another MAC, an interface taken away and put back: answered within a second, and announced anew", async () => {
    const announced = (frame: string, since: number) => peer.saw("announcement", (seen) => seen === frame, since);

    let since = clock.now();
    expect(
      await millisecondsToAnswer(() => {
        lab.ip("a", "link", "set", "lan0", "down");
        lab.ip("a", "link", "set", "lan0", "up");
      }),
    ).toBeLessThan(1_000);
    await announced(arp.announceRequest, since);

    since = clock.now();
    const other = "02:00:00:00:00:1a";
    expect(
      await millisecondsToAnswer(() => lab.ip("a", "link", "set", "lan0", "address", other), replyFrom(other)),
    ).toBeLessThan(1_000);
    await announced(arp.announceRequest.replaceAll("02000000000a", "02000000001a"), since);

    since = clock.now();
    lab.ip("a", "link", "delete", "lan0");
    await a.heard("fault", ({ message }) => message.includes("does not exist"), since);
    expect(
      await millisecondsToAnswer(() =>
        lab.plug("a", "lan0", "02:00:00:00:00:0a", ["192.0.2.10/24", "2001:db8::a/64"], ["sw", "br0"]),
      ),
    ).toBeLessThan(1_000);
    await announced(arp.announceRequest, since);
    await announced(ndp.unsolicited, since);
    await peer.ask(ndp.unicastSolicitation, ndp.unicastAdvertisement);
    expect(lab.exec("a", "ip", "maddr", "show", "dev", "lan0")).toContain("ff02::1:ff00:200");
  });

  it("ND-03: IPv6 switched off is a fault of that family alone, and clears when it is switched on", async () => {
    const since = clock.now();
    lab.exec("a", "sysctl", "-qw", "net.ipv6.conf.lan0.disable_ipv6=1");
    const fault = await a.heard("fault", ({ family }) => family === "IPv6", since);
    expect(fault).toMatchObject({ interface: "lan0", message: expect.stringContaining("disable_ipv6=0") });
    await peer.ask(arp.request, arp.reply);
    expect(await peer.answersTo(ndp.unicastSolicitation)).toEqual([]);
    lab.exec("a", "sysctl", "-qw", "net.ipv6.conf.lan0.disable_ipv6=0");
    await a.heard("cleared", ({ family }) => family === "IPv6", since);
    await peer.ask(ndp.unicastSolicitation, ndp.unicastAdvertisement);
  });

  it("ND-03: no link-local address, and one that failed duplicate detection, are nothing to the wire", async () => {
    const lines = lab.exec("a", "ip", "-6", "address", "flush", "dev", "lan0");
    expect(lines).toBe("");
    await peer.ask(ndp.unicastSolicitation, ndp.unicastAdvertisement);
    await peer.ask(ndp.solicitation, ndp.advertisement);
  });
});

describe.skipIf(!canLab)("several interfaces", { timeout: 60_000 }, () => {
  let lab: WireLab;
  afterEach(() => lab.close());

  it("AR-01: two interfaces in one subnet and one elsewhere: each answers with its own MAC, and only where it may", async () => {
    lab = new WireLab();
    lab.bridge("sw", "br0");
    lab.bridge("sw", "br1");
    lab.plug("a", "lan0", "02:00:00:00:00:0a", ["192.0.2.10/24"], ["sw", "br0"]);
    lab.plug("a", "lan1", "02:00:00:00:01:0a", ["192.0.2.11/24"], ["sw", "br1"]);
    lab.plug("a", "lan2", "02:00:00:00:02:0a", ["198.51.100.10/24"], ["sw", "br0"]);
    lab.plug("c", "eth0", "02:00:00:00:00:c1", ["192.0.2.50/24"], ["sw", "br0"]);
    lab.plug("c", "eth1", "02:00:00:00:00:c1", [], ["sw", "br1"]);
    const [left, right] = [await lab.peer("c", "eth0"), await lab.peer("c", "eth1")];
    const a = lab.wire("a");
    a.lease(60_000);
    a.announce(VIP, ["lan0", "lan1"]);
    await a.heard("announced", (message) => message.interface === "lan1");
    expect(await left.answersTo(arp.request)).toEqual([replyFrom("02:00:00:00:00:0a")]);
    expect(await right.answersTo(arp.request)).toEqual([replyFrom("02:00:00:00:01:0a")]);
    a.announce(VIP, ["lan1"]);
    await sleep(200);
    expect(await left.answersTo(arp.request)).toEqual([]);
    expect(await right.answersTo(arp.request)).toHaveLength(1);
    expect(a.told.filter(({ type }) => type === "claim")).toEqual([]);
  });

  it("AR-04: with the node's address on a bridge, the bridge answers a client behind it, once, with its MAC", async () => {
    lab = new WireLab();
    lab.bridge("a", "br0");
    lab.ip("a", "link", "set", "br0", "address", "02:00:00:00:00:0a");
    lab.ip("a", "address", "add", "192.0.2.10/24", "dev", "br0");
    lab.plug("c", "eth0", "02:00:00:00:00:c1", ["192.0.2.50/24"], ["a", "br0"]);
    const peer = await lab.peer("c", "eth0");
    const a = lab.wire("a");
    a.lease(60_000);
    a.announce(VIP, ["br0"]);
    await a.heard("announced");
    expect(await peer.answersTo(arp.request)).toEqual([arp.reply]);
  });

  it("AR-06: a VIP on kube-ipvs0 is answered by the kernel beside us; the check finds it, and arp_ignore ends it", async () => {
    lab = new WireLab();
    lab.bridge("sw", "br0");
    lab.plug("a", "lan0", "02:00:00:00:00:0a", ["192.0.2.10/24"], ["sw", "br0"]);
    lab.plug("a", "kube-ipvs0", "02:00:00:00:ff:0a", [`${VIP}/32`], ["sw", "br0"]);
    lab.ip("a", "link", "set", "kube-ipvs0", "arp", "off");
    lab.plug("c", "eth0", "02:00:00:00:00:c1", ["192.0.2.50/24"], ["sw", "br0"]);
    const peer = await lab.peer("c", "eth0");
    const found = () =>
      inNamespace(lab.namespace("a"), async () => {
        const observer = await observeLinks((trouble) => {
          throw trouble;
        });
        const links = observer.links();
        observer.close();
        return links;
      }).then((links) =>
        inNamespace(lab.namespace("a"), () => kernelAnswers(new Set([VIP as never]), links, arpIgnoreOf)),
      );
    expect(await peer.answersTo(arp.request)).toHaveLength(1);
    expect(await found()).toMatchObject([{ address: VIP, assignedTo: "kube-ipvs0", answersOn: ["lan0"] }]);
    lab.exec("a", "sysctl", "-qw", "net.ipv4.conf.all.arp_ignore=1");
    expect(await peer.answersTo(arp.request)).toEqual([]);
    expect(await found()).toEqual([]);
  });

  it("ND-01: a snooping switch with a querier learns the port, the group is joined once for two VIPs and left with the second", async () => {
    lab = new WireLab();
    lab.bridge("sw", "br0", "mcast_snooping", "1", "mcast_querier", "1");
    lab.plug("a", "lan0", "02:00:00:00:00:0a", ["2001:db8::a/64"], ["sw", "br0"]);
    lab.plug("c", "eth0", "02:00:00:00:00:c1", ["2001:db8::c1/64"], ["sw", "br0"]);
    const a = lab.wire("a");
    a.lease(60_000);
    for (const address of [VIP6, "2001:db8:1::200"]) a.announce(address, ["lan0"]);
    await a.heard("announced", (message) => message.address === "2001:db8:1::200");
    const groups = () => lab.ip("a", "-6", "maddr", "show", "dev", "lan0").match(/ff02::1:ff00:200.*/g) ?? [];
    expect(groups()).toEqual(["ff02::1:ff00:200"]);
    await until(
      "the port in the switch's table",
      () =>
        /p-a-lan0.*ff02::1:ff00:200/.test(lab.exec("sw", "bridge", "mdb", "show", "dev", "br0")) ? true : undefined,
      10_000,
    );
    // The client's kernel asks through the snooping switch and takes the answer.
    lab.tryExec("c", "ping", "-6", "-c", "1", "-W", "1", VIP6);
    await until("a reachable neighbour", () =>
      / lladdr 02:00:00:00:00:0a .*(REACHABLE|STALE|DELAY)/.test(lab.ip("c", "-6", "neigh", "show", VIP6))
        ? true
        : undefined,
    );
    a.send({ type: "withdraw", address: VIP6 as never });
    await a.heard("withdrawn");
    expect(groups()).toHaveLength(1);
    a.send({ type: "withdraw", address: "2001:db8:1::200" as never });
    await a.heard("withdrawn", (message) => message.address === "2001:db8:1::200");
    expect(groups()).toEqual([]);
  });

  it("ND-02: a client's kernel that checks its neighbour every second never loses it", async () => {
    lab = new WireLab();
    lab.bridge("sw", "br0");
    lab.plug("a", "lan0", "02:00:00:00:00:0a", ["2001:db8::a/64", "192.0.2.10/24"], ["sw", "br0"]);
    lab.plug("c", "eth0", "02:00:00:00:00:c1", ["2001:db8::c1/64", "192.0.2.50/24"], ["sw", "br0"]);
    for (const family of ["ipv4", "ipv6"]) {
      lab.exec("c", "sysctl", "-qw", `net.${family}.neigh.eth0.base_reachable_time_ms=1000`);
      lab.exec("c", "sysctl", "-qw", `net.${family}.neigh.eth0.delay_first_probe_time=1`);
    }
    const a = lab.wire("a");
    a.lease(60_000);
    a.announce(VIP, ["lan0"]);
    a.announce(VIP6, ["lan0"]);
    await a.heard("announced", (message) => message.address === VIP6);
    await sleep(5_000);
    const states = new Map<string, number>();
    for (let i = 0; i < 60; i++) {
      // Nobody is at the VIP, so nothing comes back to confirm the neighbour: the kernel has to ask.
      for (const address of [VIP, VIP6]) lab.tryExec("c", "ping", "-c", "1", "-W", "0.001", address);
      for (const line of `${lab.ip("c", "neigh", "show", VIP)}${lab.ip("c", "-6", "neigh", "show", VIP6)}`.split(
        "\n",
      )) {
        const state = line.trim().split(" ").at(-1) ?? "";
        if (state !== "") states.set(state, (states.get(state) ?? 0) + 1);
      }
      await sleep(100);
    }
    for (const bad of ["FAILED", "INCOMPLETE", "NONE"]) expect(states.get(bad) ?? 0).toBeLessThanOrEqual(2);
    expect(states.get("REACHABLE") ?? 0).toBeGreaterThan(10);
    expect(a.counter("replied")).toBeGreaterThan(6);
  });
});

describe.skipIf(!canLab)("ownership on the wire", { timeout: 60_000 }, () => {
  let lab: WireLab;
  let a: WireProcess;
  let peer: Peer;
  afterEach(() => lab.close());

  it("a successor's announcement ends the answers of an owner without a valid Lease", async () => {
    ({ lab, a, peer } = await twoOnALan());
    a.announce(VIP, ["lan0"]);
    await a.heard("announced");
    a.lease(0);
    await peer.ask(arp.request, arp.reply);
    const claim = arp.announceRequest.replaceAll("02000000000a", "02000000000b");
    const since = peer.send(claim);
    const told = await a.heard("claim", () => true, since);
    expect(told).toMatchObject({ address: VIP, mac: "02:00:00:00:00:0b", interface: "lan0", yielded: true });
    expect(told.at - since).toBeLessThan(100);
    expect(await peer.answersTo(arp.request)).toEqual([]);
    // Nobody answers its probe, so in the end it has the address again.
    await a.heard("resumed");
    await peer.ask(arp.request, arp.reply);
  });

  it("after SIGSTOP nothing is said, what was asked meanwhile stays unanswered, and a VIP that moved never draws a frame", async () => {
    ({ lab, a, peer } = await twoOnALan());
    const moved = "192.0.2.201";
    for (const address of [VIP, moved]) a.announce(address, ["lan0"]);
    await a.heard("announced", (message) => message.address === moved);
    await sleep(5_000);
    a.confirms = false;
    a.child.kill("SIGSTOP");
    await sleep(100);
    for (let i = 0; i < 200; i++) peer.send(arp.request);
    await sleep(2_500);
    a.child.kill("SIGCONT");
    const continuedAt = clock.now();
    const { stall, milliseconds } = await a.heard("stalled");
    expect(milliseconds).toBeGreaterThan(2_000);
    expect(await peer.answersTo(arp.request)).toEqual([]);
    a.send({ type: "confirmed", stall, addresses: [VIP as never] });
    await sleep(1_000); // what is asked before the confirmation has arrived is rightly not answered
    await peer.ask(arp.request, arp.reply);
    await sleep(1_500);
    const answered = peer.frames.filter((frame) => frame.at >= continuedAt && frame.hex.startsWith(arp.reply));
    expect(answered).toHaveLength(1);
    expect(peer.frames.filter((frame) => frame.at >= continuedAt && frame.hex.includes("c00002c9"))).toEqual([]);
  });

  it("after SIGSTOP without an API server it asks once and is silent for a second", async () => {
    ({ lab, a, peer } = await twoOnALan());
    a.announce(VIP, ["lan0"]);
    await a.heard("announced");
    await sleep(5_000);
    a.confirms = false;
    a.child.kill("SIGSTOP");
    await sleep(1_500);
    a.child.kill("SIGCONT");
    const { stall } = await a.heard("stalled");
    const since = clock.now();
    a.send({ type: "unconfirmed", stall });
    const ourProbe = arp.probe.replaceAll("0200000000c1", "02000000000a");
    await peer.saw("probe", (seen) => seen === ourProbe, since);
    expect(await peer.answersTo(arp.request, 700)).toEqual([]);
    await peer.saw("announcement", (seen) => seen === arp.announceRequest, since);
    await peer.ask(arp.request, arp.reply);
    expect(peer.frames.filter((frame) => frame.at >= since && frame.hex === ourProbe)).toHaveLength(1);
  });

  it("without NET_RAW there is one clear fault, and the worker lives on", async () => {
    lab = new WireLab();
    lab.bridge("a", "br0");
    const bare = lab.wire("a", "setpriv", "--bounding-set", "-net_raw", "--inh-caps", "-net_raw");
    bare.announce(VIP, ["br0"]);
    // A bridge without ports has no carrier; a port gives it one.
    lab.plug("c", "eth0", "02:00:00:00:00:c1", [], ["a", "br0"]);
    const fault = await bare.heard("fault", ({ message }) => message.includes("EPERM"));
    expect(fault.message).toContain("NET_RAW");
    await sleep(500);
    expect(bare.told.filter(({ type }) => type === "fault").length).toBeLessThanOrEqual(3);
    expect(bare.child.exitCode).toBeNull();
  });
});

import { describe, expect, it } from "vitest";
import { fromHex, toHex } from "../core/bytes.ts";
import { type Instant, instant } from "../core/instant.ts";
import type { Address, Family } from "../net/address.ts";
import type { Mac } from "../net/mac.ts";
import { SimClock } from "../sim/clock.ts";
import { SimSegment } from "../sim/segment.ts";
import { ARP_FRAMES, NDP_FRAMES } from "./frames.fixture.ts";
import { type L2Notice, L2Session } from "./session.ts";

const VIP = "192.0.2.200" as Address;
const VIP6 = "2001:db8::200" as Address;
const BOTH: readonly Family[] = ["IPv4", "IPv6"];
const FOREVER = instant(1e12);

type Links = Record<string, { segment: SimSegment; mac: string; families?: readonly Family[] }>;

/** A speaker's wire in virtual time: a session, its one timer, and its ports in the segments. */
class Node {
  readonly name: string;
  readonly clock: SimClock;
  readonly session: L2Session;
  readonly notices: (L2Notice & { at: number })[] = [];
  readonly groups = new Map<string, number>();
  #links: Links = {};
  #instances = new Map<string, number>();
  frozen = false;
  #kept: (() => void)[] = [];

  constructor(name: string, clock: SimClock, nonce = "000000000001") {
    this.name = name;
    this.clock = clock;
    this.session = new L2Session(
      {
        send: (link, frame) => {
          this.#links[link]?.segment.send(`${name}/${link}`, frame);
          return this.#links[link] !== undefined;
        },
        join: (link, group) => this.groups.set(`${link} ${group}`, (this.groups.get(`${link} ${group}`) ?? 0) + 1),
        leave: (link, group) => this.groups.set(`${link} ${group}`, (this.groups.get(`${link} ${group}`) ?? 0) - 1),
        random: () => 0.5,
        notice: (notice) => this.notices.push({ ...notice, at: clock.now() }),
      },
      nonce,
    );
  }

  /** The links by now; one that is named again after it was left out is a new instance. */
  links(links: Links): this {
    for (const name of Object.keys(this.#links)) this.#links[name]?.segment.detach(`${this.name}/${name}`);
    for (const name of Object.keys(links)) {
      if (this.#links[name] === undefined) this.#instances.set(name, (this.#instances.get(name) ?? 0) + 1);
    }
    this.#links = links;
    for (const [name, { segment }] of Object.entries(links)) {
      segment.attach(`${this.name}/${name}`, (frame) =>
        this.#happen(() => this.session.receive(name, frame, this.clock.now())),
      );
    }
    const open = Object.entries(links).map(([name, { mac, families = BOTH }]) => ({
      name,
      instance: this.#instances.get(name) ?? 0,
      mac: mac as Mac,
      families,
    }));
    this.session.setLinks(open, new Set(open.map(({ mac }) => mac)), this.clock.now());
    this.wake();
    return this;
  }

  announce(address: Address = VIP, term = 1, interfaces = ["lan0"], refreshIntervalSeconds = 60): this {
    this.session.announce({ address, interfaces, term, refreshIntervalSeconds }, this.clock.now());
    this.wake();
    return this;
  }

  do(what: (session: L2Session, now: Instant) => void): this {
    what(this.session, this.clock.now());
    this.wake();
    return this;
  }

  /** SIGSTOP: what comes is queued. */
  freeze(): void {
    this.frozen = true;
  }

  /** SIGCONT as the worker does it: falls silent, then reads what was queued. */
  thaw(): number {
    this.frozen = false;
    const stall = this.session.stalled(this.clock.now());
    for (const kept of this.#kept.splice(0)) kept();
    this.wake();
    return stall;
  }

  wake(): void {
    if (this.frozen) return;
    this.session.tick(this.clock.now());
    const deadline = this.session.nextDeadline();
    if (deadline !== undefined) this.clock.at(deadline, () => this.session.nextDeadline() === deadline && this.wake());
  }

  #happen(what: () => void): void {
    if (this.frozen) this.#kept.push(what);
    else {
      what();
      this.wake();
    }
  }
}

function world() {
  const clock = new SimClock();
  const lan = new SimSegment(clock);
  const heard: string[] = [];
  lan.attach("client", (frame) => heard.push(toHex(frame)));
  const link = (mac: string): Links => ({ lan0: { segment: lan, mac } });
  const a = new Node("a", clock, "00000000000a").links(link("02:00:00:00:00:0a"));
  const b = new Node("b", clock, "00000000000b").links(link("02:00:00:00:00:0b"));
  a.session.renewed(FOREVER);
  b.session.renewed(FOREVER);
  /** Who answers a request by now. */
  const ask = (frame: Uint8Array = ARP_FRAMES.request): string[] => {
    const from = lan.sent.length;
    lan.send("client", frame);
    clock.run(1);
    return lan.sent
      .slice(from)
      .filter((sent) => sent.from !== "client" && toHex(sent.frame).startsWith("0200000000c1"))
      .map((sent) => sent.from);
  };
  /** Frames that the node sent since the instant. */
  const sentBy = (node: string, since = 0) => lan.sent.filter((sent) => sent.from === node && sent.at >= since);
  return { clock, lan, heard, link, a, b, ask, sentBy };
}

const times = (frames: readonly { at: number }[]): number[] => [
  ...new Set(frames.map((frame) => Math.round(frame.at))),
];

describe("taking over", () => {
  it("AR-07: announces in both forms at 0, 1.1, 2.2, 3.3, 4.4 s, then once a minute", () => {
    const { clock, a, sentBy } = world();
    a.announce();
    clock.run(130_000);
    const frames = sentBy("a/lan0");
    expect(times(frames)).toEqual([0, 1100, 2200, 3300, 4400, 64_400, 124_400]);
    expect(frames.slice(0, 2).map(({ frame }) => toHex(frame))).toEqual([
      toHex(ARP_FRAMES.announceRequest),
      toHex(ARP_FRAMES.announceReply),
    ]);
    expect(frames).toHaveLength(14);
  });

  it("ND-04: announces an IPv6 address by unsolicited advertisements", () => {
    const { clock, a, sentBy } = world();
    a.announce(VIP6);
    clock.run(5_000);
    expect(sentBy("a/lan0").map(({ frame }) => toHex(frame))).toEqual(Array(5).fill(toHex(NDP_FRAMES.unsolicited)));
  });

  it("being told the same twice sends nothing, a higher term announces anew, and each term is reported once", () => {
    const { clock, a, sentBy } = world();
    a.announce();
    clock.run(10_000);
    const before = sentBy("a/lan0").length;
    a.announce();
    clock.run(1_000);
    expect(sentBy("a/lan0")).toHaveLength(before);
    a.announce(VIP, 2);
    clock.run(10_000);
    expect(sentBy("a/lan0")).toHaveLength(2 * before);
    expect(a.notices).toEqual([
      { type: "announced", address: VIP, term: 1, interface: "lan0", at: 0 },
      { type: "announced", address: VIP, term: 2, interface: "lan0", at: 11_000 },
    ]);
  });

  it("withdrawing is silent and final, and is confirmed even for a VIP that was never there", () => {
    const { clock, a, ask, sentBy } = world();
    a.announce();
    clock.run(500);
    a.do((session) => session.withdraw(VIP));
    a.do((session) => session.withdraw(VIP6));
    const sent = sentBy("a/lan0").length;
    clock.run(100_000);
    expect(ask()).toEqual([]);
    expect(sentBy("a/lan0")).toHaveLength(sent);
    expect(a.notices.slice(1).map(({ type }) => type)).toEqual(["withdrawn", "withdrawn"]);
  });

  it("many VIPs are announced in turns, and questions about what has been announced are answered between them", () => {
    const { clock, lan, a, ask } = world();
    a.announce();
    clock.run(1);
    for (let i = 0; i < 1000; i++) {
      a.session.announce(
        {
          address: `198.18.${i >> 8}.${i & 255}` as Address,
          interfaces: ["lan0"],
          term: 1,
          refreshIntervalSeconds: 60,
        },
        clock.now(),
      );
    }
    clock.run(3);
    expect(lan.sent.length).toBeLessThanOrEqual(2 * 64 + 2);
    expect(ask()).toEqual(["a/lan0"]);
    clock.run(100);
    expect(a.notices.filter(({ type }) => type === "announced")).toHaveLength(1001);
  });

  it("nothing is answered before the announcement has left: the owner before us may have answered it", () => {
    const { clock, a, ask } = world();
    for (let i = 0; i < 200; i++) {
      const address = `198.18.0.${i}` as Address;
      a.session.announce({ address, interfaces: ["lan0"], term: 1, refreshIntervalSeconds: 60 }, clock.now());
    }
    a.announce();
    expect(ask()).toEqual([]);
    clock.run(100);
    expect(ask()).toEqual(["a/lan0"]);
  });
});

describe("links", () => {
  it("AR-01: answers on the interface where the question came in, with its MAC, and only where it may", () => {
    const clock = new SimClock();
    const [left, right, other] = [new SimSegment(clock), new SimSegment(clock), new SimSegment(clock)];
    const a = new Node("a", clock).links({
      lan0: { segment: left, mac: "02:00:00:00:00:0a" },
      lan1: { segment: right, mac: "02:00:00:00:01:0a" },
      lan2: { segment: other, mac: "02:00:00:00:02:0a" },
    });
    a.session.renewed(FOREVER);
    a.announce(VIP, 1, ["lan0", "lan1"]);
    clock.run(10_000);
    const answers = [left, right, other].map((segment) => {
      const from = segment.sent.length;
      segment.send("client", ARP_FRAMES.request);
      clock.run(1);
      return segment.sent.slice(from + 1).map(({ frame }) => toHex(frame).slice(12, 24));
    });
    expect(answers).toEqual([["02000000000a"], ["02000000010a"], []]);
    expect(a.session.counters["ignored_interface"]).toBe(1);
  });

  it("AR-01: two interfaces in one segment don't take each other's announcements for claims", () => {
    const { clock, lan, a } = world();
    a.links({ lan0: { segment: lan, mac: "02:00:00:00:00:0a" }, lan1: { segment: lan, mac: "02:00:00:00:01:0a" } });
    a.announce(VIP, 1, ["lan0", "lan1"]);
    clock.run(10_000);
    expect(a.session.counters["claims"]).toBeUndefined();
  });

  it.each([
    ["it comes back up", (node: Node, links: Links, others: Links) => void node.links(others).links(links)],
    [
      "its MAC changes",
      (node: Node, links: Links) =>
        void node.links({ ...links, ...(links["lan0"] && { lan0: { ...links["lan0"], mac: "02:00:00:00:00:1a" } }) }),
    ],
  ])("a link is announced on anew when %s, and the other links are left in peace", (_, change) => {
    const { clock, link, a, ask, sentBy } = world();
    const far = new SimSegment(clock);
    const others: Links = { lan1: { segment: far, mac: "02:00:00:00:01:0a" } };
    const links: Links = { ...link("02:00:00:00:00:0a"), ...others };
    a.links(links).announce(VIP, 1, ["lan0", "lan1"]);
    clock.run(20_000);
    const before = sentBy("a/lan0").length;
    const onFar = far.sent.length;
    change(a, links, others);
    clock.run(1);
    expect(ask()).toEqual(["a/lan0"]);
    clock.run(5_000);
    expect(sentBy("a/lan0").length - before).toBe(2 * 5 + 1);
    expect(far.sent).toHaveLength(onFar);
  });

  it("a VIP whose only link was away while the Lease ran out asks before it speaks", () => {
    const { clock, link, a, b, ask } = world();
    a.announce();
    clock.run(10_000);
    a.links({}).session.renewed(clock.now());
    b.announce(VIP, 2);
    clock.run(10_000);
    a.links(link("02:00:00:00:00:0a"));
    expect(ask()).toEqual(["b/lan0"]);
    clock.run(3_000);
    expect(ask()).toEqual(["b/lan0"]);
    expect(a.notices.at(-1)).toMatchObject({ type: "claim", yielded: true });
  });

  it("an interface that appears later is taken up, also when the VIP is announced on more of them than before", () => {
    const { clock, lan, link, a, ask } = world();
    a.links({}).announce();
    clock.run(1_000);
    expect(ask()).toEqual([]);
    a.links(link("02:00:00:00:00:0a"));
    expect(ask()).toEqual(["a/lan0"]);
    a.links({ ...link("02:00:00:00:00:0a"), lan9: { segment: lan, mac: "02:00:00:00:09:0a" } });
    clock.run(10_000);
    a.announce(VIP, 1, ["lan0", "lan9"]);
    clock.run(1);
    expect(a.notices.map((notice) => "interface" in notice && notice.interface)).toEqual(["lan0", "lan9"]);
  });

  it("ND-01: a solicited-node group is joined per VIP and interface, and joined anew with a new interface", () => {
    const { link, a } = world();
    const group = "lan0 ff02::1:ff00:200";
    a.announce(VIP6).announce("2001:db8:1::200" as Address);
    expect(a.groups.get(group)).toBe(2);
    a.do((session) => session.withdraw(VIP6));
    expect(a.groups.get(group)).toBe(1);
    a.links({}).groups.clear();
    a.links(link("02:00:00:00:00:0a"));
    expect(a.groups.get(group)).toBe(1);
  });

  it("a family that comes or goes leaves the other in peace", () => {
    const { clock, lan, a, ask, sentBy } = world();
    const only = (families: Family[]): Links => ({ lan0: { segment: lan, mac: "02:00:00:00:00:0a", families } });
    a.announce().announce(VIP6);
    clock.run(10_000);
    const start = clock.now();
    a.links(only(["IPv4"]));
    clock.run(1_000);
    expect(ask(NDP_FRAMES.unicastSolicitation)).toEqual(["a/lan0"]);
    expect(ask()).toEqual(["a/lan0"]);
    a.links(only(["IPv4", "IPv6"]));
    clock.run(10_000);
    const announcements = sentBy("a/lan0", start).filter(({ frame }) => !toHex(frame).startsWith("0200000000c1"));
    expect(announcements.map(({ frame }) => toHex(frame))).toEqual(Array(5).fill(toHex(NDP_FRAMES.unsolicited)));
  });
});

describe("two nodes", () => {
  it("a successor's first announcement silences an owner without a valid Lease before it answers again", () => {
    const { clock, a, b, ask } = world();
    a.announce();
    clock.run(10_000);
    a.session.renewed(clock.now());
    expect(ask()).toEqual(["a/lan0"]);
    b.announce(VIP, 2);
    expect(ask()).toEqual(["b/lan0"]);
    clock.run(100_000);
    expect(ask()).toEqual(["b/lan0"]);
    expect(a.notices.filter(({ type }) => type === "claim")).toMatchObject([
      { address: VIP, mac: "02:00:00:00:00:0b", interface: "lan0", yielded: true },
    ]);
    expect(b.session.counters["claims"]).toBeUndefined();
  });

  it("an owner with a valid Lease defends against a stranger once per 10 s and reports it", () => {
    const { clock, lan, a, ask, sentBy } = world();
    a.announce(VIP, 1, ["lan0"], 0);
    clock.run(10_000);
    const start = clock.now();
    for (let i = 0; i < 25; i++) {
      lan.send(
        "client",
        fromHex("ffffffffffff 0200000000c1 0806 0001 0800 06 04 0001 0200000000c1 c00002c8 000000000000 c00002c8"),
      );
      clock.run(1_000);
    }
    expect(times(sentBy("a/lan0", start)).map((at) => at - start)).toEqual([0, 10_000, 20_000]);
    expect(a.notices.filter(({ type }) => type === "claim")).toHaveLength(3);
    expect(a.session.counters["claims"]).toBe(25);
    expect(ask()).toEqual(["a/lan0"]);
  });

  it("an API outage moves nothing: the owner answers and refreshes on", () => {
    const { clock, a, ask, sentBy } = world();
    a.announce();
    a.session.renewed(instant(5_000));
    clock.run(200_000);
    expect(ask()).toEqual(["a/lan0"]);
    expect(times(sentBy("a/lan0", 100_000)).slice(0, 2)).toEqual([124_400, 184_400]);
  });

  it("a node that yielded answers again when the other is gone and its probe hears nobody", () => {
    const { clock, lan, a, b, ask } = world();
    a.announce();
    clock.run(10_000);
    a.session.renewed(clock.now());
    b.announce(VIP, 2);
    clock.run(1_000);
    lan.cut("b/lan0");
    clock.run(40_000);
    expect(ask()).toEqual(["a/lan0"]);
    expect(a.notices.at(-1)).toMatchObject({ type: "resumed", address: VIP });
  });

  it("a node that yielded answers again at once when a consistent read names it", () => {
    const { clock, a, b, ask } = world();
    a.announce();
    clock.run(10_000);
    a.session.renewed(clock.now());
    b.announce(VIP, 2);
    clock.run(100);
    b.do((session) => session.withdraw(VIP));
    a.do((session, now) => session.confirmed(0, [VIP], now));
    expect(ask()).toEqual(["a/lan0"]);
    expect(a.notices.map(({ type }) => type)).toEqual(["announced", "claim", "resumed"]);
  });

  it("after a split of the segment heals, exactly one of two answers, and both yielded never stay silent", () => {
    const { clock, lan, a, b, ask } = world();
    a.announce();
    clock.run(10_000);
    lan.cut("a/lan0");
    a.session.renewed(clock.now());
    b.announce(VIP, 2);
    clock.run(30_000);
    b.session.renewed(clock.now());
    lan.heal("a/lan0");
    clock.run(120_000);
    expect(ask()).toHaveLength(1);
  });

  it("two that both yielded settle on one of them", () => {
    const { clock, lan, a, b, ask } = world();
    a.announce();
    b.announce();
    a.session.renewed(instant(0));
    b.session.renewed(instant(0));
    clock.run(1);
    // A stranger takes the address from both, and goes.
    lan.send(
      "client",
      fromHex("ffffffffffff 0200000000c1 0806 0001 0800 06 04 0002 0200000000c1 c00002c8 0200000000c1 c00002c8"),
    );
    clock.run(1);
    expect(ask()).toEqual([]);
    clock.run(60_000);
    expect(ask()).toHaveLength(1);
  });

  it("with a tenth of all frames lost, an owner without a Lease still yields within its successor's burst", () => {
    const { clock, lan, a, b, ask } = world();
    let n = 0;
    lan.loses = () => n++ % 10 === 0;
    a.announce();
    clock.run(10_000);
    a.session.renewed(clock.now());
    b.announce(VIP, 2);
    clock.run(5_000);
    lan.loses = () => false;
    expect(ask()).toEqual(["b/lan0"]);
  });
});

describe("a stall", () => {
  it("nothing is said after it until the main thread has looked, and then it goes on with an announcement", () => {
    const { clock, a, ask, sentBy } = world();
    a.announce();
    clock.run(10_000);
    a.freeze();
    ask();
    clock.run(30_000);
    const resumedAt = clock.now();
    const stall = a.thaw();
    expect(ask()).toEqual([]);
    clock.run(1_000);
    expect(sentBy("a/lan0", resumedAt)).toEqual([]);
    a.do((session, now) => session.confirmed(stall, [VIP], now));
    expect(ask()).toEqual(["a/lan0"]);
  });

  it("L9: a VIP that moved meanwhile never draws a frame again", () => {
    const { clock, a, b, ask, sentBy } = world();
    a.announce();
    clock.run(10_000);
    a.freeze();
    a.session.renewed(clock.now());
    clock.run(10_000);
    b.announce(VIP, 2);
    clock.run(20_000);
    const resumedAt = clock.now();
    const stall = a.thaw();
    expect(ask()).toEqual(["b/lan0"]);
    a.do((session, now) => session.confirmed(stall, [], now));
    clock.run(100_000);
    expect(ask()).toEqual(["b/lan0"]);
    expect(sentBy("a/lan0", resumedAt)).toEqual([]);
  });

  it("when the API server does not answer it asks once, waits a second, and goes on if it hears nobody", () => {
    const { clock, a, ask, sentBy } = world();
    a.announce();
    clock.run(10_000);
    a.freeze();
    clock.run(5_000);
    const stall = a.thaw();
    const start = clock.now();
    a.do((session, now) => session.unconfirmed(stall, now));
    clock.run(900);
    expect(sentBy("a/lan0", start).map(({ frame }) => toHex(frame).slice(56))).toEqual([
      "00000000000000000000c00002c8",
    ]);
    expect(ask()).toEqual([]);
    clock.run(200);
    expect(ask()).toEqual(["a/lan0"]);
  });

  it("when the API server does not answer and somebody has the address, it yields", () => {
    const { clock, a, b, ask } = world();
    a.announce(VIP6);
    clock.run(10_000);
    a.freeze();
    clock.run(5_000);
    b.announce(VIP6, 2);
    // The successor's burst is over before the queue is read: only the probe can find it.
    clock.run(5_000);
    const stall = a.thaw();
    a.do((session, now) => session.unconfirmed(stall, now));
    clock.run(5_000);
    expect(ask(NDP_FRAMES.unicastSolicitation)).toEqual([]);
    expect(a.notices.at(-1)).toMatchObject({ type: "claim", yielded: true });
    expect(b.notices.map(({ type }) => type)).toEqual(["announced"]);
  });

  it("what is announced while a stall is open waits for it, an answer to an older stall is nothing", () => {
    const { clock, a, ask } = world();
    const first = a.thaw();
    const second = a.thaw();
    a.announce();
    a.do((session, now) => session.confirmed(first, [VIP], now));
    expect(ask()).toEqual([]);
    a.do((session, now) => session.confirmed(second, [VIP], now));
    expect(ask()).toEqual(["a/lan0"]);
    clock.run(1);
  });

  it("a VIP that the record no longer names stays silent until it is announced anew", () => {
    const { clock, a, ask } = world();
    a.announce();
    clock.run(10_000);
    const stall = a.thaw();
    a.do((session, now) => session.confirmed(stall, [], now));
    expect(ask()).toEqual([]);
    a.announce();
    expect(ask()).toEqual(["a/lan0"]);
  });

  it("when not even the main thread answers, it probes by itself after 5 s", () => {
    const { clock, a, ask } = world();
    a.announce();
    clock.run(10_000);
    a.thaw();
    clock.run(4_900);
    expect(ask()).toEqual([]);
    clock.run(1_200);
    expect(ask()).toEqual(["a/lan0"]);
  });
});

import { spawn } from "node:child_process";
import { once } from "node:events";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { eventually } from "../../lab/eventually.ts";
import type { LabNode } from "../../lab/network.ts";
import type { Resident } from "../../lab/resident.ts";
import type { Address } from "../net/address.ts";
import type { BucketCount, VipPlan } from "../plan/vip-plan.ts";
import { balance, canRun, deal, endpoint, type LabPod, openPlaneLab, type PlaneLab, VIP, vip } from "./lab.fixture.ts";
import type { PlaneActions } from "./plane.fixture.ts";
import type { Applied } from "./session.ts";

const able = await canRun();

/** Everything that `nft -j list ruleset` says, elements and handles aside. */
type Listed = Record<string, { elem?: unknown; handle?: number; name?: string; table?: string }>;

describe.skipIf(!able)("the table", () => {
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
    await lab.route(one);
    plane = await lab.plane(one);
  });
  afterAll(() => lab?.close());

  const list = async (): Promise<Listed[]> =>
    (JSON.parse(await lab.inside(node, "nft", "-j", "list", "ruleset")) as { nftables: Listed[] }).nftables;
  const skeleton = async (): Promise<string> =>
    JSON.stringify(await list(), (key, value) => (key === "elem" || key === "handle" ? undefined : value));
  const elementsOf = async (set: string): Promise<number> => {
    const found = (await list()).flatMap((object) => [object["set"], object["map"]]).find((one) => one?.name === set);
    return (found?.elem as unknown[] | undefined)?.length ?? 0;
  };
  const at = (pod: LabPod, family: "IPv4" | "IPv6" = "IPv4") => endpoint(pod, family, node);
  const around = () => lab.surroundings(node);
  const start = async (options: { plain?: boolean; largeMap?: number } = {}) => {
    await plane.call("die");
    await eventually("the table is free again", 3000, async () => (await plane.call("start", options)).ok);
  };
  const answers = (family: "IPv4" | "IPv6" = "IPv4") =>
    lab.client.call("ask", "TCP", VIP[family], 80, 1000).then((outcome) => outcome.type);
  const simple = vip(VIP.IPv4, balance("TCP", 80, [{ address: "198.18.1.2" as Address, port: 8080, local: true }]));

  /** Lines of `nft monitor` while `work` runs. */
  const monitored = async (work: () => Promise<unknown>): Promise<string[]> => {
    const monitor = spawn("ip", ["netns", "exec", node.namespace, "nft", "monitor"], {
      stdio: ["ignore", "pipe", "ignore"],
    });
    let text = "";
    monitor.stdout.setEncoding("utf8").on("data", (chunk: string) => {
      text += chunk;
    });
    await delay(700);
    await work();
    await delay(500);
    monitor.kill();
    await once(monitor, "exit");
    return text.split("\n").filter((line) => line.trim() !== "");
  };

  /** A VIP of its own shape for each number: both families, every bucket count, ranges, affinity, all actions. */
  const variety = (number: number): VipPlan => {
    const family = number % 2 === 0 ? "IPv4" : "IPv6";
    const address = (
      family === "IPv4" ? `203.0.113.${number % 250}` : `2001:db8:0:f::${(number + 16).toString(16)}`
    ) as Address;
    const counts: BucketCount[] = number % 50 === 0 ? [1, 16, 64, 256, 1024] : [1, 16];
    return vip(
      number < 500 ? address : (address.replace("203.0.113", "203.0.112") as Address),
      ...counts.map((count, i) =>
        balance("TCP", 1000 + i, deal(count, [at(here, family), at(there, family)]), {
          ...(number % 3 === 0 && { affinity: "ClientIP" as const }),
          ...(number % 5 === 0 && { outside: number % 10 === 0 ? "drop" : deal(16, [at(here, family)]) }),
          ...(number % 7 === 0 && { sourceRanges: [family === "IPv4" ? "192.0.2.0/24" : "2001:db8::/32"] }),
        }),
      ),
      balance("UDP", 53, [at(here, family)]),
      { protocol: "TCP", port: 2, sourceRanges: [], action: { type: number % 2 === 0 ? "pass" : "refuse" } },
    );
  };

  test("rules, chains and sets are the same after 1 and after 1,000 VIPs of every shape", async () => {
    await start();
    await plane.call("adopt", [variety(0)], around());
    const before = await skeleton();
    const plans = new Map(Array.from({ length: 1000 }, (_, i) => variety(i)).map((plan) => [plan.address, plan]));
    const applied = await plane.call("apply", [...plans], around());
    expect(applied).toMatchObject({ failed: new Map() });
    expect(await elementsOf("vip4")).toBeGreaterThan(200);
    expect(await skeleton()).toBe(before);
    expect(
      await plane.call(
        "apply",
        [...plans.keys()].map((address) => [address, undefined] as const),
      ),
    ).toMatchObject({
      failed: new Map(),
    });
    const listed = (await list()).flatMap((object) => [object["set"], object["map"]]);
    const kept = listed.filter((one) => one?.elem !== undefined).map((one) => one?.name);
    expect(kept.sort()).toEqual(["cluster4", "cluster6", "own-pods4", "own-pods6"]);
    expect(await skeleton()).toBe(before);
  });

  test("one endpoint change is one transaction with that VIP's elements only", async () => {
    await start();
    const plan = (buckets: ReturnType<typeof deal>) => vip(VIP.IPv4, balance("TCP", 80, buckets));
    const two = [at(here), at(there)];
    const [a, b] = [deal(16, two), [...deal(16, two)]];
    for (const bucket of [1, 5, 9]) b[bucket] = { ...at(there), address: "198.18.2.77" as Address };
    await plane.call("adopt", [plan(a), variety(3), variety(4)], around());
    const lines = await monitored(() => plane.call("apply", [[VIP.IPv4, plan(b)]]));
    expect(lines.filter((line) => line.includes("new generation"))).toHaveLength(1);
    const elements = lines.filter((line) => line.includes("element"));
    expect(elements).toHaveLength(6);
    expect(elements.every((line) => line.includes("endpoint4") && line.includes(VIP.IPv4))).toBe(true);
    expect(await monitored(() => plane.call("apply", [[VIP.IPv4, plan(b)]]))).toEqual([]);
  });

  test("a restart with nothing changed writes nothing but its claim", async () => {
    await start();
    const plans = [variety(7), variety(10), variety(50), simple];
    await plane.call("adopt", plans, around());
    await plane.call("die");
    const lines = await monitored(async () => {
      await start();
      expect(await plane.call("adopt", plans, around())).toMatchObject({ added: 0, deleted: 0 });
    });
    expect(lines.filter((line) => line.includes("element") || line.includes("rule") || line.includes("chain"))).toEqual(
      [],
    );
    expect(lines.filter((line) => line.includes("new generation"))).toHaveLength(1);
  });

  test("a restart mends what was changed while no speaker lived, in one transaction", async () => {
    await start();
    await plane.call("adopt", [simple, variety(8)], around());
    await plane.call("die");
    await lab.inside(node, "nft", "delete element inet belfry frontend4 { 203.0.113.10 . tcp . 80 }");
    await lab.inside(node, "nft", "add element inet belfry vip4 { 203.0.113.99 }");
    await start();
    const lines = await monitored(async () => {
      expect(await plane.call("adopt", [simple, variety(8)], around())).toMatchObject({ added: 1, deleted: 1 });
    });
    expect(lines.filter((line) => line.includes("new generation"))).toHaveLength(1);
    expect(await answers()).toBe("answer");
  });

  test.each([
    ["a rule added", "add rule inet belfry guard4 accept"],
    ["a rule put first", "insert rule inet belfry translate4 accept"],
    ["a chain emptied", "flush chain inet belfry masquerade4"],
    ["a set added", "add set inet belfry other { type ipv4_addr; }"],
    ["a chain added", "add chain inet belfry other"],
    ["the table deleted", "delete table inet belfry"],
    ["everything flushed", "flush ruleset"],
  ])("a table that another version or hand left (%s) is replaced whole", async (_, command) => {
    await start();
    await plane.call("adopt", [simple], around());
    const before = await skeleton();
    await plane.call("die");
    await lab.inside(node, "nft", command);
    await start();
    expect(await plane.call("adopt", [simple], around())).toMatchObject({ rebuilt: expect.any(String) });
    expect(await skeleton()).toBe(before);
    expect(await answers()).toBe("answer");
  });

  test("while a speaker lives nobody can flush or change the table, and a second speaker is told so", async () => {
    await start();
    await plane.call("adopt", [simple], around());
    await lab.inside(node, "nft", "flush ruleset");
    await expect(lab.inside(node, "nft", "delete table inet belfry")).rejects.toThrow("not permitted");
    expect(await answers()).toBe("answer");
    const second = await lab.plane(node);
    expect(await second.call("start")).toMatchObject({
      ok: false,
      fault: { message: expect.stringContaining("another speaker lives") },
    });
    await plane.call("die");
    await eventually("the second speaker takes over", 3000, async () => (await second.call("start")).ok);
    expect(await second.call("adopt", [simple], around())).toMatchObject({ added: 0, deleted: 0 });
    await second.call("die");
    await second.close();
  });

  test.each<[string, (sixteen: readonly string[]) => readonly string[], Partial<Applied>]>([
    ["left as it was", () => [], { added: 0, deleted: 0 }],
    ["with an element gone", ([one]) => [`delete element inet belfry endpoint4 { ${one} }`], { added: 1, deleted: 0 }],
    [
      "with an element of other data",
      ([one]) => [
        `delete element inet belfry endpoint4 { ${one} }`,
        `add element inet belfry endpoint4 { ${one} : 198.18.9.9 . 1 }`,
      ],
      { added: 1, deleted: 1 },
    ],
    [
      "with an element too many",
      () => ["add element inet belfry endpoint4 { 198.51.100.7 . tcp . 80 . 3 : 198.18.9.9 . 1 }"],
      { added: 0, deleted: 1 },
    ],
    [
      "with all of these",
      ([one, two]) => [
        `delete element inet belfry endpoint4 { ${one}, ${two} }`,
        `add element inet belfry endpoint4 { ${one} : 198.18.9.9 . 1, 198.51.100.7 . tcp . 80 . 3 : 198.18.9.9 . 1 }`,
      ],
      { added: 2, deleted: 2 },
    ],
  ])("a large map %s is right after a restart, by the smallest change", async (_, commands, expected) => {
    const many = Array.from({ length: 90 }, (_, i) =>
      vip(`203.0.113.${i + 100}` as Address, balance("TCP", 80, deal(16, [at(here), at(there)]))),
    );
    const wanted = [simple, ...many];
    await start();
    await plane.call("adopt", wanted, around());
    const before = await lab.inside(node, "nft", "list map inet belfry endpoint4");
    await plane.call("die");
    const keys = [3, 12].map((bucket) => `203.0.113.150 . tcp . 80 . ${bucket}`);
    for (const command of commands(keys)) await lab.inside(node, "nft", command);
    await start({ largeMap: 1000 });
    const lines = await monitored(async () => {
      expect(await plane.call("adopt", wanted, around())).toMatchObject(expected);
    });
    const changed = (expected.added ?? 0) + (expected.deleted ?? 0);
    expect(lines.filter((line) => line.includes(" element ")).length).toBe(changed);
    const sorted = (text: string) =>
      text
        .split(/[,{}]/)
        .map((it) => it.trim())
        .sort();
    expect(sorted(await lab.inside(node, "nft", "list map inet belfry endpoint4"))).toEqual(sorted(before));
    expect(await answers()).toBe("answer");
  });

  test("a replaced table drops no connection on the way", async () => {
    await start();
    await plane.call("adopt", [simple], around());
    await lab.client.call("openStreams", VIP.IPv4, 80, 20);
    await lab.client.call("beatStreams", 20);
    await plane.call("die");
    await lab.inside(node, "nft", "add rule inet belfry guard4 accept");
    await start();
    expect(await plane.call("adopt", [simple], around())).toMatchObject({ rebuilt: expect.any(String) });
    await delay(300);
    const { streams, broken, sent, received } = await lab.client.call("closeStreams");
    expect({ streams, broken, lost: sent - received }).toEqual({ streams: 20, broken: [], lost: 0 });
  });

  test.each([
    ["flushed", "flush ruleset"],
    ["deleted", "delete table inet belfry"],
    ["robbed of an element", "delete element inet belfry frontend4 { 203.0.113.10 . tcp . 80 }"],
    ["given a rule", "insert rule inet belfry translate4 accept"],
  ])("plain mode: a table that is %s is right again at once", async (_, command) => {
    await plane.call("die");
    await lab.inside(node, "nft", "flush ruleset");
    expect(await plane.call("start", { plain: true })).toEqual({ ok: true, mode: "plain" });
    await plane.call("adopt", [simple], around());
    expect(await answers()).toBe("answer");
    await plane.call("repairs");
    await lab.inside(node, "nft", command);
    expect(await eventually("repaired", 2000, async () => (await plane.call("repairs"))[0])).not.toHaveProperty(
      "fault",
    );
    expect(await answers()).toBe("answer");
    await delay(300);
    expect(await plane.call("repairs")).toEqual([]);
    const lines = await monitored(() => plane.call("apply", [[VIP.IPv4, simple]]));
    expect(lines).toEqual([]);
  });

  test("plain mode: the watch is told what others do, and nothing of what this speaker does itself", async () => {
    await start({ plain: true });
    await plane.call("adopt", [simple], around());
    await plane.call("told");
    await plane.call("apply", [[VIP.IPv4, undefined]]);
    await plane.call("apply", [[VIP.IPv4, simple]]);
    await delay(200);
    expect(await plane.call("told")).toBe(0);
    await lab.inside(node, "nft", "add table ip other; delete table ip other");
    await eventually("told", 2000, async () => (await plane.call("told")) > 0);
    expect(await plane.call("repairs")).toEqual([]);
  });

  test("plain and owned speakers take over from each other", async () => {
    await start({ plain: true });
    await plane.call("adopt", [simple], around());
    await start();
    expect(await plane.call("adopt", [simple], around())).toMatchObject({ rebuilt: expect.stringContaining("owner") });
    expect(await lab.inside(node, "nft", "list table inet belfry")).toContain("flags owner");
    expect(await answers()).toBe("answer");
    await start({ plain: true });
    expect(await plane.call("adopt", [simple], around())).toMatchObject({ added: 0, deleted: 0 });
    expect(await answers()).toBe("answer");
  });

  test("DP-04: a VIP that the kernel refuses does not hold up the others", async () => {
    await start();
    await plane.call("adopt", [simple], around());
    const other = "203.0.113.20" as Address;
    // Two frontends of one key: the kernel has one element for both and refuses the second.
    const twice = vip(other, balance("TCP", 80, [at(here)]), balance("TCP", 80, deal(16, [at(here), at(there)])));
    const good = vip("203.0.113.21" as Address, balance("TCP", 80, [at(here)]));
    const applied = await plane.call("apply", [
      [other, twice],
      [good.address, good],
    ]);
    expect(applied).toMatchObject({ failed: new Map([[other, { what: expect.stringContaining(other) }]]) });
    expect(await lab.client.call("ask", "TCP", good.address, 80)).toMatchObject({ type: "answer" });
    expect(await answers()).toBe("answer");
    expect(await elementsOf("vip4")).toBe(2);
  });

  test("others' chains at the forward hook that drop by policy are found, with or without a rule that accepts", async () => {
    await start();
    expect(await plane.call("droppingForwardChains")).toEqual([]);
    const chain = "chain FORWARD { type filter hook forward priority 0; policy drop; }";
    await lab.inside(
      node,
      "nft",
      `table ip filter { ${chain}; chain INPUT { type filter hook input priority 0; policy drop; }; }`,
    );
    await lab.inside(node, "nft", `table inet firewall { ${chain}; }`);
    await lab.inside(node, "nft", "add rule inet firewall FORWARD iifname azv* accept");
    await lab.inside(node, "nft", "table bridge b { chain f { type filter hook forward priority 0; policy drop; }; }");
    expect(await plane.call("droppingForwardChains")).toEqual([
      { chain: "ip filter FORWARD", accepts: false },
      { chain: "inet firewall FORWARD", accepts: true },
    ]);
    await lab.inside(node, "nft", "delete table ip filter; delete table inet firewall; delete table bridge b");
  });

  test("DP-21: without the capability NET_ADMIN the start is one clear Fault", async () => {
    const script = `
      import { NETLINK_NETFILTER, openNetlink } from "./src/host/netlink-socket.ts";
      import { DataPlane } from "./src/nft/session.ts";
      const netlink = openNetlink({ protocol: NETLINK_NETFILTER });
      import { clock } from "./src/host/clock.ts";
      const pause = async () => undefined;
      console.log(JSON.stringify(await new DataPlane({ netlink, clock, pause }).start()));
      netlink.close();`;
    const user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    const told = await lab.inside(node, ...(user as [string]), process.execPath, "--input-type=module", "-e", script);
    expect(JSON.parse(told)).toEqual({
      ok: false,
      fault: { what: "nftables on this node", message: "not permitted: the speaker needs the capability NET_ADMIN" },
    });
  });

  test("200 other VIPs come and go three times without one refused connection", async () => {
    await start();
    await plane.call("adopt", [simple], around());
    const plans = Array.from({ length: 200 }, (_, i) => variety(i + 20)).filter((plan) => plan.address !== VIP.IPv4);
    const asked = lab.client.call("survey", "TCP", VIP.IPv4, 80, 600, 20);
    for (let round = 0; round < 3; round++) {
      await plane.call(
        "apply",
        plans.map((plan) => [plan.address, plan] as const),
      );
      await plane.call(
        "apply",
        plans.map((plan) => [plan.address, undefined] as const),
      );
    }
    expect(await asked).toEqual({ here: 600 });
  });
});

import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ip, tryRun } from "../../lab/command.ts";
import type { LabNode } from "../../lab/network.ts";
import type { Resident } from "../../lab/resident.ts";
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
const FAMILIES = ["IPv4", "IPv6"] as const;

describe.skipIf(!able)("traffic through the real table", () => {
  let lab: PlaneLab;
  let [one, two]: LabNode[] = [];
  let plane: Resident<PlaneActions>;
  let here: LabPod;
  let alsoHere: LabPod;
  let there: LabPod;

  beforeAll(async () => {
    lab = await openPlaneLab();
    [one, two] = lab.network.nodes as [LabNode, LabNode];
    here = await lab.pod(one, "here", 2);
    alsoHere = await lab.pod(one, "also-here", 3);
    there = await lab.pod(two, "there", 2);
    await lab.serveOnNode(one, "the-node", 8080);
    await lab.serveOnNode(one, "the-node", 22);
    await lab.route(one);
    plane = await lab.plane(one);
    expect(await plane.call("start")).toEqual({ ok: true, mode: "owned" });
  });
  afterAll(() => lab?.close());

  const node = (): LabNode => one as LabNode;
  /** From here on the node holds exactly these VIPs. */
  const hold = async (...plans: VipPlan[]): Promise<void> => {
    const applied = await plane.call("adopt", plans, lab.surroundings(node()));
    expect(applied).toMatchObject({ failed: new Map() });
    await plane.call("flowsCleaned");
  };
  const at = (pod: LabPod, family: "IPv4" | "IPv6") => endpoint(pod, family, node());

  test.each(FAMILIES)("200 connections over %s reach exactly the usable endpoints, TCP and UDP", async (family) => {
    const buckets = deal(16, [at(here, family), at(there, family)]);
    await hold(vip(VIP[family], balance("TCP", 80, buckets), balance("UDP", 53, buckets)));
    for (const [protocol, port] of [
      ["TCP", 80],
      ["UDP", 53],
    ] as const) {
      const names = await lab.client.call("survey", protocol, VIP[family], port, 200);
      expect(Object.keys(names).sort()).toEqual(["here", "there"]);
      expect(Math.min(...Object.values(names))).toBeGreaterThan(60);
    }
  });

  test.each(FAMILIES)("%s: a local endpoint sees the client, a remote one this node", async (family) => {
    const address = family === "IPv4" ? ("lanIPv4" as const) : ("lanIPv6" as const);
    for (const [pod, seen] of [
      [here, lab.network.client[address]],
      [there, node()[address]],
    ] as const) {
      await hold(vip(VIP[family], balance("TCP", 80, [at(pod, family)]), balance("UDP", 53, [at(pod, family)])));
      for (const [protocol, port] of [
        ["TCP", 80],
        ["UDP", 53],
      ] as const) {
        expect(await lab.client.call("ask", protocol, VIP[family], port)).toEqual({
          type: "answer",
          text: `${pod.name} ${seen}`,
        });
      }
    }
  });

  test.each(FAMILIES)("%s: pods and the node itself reach a VIP, an endpoint itself by hairpin", async (family) => {
    const inPod = await lab.asker(here.namespace);
    const onNode = await lab.asker(node().namespace);
    await hold(vip(VIP[family], balance("TCP", 80, [at(there, family)])));
    // The pod network routes back by this node, so nothing needs to be masqueraded.
    expect(await inPod.call("ask", "TCP", VIP[family], 80)).toEqual({ type: "answer", text: `there ${here[family]}` });
    expect(await onNode.call("ask", "TCP", VIP[family], 80)).toMatchObject({ type: "answer" });
    await hold(vip(VIP[family], balance("TCP", 80, [at(here, family)])));
    const gateway = node().podCIDRs[family === "IPv4" ? 0 : 1].replace("0/24", "1").replace("::/64", "::1");
    expect(await inPod.call("ask", "TCP", VIP[family], 80)).toEqual({ type: "answer", text: `here ${gateway}` });
    expect(await onNode.call("ask", "TCP", VIP[family], 80)).toMatchObject({ type: "answer" });
    await inPod.close();
    await onNode.close();
  });

  test.each(FAMILIES)(
    "%s: pods on one bridge reach each other, whether it hands packets to netfilter or not",
    async (family) => {
      const inPod = await lab.asker(here.namespace);
      const setting = family === "IPv4" ? "bridge-nf-call-iptables" : "bridge-nf-call-ip6tables";
      await hold(
        vip(VIP[family], balance("TCP", 80, [at(alsoHere, family)]), balance("UDP", 53, [at(alsoHere, family)])),
      );
      for (const calls of [true, false]) {
        await lab.inside(node(), "sh", "-c", `echo ${calls ? 1 : 0} > /proc/sys/net/bridge/${setting}`);
        await plane.call("apply", [], {
          ...lab.surroundings(node()),
          bridgeNetfilter: { IPv4: calls, IPv6: calls },
        });
        for (const [protocol, port] of [
          ["TCP", 80],
          ["UDP", 53],
        ] as const) {
          const outcome = await inPod.call("ask", protocol, VIP[family], port);
          expect(outcome).toMatchObject({ type: "answer" });
          if (calls) expect(outcome).toMatchObject({ text: `also-here ${here[family]}` });
        }
      }
      await lab.inside(node(), "sh", "-c", `echo 1 > /proc/sys/net/bridge/${setting}`);
      await inPod.close();
    },
  );

  test.each(FAMILIES)(
    "DP-09 DP-10: %s: what is not declared, or has no endpoint, is refused and reaches nothing on the node",
    async (family) => {
      await hold(
        vip(
          VIP[family],
          balance("TCP", 80, [at(here, family)]),
          {
            protocol: "TCP",
            port: 81,
            sourceRanges: [],
            action: { type: "refuse" },
          },
          { protocol: "UDP", port: 81, sourceRanges: [], action: { type: "refuse" } },
        ),
      );
      for (const port of [22, 8080, 30080, 81]) {
        expect(await lab.client.call("ask", "TCP", VIP[family], port)).toEqual({
          type: "refused",
          code: "ECONNREFUSED",
        });
      }
      await new Promise((resolve) => setTimeout(resolve, 1100)); // port unreachables come about once a second
      for (const port of [53, 81]) {
        expect(await lab.client.call("ask", "UDP", VIP[family], port)).toEqual({
          type: "refused",
          code: "ECONNREFUSED",
        });
      }
    },
  );

  test.each(FAMILIES)("%s: dead weight refuses its share and nothing else", async (family) => {
    await hold(vip(VIP[family], balance("TCP", 80, deal(16, [at(here, family), undefined]))));
    const names = await lab.client.call("survey", "TCP", VIP[family], 80, 200);
    expect(Object.keys(names).sort()).toEqual(["here", "refused"]);
    expect(Math.min(...Object.values(names))).toBeGreaterThan(60);
  });

  test.each(FAMILIES)(
    "DP-20: %s: a VIP answers echo requests, also where the interface has no address of the family",
    async (family) => {
      await hold(vip(VIP[family], balance("TCP", 80, [at(here, family)])));
      const ping = (count: number) =>
        tryRun("ip", [
          "netns",
          "exec",
          lab.network.client.namespace,
          "ping",
          "-c",
          `${count}`,
          "-i",
          "0.2",
          "-W",
          "1",
          VIP[family],
        ]);
      expect((await ping(3)).stdout).toContain("3 received");
      const onNode = await tryRun("ip", ["netns", "exec", node().namespace, "ping", "-c", "1", "-W", "1", VIP[family]]);
      expect(onNode.stdout).toContain("1 received");
      if (family === "IPv4") {
        await ip(node().namespace, [
          `address del ${node().lanIPv4}/24 dev eth0`,
          `route replace 192.0.2.0/24 dev eth0`,
        ]);
        await ip(lab.network.client.namespace, [`neigh replace ${node().lanIPv4} lladdr ${node().mac} dev eth0`]);
        const index = Number(await lab.inside(node(), "cat", "/sys/class/net/eth0/ifindex"));
        expect((await ping(1)).stdout).toContain("0 received");
        const target = node().managementIPv4 as typeof VIP.IPv4;
        const around = { ...lab.surroundings(node()), echoTargets: [{ interfaceIndex: index, address: target }] };
        await plane.call("apply", [], around);
        expect((await ping(2)).stdout).toContain("2 received");
        await ip(node().namespace, [
          `address add ${node().lanIPv4}/24 dev eth0`,
          `route replace default via ${lab.network.router.lanIPv4}`,
          `route replace ${two?.podCIDRs[0]} via ${two?.lanIPv4}`,
        ]);
        await ip(lab.network.client.namespace, [`neigh del ${node().lanIPv4} dev eth0`]);
      }
    },
  );

  test.each(FAMILIES)("%s: ClientIP affinity sends every connection of one client to one endpoint", async (family) => {
    const buckets = deal(16, [at(here, family), at(alsoHere, family), at(there, family)]);
    await hold(vip(VIP[family], balance("TCP", 80, buckets, { affinity: "ClientIP" })));
    const names = await lab.client.call("survey", "TCP", VIP[family], 80, 40);
    expect(Object.values(names)).toEqual([40]);
  });

  test("I-22 DP-02 DP-03: source ranges hold for each address, for pods too, and before translation", async () => {
    const inPod = await lab.asker(here.namespace);
    const onNode = await lab.asker(node().namespace);
    const ranged = (address: typeof VIP.IPv4, ...sourceRanges: string[]) => {
      const family = address.includes(":") ? "IPv6" : "IPv4";
      return vip(address, balance("TCP", 8080, [at(here, family)], { sourceRanges }));
    };
    const outside = "203.0.113.0/25";
    const ask = (from: Resident<import("../../lab/client-resident.ts").ClientActions>, address: string) =>
      from.call("ask", "TCP", address, 8080, 700).then((outcome) => outcome.type);
    const addresses = [VIP.IPv4, OTHER_VIP.IPv4];
    // The client is 192.0.2.100, the node 192.0.2.11, the pod 198.18.1.2.
    await hold(...addresses.map((address) => ranged(address, outside, "192.0.2.0/26")));
    for (const address of addresses) {
      expect([await ask(lab.client, address), await ask(onNode, address), await ask(inPod, address)]).toEqual([
        "silent",
        "answer",
        "silent",
      ]);
    }
    await hold(
      ...addresses.map((address) => ranged(address, outside, "192.0.2.0/24", "192.0.2.0/26", "198.18.0.0/15")),
    );
    for (const address of addresses) {
      expect([await ask(lab.client, address), await ask(onNode, address), await ask(inPod, address)]).toEqual([
        "answer",
        "answer",
        "answer",
      ]);
    }
    await hold(ranged(VIP.IPv6, "2001:db8:9::/64"));
    expect(await ask(lab.client, VIP.IPv6)).toBe("silent");
    await hold(ranged(VIP.IPv6, "2001:db8:9::/64", "2001:db8:0:1::/64"));
    expect(await ask(lab.client, VIP.IPv6)).toBe("answer");
    await inPod.close();
    await onNode.close();
  });

  test.each(FAMILIES)(
    "I-22: %s: LocalOnly without a local endpoint drops the outside and serves the cluster",
    async (family) => {
      const inPod = await lab.asker(here.namespace);
      const onNode = await lab.asker(node().namespace);
      await hold(vip(VIP[family], balance("TCP", 80, [at(there, family)], { outside: "drop" })));
      expect(await lab.client.call("ask", "TCP", VIP[family], 80, 700)).toEqual({ type: "silent" });
      expect(await inPod.call("ask", "TCP", VIP[family], 80)).toMatchObject({ type: "answer" });
      expect(await onNode.call("ask", "TCP", VIP[family], 80)).toMatchObject({ type: "answer" });
      const all = deal(16, [at(here, family), at(there, family)]);
      await hold(vip(VIP[family], balance("TCP", 80, all, { outside: [at(here, family)] })));
      expect(await lab.client.call("survey", "TCP", VIP[family], 80, 40)).toEqual({ here: 40 });
      const names = await inPod.call("survey", "TCP", VIP[family], 80, 60);
      expect(Object.keys(names).sort()).toEqual(["here", "there"]);
      await inPod.close();
      await onNode.close();
    },
  );
});

/** Real speakers in namespaces on the embedded API, with VirtualIPs written by hand: no controller runs. */
import { existsSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { afterEach, describe, expect, test } from "vitest";
import { type LabPod, must, put } from "../lab/cluster.ts";
import { eventually } from "../lab/eventually.ts";
import { createLab, type Lab, type LabOptions } from "../lab/lab.ts";
import { type LabNode, setManagementCable } from "../lab/network.ts";
import { L2ADVERTISEMENT, SPEAKERSTATUS, VIRTUALIP } from "../src/api/resource.ts";
import type { SpeakerStatus } from "../src/api/speaker-status.ts";
import type { Forward, VirtualIP } from "../src/api/virtual-ip.ts";
import { isOlder } from "../src/core/resource-version.ts";

const isRoot = process.getuid?.() === 0;
const LAN = { apiVersion: "belfry.dev/v1alpha1", kind: "L2Advertisement", metadata: { name: "lan" }, spec: {} };

let lab: Lab | undefined;
afterEach(async ({ task }) => {
  if (task.result?.state === "fail") {
    for (const [node, program] of lab?.speakers ?? []) console.error(`--- speaker of ${node}\n${program.log()}`);
  }
  await lab?.close();
  lab = undefined;
});

async function createStarted(options: LabOptions): Promise<Lab> {
  const made = await createLab(options);
  lab = made;
  await made.startApi();
  await put(made.api, L2ADVERTISEMENT, LAN);
  return made;
}

async function started(options: LabOptions): Promise<Lab> {
  const made = await createStarted(options);
  for (const node of made.nodes) made.startSpeaker(node);
  await eventually("every speaker is ready", 20_000, async () => {
    for (const node of made.nodes) if (!(await made.speakerIsReady(node))) return false;
    return true;
  });
  return made;
}

const forward = (more: Partial<Forward> = {}): Partial<Forward> => ({
  protocol: "TCP",
  port: 80,
  backends: [{ kind: "Service", namespace: "demo", name: "web", portName: "", weight: 1 }],
  ...more,
});

const vip = (address: string, forwards: Partial<Forward>[] = [forward()]): VirtualIP =>
  ({
    apiVersion: "belfry.dev/v1alpha1",
    kind: "VirtualIP",
    metadata: { name: address.replaceAll(":", "-"), finalizers: ["belfry.dev/withdraw"] },
    spec: { address, scope: "External", advertisements: { l2: ["lan"] }, forwards },
  }) as unknown as VirtualIP;

const read = async (lab: Lab, name: string): Promise<VirtualIP> =>
  must("get", await lab.api.get<VirtualIP>(VIRTUALIP, { name }));

const speakerStatus = async (lab: Lab, node: string): Promise<SpeakerStatus> =>
  must("get", await lab.api.get<SpeakerStatus>(SPEAKERSTATUS, { name: node }));

const nodeAt = (lab: Lab, index: number): LabNode => {
  const node = lab.nodes[index];
  if (node === undefined) throw new Error(`no node ${index}`);
  return node;
};

/** A Service `demo/web` with a pod on each of the nodes. */
async function withPods(lab: Lab, nodes: readonly LabNode[]): Promise<LabPod[]> {
  const pods: LabPod[] = [];
  for (const [i, node] of nodes.entries()) pods.push(await lab.startPod(`pod-${"abcdef"[i]}`, node));
  await endpoints(lab, pods);
  return pods;
}

const endpoints = (lab: Lab, pods: readonly LabPod[]): Promise<void> =>
  lab.setEndpoints({ namespace: "demo", name: "web" }, [{ name: "", protocol: "TCP", port: 8080 }], pods);

const ownerOf = (lab: Lab, name: string, not?: string) =>
  eventually(`an owner of ${name}`, 15_000, async () => {
    const owner = (await read(lab, name)).status?.owner;
    return owner !== undefined && owner.node !== not ? owner : undefined;
  });

const asks = async (lab: Lab, address: string): Promise<string> => {
  const client = await lab.client();
  return JSON.stringify(await client.call("ask", "TCP", address, 80, 3000));
};

const table = (lab: Lab, node: LabNode): Promise<string> =>
  lab.exec(node.namespace, "nft", "list", "table", "inet", "belfry");

describe.skipIf(!isRoot)(`speaker${isRoot ? "" : " (skipped: needs root for network namespaces)"}`, () => {
  test("one VIP, from nothing to gone: programmed, recorded, announced, answered by the pod; withdrawn, unprogrammed, reported", async () => {
    const lab = await started({ nodes: 1 });
    const node = nodeAt(lab, 0);
    await withPods(lab, [node]);
    await put(lab.api, VIRTUALIP, vip("192.0.2.200"));
    expect(await ownerOf(lab, "192.0.2.200")).toMatchObject({
      node: node.name,
      term: 1,
      generation: 1,
      interface: "eth0",
    });
    expect(await asks(lab, "192.0.2.200")).toContain("pod-a");
    expect(await lab.neighbour("192.0.2.200")).toBe(node.mac);

    const released = must("delete", await lab.api.delete(VIRTUALIP, { name: "192.0.2.200" }));
    const through = await eventually("the speaker reports the withdrawal", 5000, async () => {
      const version = (await speakerStatus(lab, node.name)).status?.withdrawnThrough;
      return version !== undefined && !isOlder(version, released.metadata.resourceVersion ?? "") ? version : undefined;
    });
    expect(through).toBeDefined();
    expect(await table(lab, node)).not.toContain("192.0.2.200");
    const client = await lab.client();
    expect(await lab.stillAnswered(client, "192.0.2.200")).toBe(false);
  });

  test("killed and started again within its Lease, the speaker adopts: no write, no change of the table, the same term", async () => {
    const lab = await started({ nodes: 2 });
    const [a, b] = [nodeAt(lab, 0), nodeAt(lab, 1)];
    const pods = await withPods(lab, [a, b, b]);
    await put(lab.api, VIRTUALIP, vip("192.0.2.200"));
    const owner = await ownerOf(lab, "192.0.2.200");
    // Two of three endpoints: the bucket count in force is now more than two alone would get.
    await endpoints(lab, pods.slice(0, 2));
    const node = lab.node(owner.node);
    await eventually(
      "the change is in the table",
      5000,
      async () => !(await table(lab, node)).includes(pods[2]?.ipv4 ?? ""),
    );
    // The pods' links came up a moment ago, and a status is written once a second at most.
    await delay(2500);
    const before = {
      table: await table(lab, node),
      vip: (await read(lab, "192.0.2.200")).metadata.resourceVersion,
      statuses: await Promise.all(
        lab.nodes.map(async (it) => (await speakerStatus(lab, it.name)).metadata.resourceVersion),
      ),
    };
    await lab.speakers.get(node.name)?.end("SIGKILL");
    const again = lab.startSpeaker(node);
    await eventually("the speaker is ready again", 10_000, () => lab.speakerIsReady(node));
    await delay(4000);
    expect(again.log()).toMatch(/"added":0,"deleted":0.*adopted the nftables table/);
    expect(await table(lab, node)).toBe(before.table);
    expect((await read(lab, "192.0.2.200")).metadata.resourceVersion).toBe(before.vip);
    expect(
      await Promise.all(lab.nodes.map(async (it) => (await speakerStatus(lab, it.name)).metadata.resourceVersion)),
    ).toEqual(before.statuses);
    expect(await asks(lab, "192.0.2.200")).toContain("pod-");
  });

  test("FO-06: the owner dies, the other takes over once; it comes back, nothing moves", async () => {
    const lab = await started({ nodes: 2 });
    const [a, b] = [nodeAt(lab, 0), nodeAt(lab, 1)];
    await withPods(lab, [a, b]);
    await put(lab.api, VIRTUALIP, vip("192.0.2.200"));
    const first = lab.node((await ownerOf(lab, "192.0.2.200")).node);
    const other = first === a ? b : a;
    await endpoints(
      lab,
      [...lab.pods.values()].filter((pod) => pod.node === other.name),
    );
    await lab.killNode(first);
    const second = await ownerOf(lab, "192.0.2.200", first.name);
    expect(second).toMatchObject({ node: other.name, term: 2, generation: 1 });
    await eventually("the client meets the other node", 5000, async () =>
      (await asks(lab, "192.0.2.200")).includes("pod-"),
    );
    expect(await lab.neighbour("192.0.2.200")).toBe(other.mac);
    const { resourceVersion } = (await read(lab, "192.0.2.200")).metadata;
    await lab.reviveNode(first);
    await eventually("it is back", 15_000, () => lab.speakerIsReady(first));
    await delay(3000);
    expect((await read(lab, "192.0.2.200")).metadata.resourceVersion).toBe(resourceVersion);
  });

  test("FO-13, I-20 row 6: LocalOnly follows the endpoint, and without one nobody answers", async () => {
    const lab = await started({ nodes: 2 });
    const [a, b] = [nodeAt(lab, 0), nodeAt(lab, 1)];
    const [podA, podB] = await withPods(lab, [a, b]);
    if (podA === undefined || podB === undefined) throw new Error("no pods");
    await endpoints(lab, [podA]);
    await put(lab.api, VIRTUALIP, vip("192.0.2.200", [forward({ nodes: "LocalOnly" })]));
    expect((await ownerOf(lab, "192.0.2.200")).node).toBe(a.name);
    expect(await asks(lab, "192.0.2.200")).toContain("pod-a");
    await endpoints(lab, [podB]);
    expect((await ownerOf(lab, "192.0.2.200", a.name)).node).toBe(b.name);
    await eventually("the client meets the other pod", 5000, async () =>
      (await asks(lab, "192.0.2.200")).includes("pod-b"),
    );
    await endpoints(lab, []);
    await eventually("the owner says why it is silent", 5000, async () =>
      (await speakerStatus(lab, b.name)).status?.failing?.some(({ reason }) => reason.startsWith("NoLocalEndpoints")),
    );
    expect(await lab.stillAnswered(await lab.client(), "192.0.2.200")).toBe(false);
  });

  test("DP-20: an echo request on an interface without an address of its family is answered, also when the interface comes later", async () => {
    const lab = await started({ nodes: 1 });
    const node = nodeAt(lab, 0);
    const { namespace: client } = lab.network.client;
    await withPods(lab, [node]);
    await put(lab.api, VIRTUALIP, vip("192.0.2.200"));
    await put(lab.api, VIRTUALIP, vip("2001:db8:0:1::200"));
    for (const name of ["192.0.2.200", "2001-db8-0-1--200"]) await ownerOf(lab, name);
    await lab.exec(
      node.namespace,
      "ip",
      "link",
      "add",
      "bare",
      "type",
      "veth",
      "peer",
      "name",
      "bare",
      "netns",
      client,
    );
    await lab.exec(node.namespace, "ip", "link", "set", "bare", "up");
    await lab.exec(client, "ip", "link", "set", "bare", "up");
    const mac = (await lab.exec(node.namespace, "cat", "/sys/class/net/bare/address")).trim();
    for (const [address, length] of [
      ["192.0.2.200", 32],
      ["2001:db8:0:1::200", 128],
    ] as const) {
      const from = length === 32 ? lab.network.client.lanIPv4 : lab.network.client.lanIPv6;
      await lab.exec(client, "ip", "route", "add", `${address}/${length}`, "dev", "bare", "src", from);
      await lab.exec(client, "ip", "neigh", "replace", address, "lladdr", mac, "dev", "bare");
      const ping = ["ping", "-c", "1", "-W", "1", address];
      const answered = await eventually(`${address} answers`, 5000, () =>
        lab.exec(client, ...ping).catch(() => undefined),
      );
      expect(answered).toContain("1 received");
    }
  });

  test("pods behind one bridge see each other's address exactly while the bridge hands its packets to netfilter", async ({
    skip,
  }) => {
    if (!existsSync("/proc/sys/net/bridge")) skip("this kernel has no br_netfilter");
    const lab = await createStarted({ nodes: 1 });
    const node = nodeAt(lab, 0);
    const [asked, asking] = [await lab.startPod("pod-a", node), await lab.startPod("pod-b", node)];
    await endpoints(lab, [asked]);
    await put(lab.api, VIRTUALIP, vip("192.0.2.200"));
    const inPod = await lab.residentIn(lab.podNamespace("pod-b"));
    const set = (value: 0 | 1) =>
      lab.exec(node.namespace, "sh", "-c", `echo ${value} > /proc/sys/net/bridge/bridge-nf-call-iptables`);
    for (const [value, seen] of [
      [0, node.podCIDRs[0].replace("0/24", "1")],
      [1, asking.ipv4],
    ] as const) {
      await set(value);
      await lab.speakers.get(node.name)?.end("SIGKILL");
      lab.startSpeaker(node);
      await eventually("the speaker is ready", 20_000, () => lab.speakerIsReady(node));
      const outcome = await eventually("the pod answers", 10_000, async () => {
        const outcome = await inPod.call("ask", "TCP", "192.0.2.200", 80, 1000);
        return outcome.type === "answer" ? outcome : undefined;
      });
      expect(outcome).toEqual({ type: "answer", text: `pod-a ${seen}` });
    }
    const plainBridge = ["nft", "list", "set", "inet", "belfry", "plain-bridge"];
    expect(await lab.exec(node.namespace, ...plainBridge)).not.toContain("ipv4");
    await set(0);
    await eventually("the change is seen while the speaker lives", 20_000, async () =>
      (await lab.exec(node.namespace, ...plainBridge)).includes("ipv4"),
    );
  });

  test("a node that does not forward says how to fix it and is no candidate; fixed, it is one", async () => {
    const lab = await createStarted({ nodes: 1 });
    const node = nodeAt(lab, 0);
    await withPods(lab, [node]);
    await lab.exec(node.namespace, "sysctl", "-qw", "net.ipv4.ip_forward=0");
    lab.startSpeaker(node);
    await eventually("the condition", 15_000, async () =>
      (await speakerStatus(lab, node.name)).status?.conditions?.some(
        ({ type, status, message }) =>
          type === "DataPathReady" && status === "False" && message.includes("sysctl -w net.ipv4.ip_forward=1"),
      ),
    );
    await put(lab.api, VIRTUALIP, vip("192.0.2.200"));
    await delay(1500);
    expect((await read(lab, "192.0.2.200")).status?.owner).toBeUndefined();
    await lab.exec(node.namespace, "sysctl", "-qw", "net.ipv4.ip_forward=1");
    expect((await ownerOf(lab, "192.0.2.200")).node).toBe(node.name);
  });

  test("a FORWARD chain that lets nothing through, and a VIP on an interface of the node (AR-06): each is a condition with its fix", async () => {
    const lab = await createStarted({ nodes: 1 });
    const node = nodeAt(lab, 0);
    const nft = (...command: string[]) => lab.exec(node.namespace, "nft", ...command);
    await nft("add", "table", "ip", "filter");
    await nft("add", "chain", "ip", "filter", "FORWARD", "{ type filter hook forward priority 0; policy drop; }");
    lab.startSpeaker(node);
    const condition = (type: string, status: string, part: string) =>
      eventually(`${type}=${status}`, 20_000, async () =>
        (await speakerStatus(lab, node.name)).status?.conditions?.some(
          (it) => it.type === type && it.status === status && it.message.includes(part),
        ),
      );
    await condition("DataPathReady", "False", "ip filter FORWARD");
    await lab.exec(node.namespace, "ip", "link", "add", "kube-ipvs0", "type", "veth", "peer", "name", "ipvs-peer");
    await lab.exec(node.namespace, "ip", "link", "set", "kube-ipvs0", "arp", "off");
    await lab.exec(node.namespace, "ip", "address", "add", "192.0.2.200/32", "dev", "kube-ipvs0");
    await put(lab.api, VIRTUALIP, vip("192.0.2.200"));
    await condition("KernelSilent", "False", "arp_ignore=1");
    const { failing } = (await speakerStatus(lab, node.name)).status ?? {};
    expect(failing?.find((it) => it.vip === "192.0.2.200")?.reason).toContain("kube-ipvs0");
  });

  test("the API server away for 20 s: traffic and answers go on, nothing moves", async () => {
    const lab = await started({ nodes: 2 });
    await withPods(lab, lab.nodes);
    await put(lab.api, VIRTUALIP, vip("192.0.2.200"));
    const owner = lab.node((await ownerOf(lab, "192.0.2.200")).node);
    expect(await asks(lab, "192.0.2.200")).toContain("pod-");
    const { resourceVersion } = (await read(lab, "192.0.2.200")).metadata;
    for (const node of lab.nodes) await setManagementCable(lab.network, node, "down");
    await delay(20_000);
    expect(await lab.stillAnswered(await lab.client(), "192.0.2.200")).toBe(true);
    expect(await lab.neighbour("192.0.2.200")).toBe(owner.mac);
    expect(await asks(lab, "192.0.2.200")).toContain("pod-");
    for (const node of lab.nodes) await setManagementCable(lab.network, node, "up");
    await eventually("both are ready again", 60_000, async () => {
      for (const node of lab.nodes) if (!(await lab.speakerIsReady(node))) return false;
      return true;
    });
    await delay(8000);
    expect((await read(lab, "192.0.2.200")).metadata.resourceVersion).toBe(resourceVersion);
    expect(await lab.neighbour("192.0.2.200")).toBe(owner.mac);
  });
});

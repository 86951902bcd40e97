/** Real speakers in namespaces on the embedded API, with VirtualIPs written by hand: no controller runs. */
import { afterEach, describe, expect, test } from "vitest";
import { must, put } from "../lab/cluster.ts";
import { eventually } from "../lab/eventually.ts";
import { createLab, type Lab, type LabOptions } from "../lab/lab.ts";
import { L2ADVERTISEMENT, VIRTUALIP } from "../src/api/resource.ts";
import type { Forward, VirtualIP } from "../src/api/virtual-ip.ts";

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

async function started(options: LabOptions): Promise<Lab> {
  const made = await createLab(options);
  lab = made;
  await made.startApi();
  await put(made.api, L2ADVERTISEMENT, LAN);
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

describe.skipIf(!isRoot)(`speaker${isRoot ? "" : " (skipped: needs root for network namespaces)"}`, () => {
  test("one VIP, IPv4 TCP: programmed, recorded, announced, and a client reaches the pod", async () => {
    const lab = await started({ nodes: 1 });
    const [node] = lab.nodes;
    if (node === undefined) throw new Error("no node");
    const pod = await lab.startPod("pod-a", node);
    await lab.setEndpoints({ namespace: "demo", name: "web" }, [{ name: "", protocol: "TCP", port: 8080 }], [pod]);
    await put(lab.api, VIRTUALIP, vip("192.0.2.200"));
    const recorded = await eventually(
      "the record names the node",
      5000,
      async () => (await read(lab, "192.0.2.200")).status?.owner,
    );
    expect(recorded).toMatchObject({ node: node.name, term: 1, generation: 1, interface: "eth0" });
    const client = await lab.client();
    const answer = await client.call("ask", "TCP", "192.0.2.200", 80, 3000);
    expect(JSON.stringify(answer)).toContain("pod-a");
    expect(await lab.neighbour("192.0.2.200")).toBe(node.mac);
  });
});

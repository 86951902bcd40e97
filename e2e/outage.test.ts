import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { neighbourFrames } from "../lab/capture.ts";
import { must } from "../lab/cluster.ts";
import { ip } from "../lab/command.ts";
import { DEMO, ownerOf, virtualIPs } from "../lab/demo.ts";
import { eventually } from "../lab/eventually.ts";
import { setManagementCable } from "../lab/network.ts";
import { GATEWAY } from "../src/api/resource.ts";
import { type DemoLab, probeFrame, startDemoLab } from "./demo-lab.ts";

let demo: DemoLab;

beforeAll(async () => {
  demo = await startDemoLab();
});
afterAll(() => demo?.lab.close());

test("controller and API server away for 60 s: traffic and answers go on, and nothing moves", async () => {
  const { lab, gateway } = demo;
  const client = await lab.client();
  const before = await virtualIPs(lab);
  const owners = new Map(
    [gateway.IPv4, gateway.IPv6].map((address) => [
      address,
      before.find((vip) => vip.spec.address === address)?.status?.owner?.node,
    ]),
  );
  for (const controller of lab.controllers) await controller.end("SIGKILL");
  await ip(lab.network.management, ["link set cp down"]);
  const capture = await lab.capture(lab.network.client, ["arp", "or", "icmp6"]);
  await client.call("startDrum", "probe", "eth0", [gateway.IPv4, gateway.IPv6].map(probeFrame), 250);
  await client.call("openStreams", gateway.IPv4, 80, 20);
  await client.call("beatStreams", 100);
  for (let second = 0; second < 60; second += 5) {
    await delay(5000);
    const names = await client.call("survey", "TCP", gateway.IPv6, 80, 20);
    expect(Object.keys(names).sort(), `after ${second} s`).toEqual(["web-a", "web-b"]);
  }
  await client.call("stopDrum", "probe");
  const streams = await client.call("closeStreams");
  const frames = neighbourFrames(await capture.stop());
  await ip(lab.network.management, ["link set cp up"]);
  expect(streams.broken).toEqual([]);
  expect(streams.received).toBe(streams.sent);
  for (const [address, owner] of owners) {
    const answers = frames.filter(
      (frame) =>
        (frame.kind === "arp-reply" ? frame.sender : frame.target) === address &&
        ["arp-reply", "na"].includes(frame.kind),
    );
    expect(answers.length).toBeGreaterThan(200);
    expect([...new Set(answers.map((frame) => lab.nodeOfMac(frame.source)?.name))]).toEqual([owner]);
  }
  lab.startController("controller-c");
  for (const node of lab.nodes) {
    await eventually(`the speaker of ${node.name} is back`, 8000, () => lab.speakerIsReady(node));
  }
  await delay(8000);
  const after = await virtualIPs(lab);
  expect(after.map((vip) => [vip.spec.address, vip.status?.owner?.node, vip.status?.owner?.term])).toEqual(
    before.map((vip) => [vip.spec.address, vip.status?.owner?.node, vip.status?.owner?.term]),
  );
});

test("a speaker that is cut from the API server keeps the address of a deleted VIP out of use, and is named", async () => {
  const { lab, gateway } = demo;
  const owner = await ownerOf(lab, gateway.IPv4);
  if (owner === undefined) throw new Error("no owner");
  const node = lab.node(owner);
  await setManagementCable(lab.network, node, "down");
  must("gateway", await lab.api.delete(GATEWAY, { namespace: DEMO, name: "web" }));
  const releasing = await eventually("the VirtualIP says who holds it back", 30_000, async () => {
    const vip = (await virtualIPs(lab)).find((each) => each.spec.address === gateway.IPv4);
    return vip?.status?.conditions?.find(({ type, status }) => type === "Releasing" && status === "True");
  });
  expect(releasing.message).toContain(owner);
  await delay(5000);
  expect((await virtualIPs(lab)).map((vip) => vip.spec.address)).toContain(gateway.IPv4);
  await setManagementCable(lab.network, node, "up");
  await eventually("it is released when the speaker is back", 40_000, async () =>
    (await virtualIPs(lab)).every((vip) => vip.spec.address !== gateway.IPv4),
  );
});

import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { virtualIPs } from "../lab/demo.ts";
import { eventually } from "../lab/eventually.ts";
import { type DemoLab, startDemoLab } from "./demo-lab.ts";

let demo: DemoLab;

beforeAll(async () => {
  demo = await startDemoLab();
});
afterAll(() => demo?.lab.close());

test("a speaker killed and started within its Lease under 200 connections breaks none and loses no byte", async () => {
  const { lab, gateway } = demo;
  const client = await lab.client();
  const before = await virtualIPs(lab);
  const names = await client.call("openStreams", gateway.IPv4, 80, 200);
  expect(Object.keys(names).sort()).toEqual(["web-a", "web-b"]); // one endpoint is local to the owner, the other is not, or both are remote
  await client.call("beatStreams", 100);
  await delay(1000);
  for (const node of lab.nodes) {
    await lab.speakers.get(node.name)?.end("SIGKILL");
    lab.startSpeaker(node);
    await eventually(`the speaker of ${node.name} is ready`, 20_000, () => lab.speakerIsReady(node));
  }
  await delay(2000);
  const result = await client.call("closeStreams");
  expect(result.broken).toEqual([]);
  expect(result.received).toBe(result.sent);
  expect(result.sent).toBeGreaterThan(200 * 20);
  const after = await virtualIPs(lab);
  expect(after.map((vip) => vip.metadata.resourceVersion)).toEqual(before.map((vip) => vip.metadata.resourceVersion));
});

import { type ChildProcess, spawn } from "node:child_process";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { DEMO, ownerOf, PORTS } from "../lab/demo.ts";
import { eventually } from "../lab/eventually.ts";
import type { LabNode } from "../lab/network.ts";
import { startProgram } from "../lab/program.ts";
import { type DemoLab, ON_KUBE, startDemoLab } from "./demo-lab.ts";

let demo: DemoLab;
let owner: LabNode;

beforeAll(async () => {
  demo = await startDemoLab();
  owner = demo.lab.node((await ownerOf(demo.lab, demo.gateway.IPv4)) ?? "");
});
afterAll(() => demo?.lab.close());

async function expectTraffic(why: string): Promise<void> {
  const client = await demo.lab.client();
  for (const address of [demo.gateway.IPv4, demo.gateway.IPv6]) {
    const names = await client.call("survey", "TCP", address, 80, 40);
    expect(Object.keys(names).sort(), why).toEqual(["web-a", "web-b"]);
  }
}

const flush = () => demo.lab.exec(owner.namespace, "nft", "flush", "ruleset");

test("flushing the ruleset while the speaker lives touches nothing of ours", async () => {
  await flush();
  await expectTraffic("right after the flush");
});

test("flushing it while the speaker is dead: the next one rebuilds it", async () => {
  const { lab } = demo;
  await lab.speakers.get(owner.name)?.end("SIGKILL");
  await flush();
  lab.startSpeaker(owner);
  await eventually("the speaker is ready", 20_000, () => lab.speakerIsReady(owner));
  await expectTraffic("after the restart");
});

test("elements that somebody changed while no speaker lived are mended", async () => {
  const { lab } = demo;
  await lab.speakers.get(owner.name)?.end("SIGKILL");
  await lab.exec(owner.namespace, "nft", "delete", "table", "inet", "belfry");
  await lab.exec(owner.namespace, "nft", "add", "table", "inet", "belfry");
  await lab.exec(
    owner.namespace,
    "nft",
    "add",
    "chain",
    "inet",
    "belfry",
    "foreign",
    "{ type filter hook prerouting priority 0; }",
  );
  lab.startSpeaker(owner);
  await eventually("the speaker is ready", 20_000, () => lab.speakerIsReady(owner));
  await expectTraffic("after the restart");
  expect(await lab.exec(owner.namespace, "nft", "list", "table", "inet", "belfry")).not.toContain("chain foreign");
});

test("a second speaker on the node waits, says why, and harms nothing", async () => {
  const { lab } = demo;
  const second = startProgram(lab.claim, {
    name: "speaker-second",
    namespace: owner.namespace,
    process: "speaker",
    args: ["--node-name", owner.name, "--kubeconfig", lab.kubeconfig, "--metrics-bind", "127.0.0.1:9199"],
  });
  await delay(5000);
  expect(second.running, second.log()).toBe(true);
  expect(second.log()).toMatch(/another speaker/i);
  await expectTraffic("with a second speaker");
  await second.end();
  await delay(1000);
  await expectTraffic("after the second speaker left");
});

test.skipIf(ON_KUBE)("one endpoint change is one transaction, with elements of that VIP alone", async () => {
  const { lab } = demo;
  const [a, b] = [lab.pods.get("web-a"), lab.pods.get("web-b")];
  if (a === undefined || b === undefined) throw new Error("no pods");
  const monitor = startMonitor(owner.namespace);
  await delay(300);
  await lab.setEndpoints({ namespace: DEMO, name: "legacy" }, PORTS, [a]);
  await delay(1000);
  const text = monitor.stop();
  // Two EndpointSlices, one per family, are two events; each is at most one generation.
  const generations = text.match(/# new generation \d+/g) ?? [];
  expect(generations.length).toBeGreaterThan(0);
  expect(generations.length).toBeLessThanOrEqual(2);
  expect(text).toContain(demo.service.IPv4);
  expect(text).not.toContain(demo.gateway.IPv4);
  expect(text).not.toMatch(/(add|delete) (rule|chain|set|map|table)/);
  await lab.setEndpoints({ namespace: DEMO, name: "legacy" }, PORTS, [a, b]);
});

test("in plain mode a flush is noticed and the table rebuilt", async () => {
  const { lab } = demo;
  await lab.speakers.get(owner.name)?.end("SIGTERM");
  await lab.exec(owner.namespace, "nft", "flush", "ruleset");
  await lab.exec(owner.namespace, "sh", "-c", "nft delete table inet belfry 2>/dev/null || true");
  lab.startSpeaker(owner, ["--nft-plain"]);
  await eventually("the speaker is ready", 20_000, () => lab.speakerIsReady(owner));
  await expectTraffic("plain mode");
  await flush();
  await eventually("the table is back", 5000, async () =>
    (await lab.exec(owner.namespace, "nft", "list", "tables")).includes("inet belfry"),
  );
  await delay(200);
  await expectTraffic("after a flush in plain mode");
});

function startMonitor(namespace: string): { stop(): string } {
  const child: ChildProcess = spawn("ip", ["netns", "exec", namespace, "nft", "monitor"], {
    stdio: ["ignore", "pipe", "ignore"],
  });
  if (child.pid !== undefined) demo.lab.claim.process(child.pid);
  let text = "";
  child.stdout?.setEncoding("utf8").on("data", (chunk) => {
    text += chunk;
  });
  return {
    stop() {
      child.kill("SIGKILL");
      return text;
    },
  };
}

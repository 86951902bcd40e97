import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { neighbourFrames, startCapture } from "./capture.ts";
import { type Claim, claimLab, removeStaleLabs } from "./claim.ts";
import type { ClientActions } from "./client-resident.ts";
import { run, tryRun } from "./command.ts";
import { eventually } from "./eventually.ts";
import { attachPod, buildNetwork, type Network, setLanCable } from "./network.ts";
import type { PodActions } from "./pod-resident.ts";
import { NODE, REPOSITORY } from "./program.ts";
import { type Resident, startResident } from "./resident.ts";

let claim: Claim;
let network: Network;
let client: Resident<ClientActions>;
const residents: { close(): Promise<void> }[] = [];

beforeAll(async () => {
  claim = claimLab();
  network = await buildNetwork(claim, 2);
  client = await startResident<ClientActions>(
    network.client.namespace,
    new URL("./client-resident.ts", import.meta.url),
  );
  residents.push(client);
});

afterAll(async () => {
  await Promise.all(residents.map((resident) => resident.close()));
  await claim.release();
});

test("a client reaches a pod through its node, over both families and protocols, and hears its name", async () => {
  const node = network.nodes[0];
  if (node === undefined) throw new Error("no node");
  const namespace = `belfry-${claim.id}-pod-one`;
  const pod = await attachPod(claim, node, namespace, 2);
  const resident = await startResident<PodActions>(namespace, new URL("./pod-resident.ts", import.meta.url));
  residents.push(resident);
  await resident.call("serve", "one", 8080);
  await run("ip", ["-n", network.client.namespace, "route", "add", node.podCIDRs[0], "via", node.lanIPv4]);
  await run("ip", ["-n", network.client.namespace, "-6", "route", "add", node.podCIDRs[1], "via", node.lanIPv6]);
  for (const protocol of ["TCP", "UDP"] as const) {
    expect(await client.call("ask", protocol, pod.ipv4, 8080)).toEqual({ type: "answer", text: "one 192.0.2.100" });
    expect(await client.call("ask", protocol, pod.ipv6, 8080)).toEqual({
      type: "answer",
      text: "one 2001:db8:0:1::100",
    });
    expect(await client.call("ask", protocol, pod.ipv4, 8081)).toMatchObject({ type: "refused" });
  }
  expect(await client.call("survey", "TCP", pod.ipv6, 8080, 30)).toEqual({ one: 30 });
  await client.call("openStreams", pod.ipv4, 8080, 5);
  await client.call("beatStreams", 20);
  await new Promise((resolve) => setTimeout(resolve, 300));
  const streams = await client.call("closeStreams");
  expect(streams).toMatchObject({ streams: 5, broken: [] });
  expect(streams.received).toBe(streams.sent);
  expect(streams.sent).toBeGreaterThan(20);
});

test("a capture shows who asked and who answered", async () => {
  const capture = await startCapture(claim, network.client.namespace, "eth0", ["arp"]);
  await run("ip", ["-n", network.client.namespace, "neigh", "flush", "all"]);
  await client.call("ask", "TCP", "192.0.2.12", 1);
  const frames = neighbourFrames(await capture.stop());
  expect(frames.find((frame) => frame.kind === "arp-request" && frame.target === "192.0.2.12")).toBeDefined();
  expect(frames.find((frame) => frame.kind === "arp-reply" && frame.sender === "192.0.2.12")?.source).toBe(
    network.nodes[1]?.mac,
  );
});

test("a node with its cable out is silent, and back when it is in again", async () => {
  const node = network.nodes[1];
  if (node === undefined) throw new Error("no node");
  await setLanCable(network, node, "down");
  expect(await client.call("ask", "TCP", node.lanIPv4, 1, 500)).toEqual({ type: "silent" });
  await setLanCable(network, node, "up");
  expect(await client.call("ask", "TCP", node.lanIPv4, 1)).toMatchObject({ type: "refused" });
});

test("what a killed lab left is removed at the next start, and what a living one holds is not", async () => {
  const script = `
    const { claimLab } = await import("${REPOSITORY}/lab/claim.ts");
    const { makeNamespace } = await import("${REPOSITORY}/lab/network.ts");
    const { spawn } = await import("node:child_process");
    const claim = claimLab();
    await makeNamespace(claim, "belfry-" + claim.id + "-orphan");
    const child = spawn("sleep", ["300"], { detached: true, stdio: "ignore" });
    claim.process(child.pid);
    console.log(JSON.stringify({ id: claim.id, pid: child.pid }));
    process.kill(process.pid, "SIGKILL");`;
  const dead = (() => {
    try {
      return execFileSync(NODE, ["--input-type=module", "-e", script], { encoding: "utf8" });
    } catch (error) {
      return (error as { stdout: string }).stdout;
    }
  })();
  const { id, pid } = JSON.parse(dead) as { id: string; pid: number };
  expect(existsSync(`/run/netns/belfry-${id}-orphan`)).toBe(true);
  expect(await removeStaleLabs()).toContain(id);
  expect(existsSync(`/run/netns/belfry-${id}-orphan`)).toBe(false);
  // A machine whose init does not reap leaves a zombie; that is dead enough.
  await eventually("the orphaned process is dead", 5000, async () =>
    /^(Z.*)?$/.test((await tryRun("ps", ["-o", "stat=", "-p", `${pid}`])).stdout.trim()),
  );
  expect(existsSync(`/run/netns/${network.client.namespace}`)).toBe(true);
});

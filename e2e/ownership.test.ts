import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { claims, type NeighbourFrame, neighbourFrames } from "../lab/capture.ts";
import { ownerOf } from "../lab/demo.ts";
import { eventually } from "../lab/eventually.ts";
import type { Lab } from "../lab/lab.ts";
import { type LabNode, setManagementCable } from "../lab/network.ts";
import { toHex } from "../src/core/bytes.ts";
import { type DemoLab, probeFrame, startDemoLab } from "./demo-lab.ts";

let demo: DemoLab;

beforeAll(async () => {
  demo = await startDemoLab();
});
afterAll(() => demo?.lab.close());

/** Runs a fault against the owner of the IPv4 VIP while the client asks every 50 ms, and gives what the wire saw. */
async function watchMove(
  fault: (owner: LabNode) => Promise<void>,
  seconds: number,
  restore: (owner: LabNode) => Promise<void>,
) {
  const { lab, gateway } = demo;
  const addresses = [gateway.IPv4, gateway.IPv6];
  const client = await lab.client();
  const before = lab.node((await ownerOf(lab, gateway.IPv4)) ?? "");
  const capture = await lab.capture(lab.network.client, ["arp", "or", "icmp6"]);
  await client.call("startDrum", "probe", "eth0", addresses.map(probeFrame), 50);
  await delay(1000);
  await fault(before);
  await delay(seconds * 1000);
  await restore(before);
  await delay(5000);
  await client.call("stopDrum", "probe");
  return { before, frames: neighbourFrames(await capture.stop()), addresses };
}

/** No single request is answered by two MACs: between two of our probes for an address at most one MAC answers. */
function expectOneAnswerPerRequest(lab: Lab, frames: readonly NeighbourFrame[], address: string): void {
  let answered = new Set<string>();
  let requests = 0;
  for (const frame of frames) {
    if (frame.source === lab.network.client.mac && frame.target === address) {
      answered = new Set();
      requests++;
    } else if (frame.destination === lab.network.client.mac && claims(frame, address)) {
      answered.add(frame.source);
      expect(answered.size, `request ${requests} for ${address} was answered by ${[...answered]}`).toBe(1);
    }
  }
  expect(requests).toBeGreaterThan(20);
}

/** The old owner's last answer comes at most 100 ms after the first announcement of the new owner. */
function expectHandOver(lab: Lab, frames: readonly NeighbourFrame[], address: string, before: LabNode): LabNode {
  const taken = frames.find((frame) => claims(frame, address) && frame.source !== before.mac);
  const after = lab.nodeOfMac(taken?.source);
  if (taken === undefined || after === undefined) throw new Error(`nobody took ${address} over from ${before.name}`);
  const late = frames.filter(
    (frame) => claims(frame, address) && frame.source === before.mac && frame.at > taken.at + 0.1,
  );
  expect(late, `${before.name} still answers for ${address}`).toEqual([]);
  return after;
}

const ownsBoth = async (node: LabNode) => (await ownerOf(demo.lab, demo.gateway.IPv4)) === node.name;

describe("the wire as the client sees it, while the owner", () => {
  test("is killed and stays away: another one takes over, and never two answer", async () => {
    const { lab } = demo;
    const { before, frames, addresses } = await watchMove(
      async (owner) => void (await lab.speakers.get(owner.name)?.end("SIGKILL")),
      12,
      async (owner) => void lab.startSpeaker(owner),
    );
    for (const address of addresses) expectOneAnswerPerRequest(lab, frames, address);
    const after = expectHandOver(lab, frames, demo.gateway.IPv4, before);
    await eventually("the record names the new owner", 5000, () => ownsBoth(after));
  });

  test("stands still for 30 s: after it wakes up it sends no frame for what has moved", async () => {
    const { lab } = demo;
    const { before, frames, addresses } = await watchMove(
      async (owner) => lab.speakers.get(owner.name)?.signal("SIGSTOP"),
      30,
      async (owner) => lab.speakers.get(owner.name)?.signal("SIGCONT"),
    );
    for (const address of addresses) expectOneAnswerPerRequest(lab, frames, address);
    const after = expectHandOver(lab, frames, demo.gateway.IPv4, before);
    await eventually("the record names the new owner", 5000, () => ownsBoth(after));
  });

  test("is cut from the API server for 60 s: it yields to the one that takes over", async () => {
    const { lab } = demo;
    const { before, frames, addresses } = await watchMove(
      async (owner) => void (await setManagementCable(lab.network, owner, "down")),
      60,
      async (owner) => void (await setManagementCable(lab.network, owner, "up")),
    );
    for (const address of addresses) expectOneAnswerPerRequest(lab, frames, address);
    const after = expectHandOver(lab, frames, demo.gateway.IPv4, before);
    await eventually("the record names the new owner", 5000, () => ownsBoth(after));
  });
});

test("FO-06: a node that comes back takes nothing back", async () => {
  const { lab, gateway } = demo;
  const owner = lab.node((await ownerOf(lab, gateway.IPv4)) ?? "");
  await lab.killNode(owner);
  const next = await eventually("another owner", 20_000, async () => {
    const name = await ownerOf(lab, gateway.IPv4);
    return name !== owner.name && name;
  });
  await lab.reviveNode(owner);
  await eventually(`${owner.name} is back`, 20_000, () => lab.speakerIsReady(owner));
  await delay(8000);
  expect(await ownerOf(lab, gateway.IPv4)).toBe(next);
});

test("a unicast neighbour solicitation draws the advertisement and nothing else", async () => {
  const { lab, gateway } = demo;
  const client = await lab.client();
  const owner = lab.node((await ownerOf(lab, gateway.IPv6)) ?? "");
  const capture = await lab.capture(lab.network.client, ["icmp6"]);
  const multicast = probeFrame(gateway.IPv6);
  const unicast = owner.mac.replaceAll(":", "") + multicast.slice(12);
  for (let i = 0; i < 5; i++) {
    await client.call("sendFrames", "eth0", [unicast]);
    await delay(200);
  }
  const frames = (await capture.stop()).filter(
    ({ bytes }) => toHex(bytes.subarray(6, 12)) === owner.mac.replaceAll(":", ""),
  );
  // Type 136 from the owner, five times; no port unreachable (type 1) and nothing of another kind to us.
  const types = frames
    .filter(({ bytes }) => toHex(bytes.subarray(0, 6)) === "0200000000c1")
    .map(({ bytes }) => bytes[54]);
  expect(types).toEqual([136, 136, 136, 136, 136]);
});

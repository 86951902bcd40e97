import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { claims, neighbourFrames } from "../../lab/capture.ts";
import { must, put } from "../../lab/cluster.ts";
import {
  type Addresses,
  DEMO,
  gatewayAddresses,
  ownerOf,
  startKubeDemo,
  virtualIPs,
  waitForDemo,
} from "../../lab/demo.ts";
import { eventually } from "../../lab/eventually.ts";
import { readAudit } from "../../lab/kube/audit.ts";
import type { Lab } from "../../lab/lab.ts";
import type { Gateway, Lease } from "../../src/api/foreign.ts";
import { apiVersionOf, GATEWAY, LEASE } from "../../src/api/resource.ts";
import { probeFrame } from "../demo-lab.ts";
import { type KubeLab, startKubeLab } from "./kube-lab.ts";

let cluster: KubeLab;
let lab: Lab;
let gateway: Addresses;

beforeAll(async () => {
  cluster = await startKubeLab(async (started) => {
    await started.startAll();
    await startKubeDemo(started, 3);
    ({ gateway } = await waitForDemo(started, 60_000));
  });
  lab = cluster.lab;
  await delay(5000); // the last conditions
});
afterAll(() => cluster?.lab.close());

/** Who holds what, as the records say. */
const records = async (): Promise<string[]> =>
  (await virtualIPs(lab))
    .map(
      ({ spec, status, metadata }) => `${spec.address} ${metadata.uid} ${status?.owner?.node} ${status?.owner?.term}`,
    )
    .sort();

async function leases(): Promise<Map<string, string>> {
  const answer = await lab.api.list<Lease>(LEASE, { namespace: "belfry-system" });
  if (!answer.ok) throw new Error(answer.failure.message);
  return new Map(answer.object.items.map(({ metadata, spec }) => [metadata.name, spec?.renewTime ?? ""]));
}

/** Load and long connections from the LAN through a fault; nothing may be lost in it. */
async function underLoad(fault: () => Promise<void>): Promise<void> {
  const addresses = [gateway.IPv4, gateway.IPv6];
  const owners = await Promise.all(addresses.map((address) => ownerOf(lab, address)));
  const client = await lab.client();
  await client.call("openStreams", gateway.IPv4, 80, 20);
  await client.call("openStreams", gateway.IPv6, 80, 20);
  await client.call("beatStreams", 100);
  await client.call("startLoad", "TCP", gateway.IPv4, 80, 100);
  const capture = await lab.capture(lab.network.client, ["arp", "or", "icmp6"]);
  await client.call("startDrum", "probe", "eth0", addresses.map(probeFrame), 250);
  await fault();
  await client.call("stopDrum", "probe");
  const frames = neighbourFrames(await capture.stop());
  const { answer = 0, ...failed } = await client.call("stopLoad");
  const streams = await client.call("closeStreams");
  expect(failed).toEqual({});
  expect(answer).toBeGreaterThan(500);
  expect(streams.broken).toEqual([]);
  expect(streams.streams).toBe(40);
  expect(streams.received).toBe(streams.sent);
  for (const [i, address] of addresses.entries()) {
    const asked = frames.filter(({ source, target }) => source === lab.network.client.mac && target === address);
    const answered = frames.filter((frame) => claims(frame, address) && frame.source !== lab.network.client.mac);
    expect([...new Set(answered.map(({ source }) => lab.nodeOfMac(source)?.name))]).toEqual([owners[i]]);
    expect(asked.length).toBeGreaterThan(20);
    expect(answered.length, `of ${asked.length} probes for ${address}`).toBeGreaterThan(0.8 * asked.length);
  }
}

/** Every speaker serves and renews its Lease, and so does one controller. */
async function allAreBack(): Promise<void> {
  const before = await eventually("the Leases are read", 30_000, leases);
  for (const node of lab.nodes) {
    await eventually(`the speaker of ${node.name} is back`, 30_000, () => lab.speakerIsReady(node));
  }
  await eventually("every Lease is renewed", 30_000, async () => {
    const now = await leases();
    return now.size === 4 && [...now].every(([name, renewTime]) => renewTime !== before.get(name));
  });
}

/** What Belfry's accounts wrote since an index of the audit log, Leases aside; what a dead etcd did not take is no write. */
const writesSince = (index: number) =>
  readAudit(cluster.kube.controlPlane.auditLog)
    .slice(index)
    .filter(
      ({ verb, resource, code }) => !["get", "list", "watch"].includes(verb) && resource !== "leases" && code < 300,
    );

test("the API server is killed and comes back: no request fails, nothing moves, nothing is written but Leases", async () => {
  const { controlPlane } = cluster.kube;
  const before = await records();
  const index = readAudit(controlPlane.auditLog).length;
  await underLoad(async () => {
    await controlPlane.programs.apiServer.end("SIGKILL");
    await delay(3000);
    controlPlane.startApiServer();
    await controlPlane.ready();
    await allAreBack();
    await delay(10_000);
  });
  expect(await records()).toEqual(before);
  expect(writesSince(index)).toEqual([]);
});

const etcd = () => cluster.kube.controlPlane.programs.etcd;

test("etcd stands still for 30 s, is dead for another 30 and comes back: the same", async () => {
  const { controlPlane } = cluster.kube;
  const before = await records();
  const index = readAudit(controlPlane.auditLog).length;
  await underLoad(async () => {
    // At first every request hangs, then every one is refused.
    etcd().signal("SIGSTOP");
    await delay(30_000);
    await etcd().end("SIGKILL");
    await delay(30_000);
    controlPlane.startEtcd();
    await controlPlane.ready();
    await allAreBack();
    await delay(10_000);
  });
  expect(await records()).toEqual(before);
  expect(writesSince(index)).toEqual([]);
});

test("after all this one controller leads, and a new Gateway gets its addresses", async () => {
  const { spec } = must("gateway", await lab.api.get<Gateway>(GATEWAY, { namespace: DEMO, name: "web" }));
  const metadata = { namespace: DEMO, name: "late" };
  await put(lab.api, GATEWAY, { apiVersion: apiVersionOf(GATEWAY), kind: GATEWAY.kind, metadata, spec });
  await eventually("Gateway demo/late has addresses of both families", 30_000, () => gatewayAddresses(lab, "late"));
  const leading = await Promise.all(
    lab.controllers.map(async (_, i) => {
      const { body } = await lab.scrape(lab.network.controlPlane, 9120 + i);
      return /^belfry_controller_leading (\d)$/m.exec(body)?.[1];
    }),
  );
  expect(leading.sort()).toEqual(["0", "1"]);
});

import { setTimeout as delay } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { claims, type NeighbourFrame, neighbourFrames } from "../../lab/capture.ts";
import { must, put } from "../../lab/cluster.ts";
import { type Addresses, DEMO, ownerOf, startKubeDemo, virtualIPs, waitForDemo } from "../../lab/demo.ts";
import { eventually } from "../../lab/eventually.ts";
import { readAudit } from "../../lab/kube/audit.ts";
import type { Lab } from "../../lab/lab.ts";
import { type LabNode, setManagementCable } from "../../lab/network.ts";
import { renderLogs } from "../../lab/ready.ts";
import type { Service } from "../../src/api/foreign.ts";
import { Annotation, LOAD_BALANCER } from "../../src/api/names.ts";
import { IPADDRESSPOOL, L2ADVERTISEMENT, SERVICE } from "../../src/api/resource.ts";
import { probeFrame } from "../demo-lab.ts";
import { type KubeLab, startKubeLab } from "./kube-lab.ts";

/** The only address of its pool: who comes next would take it. */
const LAST = "192.0.2.230";

let cluster: KubeLab;
let lab: Lab;
let gateway: Addresses;

beforeAll(async () => {
  cluster = await startKubeLab(async (started) => {
    await started.startAll();
    await startKubeDemo(started, 3);
    const pool = { spec: { addresses: [`${LAST}/32`], autoAssign: false } };
    await put(started.api, IPADDRESSPOOL, { ...pool, ...meta("IPAddressPool", "last") });
    await put(started.api, L2ADVERTISEMENT, { spec: { ipAddressPools: ["last"] }, ...meta("L2Advertisement", "last") });
    ({ gateway } = await waitForDemo(started, 60_000));
  });
  lab = cluster.lab;
  const { controlPlane } = cluster.kube;
  await delay(3000); // the last conditions
  await controlPlane.stopStore();
  controlPlane.saveStore("before");
  await controlPlane.startStore();
  for (const node of lab.nodes) {
    await eventually(`the speaker of ${node.name} is back`, 30_000, () => lab.speakerIsReady(node));
  }
});
afterEach(({ task }) => {
  if (task.result?.state === "fail") console.error(renderLogs(lab)); // they are gone with the lab
});
afterAll(() => cluster?.lab.close());

const meta = (kind: string, name: string) => ({ apiVersion: "belfry.dev/v1alpha1", kind, metadata: { name } });

/** A Service that takes the last address. */
async function ask(name: string): Promise<void> {
  await put(lab.api, SERVICE, {
    apiVersion: "v1",
    kind: "Service",
    metadata: { name, namespace: DEMO, annotations: { [Annotation.addressPool]: "last" } },
    spec: {
      type: "LoadBalancer",
      loadBalancerClass: LOAD_BALANCER,
      allocateLoadBalancerNodePorts: false,
      ipFamilies: ["IPv4"],
      selector: { app: "web" },
      ports: [{ name: "http", protocol: "TCP", port: 80, targetPort: 8080 }],
    },
  } as never);
}

async function isServed(name: string): Promise<boolean> {
  const service = must(name, await lab.api.get<Service>(SERVICE, { namespace: DEMO, name }));
  const condition = service.status?.conditions?.find(({ type }) => type === "belfry.dev/Programmed");
  if (condition?.status !== "True") throw new Error(JSON.stringify(service.status ?? "no status"));
  return service.status?.loadBalancer?.ingress?.[0]?.ip === LAST;
}

const holderOfLast = async (): Promise<string | undefined> =>
  (await virtualIPs(lab)).find(({ spec }) => spec.address === LAST)?.spec.holders[0]?.name;

const records = async (addresses: readonly string[]): Promise<string[]> =>
  (await virtualIPs(lab))
    .filter(({ spec }) => addresses.includes(spec.address))
    .map(({ spec, status }) => `${spec.address} ${status?.owner?.node} ${status?.owner?.term}`)
    .sort();

/**
 * Puts the store back to before the last address was given out, while a node announces it, and asks for it anew. Gives
 * what the client's wire saw, and what was done about the address at the API server since.
 */
async function restoreUnder(during: (owner: LabNode) => Promise<void>) {
  const { controlPlane } = cluster.kube;
  await lab.api.delete(SERVICE, { namespace: DEMO, name: "next" });
  await ask("late");
  await eventually("late is served", 30_000, () => isServed("late"));
  const owner = lab.node((await ownerOf(lab, LAST)) ?? "");
  const kept = await records([gateway.IPv4, gateway.IPv6]);
  const index = readAudit(controlPlane.auditLog).length;
  const client = await lab.client();
  const capture = await lab.capture(lab.network.client, ["arp"]);
  await client.call("startDrum", "probe", "eth0", [probeFrame(LAST)], 20);
  await client.call("startLoad", "TCP", gateway.IPv4, 80, 50);
  await controlPlane.stopStore();
  controlPlane.putStoreBack("before");
  await during(owner);
  await eventually("next is served", 60_000, () => isServed("next"));
  await delay(1000);
  await client.call("stopDrum", "probe");
  // An address that nobody answers yet was asked, too.
  const { answer = 0, "SYN lost": _, ...failed } = await client.call("stopLoad");
  const frames = neighbourFrames(await capture.stop());
  // What was there before is served all the time, by the same owner.
  expect(failed).toEqual({});
  expect(answer).toBeGreaterThan(500);
  expect(await records([gateway.IPv4, gateway.IPv6])).toEqual(kept);
  const requests = readAudit(controlPlane.auditLog)
    .slice(index)
    .filter(({ name, code }) => name === LAST && code < 300);
  return { owner, answers: frames.filter((frame) => isAnswer(frame)), requests };
}

const isAnswer = (frame: NeighbourFrame): boolean => claims(frame, LAST) && lab.nodeOfMac(frame.source) !== undefined;

/** From its creation until its owner is recorded nobody answers for the new VirtualIP: the old answers are over. */
function expectOrder({ answers, requests }: Awaited<ReturnType<typeof restoreUnder>>): void {
  const created = requests.filter(({ verb, resource }) => verb === "create" && resource === "virtualips");
  expect(created).toHaveLength(1);
  const createdAt = created[0]?.at ?? 0;
  const recorded = requests.find(
    ({ account, resource, at }) => account === "belfry-speaker" && resource === "virtualips/status" && at > createdAt,
  );
  const recordedAt = recorded?.at ?? 0;
  const before = answers.filter(({ at }) => at < createdAt);
  const between = answers.filter(({ at }) => at >= createdAt && at <= recordedAt);
  const after = answers.filter(({ at }) => at > recordedAt);
  expect(before.length).toBeGreaterThan(50);
  expect(between).toEqual([]);
  expect(after.length).toBeGreaterThan(5);
}

test("controllers without memory give nothing out before the announcing speaker, late by some seconds, has let go", async () => {
  const { controlPlane } = cluster.kube;
  const seen = await restoreUnder(async (owner) => {
    for (const controller of lab.controllers) await controller.end("SIGKILL");
    await setManagementCable(lab.network, owner, "down");
    await controlPlane.startStore();
    await ask("next");
    const started = ["controller-c", "controller-d"].map((name) => lab.startController(name));
    await eventually("one of them knows everything", 30_000, () =>
      started.some((controller) => controller.log().includes("caches are full")),
    );
    await delay(500);
    expect(await holderOfLast()).toBeUndefined();
    await setManagementCable(lab.network, owner, "up");
    await controlPlane.restartControllers();
  });
  expectOrder(seen);
});

test("what a node that is cut off still announces is not given out, until that node is back and has let go", async () => {
  const { controlPlane } = cluster.kube;
  let heldUntil = 0;
  const seen = await restoreUnder(async (owner) => {
    await setManagementCable(lab.network, owner, "down");
    await controlPlane.startStore();
    await ask("next");
    await controlPlane.restartControllers();
    for (let second = 0; second < 20; second++) {
      await delay(1000);
      expect(await holderOfLast(), `after ${second} s`).toBeUndefined();
    }
    heldUntil = Date.now() / 1000;
    await setManagementCable(lab.network, owner, "up");
  });
  const { owner, answers } = seen;
  const held = answers.filter(({ at, source }) => source === owner.mac && at > heldUntil - 10 && at < heldUntil);
  expect(held.length, "it is answered for all that time").toBeGreaterThan(100);
  expectOrder(seen);
});

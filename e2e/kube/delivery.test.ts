import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { must, put } from "../../lab/cluster.ts";
import { type Addresses, DEMO, ownerOf, startKubeDemo, virtualIPs, waitForDemo, waitForPods } from "../../lab/demo.ts";
import { eventually } from "../../lab/eventually.ts";
import { forbidden, readAudit } from "../../lab/kube/audit.ts";
import { DEPLOYMENT, isRolledOut, webDeployment } from "../../lab/kube/lab-pod.ts";
import { POD, type Pod } from "../../lab/kube/pod.ts";
import type { Lab } from "../../lab/lab.ts";
import { GATEWAY, SERVICE, SERVICEROUTE } from "../../src/api/resource.ts";
import { type KubeLab, startKubeLab } from "./kube-lab.ts";

let cluster: KubeLab;
let lab: Lab;
let gateway: Addresses;
let service: Addresses;

beforeAll(async () => {
  cluster = await startKubeLab(async (started) => {
    await started.startAll();
    await startKubeDemo(started, 3);
    ({ gateway, service } = await waitForDemo(started, 60_000));
  });
  lab = cluster.lab;
  await waitForPods(lab, gateway.IPv4, await readyPods());
});
afterAll(() => cluster?.lab.close());

/** Pods that are ready and stay. */
async function readyPods(): Promise<string[]> {
  const pods = must("pods", await lab.api.list<Pod>(POD, { namespace: DEMO })).items;
  return pods
    .filter(({ metadata }) => metadata.deletionTimestamp === undefined)
    .filter(({ status }) => status?.conditions.some(({ type, status: is }) => type === "Ready" && is === "True"))
    .map(({ metadata }) => metadata.name)
    .sort();
}

async function scale(replicas: number, version: string): Promise<void> {
  await put(lab.api, DEPLOYMENT, webDeployment(replicas, version));
  await eventually(`${replicas} pods of version ${version}`, 90_000, () => isRolledOut(lab.api, "web"));
}

describe("beside a kube-proxy in nftables mode, over 120 connections the names are exactly the pods of the Deployment", () => {
  test.each([
    ["Gateway", "IPv4", "TCP", 80],
    ["Gateway", "IPv6", "TCP", 80],
    ["Gateway", "IPv4", "UDP", 53],
    ["Gateway", "IPv6", "UDP", 53],
    ["Service", "IPv4", "TCP", 80],
    ["Service", "IPv6", "TCP", 80],
    ["Service", "IPv4", "UDP", 53],
    ["Service", "IPv6", "UDP", 53],
  ] as const)("%s %s %s %i", async (kind, family, protocol, port) => {
    const client = await lab.client();
    const address = (kind === "Gateway" ? gateway : service)[family];
    const names = await client.call("survey", protocol, address, port, 120);
    expect(Object.keys(names).sort()).toEqual(await readyPods());
  });
});

test("kube-proxy runs on every node and serves the cluster addresses itself", async () => {
  expect([...cluster.kube.serviceProxies.values()].map(({ running }) => running)).toEqual([true, true, true]);
  const web = must("service", await lab.api.get(SERVICE, { namespace: DEMO, name: "web" })) as unknown as {
    spec: { clusterIPs: string[] };
  };
  expect(web.spec.clusterIPs).toHaveLength(2);
  for (const node of lab.nodes) {
    const resident = await lab.residentIn(node.namespace);
    for (const address of web.spec.clusterIPs) {
      const names = await resident.call("survey", "TCP", address, 80, 60);
      expect(Object.keys(names).sort(), `${node.name} → ${address}`).toEqual(await readyPods());
    }
  }
});

test("nodes and pods reach the Gateway too, and a pod reaches itself through it", async () => {
  const names = await readyPods();
  const namespaces = [...lab.nodes.map(({ namespace }) => namespace), ...names.map((name) => lab.podNamespace(name))];
  for (const namespace of namespaces) {
    const resident = await lab.residentIn(namespace);
    for (const address of [gateway.IPv4, gateway.IPv6]) {
      const answers = await resident.call("survey", "TCP", address, 80, 60);
      expect(Object.keys(answers).sort(), `${namespace} → ${address}`).toEqual(names);
    }
  }
});

test("a Deployment of 5 pods is rolled twice under 200 requests a second: 0 failed", async () => {
  await scale(5, "1");
  const client = await lab.client();
  const before = await readyPods();
  await client.call("startLoad", "TCP", gateway.IPv4, 80, 200);
  for (const version of ["2", "3"]) await scale(5, version);
  const { answer = 0, ...failed } = await client.call("stopLoad");
  expect(failed).toEqual({});
  expect(answer).toBeGreaterThan(500);
  expect((await readyPods()).filter((name) => before.includes(name))).toEqual([]);
});

test("scaled to 0 it is refused at once; scaled up again it is served again", async () => {
  const client = await lab.client();
  await scale(0, "3");
  for (const address of [gateway.IPv4, gateway.IPv6, service.IPv4, service.IPv6]) {
    await eventually(`${address} refuses`, 5000, async () => {
      const outcome = await client.call("ask", "TCP", address, 80);
      return outcome.type === "refused" && outcome.code === "ECONNREFUSED";
    });
  }
  await scale(3, "3");
  const pods = await readyPods();
  for (const address of [gateway.IPv4, gateway.IPv6, service.IPv4, service.IPv6]) {
    await waitForPods(lab, address, pods, 5_000);
  }
});

test("in 30 idle seconds Belfry's accounts write nothing but their Leases", async () => {
  const { auditLog } = cluster.kube.controlPlane;
  await delay(3000); // what the last test stirred up
  const before = readAudit(auditLog).length;
  await delay(30_000);
  const since = readAudit(auditLog).slice(before);
  const writes = since.filter(({ verb }) => !["get", "list", "watch"].includes(verb));
  expect(writes.filter(({ resource }) => resource !== "leases")).toEqual([]);
  // Each holder renews every 2 s.
  expect(writes.length).toBeGreaterThan(4 * 10);
});

test("kubectl shows who holds an address, and its owner", async () => {
  const table = await cluster.kube.kubectl(["get", "vip,gateway,serviceroute,pool", "-A"]);
  const owner = await ownerOf(lab, gateway.IPv4);
  const row = (word: string) => table.split("\n").find((line) => line.includes(word)) ?? "";
  expect(row(`virtualip.belfry.dev/${gateway.IPv4} `)).toMatch(new RegExp(`lan .*Gateway.*demo.*web.*${owner}.*True`));
  expect(row(`virtualip.belfry.dev/${service.IPv4} `)).toMatch(/lan .*Service.*demo.*legacy.*True/);
  expect(row("gateway.gateway.networking.k8s.io/web")).toMatch(/belfry .*192\.0\.2\..*True/);
});

test("kubectl describe shows when a Gateway and a Service were given their addresses", async () => {
  for (const [what, { IPv4, IPv6 }] of [
    ["gateway/web", gateway],
    ["service/legacy", service],
  ] as const) {
    const text = await cluster.kube.kubectl(["-n", DEMO, "describe", what]);
    for (const address of [IPv4, IPv6]) {
      expect(text).toMatch(new RegExp(`Normal +AddressAssigned .*belfry-controller +${address} from pool "`));
    }
  }
});

test("the owner's node dies: another one answers, and the cluster sees the node go", async () => {
  const client = await lab.client();
  const owner = lab.node((await ownerOf(lab, gateway.IPv4)) ?? "");
  await lab.killNode(owner);
  const next = await eventually("another owner", 30_000, async () => {
    const name = await ownerOf(lab, gateway.IPv4);
    return name !== owner.name && name;
  });
  expect(next).not.toBe(owner.name);
  expect(await client.call("askUntilAnswered", "TCP", gateway.IPv4, 80, 20_000)).toBeDefined();
  await lab.reviveNode(owner);
  await eventually(`${owner.name} is back`, 30_000, () => lab.speakerIsReady(owner));
});

test("deleting frees everything", async () => {
  must("gateway", await lab.api.delete(GATEWAY, { namespace: DEMO, name: "web" }));
  must("service", await lab.api.delete(SERVICE, { namespace: DEMO, name: "legacy" }));
  must("route", await lab.api.delete(SERVICEROUTE, { namespace: DEMO, name: "web" }));
  await eventually("every VirtualIP is gone", 30_000, async () => (await virtualIPs(lab)).length === 0);
  for (const node of lab.nodes) {
    const table = await lab.exec(node.namespace, "nft", "list", "table", "inet", "belfry");
    for (const address of [gateway.IPv4, gateway.IPv6, service.IPv4, service.IPv6]) {
      expect(table).not.toContain(address);
    }
  }
});

test("in all of this no request of Belfry's accounts was forbidden", () => {
  const audit = readAudit(cluster.kube.controlPlane.auditLog);
  expect(new Set(audit.map(({ account }) => account))).toEqual(new Set(["belfry-controller", "belfry-speaker"]));
  expect(audit.length).toBeGreaterThan(50);
  expect(forbidden(audit)).toEqual([]);
});

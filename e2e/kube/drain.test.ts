import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { must, put } from "../../lab/cluster.ts";
import { type Addresses, DEMO, ownerOf, SAMPLES, virtualIPs, waitForDemo } from "../../lab/demo.ts";
import { eventually } from "../../lab/eventually.ts";
import { DEPLOYMENT, isRolledOut, webDeployment } from "../../lab/kube/lab-pod.ts";
import { POD, type Pod } from "../../lab/kube/pod.ts";
import type { Lab } from "../../lab/lab.ts";
import type { LabNode } from "../../lab/network.ts";
import type { KubeObject } from "../../src/api/meta.ts";
import { EXCLUDE_NODE_LABEL, NAMESPACE, speakerLeaseName } from "../../src/api/names.ts";
import { LEASE, NODE, type Resource, SERVICE, SPEAKERSTATUS } from "../../src/api/resource.ts";
import type { Key } from "../../src/kube/port.ts";
import { type KubeLab, startKubeLab } from "./kube-lab.ts";

let cluster: KubeLab;
let lab: Lab;
let gateway: Addresses;
let service: Addresses;
/** The node that owns the Gateway's IPv4 address at first. */
let node: LabNode;

beforeAll(async () => {
  cluster = await startKubeLab(async (started) => {
    await started.startAll();
    await started.apply(SAMPLES);
    await put(started.api, DEPLOYMENT, patientDeployment());
    await eventually("the Deployment is rolled out", 90_000, () => isRolledOut(started.api, "web"));
    ({ gateway, service } = await waitForDemo(started, 60_000));
  });
  lab = cluster.lab;
  node = lab.node((await ownerOf(lab, gateway.IPv4)) ?? "");
});
afterAll(() => cluster?.lab.close());

/** Its pods serve on for long after their deletion, as on a machine where everything else is slow as well. */
function patientDeployment(): ReturnType<typeof webDeployment> {
  const deployment = webDeployment(5) as unknown as {
    spec: { template: { spec: { terminationGracePeriodSeconds: number; containers: { lifecycle: unknown }[] } } };
  };
  const { spec } = deployment.spec.template;
  spec.terminationGracePeriodSeconds = 30;
  for (const each of spec.containers) each.lifecycle = { preStop: { sleep: { seconds: 8 } } };
  return deployment as unknown as ReturnType<typeof webDeployment>;
}

const podsOn = async (name: string): Promise<string[]> =>
  must("pods", await lab.api.list<Pod>(POD, { namespace: DEMO }))
    .items.filter(({ spec }) => spec.nodeName === name)
    .map(({ metadata }) => metadata.name);

/** The object, or undefined when the server says that there is none. */
async function find(resource: Resource, key: Key): Promise<KubeObject | undefined> {
  const answer = await lab.api.get(resource, key);
  if (!answer.ok && answer.failure.reason === "NotFound") return undefined;
  return must(key.name, answer);
}

const LEASE_KEY = (name: string) => ({ namespace: NAMESPACE, name: speakerLeaseName(name) });

/** Asks all the while; nothing may fail. */
async function underLoad(perSecond: number, act: () => Promise<void>): Promise<void> {
  const client = await lab.client();
  await client.call("startLoad", "TCP", gateway.IPv4, 80, perSecond);
  await act();
  await delay(2000);
  const { answer = 0, ...failed } = await client.call("stopLoad");
  expect(failed).toEqual({});
  expect(answer).toBeGreaterThan(2 * perSecond);
}

test("a node is drained by kubectl under 200 requests a second: 0 failed, and it goes on announcing", async () => {
  expect((await podsOn(node.name)).length).toBeGreaterThan(0);
  await underLoad(200, async () => {
    const flags = ["--ignore-daemonsets", "--force", "--delete-emptydir-data", "--timeout=120s"];
    await cluster.kube.kubectl(["drain", node.name, ...flags]);
    await eventually("the pods are elsewhere", 60_000, () => isRolledOut(lab.api, "web"));
  });
  expect(await podsOn(node.name)).toEqual([]);
  expect(await ownerOf(lab, gateway.IPv4)).toBe(node.name);
});

test("its speaker is stopped: another node takes over, and an address that is released meanwhile is held back", async () => {
  await lab.speakers.get(node.name)?.end("SIGTERM");
  const next = await eventually("another owner", 30_000, async () => {
    const owner = await ownerOf(lab, gateway.IPv4);
    return owner !== node.name && owner;
  });
  expect(lab.nodes.map(({ name }) => name)).toContain(next);
  must("service", await lab.api.delete(SERVICE, { namespace: DEMO, name: "legacy" }));
  // Its nft table outlives a speaker as long as the node is there.
  const releasing = await eventually("the VirtualIP says who holds it back", 30_000, async () => {
    const vip = (await virtualIPs(lab)).find(({ spec }) => spec.address === service.IPv4);
    return vip?.status?.conditions?.find(({ type, status }) => type === "Releasing" && status === "True");
  });
  expect(releasing.message).toContain(node.name);
  await delay(3000);
  expect((await virtualIPs(lab)).map(({ spec }) => spec.address)).toContain(service.IPv4);
});

async function setFinalizers(finalizers: readonly string[]): Promise<void> {
  const patch = JSON.stringify({ metadata: { finalizers } });
  await cluster.kube.kubectl(["patch", "speakerstatus", node.name, "--type=merge", `--patch=${patch}`]);
}

test("its Node is deleted: the address is free, and its Lease and SpeakerStatus go with it", async () => {
  expect(await find(LEASE, LEASE_KEY(node.name))).toBeDefined();
  expect(await find(SPEAKERSTATUS, { name: node.name })).toBeDefined();
  // Held from the garbage collector, so that the address is free because of the Node.
  await setFinalizers(["example.com/hold"]);
  await cluster.kube.kubelets.get(node.name)?.kill();
  await cluster.kube.kubectl(["delete", "node", node.name]);
  await eventually("the addresses are free", 20_000, async () =>
    (await virtualIPs(lab)).every(({ spec }) => ![service.IPv4, service.IPv6].includes(spec.address)),
  );
  expect(await find(SPEAKERSTATUS, { name: node.name })).toBeDefined();
  await setFinalizers([]);
  await eventually("the Lease is collected", 60_000, async () => !(await find(LEASE, LEASE_KEY(node.name))));
  await eventually(
    "the SpeakerStatus is collected",
    60_000,
    async () => !(await find(SPEAKERSTATUS, { name: node.name })),
  );
  const client = await lab.client();
  expect(await client.call("askUntilAnswered", "TCP", gateway.IPv4, 80, 20_000)).toBeDefined();
});

test("it joins again as a new Node, and takes nothing back", async () => {
  const before = await ownerOf(lab, gateway.IPv4);
  await cluster.kube.startKubelet(node);
  // A token is bound to the uid of its Node.
  await cluster.kube.speakerKubeconfig(node);
  lab.startSpeaker(node);
  await eventually(`${node.name} serves`, 30_000, () => lab.speakerIsReady(node));
  const uid = (await find(NODE, { name: node.name }))?.metadata.uid;
  for (const [resource, key] of [
    [LEASE, LEASE_KEY(node.name)],
    [SPEAKERSTATUS, { name: node.name }],
  ] as const) {
    const object = await eventually(resource.kind, 20_000, () => find(resource, key));
    expect(object.metadata.ownerReferences).toEqual([{ apiVersion: "v1", kind: "Node", name: node.name, uid }]);
  }
  await delay(8000);
  expect(await ownerOf(lab, gateway.IPv4)).toBe(before);
});

test("a node that is excluded from load balancers hands its addresses on without a failed request", async () => {
  const owner = (await ownerOf(lab, gateway.IPv4)) ?? "";
  await underLoad(100, async () => {
    await cluster.kube.kubectl(["label", "node", owner, `${EXCLUDE_NODE_LABEL}=true`]);
    await eventually("another owner", 20_000, async () => (await ownerOf(lab, gateway.IPv4)) !== owner);
  });
  const next = await ownerOf(lab, gateway.IPv4);
  await cluster.kube.kubectl(["label", "node", owner, `${EXCLUDE_NODE_LABEL}-`]);
  await delay(3000);
  expect(await ownerOf(lab, gateway.IPv4)).toBe(next);
});

/** Belfry as an operator has it: applied by kubectl, run as pods by the cluster's own controllers, upgraded, uninstalled. */
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { must } from "../../lab/cluster.ts";
import { type Addresses, DEMO, startKubeDemo, virtualIPs, waitForDemo } from "../../lab/demo.ts";
import { eventually } from "../../lab/eventually.ts";
import { forbidden, readAudit } from "../../lab/kube/audit.ts";
import { POD, type Pod } from "../../lab/kube/pod.ts";
import type { Lab } from "../../lab/lab.ts";
import { REPOSITORY } from "../../lab/program.ts";
import { type KubeLab, startKubeLab } from "./kube-lab.ts";

const NAMESPACE = "belfry-system";
const WORKLOADS = ["deployment/belfry-controller", "daemonset/belfry-speaker"] as const;
const config = (folder: string) => join(REPOSITORY, "config", folder);

let cluster: KubeLab;
let lab: Lab;
let gateway: Addresses;
let service: Addresses;

const kubectl = (...args: readonly string[]) => cluster.kube.kubectl(args);

/** Waits as `kubectl rollout status` does; what belongs to a pod is told where it takes too long. */
async function rolledOut(...workloads: readonly string[]): Promise<void> {
  for (const each of workloads) {
    try {
      await kubectl("-n", NAMESPACE, "rollout", "status", each, "--timeout=120s");
    } catch (error) {
      console.error(await kubectl("-n", NAMESPACE, "describe", "pods"));
      throw error;
    }
  }
}

beforeAll(async () => {
  cluster = await startKubeLab(async (started) => {
    await started.startApi();
    await started.kube?.kubectl(["apply", "--server-side", "--force-conflicts", "-k", config("default")]);
  });
  lab = cluster.lab;
  await rolledOut(...WORKLOADS);
  await startKubeDemo(lab);
  ({ gateway, service } = await waitForDemo(lab, 60_000));
});
afterAll(() => cluster?.lab.close());

const podsOf = async (name: string): Promise<Pod[]> =>
  must("pods", await lab.api.list<Pod>(POD, { namespace: NAMESPACE })).items.filter(({ metadata }) =>
    metadata.name.startsWith(name),
  );

async function expectServed(): Promise<void> {
  const client = await lab.client();
  for (const address of [gateway.IPv4, gateway.IPv6, service.IPv4, service.IPv6]) {
    // kube-proxy, which forwards for the Service, is up to some seconds behind the EndpointSlices.
    await eventually(`${address} is served by all pods`, 20_000, async () => {
      const names = Object.keys(await client.call("survey", "TCP", address, 80, 60));
      return names.length === 3 && names.every((name) => name.startsWith("web-"));
    });
  }
}

test("two controllers and a speaker on each node run, and what has an address is served", async () => {
  expect(await podsOf("belfry-controller")).toHaveLength(2);
  const speakers = await podsOf("belfry-speaker");
  expect(speakers.map(({ spec }) => spec.nodeName).sort()).toEqual(lab.nodes.map(({ name }) => name));
  await expectServed();
});

test("an upgrade replaces every pod under 200 requests a second: 0 failed, and every address stays", async () => {
  const uids = async () =>
    (await Promise.all(["belfry-c", "belfry-s"].map(podsOf))).flat().map((pod) => pod.metadata.uid);
  const before = { uids: await uids(), addresses: (await virtualIPs(lab)).map(({ metadata }) => metadata.uid).sort() };
  const client = await lab.client();
  await client.call("startLoad", "TCP", gateway.IPv4, 80, 200);
  for (const each of WORKLOADS) await kubectl("-n", NAMESPACE, "rollout", "restart", each);
  await rolledOut(...WORKLOADS);
  const { answer = 0, ...failed } = await client.call("stopLoad");
  expect(failed).toEqual({});
  expect(answer).toBeGreaterThan(500);
  await eventually("no pod of before is left", 30_000, async () => {
    const now = await uids();
    return now.length === before.uids.length && now.every((uid) => !before.uids.includes(uid));
  });
  expect((await virtualIPs(lab)).map(({ metadata }) => metadata.uid).sort()).toEqual(before.addresses);
  await expectServed();
});

test("no request of the pods was forbidden", () => {
  expect(forbidden(readAudit(cluster.kube.controlPlane.auditLog))).toEqual([]);
});

test("the uninstall of the guide leaves nothing behind, and harms nothing else", async () => {
  await kubectl("-n", DEMO, "delete", "gateway/web", "service/legacy");
  await kubectl("wait", "vip", "--all", "--for=delete", "--timeout=60s");
  await kubectl("-n", NAMESPACE, "delete", "daemonset", "belfry-speaker");
  await kubectl("apply", "--server-side", "-k", config("uninstall"));
  await rolledOut("daemonset/belfry-clean");
  await kubectl("delete", "-k", config("uninstall"));
  await kubectl("delete", "--ignore-not-found", "-k", config("default"), "--timeout=90s");
  for (const node of lab.nodes) {
    expect(await lab.exec(node.namespace, "nft", "list", "tables")).not.toContain("belfry");
    const resident = await lab.residentIn(node.namespace);
    const [web] = JSON.parse(await kubectl("-n", DEMO, "get", "service/web", "-o", "jsonpath={.spec.clusterIPs}"));
    expect(Object.keys(await resident.call("survey", "TCP", web, 80, 40)), node.name).toHaveLength(3);
  }
  const kinds = (await kubectl("api-resources", "--api-group=belfry.dev", "--no-headers")).trim();
  expect(kinds).toBe("");
  const everything =
    "namespaces,clusterroles,clusterrolebindings,validatingadmissionpolicies,validatingadmissionpolicybindings";
  const left = await kubectl("get", everything, "--output=name");
  expect(left.split("\n").filter((name) => /belfry/.test(name))).toEqual([]);
});

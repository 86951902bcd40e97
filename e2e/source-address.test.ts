import { afterAll, beforeAll, expect, test } from "vitest";
import { put } from "../lab/cluster.ts";
import { DEMO, ownerOf, PORTS, serviceAddresses } from "../lab/demo.ts";
import { eventually } from "../lab/eventually.ts";
import type { Service } from "../src/api/foreign.ts";
import { SERVICE } from "../src/api/resource.ts";
import { type DemoLab, startDemoLab } from "./demo-lab.ts";

let demo: DemoLab;

beforeAll(async () => {
  demo = await startDemoLab();
});
afterAll(() => demo?.lab.close());

test("DP-13, FO-13: with externalTrafficPolicy Local the pod sees the client, and only a node with a pod answers", async () => {
  const { lab } = demo;
  const service: Service = {
    apiVersion: "v1",
    kind: "Service",
    metadata: { name: "local", namespace: DEMO },
    spec: {
      type: "LoadBalancer",
      loadBalancerClass: "belfry.dev/load-balancer",
      externalTrafficPolicy: "Local",
      ipFamilyPolicy: "PreferDualStack",
      ports: [{ name: "http", protocol: "TCP", port: 80, targetPort: 8080 }],
    },
  };
  const pod = lab.pods.get("web-b");
  if (pod === undefined) throw new Error("no pod");
  await put(lab.api, SERVICE, service);
  await lab.setEndpoints({ namespace: DEMO, name: "local" }, PORTS, [pod]);
  const addresses = await eventually("Service demo/local has its addresses", 20_000, () =>
    serviceAddresses(lab, "local"),
  );
  const client = await lab.client();
  for (const [address, seen] of [
    [addresses.IPv4, lab.network.client.lanIPv4],
    [addresses.IPv6, lab.network.client.lanIPv6],
  ] as const) {
    const answer = await client.call("askUntilAnswered", "TCP", address, 80, 20_000);
    expect(answer?.text).toBe(`web-b ${seen}`);
    expect(await ownerOf(lab, address)).toBe(pod.node);
  }
  // Everybody in the cluster may use the pod, wherever they are.
  for (const node of lab.nodes) {
    const resident = await lab.residentIn(node.namespace);
    expect(await resident.call("survey", "TCP", addresses.IPv4, 80, 5), node.name).toEqual({ "web-b": 5 });
  }
});

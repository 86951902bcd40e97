import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { must } from "../lab/cluster.ts";
import { run } from "../lab/command.ts";
import { DEMO, ownerOf, PORTS, virtualIPs } from "../lab/demo.ts";
import { eventually } from "../lab/eventually.ts";
import { GATEWAY, SERVICE, SERVICEROUTE } from "../src/api/resource.ts";
import { kubectl } from "../tool/kubectl/build.ts";
import { type DemoLab, startDemoLab } from "./demo-lab.ts";

let demo: DemoLab;

beforeAll(async () => {
  demo = await startDemoLab();
});
afterAll(() => demo?.lab.close());

const targets = [
  ["Gateway", "IPv4", "TCP", 80],
  ["Gateway", "IPv6", "TCP", 80],
  ["Gateway", "IPv4", "UDP", 53],
  ["Gateway", "IPv6", "UDP", 53],
  ["Service", "IPv4", "TCP", 80],
  ["Service", "IPv6", "TCP", 80],
] as const;

const addressOf = (kind: "Gateway" | "Service", family: "IPv4" | "IPv6") =>
  (kind === "Gateway" ? demo.gateway : demo.service)[family];

describe("over 200 connections the names are exactly the usable endpoints", () => {
  test.each(targets)("%s %s %s %i", async (kind, family, protocol, port) => {
    const client = await demo.lab.client();
    const names = await client.call("survey", protocol, addressOf(kind, family), port, 200);
    expect(Object.keys(names).sort()).toEqual(["web-a", "web-b"]);
    expect(names["web-a"] ?? 0).toBeGreaterThan(40);
    expect(names["web-b"] ?? 0).toBeGreaterThan(40);
  });
});

test("an endpoint that is not ready gets nothing, a terminating one only when it is the last that serves", async () => {
  const { lab } = demo;
  const client = await lab.client();
  const [a, b] = [lab.pods.get("web-a"), lab.pods.get("web-b")];
  if (a === undefined || b === undefined) throw new Error("no pods");
  const survey = async () => Object.keys(await client.call("survey", "TCP", demo.gateway.IPv4, 80, 60)).sort();
  const states = [
    [[a, { ...b, state: "NotReady" }], ["web-a"]],
    [[a, { ...b, state: "Terminating" }], ["web-a"]],
    [
      [
        { ...a, state: "NotReady" },
        { ...b, state: "Terminating" },
      ],
      ["web-b"],
    ],
    [
      [a, b],
      ["web-a", "web-b"],
    ],
  ] as const;
  for (const [pods, expected] of states) {
    await lab.setEndpoints({ namespace: DEMO, name: "web" }, PORTS, pods);
    await eventually(`only ${expected} answers`, 5000, async () => `${await survey()}` === `${expected}`);
  }
  await lab.setEndpoints({ namespace: DEMO, name: "web" }, PORTS, []);
  await eventually("no endpoint: refused, not silent", 5000, async () => {
    const outcome = await client.call("ask", "TCP", demo.gateway.IPv4, 80);
    return outcome.type === "refused" && outcome.code === "ECONNREFUSED";
  });
  await lab.setEndpoints({ namespace: DEMO, name: "web" }, PORTS, [a, b]);
  await eventually("both answer again", 5000, async () => `${await survey()}` === "web-a,web-b");
});

test("DP-10: an undeclared port is refused, and never reaches the node", async () => {
  const client = await demo.lab.client();
  for (const address of [demo.gateway.IPv4, demo.gateway.IPv6]) {
    for (const port of [22, 8080, 9121]) {
      expect(await client.call("ask", "TCP", address, port)).toEqual({ type: "refused", code: "ECONNREFUSED" });
    }
    expect(await client.call("ask", "UDP", address, 5353)).toEqual({ type: "refused", code: "ECONNREFUSED" });
  }
});

test("DP-20: every address answers ping", async () => {
  const { lab, gateway, service } = demo;
  for (const address of [gateway.IPv4, gateway.IPv6, service.IPv4, service.IPv6]) {
    await lab.exec(lab.network.client.namespace, "ping", "-c", "2", "-i", "0.2", "-W", "2", address);
  }
});

test("AR-11: nodes and pods reach the address too, on the owner and elsewhere, and a pod reaches itself through it", async () => {
  const { lab, gateway } = demo;
  for (const namespace of [
    ...lab.nodes.map((node) => node.namespace),
    lab.podNamespace("web-a"),
    lab.podNamespace("web-b"),
  ]) {
    const resident = await lab.residentIn(namespace);
    for (const address of [gateway.IPv4, gateway.IPv6]) {
      const names = await resident.call("survey", "TCP", address, 80, 40);
      expect(Object.keys(names).sort(), `${namespace} → ${address}`).toEqual(["web-a", "web-b"]);
    }
  }
});

test("kubectl reads well: who holds the address, from which pool, and which node answers", async () => {
  const { lab, gateway, service } = demo;
  const program = await kubectl();
  if (program === undefined) return;
  const table = await run(program, [
    "--kubeconfig",
    lab.hostKubeconfig ?? "",
    "get",
    "vip,gateway,serviceroute,pool",
    "-A",
  ]);
  const owner = await ownerOf(lab, gateway.IPv4);
  const row = (word: string) => table.split("\n").find((line) => line.includes(word)) ?? "";
  expect(row(`virtualip.belfry.dev/${gateway.IPv4} `)).toMatch(new RegExp(`lan .*Gateway.*demo.*web.*${owner}.*True`));
  expect(row(`virtualip.belfry.dev/${service.IPv4} `)).toMatch(/lan .*Service.*demo.*legacy.*True/);
  expect(row("gateway.gateway.networking.k8s.io/web")).toMatch(/belfry .*192\.0\.2\..*True/);
  expect(row("serviceroute.belfry.dev/web")).toMatch(/Service.*web|web.*True/);
  expect(row("ipaddresspool.belfry.dev/lan")).toContain("192.0.2.192/27");
});

test("deleting frees everything: no VIP, no nft element, no conntrack entry, no answer", async () => {
  const { lab, gateway, service } = demo;
  must("gateway", await lab.api.delete(GATEWAY, { namespace: DEMO, name: "web" }));
  must("service", await lab.api.delete(SERVICE, { namespace: DEMO, name: "legacy" }));
  must("route", await lab.api.delete(SERVICEROUTE, { namespace: DEMO, name: "web" }));
  await eventually("every VirtualIP is gone", 20_000, async () => (await virtualIPs(lab)).length === 0);
  const client = await lab.client();
  for (const address of [gateway.IPv4, gateway.IPv6, service.IPv4, service.IPv6]) {
    for (const node of lab.nodes) {
      expect(await lab.exec(node.namespace, "nft", "list", "table", "inet", "belfry")).not.toContain(address);
      const family = address.includes(":") ? "ipv6" : "ipv4";
      await eventually(`no conntrack entry of ${address} on ${node.name}`, 5000, async () => {
        const entries = await lab.exec(
          node.namespace,
          "sh",
          "-c",
          `conntrack -L -f ${family} -d ${address} 2>/dev/null`,
        );
        return entries.trim() === "";
      });
    }
    expect(await lab.stillAnswered(client, address), address).toBe(false);
  }
});

/**
 * What users expect of a Service of type LoadBalancer, for both data paths, beside a kube-proxy in each mode and without
 * one: one lab per mode, whose controllers begin with the default and are then told to forward for Services themselves.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { must, put } from "../../lab/cluster.ts";
import { ip } from "../../lab/command.ts";
import {
  type Addresses,
  DEMO,
  ownerOf,
  SAMPLES,
  serviceAddresses,
  virtualIPs,
  waitForDemo,
  waitForPods,
} from "../../lab/demo.ts";
import { eventually } from "../../lab/eventually.ts";
import { forbidden, readAudit } from "../../lab/kube/audit.ts";
import { SERVICE_PROXIES, type ServiceProxy } from "../../lab/kube/cluster.ts";
import { setKubePod } from "../../lab/kube/lab-pod.ts";
import { POD } from "../../lab/kube/pod.ts";
import type { Lab } from "../../lab/lab.ts";
import type { Host, LabNode } from "../../lab/network.ts";
import type { Service } from "../../src/api/foreign.ts";
import { SERVICE } from "../../src/api/resource.ts";
import type { DataPath } from "../../src/api/virtual-ip.ts";
import { startKubeLab } from "./kube-lab.ts";

/** Pods of the Services by node: node-3 has none. */
const WEB = ["web-a", "web-b"] as const;
const CALLER = "caller";
const FAMILIES = ["IPv4", "IPv6"] as const;
const SILENT = { type: "silent" };
const REFUSED = { type: "refused", code: "ECONNREFUSED" };

/** Each Service has its name from what it is about. */
const servicesFor = (client: Host): Readonly<Record<string, Partial<Service["spec"]>>> => ({
  plain: {},
  ranged: { loadBalancerSourceRanges: [`${client.lanIPv4}/32`, `${client.lanIPv6}/128`] },
  local: { externalTrafficPolicy: "Local" },
  sticky: { sessionAffinity: "ClientIP" },
  empty: { selector: { app: "nobody" } },
  self: { selector: { pod: "web-a" } },
});

const serviceOf = (name: string, spec: Partial<Service["spec"]>): Service => ({
  apiVersion: "v1",
  kind: "Service",
  metadata: { name, namespace: DEMO },
  spec: {
    type: "LoadBalancer",
    loadBalancerClass: "belfry.dev/load-balancer",
    ipFamilyPolicy: "RequireDualStack",
    selector: { app: "web" },
    ports: [
      { name: "http", protocol: "TCP", port: 80, targetPort: 8080 },
      { name: "dns", protocol: "UDP", port: 53, targetPort: 8080 },
    ],
    ...spec,
  },
});

describe.each(SERVICE_PROXIES)("kube-proxy: %s", (mode: ServiceProxy) => {
  let lab: Lab;
  let gateway: Addresses;
  const addresses: Record<string, Addresses> = {};
  const addressOf = (service: string, family: (typeof FAMILIES)[number]): string => addresses[service]?.[family] ?? "";

  beforeAll(async () => {
    const started = await startKubeLab(
      async (each) => {
        await each.startAll();
        await each.apply(SAMPLES);
        await Promise.all(
          [...WEB, CALLER].map(async (name, i) => {
            const pod = await each.startPod(name, each.nodes[i] as LabNode);
            must(
              name,
              await each.api.mergePatch(POD, { namespace: DEMO, name }, { metadata: { labels: { pod: name } } }),
            );
            if (name === CALLER && each.kube !== undefined) await setKubePod(each.kube, each.api, pod, "Absent");
          }),
        );
        const services = servicesFor(each.network.client);
        for (const [name, spec] of Object.entries(services)) await put(each.api, SERVICE, serviceOf(name, spec));
        ({ gateway } = await waitForDemo(each, 60_000));
        for (const name of Object.keys(services)) {
          addresses[name] = await eventually(`Service ${name} has its addresses`, 20_000, () =>
            serviceAddresses(each, name),
          );
        }
      },
      { serviceProxy: mode, serviceDataPath: "ServiceProxy" },
    );
    lab = started.lab;
  });
  afterAll(() => lab?.close());

  const ingress = async (name: string) =>
    must(name, await lab.api.get<Service>(SERVICE, { namespace: DEMO, name })).status?.loadBalancer?.ingress ?? [];

  /** Names that answer a few dozen connections. */
  async function names(namespace: string, address: string, protocol: "TCP" | "UDP" = "TCP"): Promise<string[]> {
    const resident = await lab.residentOf(namespace);
    return Object.keys(await resident.call("survey", protocol, address, protocol === "TCP" ? 80 : 53, 30)).sort();
  }

  /** Everybody who calls from inside: each node, and a pod on each. */
  const insiders = () => [
    ...lab.nodes.map(({ namespace }) => namespace),
    ...[...WEB, CALLER].map((name) => lab.podNamespace(name)),
  ];

  async function expectGatewayServed(): Promise<void> {
    for (const family of FAMILIES) {
      expect(await names(lab.network.client.namespace, gateway[family]), family).toEqual(WEB);
      expect(await names(lab.podNamespace(CALLER), gateway[family]), family).toEqual(WEB);
    }
  }

  const settle = (path: DataPath) =>
    eventually(`every forward of a Service says ${path} and is programmed`, 30_000, async () => {
      const vips = (await virtualIPs(lab)).filter(({ spec }) => spec.holders[0]?.kind === "Service");
      return vips.every(
        ({ spec, status, metadata }) =>
          spec.forwards.every(({ dataPath }) => dataPath === path) && status?.owner?.generation === metadata.generation,
      );
    });

  describe.each(["ServiceProxy", "Belfry"] as const)("data path: %s", (path) => {
    const served = path === "Belfry" || mode !== "none";

    beforeAll(async () => {
      if (path === "Belfry") {
        await Promise.all(lab.controllers.splice(0).map((controller) => controller.end()));
        lab.startController(`controller-${path}`, ["--service-data-path", path]);
      }
      await settle(path);
      await waitForPods(lab, gateway.IPv4, WEB);
      if (served) for (const family of FAMILIES) await waitForPods(lab, addressOf("plain", family), WEB);
    });

    test("DP-16: the status says who serves the address inside the cluster, and the address stays", async () => {
      const ipMode = path === "ServiceProxy" ? "VIP" : "Proxy";
      for (const [name, { IPv4, IPv6 }] of Object.entries(addresses)) {
        const seen = await eventually(`${name}: ipMode ${ipMode}`, 10_000, async () => {
          const entries = await ingress(name);
          return entries.every((entry) => entry.ipMode === ipMode) && entries;
        });
        expect(seen.map((entry) => entry.ip).sort()).toEqual([IPv4, IPv6].sort());
      }
    });

    test("a Gateway is served by Belfry, whoever serves the Services", expectGatewayServed);

    test.runIf(served)("a client outside reaches all endpoints, over TCP and UDP", async () => {
      for (const family of FAMILIES) {
        for (const protocol of ["TCP", "UDP"] as const) {
          const address = addressOf("plain", family);
          await eventually(
            `${protocol} ${address}`,
            10_000,
            async () => `${await names(lab.network.client.namespace, address, protocol)}` === `${WEB}`,
          );
        }
      }
    });

    test.runIf(served)("node → VIP and pod → VIP reach all endpoints, from everywhere, and hairpin works", async () => {
      for (const namespace of insiders()) {
        for (const family of FAMILIES) {
          expect(await names(namespace, addressOf("plain", family)), `${namespace} ${family}`).toEqual(WEB);
        }
      }
      for (const family of FAMILIES) {
        expect(await names(lab.podNamespace("web-a"), addressOf("self", family)), family).toEqual(["web-a"]);
      }
    });

    test.runIf(served)(
      "source ranges: who is in them is served; who is not gets silence, in the cluster too",
      async () => {
        const { client, router } = lab.network;
        const outside = [
          router.namespace,
          lab.podNamespace(CALLER),
          lab.podNamespace("web-a"),
          (lab.nodes[2] as LabNode).namespace,
        ];
        for (const family of FAMILIES) {
          const address = addressOf("ranged", family);
          expect(await names(client.namespace, address), family).toEqual(WEB);
          const outcomes = await Promise.all(
            outside.map(async (namespace) => (await lab.residentOf(namespace)).call("ask", "TCP", address, 80, 1500)),
          );
          expect(outcomes, family).toEqual(outside.map(() => SILENT));
        }
      },
    );

    test.runIf(served)(
      "externalTrafficPolicy Local: the pod sees the client, only its node answers, insiders reach all",
      async () => {
        const { client } = lab.network;
        const resident = await lab.client();
        for (const family of FAMILIES) {
          const address = addressOf("local", family);
          const owner = lab.node((await ownerOf(lab, address)) ?? "");
          const pod = [...lab.pods.values()].find(({ node, name }) => node === owner.name && name !== CALLER)?.name;
          expect(pod, `${owner.name} answers and has no pod`).toBeDefined();
          const seen = await resident.call("ask", "TCP", address, 80);
          expect(seen).toEqual({
            type: "answer",
            text: `${pod} ${family === "IPv4" ? client.lanIPv4 : client.lanIPv6}`,
          });
          expect(await names(client.namespace, address), family).toEqual([pod]);
          for (const namespace of insiders()) expect(await names(namespace, address), namespace).toEqual(WEB);
          // A packet that comes to a node without an endpoint is dropped, so that a retry meets the right one.
          const mac = lab.nodes[2]?.mac;
          await ip(client.namespace, [`neigh replace ${address} lladdr ${mac} dev eth0 nud permanent`]);
          try {
            expect(await resident.call("ask", "TCP", address, 80, 1500), family).toEqual(SILENT);
          } finally {
            await ip(client.namespace, [`neigh del ${address} dev eth0`]);
          }
        }
      },
    );

    test.runIf(served)("session affinity: one client meets one endpoint", async () => {
      for (const family of FAMILIES) {
        for (const namespace of [lab.network.client.namespace, lab.podNamespace(CALLER)]) {
          expect(await names(namespace, addressOf("sticky", family)), `${namespace} ${family}`).toHaveLength(1);
        }
      }
    });

    test.runIf(served)("without endpoints it is refused at once, outside and inside", async () => {
      // kube-proxy in iptables mode hooks these refusals into INPUT and FORWARD alone: not into what the node itself sends.
      const refusesNodes = path === "Belfry" || mode !== "iptables";
      const callers = insiders().filter((namespace) => refusesNodes || namespace.includes("-pod-"));
      for (const family of FAMILIES) {
        for (const namespace of [lab.network.client.namespace, ...callers]) {
          const resident = await lab.residentOf(namespace);
          const address = addressOf("empty", family);
          // kube-proxy refuses by ICMP, of which a kernel sends no more than one a second to the same host.
          await eventually(`${namespace} is refused ${address}`, 10_000, async () => {
            const outcome = await resident.call("ask", "TCP", address, 80, 1500);
            if (outcome.type === "silent") return false;
            expect(outcome).toEqual(REFUSED);
            return true;
          });
        }
        const client = await lab.client();
        await eventually("UDP is refused", 10_000, async () => {
          const outcome = await client.call("ask", "UDP", addressOf("empty", family), 53, 1500);
          return outcome.type === "refused";
        });
      }
    });

    test.runIf(served)("an undeclared port is refused: nothing goes round between router and node", async () => {
      const client = await lab.client();
      for (const family of FAMILIES) {
        expect(await client.call("ask", "TCP", addressOf("plain", family), 81)).toEqual(REFUSED);
      }
    });

    test.runIf(!served)(
      "without any service proxy the address is announced, and what comes is left alone",
      async () => {
        const client = await lab.client();
        for (const family of FAMILIES) {
          const address = addressOf("plain", family);
          expect(await ownerOf(lab, address)).toBeDefined();
          expect((await client.call("ask", "TCP", address, 80, 1500)).type).not.toBe("answer");
          expect(lab.nodeOfMac(await lab.neighbour(address))?.name).toBe(await ownerOf(lab, address));
        }
      },
    );

    test("neither undoes the other's work when it starts anew", async () => {
      const { kube } = lab;
      if (kube === undefined) throw new Error("not on Kubernetes");
      const node = lab.node((await ownerOf(lab, addressOf("plain", "IPv4"))) ?? "");
      const tables = async () => ({
        ours: await lab.exec(node.namespace, "nft", "list", "table", "inet", "belfry"),
        theirs: await rulesOfServiceProxy(lab, node, mode),
      });
      const before = await tables();
      const client = await lab.client();
      const load = async (address: string, act: () => Promise<void>) => {
        await client.call("startLoad", "TCP", address, 80, 50);
        await act();
        const { answer = 0, ...failed } = await client.call("stopLoad");
        expect(failed, address).toEqual({});
        expect(answer).toBeGreaterThan(20);
      };
      const target = served ? addressOf("plain", "IPv4") : gateway.IPv4;
      if (mode !== "none") {
        await load(target, async () => {
          await kube.serviceProxies.get(node.name)?.end("SIGKILL");
          kube.startServiceProxy(node);
          await eventually("kube-proxy has synced", 30_000, async () => {
            const { code } = await lab.scrape(node.namespace, 10256, "/healthz");
            return code === 200;
          });
        });
        expect(await tables()).toEqual(before);
      }
      await load(target, async () => {
        await lab.speakers.get(node.name)?.end("SIGKILL");
        lab.startSpeaker(node);
        await eventually("the speaker is ready", 20_000, () => lab.speakerIsReady(node));
      });
      expect(await tables()).toEqual(before);
      await expectGatewayServed();
    });
  });

  test("no request of Belfry's accounts was forbidden", () => {
    expect(forbidden(readAudit(lab.kube?.controlPlane.auditLog ?? ""))).toEqual([]);
  });
});

/** The rules of kube-proxy on a node, without what counts or names no rule. */
async function rulesOfServiceProxy(lab: Lab, node: LabNode, mode: ServiceProxy): Promise<string[]> {
  if (mode === "none") return [];
  const texts =
    mode === "nftables"
      ? [
          await lab.exec(node.namespace, "nft", "-s", "list", "table", "ip", "kube-proxy"),
          await lab.exec(node.namespace, "nft", "-s", "list", "table", "ip6", "kube-proxy"),
        ]
      : [
          await lab.exec(node.namespace, "iptables-save", "-t", "nat"),
          await lab.exec(node.namespace, "ip6tables-save", "-t", "nat"),
        ];
  return texts
    .join("\n")
    .split("\n")
    .map((line) => line.replace(/\[\d+:\d+\]|^#.*/, "").trim())
    .filter((line) => line !== "")
    .sort();
}

/**
 * The real processes with very many Services: one endpoint change from the watch event to the kernel's acknowledgement,
 * memory, and a controller's restart. One node, the embedded API server, Services of one family with two endpoints each.
 */
import { readFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { type LabPod, must, put, putEndpoints, putNamespace } from "../lab/cluster.ts";
import { eventually } from "../lab/eventually.ts";
import { createLab, type Lab } from "../lab/lab.ts";
import type { Program } from "../lab/program.ts";
import { renderLogs } from "../lab/ready.ts";
import type { Service } from "../src/api/foreign.ts";
import { IPADDRESSPOOL, L2ADVERTISEMENT, SERVICE } from "../src/api/resource.ts";

const NAMESPACE = "bench";
const PORTS = [{ name: "http", protocol: "TCP", port: 8080 }] as const;
const IN_FLIGHT = 32;
const CHANGES = 500;

export type ClusterFigures = Record<string, number>;

export async function benchCluster(size: number, tell: (line: string) => void): Promise<ClusterFigures> {
  const lab = await createLab({ nodes: 1, logLevel: "warn" });
  try {
    await lab.startApi();
    await prepare(lab);
    let controller = lab.startController("controller-a");
    const speaker = lab.startSpeaker(lab.node("node-1"));
    const figures: ClusterFigures = {};
    const small = 100;
    await grow(lab, 0, small, tell);
    const atSmall = await endpointChanges(lab, small);
    tell(`endpoint change at ${small}: p50 ${atSmall.p50.toFixed(3)} ms, p99 ${atSmall.p99.toFixed(3)} ms`);
    const startedAt = performance.now();
    await grow(lab, small, size, tell);
    figures[`assign_program_${size}_s`] = (performance.now() - startedAt) / 1000;
    const atSize = await endpointChanges(lab, size);
    tell(`endpoint change at ${size}: p50 ${atSize.p50.toFixed(3)} ms, p99 ${atSize.p99.toFixed(3)} ms`);
    figures["endpoint_change_p50_ms_100"] = atSmall.p50;
    figures["endpoint_change_p99_ms_100"] = atSmall.p99;
    figures["endpoint_change_p50_ms_10k"] = atSize.p50;
    figures["endpoint_change_p99_ms_10k"] = atSize.p99;
    tell("30 s of rest before memory is read …");
    await delay(30_000);
    figures["controller_rss_mb_10k"] = rssMegabytes(controller);
    figures["speaker_rss_mb_10k"] = rssMegabytes(speaker);
    for (const [signal, key] of [
      ["SIGTERM", "controller_restart_10k_s"],
      ["SIGKILL", "controller_kill9_restart_10k_s"],
    ] as const) {
      const { seconds, program } = await restart(lab, controller, signal, size + (signal === "SIGTERM" ? 1 : 2));
      controller = program;
      figures[key] = seconds;
      tell(`${signal} and start, exec to the first new address: ${seconds.toFixed(2)} s`);
    }
    return figures;
  } catch (error) {
    console.error(renderLogs(lab)); // they are gone with the lab
    throw error;
  } finally {
    await lab.close();
  }
}

async function prepare(lab: Lab): Promise<void> {
  await putNamespace(lab.api, NAMESPACE);
  await put(lab.api, IPADDRESSPOOL, {
    apiVersion: "belfry.dev/v1alpha1",
    kind: "IPAddressPool",
    metadata: { name: "bench" },
    spec: { addresses: ["198.19.128.0/17"] },
  } as never);
  // The addresses lie in no subnet of the lab; for this bench nobody asks for them.
  await put(lab.api, L2ADVERTISEMENT, {
    apiVersion: "belfry.dev/v1alpha1",
    kind: "L2Advertisement",
    metadata: { name: "bench" },
    spec: { requireSubnet: false, refreshIntervalSeconds: 0 },
  } as never);
}

const nameOf = (i: number): string => `svc-${String(i).padStart(6, "0")}`;

/** Two endpoints of a Service; `variant` changes one of them. */
const podsOf = (i: number, variant = 0): LabPod[] =>
  [2 + variant, 3 + variant].map((last, k) => ({
    name: `${nameOf(i)}-${k}`,
    node: k === 0 ? "node-1" : "node-2",
    state: "Ready",
    ipv4: `198.18.${1 + k}.${(last + (i % 200)) % 250}`,
    ipv6: `2001:db8:0:1${1 + k}::${last}`,
  }));

async function createService(lab: Lab, i: number): Promise<void> {
  const service: Service = {
    apiVersion: "v1",
    kind: "Service",
    metadata: { name: nameOf(i), namespace: NAMESPACE },
    spec: {
      type: "LoadBalancer",
      loadBalancerClass: "belfry.dev/load-balancer",
      ipFamilyPolicy: "SingleStack",
      ipFamilies: ["IPv4"],
      // A cluster has 2,768 node ports; Belfry needs none.
      ...{ allocateLoadBalancerNodePorts: false },
      ports: [{ name: "http", protocol: "TCP", port: 80, targetPort: 8080 }],
    },
  };
  for (let attempt = 0; ; attempt++) {
    const answer = await lab.api.create(SERVICE, service);
    // A request without an answer may have been carried out.
    if (answer.ok || answer.failure.reason === "AlreadyExists") return;
    if (answer.failure.status !== 0 || attempt === 5) must("service", answer);
    await delay(500);
  }
}

/** Creates Services [from, to) with their slices, and waits until the speaker has programmed all. */
async function grow(lab: Lab, from: number, to: number, tell: (line: string) => void): Promise<void> {
  let next = from;
  const work = async () => {
    for (let i = next++; i < to; i = next++) {
      await putEndpoints(lab.api, { namespace: NAMESPACE, name: nameOf(i) }, PORTS, podsOf(i), ["IPv4"]);
      await createService(lab, i);
      if (i % 2000 === 1999) tell(`${i + 1} Services created`);
    }
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, work));
  await eventually(
    `${to} VIPs are programmed and owned`,
    300_000,
    async () => {
      const metrics = await speakerMetrics(lab);
      return metrics["belfry_speaker_vips_programmed"] === to && metrics["belfry_speaker_vips_owned"] === to;
    },
    500,
  );
}

/** Changes one endpoint of one Service at a time, and reads what the speaker measured for it. */
async function endpointChanges(lab: Lab, size: number): Promise<{ p50: number; p99: number }> {
  const milliseconds: number[] = [];
  let before = await speakerMetrics(lab);
  for (let n = 0; n < CHANGES; n++) {
    const i = (n * 7919) % size;
    await putEndpoints(lab.api, { namespace: NAMESPACE, name: nameOf(i) }, PORTS, podsOf(i, 1 + Math.floor(n / size)), [
      "IPv4",
    ]);
    const after = await eventually(
      "the change is acknowledged",
      10_000,
      async () => {
        const metrics = await speakerMetrics(lab);
        return (metrics[COUNT] ?? 0) > (before[COUNT] ?? 0) && metrics;
      },
      2,
    );
    const count = (after[COUNT] ?? 0) - (before[COUNT] ?? 0);
    milliseconds.push((((after[SUM] ?? 0) - (before[SUM] ?? 0)) / count) * 1000);
    before = after;
  }
  milliseconds.sort((a, b) => a - b);
  const at = (share: number) =>
    milliseconds[Math.min(milliseconds.length - 1, Math.floor(milliseconds.length * share))] ?? 0;
  return { p50: at(0.5), p99: at(0.99) };
}

const COUNT = "belfry_speaker_change_seconds_count";
const SUM = "belfry_speaker_change_seconds_sum";

async function speakerMetrics(lab: Lab): Promise<Record<string, number>> {
  const { body } = await lab.scrape(lab.node("node-1").namespace, 9121);
  return Object.fromEntries(
    body
      .split("\n")
      .filter((line) => line !== "" && !line.startsWith("#") && !line.includes("{"))
      .map((line) => line.split(" "))
      .map(([name = "", value]) => [name, Number(value)]),
  );
}

async function restart(lab: Lab, controller: Program, signal: "SIGTERM" | "SIGKILL", index: number) {
  await controller.end(signal);
  await createService(lab, index);
  const startedAt = performance.now();
  const program = lab.startController(`controller-${index}`);
  await eventually(
    "the waiting Service has its address",
    60_000,
    async () => {
      const service = must(
        "service",
        await lab.api.get<Service>(SERVICE, { namespace: NAMESPACE, name: nameOf(index) }),
      );
      return service.status?.loadBalancer?.ingress?.[0]?.ip;
    },
    10,
  );
  return { seconds: (performance.now() - startedAt) / 1000, program };
}

/** Resident set of a process, as the kernel counts it (proc(5): VmRSS, kB). */
function rssMegabytes(program: Program): number {
  const text = readFileSync(`/proc/${program.pid}/status`, "utf8");
  return Number(/VmRSS:\s+([0-9]+) kB/.exec(text)?.[1] ?? 0) / 1024;
}

/**
 * `npm run bench:kube -- --json FILE`: a Belfry speaker beside the real kube-proxy (nftables mode), in one run and on one
 * real API server, ten thousand Services with two endpoints each. Prints, and asserts nothing.
 *
 * Fair to the peer where the two differ: its Services are of type ClusterIP, the least that it can be asked to do for each
 * (no load-balancer address, no node port); the speaker programs the same endpoints behind as many VirtualIPs. Each has a
 * node (a network namespace) and an nftables table of its own, and is measured while the other one is not running. Both
 * are watched from outside by one observer:
 *
 * - load: exec → the kernel holds the frontends of all Services (lookups of single elements; both key them alike).
 * - change: an EndpointSlice's event, as read by a watcher beside → the kernel tells of the new endpoint's address.
 * - restart: SIGKILL, a Service gets its first endpoints meanwhile; exec → the kernel holds its frontend.
 * - memory: VmRSS after the changes and twenty seconds of rest.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { cpus } from "node:os";
import { setTimeout as delay } from "node:timers/promises";
import Table from "cli-table3";
import { Command } from "commander";
import { findKube } from "../e2e/kube/build.ts";
import { type Claim, claimLab, removeStaleLabs } from "../lab/claim.ts";
import { putNamespace, putNode } from "../lab/cluster.ts";
import { run } from "../lab/command.ts";
import { eventually } from "../lab/eventually.ts";
import { CLUSTER_CIDRS, type ControlPlane, startControlPlane } from "../lab/kube/control-plane.ts";
import { buildNetwork, type LabNode } from "../lab/network.ts";
import { type Program, startCommand, startProgram } from "../lab/program.ts";
import { type Resident, startResident } from "../lab/resident.ts";
import { ENDPOINTSLICE } from "../src/api/resource.ts";
import { silentLog } from "../src/core/log.ts";
import { clock } from "../src/host/clock.ts";
import { createClient } from "../src/kube/client.ts";
import { loadConfig } from "../src/kube/config.ts";
import type { ApiClient } from "../src/kube/port.ts";
import {
  BENCH_NAMESPACE,
  clusterIpOf,
  createAll,
  freshEndpoint,
  frontendKey,
  replaceSlice,
  SERVICE_CIDR,
  vipOf,
} from "./bench-kube-cluster.ts";
import type { FrontendMap, ObserverActions } from "./bench-kube-observer.ts";
import { canMakeNamespaces, installMissing } from "./prerequisite.ts";

const CHANGES = 25;
/** kube-proxy takes at most one change a second when they follow each other. */
const PAUSE_MILLISECONDS = 1300;
const REST_MILLISECONDS = 20_000;
const LIMIT_MILLISECONDS = 240_000;

/** One of the two that are measured. */
type Subject = {
  readonly name: "kube_proxy" | "belfry";
  readonly node: LabNode;
  readonly map: FrontendMap;
  start(): Program;
  addressOf(i: number): string;
};

const program = new Command("bench:kube")
  .description("Times a speaker beside the real kube-proxy with ten thousand Services on a real API server.")
  .option("--json <file>", "also write the figures there, flat, units in the keys")
  .option("--size <count>", "Services", Number, 10_000)
  .option("--only <name>", "measure only kube_proxy or belfry, without ratios")
  .parse();
const options = program.opts<{ json?: string; size: number; only?: string }>();
const tell = (line: string) => console.log(line);

const missing = installMissing(["ip", "nft"]);
const namespaces = canMakeNamespaces();
if (missing.length > 0 || !namespaces.can) {
  console.error(missing.length > 0 ? `missing: ${missing.join(", ")}` : namespaces.can ? "" : namespaces.why);
  process.exit(1);
}
const found = await findKube(tell);
if (found.type === "missing") {
  console.error(found.why);
  process.exit(1);
}
tell(`${cpus().length} × ${cpus()[0]?.model ?? "unknown processor"}, Node ${process.version}`);
const figures = await bench(found.path);
const table = new Table({ head: ["figure", "seen", "goal"], colAligns: ["left", "right", "right"] });
/** Goals of the figures that have one. */
const GOALS: Readonly<Record<string, number>> = {
  load_ratio: 0.05,
  restart_ratio: 0.02,
  change_p50_ratio: 0.005,
  rss_ratio: 0.4,
};
for (const [key, value] of Object.entries(figures)) {
  table.push([key, value.toPrecision(4), GOALS[key] === undefined ? "" : `≤ ${GOALS[key]}`]);
}
console.log(table.toString());
if (options.json !== undefined) writeFileSync(options.json, `${JSON.stringify(figures, undefined, 2)}\n`);
process.exit(0);

async function bench(binary: string): Promise<Record<string, number>> {
  await removeStaleLabs();
  const claim = claimLab();
  let controlPlane: ControlPlane | undefined;
  try {
    const network = await buildNetwork(claim, 2);
    // Without controllers: they would write slices of their own and act on ours.
    controlPlane = await startControlPlane(claim, network, binary, {
      controllers: false,
      serviceCidrs: [SERVICE_CIDR],
    });
    const { hostKubeconfig } = controlPlane;
    await eventually("Belfry's kinds are served", 30_000, async () => {
      const kubectl = (...args: string[]) => run(binary, ["kubectl", "--kubeconfig", hostKubeconfig, ...args]);
      await kubectl("apply", "--server-side", "-k", "config/crd");
      await kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=10s");
      return true;
    });
    const api = createClient(loadConfig({ kubeconfig: hostKubeconfig }), {
      clock,
      log: silentLog,
      limits: { requestTimeoutMilliseconds: 60_000 },
    });
    for (const name of ["belfry-system", BENCH_NAMESPACE]) await putNamespace(api, name);
    for (const node of network.nodes) await putNode(api, node);
    const startedAt = performance.now();
    await createAll(api, options.size, tell);
    tell(`all objects written in ${((performance.now() - startedAt) / 1000).toFixed(1)} s`);
    const figures: Record<string, number> = {};
    const subjects = subjectsOf(claim, network.nodes, controlPlane, binary);
    for (const subject of subjects.filter(({ name }) => options.only === undefined || options.only === name)) {
      Object.assign(figures, await measure(subject, api, controlPlane.kubeconfigs.admin));
    }
    for (const [ratio, key] of [
      ["load_ratio", "load_s"],
      ["restart_ratio", "restart_s"],
      ["change_p50_ratio", "change_p50_ms"],
      ["rss_ratio", "rss_mb"],
    ] as const) {
      const [peer, ours] = [figures[`kube_proxy_${key}`], figures[`belfry_${key}`]];
      if (peer !== undefined && ours !== undefined) figures[ratio] = ours / peer;
    }
    api.close();
    return figures;
  } finally {
    await controlPlane?.close();
    await claim.release();
  }
}

function subjectsOf(claim: Claim, nodes: readonly LabNode[], controlPlane: ControlPlane, binary: string): Subject[] {
  const [first, second] = nodes;
  if (first === undefined || second === undefined) throw new Error("the lab has two nodes");
  const { kubeconfigs } = controlPlane;
  return [
    {
      name: "kube_proxy",
      node: first,
      map: { family: "ip", table: "kube-proxy", map: "service-ips" },
      addressOf: clusterIpOf,
      // Its own defaults, but for what a network namespace may not change.
      start: () =>
        startCommand(claim, {
          name: "kube-proxy",
          namespace: first.namespace,
          command: [
            binary,
            "kube-proxy",
            `--kubeconfig=${kubeconfigs.proxy}`,
            "--proxy-mode=nftables",
            `--hostname-override=${first.name}`,
            `--cluster-cidr=${CLUSTER_CIDRS.join(",")}`,
            "--metrics-bind-address=127.0.0.1:10249",
            "--healthz-bind-address=127.0.0.1:10256",
            "--conntrack-max-per-core=0",
            "--conntrack-tcp-timeout-established=0",
            "--conntrack-tcp-timeout-close-wait=0",
          ],
        }),
    },
    {
      name: "belfry",
      node: second,
      map: { family: "inet", table: "belfry", map: "frontend4" },
      addressOf: vipOf,
      start: () =>
        startProgram(claim, {
          name: "speaker",
          namespace: second.namespace,
          process: "speaker",
          args: ["--node-name", second.name, "--kubeconfig", kubeconfigs.admin, "--metrics-bind", "127.0.0.1:9121"],
        }),
    },
  ];
}

async function measure(subject: Subject, api: ApiClient, kubeconfig: string): Promise<Record<string, number>> {
  const { name, node, map, addressOf } = subject;
  const { size } = options;
  const observer = await startResident<ObserverActions>(
    node.namespace,
    new URL("./bench-kube-observer.ts", import.meta.url),
  );
  let running: Program | undefined;
  const startIt = () => {
    const startedAt = clock.now();
    running = subject.start();
    return { startedAt, program: running };
  };
  try {
    const keys = Array.from({ length: size }, (_, i) => frontendKey(addressOf(i)));
    const sample = keys.filter((_, i) => i % Math.ceil(size / 16) === 0 || i === size - 1);
    tell(`${name}: load …`);
    const first = startIt();
    const seconds = (from: number, to: number) => (to - from) / 1000;
    const loadedAt = await untilHeld(observer, subject, first.program, sample);
    const held = await observer.call("countHeld", map, keys);
    if (held !== size) throw new Error(`${name}: the kernel holds ${held} of ${size} frontends`);
    const load = seconds(first.startedAt, loadedAt);
    tell(`${name}: loaded in ${load.toFixed(2)} s; changes …`);
    await delay(5000);
    const changes = await endpointChanges(observer, api, kubeconfig, name === "belfry" ? 1 : 0);
    tell(
      `${name}: a change takes ${changes.change.toFixed(2)} ms from its event; ${REST_MILLISECONDS / 1000} s of rest …`,
    );
    await delay(REST_MILLISECONDS);
    const rss = rssMegabytes(first.program);
    tell(`${name}: ${rss.toFixed(0)} MB resident; restart …`);
    await first.program.end("SIGKILL");
    await replaceSlice(api, size, [freshEndpoint(0xe00), freshEndpoint(0xe01)]);
    const second = startIt();
    const landedAt = await untilHeld(observer, subject, second.program, [frontendKey(addressOf(size))]);
    const restart = seconds(second.startedAt, landedAt);
    tell(`${name}: restarted in ${restart.toFixed(2)} s`);
    return {
      [`${name}_load_s`]: load,
      [`${name}_restart_s`]: restart,
      [`${name}_change_p50_ms`]: changes.change,
      [`${name}_write_to_kernel_p50_ms`]: changes.fromWrite,
      [`${name}_rss_mb`]: rss,
    };
  } catch (error) {
    console.error(running?.log().split("\n").slice(-40).join("\n")); // it is gone with the lab
    throw error;
  } finally {
    await running?.end("SIGKILL");
    await observer.close();
    await replaceSlice(api, size, []);
  }
}

async function untilHeld(
  observer: Resident<ObserverActions>,
  { name, map }: Subject,
  program: Program,
  keys: readonly string[],
): Promise<number> {
  const ended = program.ended.then((how) => {
    throw new Error(`${name} ended: ${how}`);
  });
  ended.catch(() => {}); // it ends by our hand later
  return Promise.race([observer.call("untilHeld", map, keys, LIMIT_MILLISECONDS), ended]);
}

/** One endpoint of one Service after another is replaced by one with an address of its own. */
async function endpointChanges(
  observer: Resident<ObserverActions>,
  api: ApiClient,
  kubeconfig: string,
  round: number,
): Promise<{ change: number; fromWrite: number }> {
  const list = await api.list(ENDPOINTSLICE, { namespace: "default" });
  if (!list.ok) throw new Error(list.failure.message);
  await observer.call("watchSlices", kubeconfig, BENCH_NAMESPACE, list.object.resourceVersion);
  await observer.call("listen");
  const [change, fromWrite]: [number[], number[]] = [[], []];
  for (let n = 0; n < CHANGES; n++) {
    await delay(PAUSE_MILLISECONDS);
    const i = (n * 7919) % options.size;
    const address = freshEndpoint(round * 256 + n);
    const hex = frontendKey(address).slice(0, 8);
    await observer.call("seek", hex);
    const wroteAt = clock.now();
    const version = await replaceSlice(api, i, [address, freshEndpoint(0xf00 + round)]);
    const [read, told] = await Promise.all([
      observer.call("untilRead", `svc-${String(i).padStart(5, "0")}`, version, 10_000),
      observer.call("untilTold", hex, 30_000),
    ]);
    change.push(told - read);
    fromWrite.push(told - wroteAt);
  }
  await observer.call("deafen");
  await observer.call("unwatch");
  return { change: median(change), fromWrite: median(fromWrite) };
}

function median(values: number[]): number {
  return values.sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}

/** Resident set of a process, all its threads, as the kernel counts it (proc(5): VmRSS, kB). */
function rssMegabytes({ pid }: Program): number {
  const text = readFileSync(`/proc/${pid}/status`, "utf8");
  return Number(/VmRSS:\s+([0-9]+) kB/.exec(text)?.[1] ?? 0) / 1024;
}

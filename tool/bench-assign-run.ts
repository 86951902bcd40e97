/**
 * The run behind `bench:assign`: etcd and an API server, one controller, the Leases of three speakers, and a client beside
 * the controller. At each size Gateways and Services are created one by one, Belfry's and bare ones in turns, then in a
 * burst; at the largest size the controller is started anew.
 */
import { readFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { findKube } from "../e2e/kube/build.ts";
import { must, put, putNamespace } from "../lab/cluster.ts";
import { eventually } from "../lab/eventually.ts";
import { createLab, type Lab } from "../lab/lab.ts";
import type { Program } from "../lab/program.ts";
import { renderLogs } from "../lab/ready.ts";
import { type Resident, startResident } from "../lab/resident.ts";
import type { Gateway, Service } from "../src/api/foreign.ts";
import type { KubeObject } from "../src/api/meta.ts";
import { LOAD_BALANCER, NAMESPACE, speakerLeaseName } from "../src/api/names.ts";
import {
  GATEWAY,
  GATEWAYCLASS,
  IPADDRESSPOOL,
  L2ADVERTISEMENT,
  LEASE,
  NODE,
  type Resource,
  SERVICE,
  SERVICECIDR,
  VIRTUALIP,
} from "../src/api/resource.ts";
import type { VirtualIP } from "../src/api/virtual-ip.ts";
import { LEASE_DURATION_SECONDS, LEASE_RENEW_MILLISECONDS, microTime } from "../src/kube/lease.ts";
import type { BenchActions } from "./bench-assign-client.ts";
import {
  FILL_NAMESPACE,
  FILL_SERVICE_CIDR,
  fillPools,
  type Given,
  TEMPLATE,
  templateObject,
} from "./bench-assign-fill.ts";
import { BARE_CONTROLLER, BENCH_NAMESPACE, type BenchKind, type Giver } from "./bench-assign-object.ts";

export type AssignOptions = {
  /** Gateways and Services of the largest part, together. */
  readonly size: number;
  readonly samples: number;
  /** Creations of a burst: 500, or fewer while this bench is being worked on. */
  readonly burst: number;
  /** Where CPU profiles of the controllers go. */
  readonly profile?: string;
  readonly tell: (line: string) => void;
};

/** Creations under way at once, in bursts and while objects are filled in. */
const IN_FLIGHT = 16;
const NODES = ["node-1", "node-2", "node-3"];

type Figures = Record<string, number>;

export async function benchAssign(options: AssignOptions): Promise<Figures> {
  const { tell } = options;
  const kube = await findKube(tell);
  if (kube.type === "missing") throw new Error(kube.why);
  const lab = await createLab({
    nodes: 0,
    logLevel: "warn",
    kube: { binary: kube.path, gatewayCrds: kube.gatewayCrds, serviceProxy: "none" },
  });
  const leaving = new AbortController();
  let client: Resident<BenchActions> | undefined;
  try {
    await lab.startApi();
    // Nothing here needs them, and they would take their share of the processors.
    const { controllers, scheduler } = lab.kube?.controlPlane.programs ?? {};
    await Promise.all([controllers?.end("SIGKILL"), scheduler?.end("SIGKILL")]);
    await prepare(lab);
    const renewing = keepLeases(lab, leaving.signal);
    client = await startResident<BenchActions>(
      lab.network.controlPlane,
      new URL("./bench-assign-client.ts", import.meta.url),
    );
    await client.call("open", lab.kubeconfig);
    const figures = await measure(lab, client, options);
    leaving.abort();
    await renewing;
    return figures;
  } catch (error) {
    console.error(renderLogs(lab)); // they are gone with the lab
    throw error;
  } finally {
    leaving.abort();
    await client?.close();
    await lab.close();
  }
}

async function measure(lab: Lab, client: Resident<BenchActions>, options: AssignOptions): Promise<Figures> {
  const { size, tell } = options;
  const figures: Figures = {};
  let controller = startController(lab, options);
  await eventually("the controller is ready", 30_000, async () => (await requestsOf(lab)) > 0);
  await client.call("burst", "belfry", "warm-up", 100, IN_FLIGHT);
  await client.call("burst", "bare", "warm-up", 100, IN_FLIGHT);
  let existing = 100;
  const filling: Filling = { given: [], copies: 0 };
  const sizes = [0, 1000, 10_000].map((each) => Math.min(each, size));
  const names = ["0", "1k", "10k"];
  for (const [i, label] of names.entries()) {
    const target = sizes[i] ?? 0;
    if (i > 0 && target <= (sizes[i - 1] ?? 0)) break;
    if (target > existing) {
      controller = await fill(lab, client, controller, options, filling, target - existing);
      existing = target;
    }
    await rest(lab);
    existing += await single(client, label, options, figures);
    await rest(lab);
    if (label !== "1k") existing += await burst(lab, controller, client, label, options, figures);
  }
  for (const kind of ["gateway", "service"]) {
    const [small, large] = [figures[`${kind}_p50_ms_0`], figures[`${kind}_p50_ms_10k`]];
    const [bareSmall, bareLarge] = [figures[`${kind}_bare_p50_ms_0`], figures[`${kind}_bare_p50_ms_10k`]];
    if (small === undefined || large === undefined || bareSmall === undefined || bareLarge === undefined) continue;
    figures[`${kind}_p50_growth_10k`] = large / small;
    figures[`${kind}_bare_p50_growth_10k`] = bareLarge / bareSmall;
  }
  await rest(lab);
  await delay(10_000);
  figures["controller_rss_mb_10k"] = rssMegabytes(controller);
  tell(`controller RSS ${figures["controller_rss_mb_10k"].toFixed(0)} MB, started again:`);
  const seconds: number[] = [];
  for (let i = 0; i < 3; i++) {
    const again = await restart(lab, client, controller, options, `restart-${i}`);
    controller = again.controller;
    seconds.push(again.seconds);
    tell(`restart: exec to the address of one that waits ${again.seconds.toFixed(2)} s`);
    await rest(lab);
  }
  figures["restart_10k_s"] = median(seconds);
  figures["restart_10k_worst_s"] = Math.max(...seconds);
  await controller.end("SIGTERM");
  return figures;
}

/** Copies so many more, half Gateways and half Services, while no controller is there. */
async function fill(
  lab: Lab,
  client: Resident<BenchActions>,
  before: Program,
  options: AssignOptions,
  filling: Filling,
  count: number,
): Promise<Program> {
  const { tell } = options;
  if (filling.given.length === 0) {
    for (const kind of ["Gateway", "Service"] as const) {
      await put(lab.api, kind === "Gateway" ? GATEWAY : SERVICE, {
        ...templateObject(kind),
        apiVersion: kind === "Gateway" ? "gateway.networking.k8s.io/v1" : "v1",
        kind,
      });
    }
    await rest(lab);
    filling.given = [await given(lab, "Gateway"), await given(lab, "Service")];
  }
  await before.end("SIGTERM");
  const from = performance.now();
  const copies = Math.min(TEMPLATE, filling.copies + Math.ceil(count / 2));
  await client.call("fill", filling.given, filling.copies, copies);
  await caughtUp(lab, copies);
  filling.copies = copies;
  const controller = startController(lab, options);
  await eventually("the controller is ready", 60_000, async () => (await requestsOf(lab)) > 0);
  await rest(lab);
  const writes = await writesOf(lab);
  tell(
    `${count} more objects of Belfry's after ${((performance.now() - from) / 1000).toFixed(1)} s; the controller found ${
      writes === 0 ? "nothing" : `${writes} things`
    } to write about them`,
  );
  return controller;
}

/** What was copied so far, and of what. */
type Filling = { given: readonly Given[]; copies: number };

/** Until the API server's own caches have what was put behind its back: a controller would be told to wait. */
async function caughtUp(lab: Lab, copies: number): Promise<void> {
  const wanted = [
    [GATEWAY, copies],
    [SERVICE, copies],
    [VIRTUALIP, 2 * copies],
  ] as const;
  for (const [{ group, version, plural }, count] of wanted) {
    const path = `${group === "" ? "/api" : `/apis/${group}`}/${version}/${plural}?resourceVersion=0`;
    await eventually(
      `the API server shows ${count} ${plural}`,
      120_000,
      async () => {
        const { status, text } = (await lab.kube?.controlPlane.admin("GET", path)) ?? { status: 0, text: "" };
        return status === 200 && (JSON.parse(text) as { items: unknown[] }).items.length >= count;
      },
      1_000,
    );
  }
}

async function given(lab: Lab, kind: BenchKind): Promise<Given> {
  const { namespace = "", name } = templateObject(kind).metadata;
  const object = must(
    name,
    await lab.api.get<Gateway & Service>(kind === "Gateway" ? GATEWAY : SERVICE, { namespace, name }),
  );
  const vip = must("VirtualIPs", await lab.api.list<VirtualIP>(VIRTUALIP)).items.find(({ spec }) =>
    spec.holders.some((holder) => holder.uid === object.metadata.uid),
  );
  if (vip === undefined) throw new Error(`the template ${kind} has no address`);
  const clusterAddress = kind === "Service" ? object.spec.clusterIP : undefined;
  const ipAddress =
    clusterAddress === undefined
      ? undefined
      : must("IPAddress", await lab.api.get(IPADDRESS, { name: clusterAddress }));
  return {
    kind,
    uid: object.metadata.uid ?? "",
    address: vip.spec.address,
    pool: vip.spec.pool,
    vipUid: vip.metadata.uid ?? "",
    ipAddressUid: ipAddress?.metadata.uid,
  };
}

const IPADDRESS: Resource = {
  group: "networking.k8s.io",
  version: "v1",
  kind: "IPAddress",
  plural: "ipaddresses",
  namespaced: false,
};

/** One at a time, in turns. */
async function single(
  client: Resident<BenchActions>,
  label: string,
  { samples, tell }: AssignOptions,
  figures: Figures,
): Promise<number> {
  for (const kind of ["Gateway", "Service"] as const) {
    const seen = await client.call("series", kind, `single-${label}`, samples);
    const key = kind.toLowerCase();
    const [ours, bare] = [median(seen.belfry), median(seen.bare)];
    figures[`${key}_p50_ms_${label}`] = ours;
    figures[`${key}_p99_ms_${label}`] = quantile(seen.belfry, 0.99);
    figures[`${key}_bare_p50_ms_${label}`] = bare;
    figures[`${key}_bare_p99_ms_${label}`] = quantile(seen.bare, 0.99);
    figures[`${key}_p50_ratio_${label}`] = ours / bare;
    tell(
      `${kind} at ${label}: p50 ${ours.toFixed(2)} ms, bare ${bare.toFixed(2)} ms, ratio ${(ours / bare).toFixed(2)}`,
    );
  }
  return 2 * samples;
}

async function burst(
  lab: Lab,
  controller: Program,
  client: Resident<BenchActions>,
  label: string,
  { burst: count, tell }: AssignOptions,
  figures: Figures,
): Promise<number> {
  const seen: Record<Giver, number[]> = { belfry: [], bare: [] };
  const cpu: Record<Giver, number[]> = { belfry: [], bare: [] };
  const requests: Record<Giver, number[]> = { belfry: [], bare: [] };
  for (const turn of ["a", "b"]) {
    for (const giver of ["belfry", "bare"] as const) {
      const asked = await requestsOf(lab);
      const before = cpuSeconds(controller);
      seen[giver].push(await client.call("burst", giver, `burst-${label}-${turn}`, count, IN_FLIGHT));
      cpu[giver].push(cpuSeconds(controller) - before);
      requests[giver].push((await requestsOf(lab)) - asked);
      await rest(lab);
    }
  }
  const [ours, bare] = [mean(seen.belfry), mean(seen.bare)];
  figures[`burst500_s_${label}`] = ours;
  figures[`burst500_bare_s_${label}`] = bare;
  figures[`burst500_ratio_${label}`] = ours / bare;
  // Two for each address; what is more is told of others meanwhile.
  figures[`burst500_controller_requests_${label}`] = mean(requests.belfry);
  figures[`burst500_controller_cpu_s_${label}`] = mean(cpu.belfry);
  figures[`burst500_bare_controller_cpu_s_${label}`] = mean(cpu.bare);
  tell(
    `burst of ${count} at ${label}: ${ours.toFixed(2)} s, bare ${bare.toFixed(2)} s, ratio ${(ours / bare).toFixed(2)}`,
  );
  return 2 * count;
}

/** The leader gives its Lease back and ends; an object comes; from the start of the next one to the object's address. */
async function restart(
  lab: Lab,
  client: Resident<BenchActions>,
  before: Program,
  options: AssignOptions,
  name: string,
): Promise<{ seconds: number; controller: Program }> {
  await before.end("SIGTERM");
  const shown = client.call("shown", "Gateway", name);
  await client.call("create", "Gateway", name);
  const from = performance.timeOrigin + performance.now();
  const controller = startController(lab, options);
  return { seconds: ((await shown) - from) / 1000, controller };
}

function startController(lab: Lab, { profile }: AssignOptions): Program {
  // The child takes it over.
  if (profile !== undefined) process.env["NODE_OPTIONS"] = `--cpu-prof --cpu-prof-dir=${profile}`;
  const controller = lab.startController(`controller-${lab.controllers.length}`);
  delete process.env["NODE_OPTIONS"];
  return controller;
}

/** Until the controller has asked for nothing in a second: what the last part left to do is done. */
async function rest(lab: Lab): Promise<void> {
  // A VirtualIP without owner is given 3 s before its conditions say so.
  await delay(3_500);
  let before = -1;
  await eventually(
    "the controller rests",
    120_000,
    async () => {
      const now = await requestsOf(lab);
      const rests = now === before;
      before = now;
      return rests;
    },
    1_000,
  );
}

/** Requests of the running controller but those for Leases, so far. */
const requestsOf = (lab: Lab): Promise<number> => countRequests(lab, /^belfry_kube_requests_total\{/);

/** Of these, the ones that write anything but the number of addresses that a pool has left. */
const writesOf = (lab: Lab): Promise<number> =>
  countRequests(lab, /^belfry_kube_requests_total\{verb="(create|update|patch|delete)",resource="(?!ipaddresspools)/);

async function countRequests(lab: Lab, line: RegExp): Promise<number> {
  const { body } = await lab.scrape(lab.network.controlPlane, 9120 + lab.controllers.length - 1);
  return body
    .split("\n")
    .filter((each) => line.test(each))
    .reduce((sum, each) => sum + Number(each.slice(each.lastIndexOf(" "))), 0);
}

async function prepare(lab: Lab): Promise<void> {
  await putNamespace(lab.api, BENCH_NAMESPACE);
  const of = (resource: Resource, name: string, spec: unknown) =>
    put(lab.api, resource, {
      apiVersion: resource.group === "" ? resource.version : `${resource.group}/${resource.version}`,
      kind: resource.kind,
      metadata: { name },
      spec,
    } as KubeObject);
  await putNamespace(lab.api, FILL_NAMESPACE);
  await of(IPADDRESSPOOL, "bench", { addresses: ["198.19.0.0-198.19.99.255"] });
  for (const pool of fillPools()) await put(lab.api, IPADDRESSPOOL, pool);
  await of(L2ADVERTISEMENT, "bench", { requireSubnet: false });
  // The first range of the lab has room for 254 Services.
  await of(SERVICECIDR, "bench", { cidrs: [FILL_SERVICE_CIDR] });
  await of(GATEWAYCLASS, "belfry", { controllerName: LOAD_BALANCER });
  await of(GATEWAYCLASS, "bare", { controllerName: BARE_CONTROLLER });
}

/** The Leases of three speakers, renewed as speakers do: a controller that starts waits for each of them. */
async function keepLeases(lab: Lab, signal: AbortSignal): Promise<void> {
  const renew = async (node: string) => {
    const spec = {
      holderIdentity: node,
      leaseDurationSeconds: LEASE_DURATION_SECONDS,
      renewTime: microTime(new Date()),
    };
    const metadata = { name: speakerLeaseName(node), namespace: NAMESPACE };
    const lease = { apiVersion: "coordination.k8s.io/v1", kind: "Lease", metadata, spec };
    // One that a busy server did not take is followed by the next, as a speaker's is.
    await lab.api.apply(LEASE, lease, { fieldManager: "belfry-lab", force: true });
  };
  for (const name of NODES) await put(lab.api, NODE, { apiVersion: "v1", kind: "Node", metadata: { name } });
  await Promise.all(
    NODES.map(async (node, i) => {
      // Speakers are not in step.
      await delay((i * LEASE_RENEW_MILLISECONDS) / NODES.length);
      while (!signal.aborted) {
        await renew(node);
        await delay(LEASE_RENEW_MILLISECONDS, undefined, { signal }).catch(() => {});
      }
    }),
  );
}

function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

const median = (values: readonly number[]): number => quantile(values, 0.5);

const mean = (values: readonly number[]): number => values.reduce((sum, each) => sum + each, 0) / values.length;

/** Resident set of a process, as the kernel counts it (proc(5): VmRSS, kB). */
function rssMegabytes(program: Program): number {
  const text = readFileSync(`/proc/${program.pid}/status`, "utf8");
  return Number(/VmRSS:\s+([0-9]+) kB/.exec(text)?.[1] ?? 0) / 1024;
}

/** Processor time of a process, its kernel's included (proc(5): stat, fields 14 and 15, in ticks of 10 ms). */
function cpuSeconds(program: Program): number {
  const fields = readFileSync(`/proc/${program.pid}/stat`, "utf8").split(") ").at(-1)?.split(" ") ?? [];
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

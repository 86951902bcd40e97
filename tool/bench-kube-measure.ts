/** One of the two that bench:kube compares, measured from outside: see bench-kube.ts. */
import { readFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import type { Program } from "../lab/program.ts";
import { type Resident, startResident } from "../lab/resident.ts";
import { ENDPOINTSLICE } from "../src/api/resource.ts";
import { clock } from "../src/host/clock.ts";
import type { ApiClient } from "../src/kube/port.ts";
import { BENCH_NAMESPACE, freshEndpoint, frontendKey, nameOf, replaceSlice } from "./bench-kube-cluster.ts";
import type { FrontendMap, ObserverActions } from "./bench-kube-observer.ts";

const CHANGES = 25;
/** kube-proxy takes at most one change a second when they follow each other. */
const PAUSE_MILLISECONDS = 1300;
const REST_MILLISECONDS = 20_000;
const LIMIT_MILLISECONDS = 600_000;

/** One of the two that are measured. */
export type Subject = {
  readonly name: "kube_proxy" | "belfry";
  /** Network namespace of its node. */
  readonly namespace: string;
  readonly map: FrontendMap;
  start(): Program;
  addressOf(i: number): string;
};

/** Measures one of the two; the API server holds `size` Services, and one more without endpoints. Logs by `tell`. */
export async function measure(
  subject: Subject,
  api: ApiClient,
  kubeconfig: string,
  size: number,
  tell: (line: string) => void,
): Promise<Record<string, number>> {
  const { name, namespace, map, addressOf } = subject;
  const observer = await startResident<ObserverActions>(
    namespace,
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
    const changes = await endpointChanges(observer, api, kubeconfig, size, name === "belfry" ? 1 : 0);
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
  size: number,
  round: number,
): Promise<{ change: number; fromWrite: number }> {
  const list = await api.list(ENDPOINTSLICE, { namespace: "default" });
  if (!list.ok) throw new Error(list.failure.message);
  await observer.call("watchSlices", kubeconfig, BENCH_NAMESPACE, list.object.resourceVersion);
  await observer.call("listen");
  const [change, fromWrite]: [number[], number[]] = [[], []];
  for (let n = 0; n < CHANGES; n++) {
    await delay(PAUSE_MILLISECONDS);
    const i = (n * 7919) % size;
    const address = freshEndpoint(round * 256 + n);
    const hex = frontendKey(address).slice(0, 8);
    await observer.call("seek", hex);
    const wroteAt = clock.now();
    const version = await replaceSlice(api, i, [address, freshEndpoint(0xf00 + round)]);
    const [read, told] = await Promise.all([
      observer.call("untilRead", nameOf(i), version, 30_000),
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

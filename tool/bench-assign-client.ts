/**
 * Who creates Gateways and Services and waits until the address is in their status, as a client that watches sees it. Runs
 * as a resident in the control plane's namespace, beside the controller. `bare` objects are nobody's: this client writes
 * their status itself, with the words that the controller would use.
 */
import { serveActions } from "../lab/resident-entry.ts";
import type { Gateway, Service } from "../src/api/foreign.ts";
import type { KubeObject } from "../src/api/meta.ts";
import { clock } from "../src/host/clock.ts";
import { createClient, type WatchClient } from "../src/kube/client.ts";
import { loadConfig } from "../src/kube/config.ts";
import { startInformer } from "../src/kube/informer.ts";
import type { Answer } from "../src/kube/port.ts";
import { createLog } from "../src/observe/log.ts";
import { copyInEtcd } from "./bench-assign-etcd.ts";
import { type Given, templateOf } from "./bench-assign-fill.ts";
import {
  BENCH_NAMESPACE,
  type BenchKind,
  bareStatus,
  type Giver,
  newObject,
  RESOURCES,
} from "./bench-assign-object.ts";

/** As the control plane's namespace sees it. */
const ETCD = "http://127.0.0.1:2379";

const log = createLog({ name: "bench", level: "warn" });
let client: WatchClient | undefined;
let tries = 0;
/** Told once, when the object shows an address. */
const waiting = new Map<string, (at: number) => void>();

const opened = (): WatchClient => {
  if (client === undefined) throw new Error("open comes first");
  return client;
};

function must<T>(what: string, answer: Answer<T>): T {
  if (!answer.ok) throw new Error(`${what}: ${answer.failure.reason}: ${answer.failure.message}`);
  return answer.object;
}

const shows = (kind: BenchKind, object: KubeObject): boolean =>
  kind === "Gateway"
    ? ((object as Gateway).status?.addresses ?? []).length > 0
    : ((object as Service).status?.loadBalancer?.ingress ?? []).length > 0;

/** What is kept of an object that is watched. */
type Shown = KubeObject & { readonly shown: boolean };

const projectShown = (kind: BenchKind, object: KubeObject): Shown => {
  const { name, namespace = "", uid = "", resourceVersion = "" } = object.metadata;
  return { metadata: { name, namespace, uid, resourceVersion }, shown: shows(kind, object) };
};

function expectAddress(kind: BenchKind, name: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const key = `${kind}/${name}`;
    const patience = setTimeout(() => reject(new Error(`no address for ${key} in 60 s`)), 60_000);
    waiting.set(key, (at) => {
      clearTimeout(patience);
      waiting.delete(key);
      resolve(at);
    });
  });
}

/** Writes the address of a bare object, on the version that was created. */
async function giveBare(kind: BenchKind, created: KubeObject): Promise<void> {
  const { name, namespace = "", resourceVersion, generation = 1 } = created.metadata;
  const address = `198.51.100.${1 + (tries % 250)}`;
  const patch = { metadata: { resourceVersion }, status: bareStatus(kind, generation, address) };
  must(`status of ${name}`, await opened().mergePatch(RESOURCES[kind], { namespace, name }, patch, "status"));
}

/** Creates one object; resolves when the watch shows its address, with the milliseconds since before the creation. */
async function assignOne(kind: BenchKind, giver: Giver, name: string): Promise<number> {
  tries++;
  const shown = expectAddress(kind, name);
  const from = performance.now();
  const created = must(name, await opened().create(RESOURCES[kind], newObject(kind, giver, name)));
  if (giver === "bare") await giveBare(kind, created);
  return (await shown) - from;
}

/** `inFlight` at a time. */
async function each(count: number, inFlight: number, act: (i: number) => Promise<unknown>): Promise<void> {
  let next = 0;
  const work = async () => {
    for (let i = next++; i < count; i = next++) await act(i);
  };
  await Promise.all(Array.from({ length: inFlight }, work));
}

const pause = (milliseconds: number) => new Promise<void>((resolve) => setTimeout(resolve, milliseconds));

const actions = {
  /** Opens the client, and a second one that watches; resolves when both watches are there. */
  async open(kubeconfig: string): Promise<void> {
    client = createClient(loadConfig({ kubeconfig }), { clock, log });
    const watching = createClient(loadConfig({ kubeconfig }), { clock, log });
    await Promise.all(
      (["Gateway", "Service"] as const).map(
        (kind) =>
          new Promise<void>((resolve) => {
            startInformer<Shown>({
              client: watching,
              resource: RESOURCES[kind],
              namespace: BENCH_NAMESPACE,
              project: (object) => projectShown(kind, object),
              onEvent(event) {
                if (event.type === "synced") resolve();
                if (event.type !== "upsert" || !event.object.shown) return;
                waiting.get(`${kind}/${event.object.metadata.name}`)?.(performance.now());
              },
              clock,
              log,
              signal: new AbortController().signal,
            });
          }),
      ),
    );
  },

  /** One after the other, the givers in turns: Belfry, bare, Belfry, bare … Milliseconds of each. */
  async series(kind: BenchKind, prefix: string, count: number): Promise<Record<Giver, number[]>> {
    const seen: Record<Giver, number[]> = { belfry: [], bare: [] };
    for (let i = 0; i < count; i++) {
      for (const giver of ["belfry", "bare"] as const) {
        seen[giver].push(await assignOne(kind, giver, `${prefix}-${giver}-${i}`));
        await pause(10);
      }
    }
    return seen;
  },

  /** Gateways and Services in turns, `inFlight` creations at a time; seconds until every one shows its address. */
  async burst(giver: Giver, prefix: string, count: number, inFlight: number): Promise<number> {
    const from = performance.now();
    const shown: Promise<number>[] = [];
    await each(count, inFlight, async (i) => {
      tries++;
      const kind = i % 2 === 0 ? "Gateway" : "Service";
      const name = `${prefix}-${giver}-${i}`;
      shown.push(expectAddress(kind, name));
      const created = must(name, await opened().create(RESOURCES[kind], newObject(kind, giver, name)));
      if (giver === "bare") await giveBare(kind, created);
    });
    return (Math.max(...(await Promise.all(shown))) - from) / 1000;
  },

  /** Creates an object of Belfry's and leaves it waiting. */
  async create(kind: BenchKind, name: string): Promise<void> {
    must(name, await opened().create(RESOURCES[kind], newObject(kind, "belfry", name)));
  },

  /** Copies [from, to) of the two objects that `templates` describes, straight in etcd. */
  async fill(given: readonly Given[], from: number, to: number): Promise<void> {
    for (const each of given) await copyInEtcd(ETCD, templateOf(each), from, to);
  },

  /** Milliseconds since the epoch of this thread's clock when the object showed its address; see `performance.timeOrigin`. */
  async shown(kind: BenchKind, name: string): Promise<number> {
    return performance.timeOrigin + (await expectAddress(kind, name));
  },
};

export type BenchActions = typeof actions;

serveActions(actions);

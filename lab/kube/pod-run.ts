/** One pod on a node of the lab: from its network namespace to its last status. */
import { statSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as timer } from "node:timers/promises";
import type { WatchClient } from "../../src/kube/client.ts";
import type { Claim } from "../claim.ts";
import { tryRun } from "../command.ts";
import { attachPod, type LabNode } from "../network.ts";
import { findImage, type Mount, type RunningContainer } from "./image.ts";
import {
  type Container,
  type ContainerState,
  type ContainerView,
  POD,
  type Pod,
  type PodStatus,
  type PodView,
  podStatus,
} from "./pod.ts";
import { PodVolumes } from "./pod-volume.ts";
import { judge, type Probe, type Verdict } from "./probe.ts";
import type { KubeRequest } from "./request.ts";
import { environmentOf, expand, type Material } from "./volume.ts";

export type PodHost = {
  readonly claim: Claim;
  readonly node: LabNode;
  readonly client: WatchClient;
  readonly request: KubeRequest;
  /** Name of the network namespace of a pod. */
  namespaceOf(pod: Pod): string;
  /** Variables that every container gets: where the API server is. */
  readonly environment: Readonly<Record<string, string>>;
  /** Asks a container once, from the node. */
  probe(probe: Probe, container: Container, address: string): Promise<boolean>;
  /** A free place in the node's pod CIDRs, and back. */
  takeNumber(): number;
  giveNumber(number: number): void;
};

/** A container that ended is started again after this. */
const RESTART_MILLISECONDS = 1000;
const RETRY_MILLISECONDS = 500;
/** What ConfigMaps, Secrets and tokens have become is looked at this often. */
const VOLUME_UPDATE_MILLISECONDS = 10_000;
/** A kubelet's default. */
const GRACE_SECONDS = 30;
/** As long as a kubelet lets a container live after the grace period is over. */
const LEAST_GRACE_SECONDS = 2;

/** Nothing here keeps a process alive that is done otherwise. */
const delay = (milliseconds: number): Promise<void> => timer(milliseconds, undefined, { ref: false });

type Unit = {
  readonly spec: Container;
  restarts: number;
  state: ContainerState;
  running: RunningContainer | undefined;
  /** What its readiness probe says; true where it has none. */
  ready: boolean;
};

export class PodRun {
  readonly #host: PodHost;
  readonly #pod: Pod;
  readonly #initUnits: Unit[];
  readonly #units: Unit[];
  readonly #volumes: PodVolumes;
  readonly #startedAt = now();
  #podIPs: readonly string[] = [];
  #ready = true;
  #number: number | undefined;
  #namespace = "";
  #material: Material | undefined;
  /** True when the containers that come first have ended well. */
  #initialized = false;
  /** Fires when its end has begun: nothing is started again. */
  readonly #ending = new AbortController();
  readonly #aborted = new Promise<void>((resolve) => {
    this.#ending.signal.addEventListener("abort", () => resolve(), { once: true });
  });
  #status: PodStatus | undefined;
  #reporting: Promise<void> = Promise.resolve();
  #started: Promise<void> = Promise.resolve();
  #ended: Promise<void> | undefined;

  constructor(host: PodHost, pod: Pod) {
    this.#host = host;
    this.#pod = pod;
    const inits = pod.spec.initContainers ?? [];
    this.#initUnits = inits.map((spec) => newUnit(spec, "PodInitializing"));
    this.#units = pod.spec.containers.map((spec) =>
      newUnit(spec, inits.length > 0 ? "PodInitializing" : "ContainerCreating"),
    );
    const directory = join(host.claim.directory, "pods", pod.metadata.uid ?? pod.metadata.name);
    this.#volumes = new PodVolumes(pod, host.request, directory);
  }

  get name(): string {
    return this.#pod.metadata.name;
  }

  /** `namespace/name`. */
  get key(): string {
    return `${this.#pod.metadata.namespace}/${this.name}`;
  }

  /** Makes network and volumes, runs what comes first, starts every container, and reports. */
  start(): void {
    this.#started = this.#start().catch((error: unknown) => {
      for (const unit of this.#units) unit.state = notCreated(error);
      this.#report();
    });
  }

  /** Brings the pod's volumes to what they refer to now, with new tokens whether or not their time has come. */
  async rotateTokens(): Promise<void> {
    this.#material = await this.#volumes.update(this.#podIPs, true);
  }

  async #start(): Promise<void> {
    if (this.#ending.signal.aborted) return;
    const { claim, node } = this.#host;
    if (this.#pod.spec.hostNetwork === true) {
      this.#namespace = node.namespace;
      this.#podIPs = [node.lanIPv4, node.lanIPv6];
    } else {
      this.#namespace = this.#host.namespaceOf(this.#pod);
      this.#number = this.#host.takeNumber();
      const { ipv4, ipv6 } = await attachPod(claim, node, this.#namespace, this.#number);
      this.#podIPs = [ipv4, ipv6];
    }
    await this.#prepare();
    if (this.#volumes.wantsUpdates) void this.#keepVolumes();
    for (const unit of this.#initUnits) if (!(await this.#runInit(unit))) return;
    if (this.#ending.signal.aborted) return;
    this.#initialized = true;
    await Promise.all(this.#units.map((unit) => this.#keep(unit)));
    this.#report();
  }

  /** Starts a container; one that can't be created yet is tried again, and nobody waits for that. */
  async #keep(unit: Unit): Promise<void> {
    if (!(await this.#begin(unit))) void this.#keepLater(unit);
  }

  async #keepLater(unit: Unit): Promise<void> {
    await this.#rest(RETRY_MILLISECONDS);
    await this.#prepare();
    if (this.#ending.signal.aborted) return;
    await this.#keep(unit);
    this.#report();
  }

  /** False: it could not be created, and its state says why. */
  async #begin(unit: Unit): Promise<boolean> {
    try {
      await this.#startUnit(unit);
      return true;
    } catch (error) {
      unit.state = notCreated(error);
      return false;
    }
  }

  /** Reads what the pod refers to, until all of it is there. */
  async #prepare(): Promise<void> {
    while (!this.#ending.signal.aborted) {
      try {
        this.#material = await this.#volumes.update(this.#podIPs);
        return;
      } catch (error) {
        const [first] = [...this.#initUnits, ...this.#units];
        if (first?.running === undefined && first?.state.type === "waiting") {
          first.state = { ...notCreated(error), reason: "ContainerCreating" };
        }
        this.#report();
      }
      await this.#rest(RETRY_MILLISECONDS);
    }
  }

  /** Keeps tokens fresh, and files as their objects are. */
  async #keepVolumes(): Promise<void> {
    for (;;) {
      await this.#rest(VOLUME_UPDATE_MILLISECONDS);
      if (this.#ending.signal.aborted) return;
      try {
        this.#material = await this.#volumes.update(this.#podIPs);
      } catch {
        // What is there stays until the API server says something else.
      }
    }
  }

  /** Runs a container to its good end; false when that does not come. */
  async #runInit(unit: Unit): Promise<boolean> {
    while (!this.#ending.signal.aborted) {
      await this.#begin(unit);
      this.#report();
      await Promise.race([unit.running?.ended, this.#aborted]);
      // Its own handler has noted the end by then.
      await Promise.resolve();
      const { state } = unit;
      if (state.type === "terminated" && state.exitCode === 0) return true;
      if (state.type === "terminated" && this.#pod.spec.restartPolicy === "Never") return false;
      await this.#rest(RESTART_MILLISECONDS);
      if (state.type === "terminated") unit.restarts++;
      else await this.#prepare();
    }
    return false;
  }

  /** Sleeps, or until the pod's end begins. */
  #rest(milliseconds: number): Promise<unknown> {
    return Promise.race([delay(milliseconds), this.#aborted]);
  }

  async #startUnit(unit: Unit): Promise<void> {
    const { spec } = unit;
    const image = findImage(spec.image);
    if (image === undefined) {
      unit.state = { type: "waiting", reason: "ErrImagePull", message: `the lab has no image ${spec.image}` };
      return;
    }
    if (this.#ending.signal.aborted) return;
    const material = this.#material;
    if (material === undefined) return;
    const environment = environmentOf(spec, material, this.#host.environment);
    const running = await image({
      claim: this.#host.claim,
      namespace: this.#namespace,
      podName: this.name,
      id: `${this.name}-${spec.name}`,
      command: [...(spec.command ?? []), ...(spec.args ?? [])].map((word) => expand(word, environment)),
      environment,
      workingDirectory: spec.workingDir,
      mounts: (spec.volumeMounts ?? []).map(({ name, mountPath, subPath, readOnly = false }): Mount => {
        const source = join(this.#volumes.pathOf(name), subPath ?? "");
        return { source, target: mountPath, isDirectory: statSync(source).isDirectory(), readOnly };
      }),
    });
    const startedAt = now();
    unit.running = running;
    unit.state = { type: "running", startedAt };
    this.#probe(unit, running);
    void running.ended.then((exitCode) => {
      unit.running = undefined;
      unit.state = { type: "terminated", exitCode, startedAt, finishedAt: now() };
      this.#report();
      if (!this.#initUnits.includes(unit) && this.#isRestarted(exitCode)) void this.#restart(unit);
    });
  }

  #isRestarted(exitCode: number): boolean {
    const { restartPolicy = "Always" } = this.#pod.spec;
    return restartPolicy === "Always" || (restartPolicy === "OnFailure" && exitCode !== 0);
  }

  /** Asks for readiness and life as long as this container runs. */
  #probe(unit: Unit, running: RunningContainer): void {
    const { readinessProbe, livenessProbe } = unit.spec;
    unit.ready = readinessProbe === undefined;
    if (readinessProbe !== undefined) {
      void this.#ask(unit, running, readinessProbe, false, (good) => {
        unit.ready = good;
        this.#report();
      });
    }
    if (livenessProbe !== undefined) {
      void this.#ask(unit, running, livenessProbe, true, () => void this.#replace(running));
    }
  }

  /** Ends a container that does not live, at the latest with the grace period; its restart is another's business. */
  async #replace(running: RunningContainer): Promise<void> {
    running.terminate();
    const { terminationGracePeriodSeconds: grace = GRACE_SECONDS } = this.#pod.spec;
    await Promise.race([running.ended, delay(grace * 1000)]);
    running.kill();
  }

  async #ask(
    unit: Unit,
    running: RunningContainer,
    probe: Probe,
    good: boolean,
    turned: (good: boolean) => void,
  ): Promise<void> {
    await delay((probe.initialDelaySeconds ?? 0) * 1000);
    for (let verdict: Verdict = { good, against: 0 }; unit.running === running; ) {
      const next = judge(verdict, await this.#answer(unit, running, probe), probe);
      if (unit.running === running && next.good !== verdict.good) turned(next.good);
      verdict = next;
      await delay((probe.periodSeconds ?? 10) * 1000);
    }
  }

  #answer(unit: Unit, running: RunningContainer, probe: Probe): Promise<boolean> {
    if (probe.exec === undefined) return this.#host.probe(probe, unit.spec, this.#podIPs[0] ?? "");
    return running.exec(probe.exec.command ?? [], (probe.timeoutSeconds ?? 1) * 1000);
  }

  async #restart(unit: Unit): Promise<void> {
    await delay(RESTART_MILLISECONDS);
    if (this.#ending.signal.aborted || this.#ended !== undefined) return;
    unit.restarts++;
    await this.#keep(unit);
    this.#report();
  }

  /** What a readiness probe would say from now on. */
  setReady(ready: boolean): void {
    this.#ready = ready;
    this.#report();
  }

  /** Says again how the pod is where the controllers, after a silence of the node, wrote otherwise. */
  compareStatus(seen: Pod): void {
    const readyIn = (status: PodStatus | undefined) => status?.conditions.find(({ type }) => type === "Ready")?.status;
    if (this.#status !== undefined && readyIn(seen.status) !== readyIn(this.#status)) this.#report();
  }

  /** Ends every container kindly within the grace period, and lets the API server forget the pod. Once is enough. */
  terminate(graceSeconds: number): Promise<void> {
    this.#ended ??= this.#terminate(graceSeconds);
    return this.#ended;
  }

  async #terminate(graceSeconds: number): Promise<void> {
    // Nothing that has not begun begins.
    if (!this.#initialized) this.#ending.abort();
    await this.#started;
    const deadline = delay(graceSeconds * 1000);
    await Promise.all(
      this.#units.map(async ({ spec, running }) => {
        const { sleep, exec } = spec.lifecycle?.preStop ?? {};
        const pause = sleep?.seconds ?? 0;
        if (pause > 0) await Promise.race([delay(pause * 1000), deadline, running?.ended]);
        if (exec !== undefined) await running?.exec(exec.command ?? [], Math.max(1, graceSeconds) * 1000);
      }),
    );
    this.#ending.abort();
    const ends = this.#all.map(({ running }) => running?.ended);
    for (const { running } of this.#all) running?.terminate();
    await Promise.race([
      Promise.all(ends),
      deadline.then(() => delay(graceSeconds === 0 ? 0 : LEAST_GRACE_SECONDS * 1000)),
    ]);
    await this.#clear();
    await this.#reporting;
    await this.#forget();
  }

  /** The pod is gone for the API server, or the node dies: nothing is reported. */
  async kill(): Promise<void> {
    this.#ending.abort();
    this.#silent = true;
    await this.#started;
    await this.#clear();
  }

  #silent = false;

  async #clear(): Promise<void> {
    this.#ending.abort();
    const ends = this.#all.map(({ running }) => running?.ended);
    for (const { running } of this.#all) running?.kill();
    await Promise.all(ends);
    this.#volumes.remove();
    const number = this.#number;
    if (number === undefined) return;
    this.#number = undefined;
    // By itself the kernel removes the pair some time after the namespace.
    await tryRun("ip", ["-n", this.#host.node.namespace, "link", "delete", `veth${number}`]);
    await tryRun("ip", ["netns", "delete", this.#namespace]);
    this.#host.giveNumber(number);
  }

  get #all(): Unit[] {
    return [...this.#initUnits, ...this.#units];
  }

  #view(): PodView {
    const { node } = this.#host;
    return {
      hostIPs: [node.lanIPv4, node.lanIPv6],
      podIPs: this.#podIPs,
      startedAt: this.#startedAt,
      ending:
        this.#ending.signal.aborted ||
        this.#all.every(({ state }) => state.type !== "terminated" || !this.#isRestarted(state.exitCode)),
      initContainers: this.#initUnits.map((unit) => this.#viewOf(unit)),
      containers: this.#units.map((unit) => this.#viewOf(unit)),
    };
  }

  #viewOf({ spec, restarts, state, ready }: Unit): ContainerView {
    return {
      name: spec.name,
      image: spec.image,
      id: `${this.#pod.metadata.uid}-${spec.name}-${restarts}`,
      restarts,
      state,
      ready: this.#ready && ready,
    };
  }

  /** Writes the status, after the one that is being written. */
  #report(): void {
    this.#reporting = this.#reporting.then(async () => {
      const status = podStatus(this.#view(), this.#status, now());
      const { name, namespace = "", uid } = this.#pod.metadata;
      for (;;) {
        if (this.#silent) return;
        const patch = { metadata: { uid }, status };
        const answer = await this.#host.client.mergePatch(POD, { name, namespace }, patch, "status");
        if (answer.ok) break;
        const { status: code, message } = answer.failure;
        // Gone, or another one of this name: a patch can't change the uid.
        if (code === 404 || code === 409 || message.includes("metadata.uid")) return;
        if (code >= 400 && code < 500 && code !== 429)
          throw new Error(`status of pod ${namespace}/${name}: ${message}`);
        await delay(RETRY_MILLISECONDS);
      }
      this.#status = status;
    });
  }

  /** The last word of a kubelet: the object may go. */
  async #forget(): Promise<void> {
    const { name, namespace, uid } = this.#pod.metadata;
    const options = { gracePeriodSeconds: 0, preconditions: { uid } };
    for (;;) {
      if (this.#silent) return;
      try {
        const { status } = await this.#host.request("DELETE", `/api/v1/namespaces/${namespace}/pods/${name}`, options);
        if (status < 300 || status === 404 || status === 409) return;
      } catch {
        // No answer; once more.
      }
      await delay(RETRY_MILLISECONDS);
    }
  }
}

const newUnit = (spec: Container, reason: string): Unit => ({
  spec,
  restarts: 0,
  state: { type: "waiting", reason, message: "" },
  running: undefined,
  ready: spec.readinessProbe === undefined,
});

const notCreated = (error: unknown) => ({
  type: "waiting" as const,
  reason: "CreateContainerError",
  message: error instanceof Error ? error.message : String(error),
});

const now = (): string => new Date().toISOString().replace(/\.\d+Z$/, "Z");

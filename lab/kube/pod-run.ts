/** One pod on a node of the lab: from its network namespace to its last status. */
import { setTimeout as timer } from "node:timers/promises";
import type { WatchClient } from "../../src/kube/client.ts";
import type { Claim } from "../claim.ts";
import { tryRun } from "../command.ts";
import { attachPod, type LabNode } from "../network.ts";
import { findImage, type RunningContainer } from "./image.ts";
import {
  type Container,
  type ContainerState,
  type ContainerView,
  environmentOf,
  expand,
  POD,
  type Pod,
  type PodStatus,
  type PodView,
  podStatus,
} from "./pod.ts";
import { judge, type Probe, type Verdict } from "./probe.ts";
import type { KubeRequest } from "./request.ts";

export type PodHost = {
  readonly claim: Claim;
  readonly node: LabNode;
  readonly client: WatchClient;
  readonly request: KubeRequest;
  /** Name of the network namespace of a pod. */
  namespaceOf(pod: Pod): string;
  /** Asks a container once, from the node. */
  probe(probe: Probe, container: Container, address: string): Promise<boolean>;
  /** A free place in the node's pod CIDRs, and back. */
  takeNumber(): number;
  giveNumber(number: number): void;
};

/** A container that ended is started again after this. */
const RESTART_MILLISECONDS = 1000;
const RETRY_MILLISECONDS = 500;
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
  readonly #units: Unit[];
  readonly #startedAt = now();
  #podIPs: readonly string[] = [];
  #ready = true;
  #number: number | undefined;
  #namespace = "";
  /** Fires when its end has begun: nothing is started again. */
  readonly #ending = new AbortController();
  #status: PodStatus | undefined;
  #reporting: Promise<void> = Promise.resolve();
  #started: Promise<void> = Promise.resolve();
  #ended: Promise<void> | undefined;

  constructor(host: PodHost, pod: Pod) {
    this.#host = host;
    this.#pod = pod;
    this.#units = pod.spec.containers.map((spec) => ({
      spec,
      restarts: 0,
      state: { type: "waiting", reason: "ContainerCreating", message: "" },
      running: undefined,
      ready: spec.readinessProbe === undefined,
    }));
  }

  get name(): string {
    return this.#pod.metadata.name;
  }

  /** `namespace/name`. */
  get key(): string {
    return `${this.#pod.metadata.namespace}/${this.name}`;
  }

  /** Makes the network, starts every container, and reports. */
  start(): void {
    this.#started = this.#start().catch((error: unknown) => {
      for (const unit of this.#units) unit.state = notCreated(error);
      this.#report();
    });
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
    await Promise.all(this.#units.map((unit) => this.#startUnit(unit)));
    this.#report();
  }

  async #startUnit(unit: Unit): Promise<void> {
    const { spec } = unit;
    const image = findImage(spec.image);
    if (image === undefined) {
      unit.state = { type: "waiting", reason: "ErrImagePull", message: `the lab has no image ${spec.image}` };
      return;
    }
    if (this.#ending.signal.aborted) return;
    const environment = environmentOf(spec, this.#pod, this.#podIPs);
    const running = await image({
      claim: this.#host.claim,
      namespace: this.#namespace,
      podName: this.name,
      id: `${this.name}-${spec.name}`,
      command: [...(spec.command ?? []), ...(spec.args ?? [])].map((word) => expand(word, environment)),
      environment,
    });
    const startedAt = now();
    unit.running = running;
    unit.state = { type: "running", startedAt };
    this.#probe(unit, running);
    void running.ended.then((exitCode) => {
      unit.running = undefined;
      unit.state = { type: "terminated", exitCode, startedAt, finishedAt: now() };
      this.#report();
      if (this.#pod.spec.restartPolicy === "Always" || this.#pod.spec.restartPolicy === undefined) {
        void this.#restart(unit);
      }
    });
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
    if (livenessProbe !== undefined) void this.#ask(unit, running, livenessProbe, true, () => running.terminate());
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
      const next = judge(verdict, await this.#host.probe(probe, unit.spec, this.#podIPs[0] ?? ""), probe);
      if (unit.running === running && next.good !== verdict.good) turned(next.good);
      verdict = next;
      await delay((probe.periodSeconds ?? 10) * 1000);
    }
  }

  async #restart(unit: Unit): Promise<void> {
    await delay(RESTART_MILLISECONDS);
    if (this.#ending.signal.aborted || this.#ended !== undefined) return;
    unit.restarts++;
    await this.#startUnit(unit).catch((error: unknown) => {
      unit.state = notCreated(error);
    });
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
    await this.#started;
    const deadline = delay(graceSeconds * 1000);
    await Promise.all(
      this.#units.map(async ({ spec, running }) => {
        const pause = spec.lifecycle?.preStop?.sleep?.seconds ?? 0;
        if (pause > 0) await Promise.race([delay(pause * 1000), deadline, running?.ended]);
      }),
    );
    this.#ending.abort();
    const ends = this.#units.map(({ running }) => running?.ended);
    for (const { running } of this.#units) running?.terminate();
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
    const ends = this.#units.map(({ running }) => running?.ended);
    for (const { running } of this.#units) running?.kill();
    await Promise.all(ends);
    const number = this.#number;
    if (number === undefined) return;
    this.#number = undefined;
    // By itself the kernel removes the pair some time after the namespace.
    await tryRun("ip", ["-n", this.#host.node.namespace, "link", "delete", `veth${number}`]);
    await tryRun("ip", ["netns", "delete", this.#namespace]);
    this.#host.giveNumber(number);
  }

  #view(): PodView {
    const { node } = this.#host;
    return {
      hostIPs: [node.lanIPv4, node.lanIPv6],
      podIPs: this.#podIPs,
      startedAt: this.#startedAt,
      ending: this.#ending.signal.aborted || this.#pod.spec.restartPolicy === "Never",
      containers: this.#units.map(
        (unit): ContainerView => ({
          name: unit.spec.name,
          image: unit.spec.image,
          id: `${this.#pod.metadata.uid}-${unit.spec.name}-${unit.restarts}`,
          restarts: unit.restarts,
          state: unit.state,
          ready: this.#ready && unit.ready,
        }),
      ),
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

const notCreated = (error: unknown): ContainerState => ({
  type: "waiting",
  reason: "CreateContainerError",
  message: error instanceof Error ? error.message : String(error),
});

const now = (): string => new Date().toISOString().replace(/\.\d+Z$/, "Z");

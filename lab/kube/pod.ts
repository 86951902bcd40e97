/** The fields of a Pod that the lab's kubelet reads and writes, and the status that it reports. */
import type { KubeObject } from "../../src/api/meta.ts";
import type { Resource } from "../../src/api/resource.ts";
import type { Probe } from "./probe.ts";
import type { EnvFrom, EnvVar, Volume } from "./volume.ts";

export const POD: Resource = { group: "", version: "v1", kind: "Pod", plural: "pods", namespaced: true };

export type Container = {
  readonly name: string;
  readonly image: string;
  readonly command?: readonly string[];
  readonly args?: readonly string[];
  readonly workingDir?: string;
  readonly env?: readonly EnvVar[];
  readonly envFrom?: readonly EnvFrom[];
  readonly volumeMounts?: readonly VolumeMount[];
  readonly ports?: readonly { readonly name?: string; readonly containerPort: number }[];
  readonly readinessProbe?: Probe;
  readonly livenessProbe?: Probe;
  readonly lifecycle?: {
    readonly preStop?: {
      readonly sleep?: { readonly seconds: number };
      readonly exec?: { readonly command?: readonly string[] };
    };
  };
};

export type VolumeMount = {
  readonly name: string;
  readonly mountPath: string;
  readonly subPath?: string;
  readonly readOnly?: boolean;
};

export type Pod = KubeObject & {
  metadata: KubeObject["metadata"] & { deletionGracePeriodSeconds?: number };
  spec: {
    nodeName?: string;
    serviceAccountName?: string;
    hostNetwork?: boolean;
    restartPolicy?: string;
    terminationGracePeriodSeconds?: number;
    volumes?: Volume[];
    /** Each to its end before the next. */
    initContainers?: Container[];
    containers: Container[];
  };
  status?: PodStatus;
};

export type PodCondition = { type: string; status: "True" | "False"; lastTransitionTime: string; reason?: string };

export type PodStatus = {
  phase: string;
  hostIP: string;
  hostIPs: { ip: string }[];
  podIP: string | null;
  podIPs: { ip: string }[] | null;
  startTime: string;
  conditions: PodCondition[];
  initContainerStatuses?: unknown[];
  containerStatuses: unknown[];
};

export type ContainerState =
  | { readonly type: "waiting"; readonly reason: string; readonly message: string }
  | { readonly type: "running"; readonly startedAt: string }
  | { readonly type: "terminated"; readonly exitCode: number; readonly startedAt: string; readonly finishedAt: string };

export type ContainerView = {
  readonly name: string;
  readonly image: string;
  readonly id: string;
  readonly restarts: number;
  readonly state: ContainerState;
  /** What its readiness says; only a running container is ready. */
  readonly ready: boolean;
};

/** What the kubelet knows of a pod of its own. */
export type PodView = {
  readonly hostIPs: readonly string[];
  /** Empty until it has a network. */
  readonly podIPs: readonly string[];
  readonly startedAt: string;
  /** True when no container that ended is started again. */
  readonly ending: boolean;
  readonly initContainers: readonly ContainerView[];
  readonly containers: readonly ContainerView[];
};

/** The status of a pod as a kubelet words it; `before` keeps the times of conditions that did not change. */
export function podStatus(view: PodView, before: PodStatus | undefined, now: string): PodStatus {
  const ready = view.containers.every(isReady);
  const initialized = view.initContainers.every(isDone);
  const condition = (type: string, holds: boolean): PodCondition => {
    const status = holds ? "True" : "False";
    const old = before?.conditions.find((each) => each.type === type);
    const lastTransitionTime = old?.status === status ? old.lastTransitionTime : now;
    const reason = holds ? undefined : REASONS[type];
    return { type, status, lastTransitionTime, ...(reason === undefined ? {} : { reason }) };
  };
  return {
    phase: phaseOf(view),
    hostIP: view.hostIPs[0] ?? "",
    hostIPs: view.hostIPs.map((ip) => ({ ip })),
    podIP: view.podIPs[0] ?? null,
    podIPs: view.podIPs.length === 0 ? null : view.podIPs.map((ip) => ({ ip })),
    startTime: view.startedAt,
    conditions: [
      condition("PodReadyToStartContainers", view.podIPs.length > 0),
      condition("Initialized", initialized),
      condition("Ready", ready),
      condition("ContainersReady", ready),
      condition("PodScheduled", true),
    ],
    ...(view.initContainers.length === 0
      ? {}
      : { initContainerStatuses: view.initContainers.map((each) => containerStatus(each, isDone(each))) }),
    containerStatuses: view.containers.map((each) => containerStatus(each, isReady(each))),
  };
}

/** Why a condition does not hold, in a kubelet's words. */
const REASONS: Readonly<Record<string, string>> = {
  Ready: "ContainersNotReady",
  ContainersReady: "ContainersNotReady",
  Initialized: "ContainersNotInitialized",
};

const isDone = ({ state }: ContainerView): boolean => state.type === "terminated" && state.exitCode === 0;

const isReady = (container: ContainerView): boolean => container.state.type === "running" && container.ready;

function phaseOf({ initContainers, containers, ending }: PodView): string {
  if (!initContainers.every(isDone)) {
    const failed = initContainers.some(({ state }) => state.type === "terminated" && state.exitCode !== 0);
    return ending && failed ? "Failed" : "Pending";
  }
  if (ending && containers.every(({ state }) => state.type === "terminated")) {
    const good = containers.every(({ state }) => state.type === "terminated" && state.exitCode === 0);
    return good ? "Succeeded" : "Failed";
  }
  return containers.some(({ state }) => state.type !== "waiting") ? "Running" : "Pending";
}

function containerStatus(container: ContainerView, ready: boolean) {
  const { name, image, id, restarts, state } = container;
  const containerID = `lab://${id}`;
  return {
    name,
    image,
    imageID: image,
    containerID: state.type === "waiting" ? "" : containerID,
    ready,
    started: state.type === "running",
    restartCount: restarts,
    state: stateOf(state, containerID),
  };
}

function stateOf(state: ContainerState, containerID: string) {
  switch (state.type) {
    case "waiting":
      return { waiting: { reason: state.reason, message: state.message } };
    case "running":
      return { running: { startedAt: state.startedAt } };
    case "terminated": {
      const { exitCode, startedAt, finishedAt } = state;
      const reason = exitCode === 0 ? "Completed" : "Error";
      return { terminated: { exitCode, reason, startedAt, finishedAt, containerID } };
    }
  }
}

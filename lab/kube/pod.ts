/** The fields of a Pod that the lab's kubelet reads and writes, and the status that it reports. */
import type { KubeObject } from "../../src/api/meta.ts";
import type { Resource } from "../../src/api/resource.ts";
import type { Probe } from "./probe.ts";

export const POD: Resource = { group: "", version: "v1", kind: "Pod", plural: "pods", namespaced: true };

export type EnvVar = {
  readonly name: string;
  readonly value?: string;
  readonly valueFrom?: { readonly fieldRef?: { readonly fieldPath: string } };
};

export type Container = {
  readonly name: string;
  readonly image: string;
  readonly command?: readonly string[];
  readonly args?: readonly string[];
  readonly env?: readonly EnvVar[];
  readonly ports?: readonly { readonly name?: string; readonly containerPort: number }[];
  readonly readinessProbe?: Probe;
  readonly livenessProbe?: Probe;
  readonly lifecycle?: { readonly preStop?: { readonly sleep?: { readonly seconds: number } } };
};

export type Pod = KubeObject & {
  metadata: KubeObject["metadata"] & { deletionGracePeriodSeconds?: number };
  spec: {
    nodeName?: string;
    hostNetwork?: boolean;
    restartPolicy?: string;
    terminationGracePeriodSeconds?: number;
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
  /** True when no container is started any more. */
  readonly ending: boolean;
  readonly containers: readonly ContainerView[];
};

/** The status of a pod as a kubelet words it; `before` keeps the times of conditions that did not change. */
export function podStatus(view: PodView, before: PodStatus | undefined, now: string): PodStatus {
  const ready = view.containers.every(isReady);
  const condition = (type: string, holds: boolean): PodCondition => {
    const status = holds ? "True" : "False";
    const old = before?.conditions.find((each) => each.type === type);
    const lastTransitionTime = old?.status === status ? old.lastTransitionTime : now;
    return { type, status, lastTransitionTime, ...(holds || !type.endsWith("Ready") ? {} : { reason: NOT_READY }) };
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
      condition("Initialized", true),
      condition("Ready", ready),
      condition("ContainersReady", ready),
      condition("PodScheduled", true),
    ],
    containerStatuses: view.containers.map(containerStatus),
  };
}

const NOT_READY = "ContainersNotReady";

const isReady = (container: ContainerView): boolean => container.state.type === "running" && container.ready;

function phaseOf({ containers, ending }: PodView): string {
  if (ending && containers.every(({ state }) => state.type === "terminated")) {
    const good = containers.every(({ state }) => state.type === "terminated" && state.exitCode === 0);
    return good ? "Succeeded" : "Failed";
  }
  return containers.some(({ state }) => state.type !== "waiting") ? "Running" : "Pending";
}

function containerStatus(container: ContainerView) {
  const { name, image, id, restarts, state } = container;
  const containerID = `lab://${id}`;
  return {
    name,
    image,
    imageID: image,
    containerID: state.type === "waiting" ? "" : containerID,
    ready: isReady(container),
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

/** Environment of a container: literal values and the fields of the pod that the downward API knows here. */
export function environmentOf(container: Container, pod: Pod, podIPs: readonly string[]): Record<string, string> {
  const fields: Readonly<Record<string, string | undefined>> = {
    "metadata.name": pod.metadata.name,
    "metadata.namespace": pod.metadata.namespace,
    "metadata.uid": pod.metadata.uid,
    "spec.nodeName": pod.spec.nodeName,
    "status.podIP": podIPs[0],
    "status.podIPs": podIPs.join(","),
  };
  const environment: Record<string, string> = {};
  for (const { name, value, valueFrom } of container.env ?? []) {
    environment[name] =
      valueFrom === undefined ? expand(value ?? "", environment) : (fields[valueFrom.fieldRef?.fieldPath ?? ""] ?? "");
  }
  return environment;
}

/** `$(NAME)` takes the variable's value where there is one; `$$` is a dollar. */
export const expand = (text: string, environment: Readonly<Record<string, string>>): string =>
  text.replace(/\$\$|\$\(([A-Za-z_][A-Za-z0-9_]*)\)/g, (found, name: string | undefined) =>
    name === undefined ? "$" : (environment[name] ?? found),
  );

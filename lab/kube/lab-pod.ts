/** The lab's pods as objects of a real cluster: each serves its name behind the samples' Services. */
import type { Service } from "../../src/api/foreign.ts";
import type { KubeObject } from "../../src/api/meta.ts";
import { type Resource, SERVICE } from "../../src/api/resource.ts";
import type { ApiClient, Key } from "../../src/kube/port.ts";
import { type LabPod, must, type PodState } from "../cluster.ts";
import { eventually } from "../eventually.ts";
import type { KubeCluster } from "./cluster.ts";
import { POD_SERVER } from "./image.ts";
import { POD, type Pod } from "./pod.ts";
import { objectOf } from "./request.ts";

export const DEPLOYMENT: Resource = {
  group: "apps",
  version: "v1",
  kind: "Deployment",
  plural: "deployments",
  namespaced: true,
};

const NAMESPACE = "demo";
/** What the samples' Services select. */
const LABELS = { app: "web" };

/**
 * A container of the pod server. After its deletion a pod goes on serving for a moment, since speakers hear of it when
 * it does: without that, every load balancer sends it some last connections.
 */
const container = (env: readonly { name: string; value: string }[], servesOnSeconds: number) => ({
  name: "web",
  image: POD_SERVER,
  env,
  lifecycle: { preStop: { sleep: { seconds: servesOnSeconds } } },
});

/** A pod of a test's own goes on serving for as long as its deletion says. */
const LONGEST_GRACE_SECONDS = 600;

/** Creates a pod on the node and waits until it is ready. */
export async function startKubePod(
  api: ApiClient,
  { name, node, port = 8080 }: { name: string; node: string; port?: number },
): Promise<LabPod> {
  const pod: KubeObject & { spec: unknown } = {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name, namespace: NAMESPACE, labels: LABELS },
    spec: {
      nodeName: node,
      automountServiceAccountToken: false,
      terminationGracePeriodSeconds: LONGEST_GRACE_SECONDS,
      containers: [container([{ name: "PORT", value: `${port}` }], LONGEST_GRACE_SECONDS)],
    },
  };
  await eventually(`pod ${name} is created`, 20_000, async () => {
    // Refused until the namespace has its default account.
    must(`pod ${name}`, await api.create(POD, pod));
    return true;
  });
  return eventually(`pod ${name} is ready`, 20_000, () => findReadyPod(api, name));
}

/**
 * Brings a pod to a state, as a probe, a user's deletion or another label would, so that the real controllers say so in
 * the EndpointSlices. `Absent`: it runs, and no Service selects it. Gives the pod, a new one if the old one was ending.
 */
export async function setKubePod(
  kube: KubeCluster,
  api: ApiClient,
  pod: LabPod,
  state: PodState | "Absent",
): Promise<LabPod> {
  const { name, node } = pod;
  const key = { namespace: NAMESPACE, name };
  const path = `/api/v1/namespaces/${NAMESPACE}/pods/${name}`;
  const found = await api.get<Pod>(POD, key);
  const ending = found.ok && found.object.metadata.deletionTimestamp !== undefined;
  const kubelet = kube.kubelets.get(node);
  if (kubelet === undefined) throw new Error(`no kubelet on ${node}`);
  const { admin } = kube.controlPlane;
  if (state === "Terminating") {
    kubelet.setPodReady(name, true);
    if (!ending) objectOf(path, await admin("DELETE", path, { gracePeriodSeconds: LONGEST_GRACE_SECONDS }));
    return { ...pod, state };
  }
  if (!found.ok || ending) {
    if (ending) objectOf(path, await admin("DELETE", path, { gracePeriodSeconds: 0 }));
    const next = await startKubePod(api, { name, node });
    return setKubePod(kube, api, next, state);
  }
  const labels = { app: state === "Absent" ? null : LABELS.app };
  must(path, await api.mergePatch(POD, key, { metadata: { labels } }));
  kubelet.setPodReady(name, state !== "NotReady");
  return { ...pod, state: state === "Absent" ? "Ready" : state };
}

/** Whether the endpoints of a Service are the controllers' to write. */
export async function hasSelector(api: ApiClient, { namespace, name }: Key & { namespace: string }): Promise<boolean> {
  const service = must(`service ${name}`, await api.get<Service>(SERVICE, { namespace, name }));
  return Object.keys(service.spec.selector ?? {}).length > 0;
}

async function findReadyPod(api: ApiClient, name: string): Promise<LabPod | undefined> {
  const pod = must(`pod ${name}`, await api.get<Pod>(POD, { namespace: NAMESPACE, name }));
  const ready = pod.status?.conditions.some(({ type, status }) => type === "Ready" && status === "True");
  const [ipv4, ipv6] = (pod.status?.podIPs ?? []).map(({ ip }) => ip);
  if (ready !== true || ipv4 === undefined || ipv6 === undefined) {
    throw new Error(JSON.stringify(pod.status ?? "no status"));
  }
  return { name, node: pod.spec.nodeName ?? "", ipv4, ipv6, state: "Ready" };
}

export type Deployment = KubeObject & {
  spec: { replicas: number };
  status?: { observedGeneration?: number; updatedReplicas?: number; replicas?: number; availableReplicas?: number };
};

/** The Deployment behind the samples' Services, as its owner would write it; `version` makes a new roll-out. */
export const webDeployment = (replicas: number, version = "1"): Deployment & { spec: unknown } => ({
  apiVersion: "apps/v1",
  kind: "Deployment",
  metadata: { name: "web", namespace: NAMESPACE },
  spec: {
    replicas,
    selector: { matchLabels: LABELS },
    template: {
      metadata: { labels: LABELS, annotations: { version } },
      spec: {
        automountServiceAccountToken: false,
        terminationGracePeriodSeconds: 10,
        containers: [container([{ name: "VERSION", value: version }], 2)],
      },
    },
  } as Deployment["spec"],
});

/** True when the roll-out that was asked for last is complete, and no old pod is left. */
export async function isRolledOut(api: ApiClient, name: string): Promise<boolean> {
  const { metadata, spec, status } = must(name, await api.get<Deployment>(DEPLOYMENT, { namespace: NAMESPACE, name }));
  return (
    status?.observedGeneration === metadata.generation &&
    (status?.updatedReplicas ?? 0) === spec.replicas &&
    (status?.replicas ?? 0) === spec.replicas &&
    (status?.availableReplicas ?? 0) === spec.replicas
  );
}

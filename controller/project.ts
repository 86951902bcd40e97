/**
 * What the controller keeps of each object: the fields that it reads, nothing else. Memory at 10k VIPs is made here.
 * Each function may reuse parts of what it gets.
 */
import type { Gateway, GatewayClass, Lease, Namespace, Node, Service, ServiceCIDR } from "../src/api/foreign.ts";
import type { IPAddressPool } from "../src/api/ip-address-pool.ts";
import type { L2Advertisement } from "../src/api/l2-advertisement.ts";
import type { KubeObject, ObjectMeta } from "../src/api/meta.ts";
import type { ServiceRoute } from "../src/api/service-route.ts";
import type { SpeakerStatus } from "../src/api/speaker-status.ts";
import type { VirtualIP } from "../src/api/virtual-ip.ts";

/** The identity, and of the rest what is there: an absent field costs nothing. */
function metadataOf(metadata: ObjectMeta, keep: "all" | "bare" = "all"): ObjectMeta {
  const { name, namespace, uid, resourceVersion, generation, creationTimestamp, deletionTimestamp } = metadata;
  const { labels, annotations, finalizers } = metadata;
  return {
    name,
    ...(namespace === undefined ? {} : { namespace }),
    ...(uid === undefined ? {} : { uid }),
    ...(resourceVersion === undefined ? {} : { resourceVersion }),
    ...(generation === undefined ? {} : { generation }),
    ...(creationTimestamp === undefined ? {} : { creationTimestamp }),
    ...(deletionTimestamp === undefined ? {} : { deletionTimestamp }),
    ...(labels === undefined || keep === "bare" ? {} : { labels }),
    ...(annotations === undefined || keep === "bare" ? {} : { annotations }),
    ...(finalizers === undefined ? {} : { finalizers }),
  };
}

const whole = <T extends KubeObject & { spec: unknown; status?: unknown }>(object: KubeObject): T => {
  const { spec, status } = object as T;
  const kept: KubeObject & { spec: unknown; status?: unknown } = { metadata: metadataOf(object.metadata), spec };
  if (status !== undefined) kept.status = status;
  return kept as T;
};

export const projectGateway = (object: KubeObject): Gateway => withoutAnnotations(whole<Gateway>(object));
export const projectGatewayClass = (object: KubeObject): GatewayClass =>
  withoutAnnotations(whole<GatewayClass>(object));
export const projectServiceRoute = (object: KubeObject): ServiceRoute =>
  withoutAnnotations(whole<ServiceRoute>(object));
export const projectVirtualIP = (object: KubeObject): VirtualIP => withoutAnnotations(whole<VirtualIP>(object));
export const projectPool = (object: KubeObject): IPAddressPool => withoutAnnotations(whole<IPAddressPool>(object));
export const projectL2Advertisement = (object: KubeObject): L2Advertisement =>
  withoutAnnotations(whole<L2Advertisement>(object));

function withoutAnnotations<T extends KubeObject>(object: T): T {
  delete object.metadata.annotations;
  return object;
}

/** Services of other kinds are kept for the routes that name them: type and ports will do. */
export function projectService(object: KubeObject): Service {
  const { metadata, spec = {}, status } = object as Service;
  const { type, ports } = spec;
  const ingress = status?.loadBalancer?.ingress ?? [];
  if (type !== "LoadBalancer" && ingress.length === 0 && (status?.conditions ?? []).length === 0) {
    return {
      metadata: metadataOf(metadata, "bare"),
      spec: { ...(type === undefined ? {} : { type }), ...(ports === undefined ? {} : { ports }) },
    };
  }
  return { metadata: metadataOf(metadata), spec, ...(status === undefined ? {} : { status }) };
}

export function projectNode(object: KubeObject): Node {
  const { metadata, status } = object as Node;
  const addresses = (status?.addresses ?? []).filter(({ type }) => type === "InternalIP" || type === "ExternalIP");
  const conditions = (status?.conditions ?? []).flatMap(({ type, status }) =>
    type === "Ready" ? { type, status } : [],
  );
  const kept = metadataOf(metadata, "bare");
  return {
    metadata: metadata.labels === undefined ? kept : { ...kept, labels: metadata.labels },
    status: { addresses, conditions },
  };
}

export const projectNamespace = (object: KubeObject): Namespace => ({
  metadata: { ...metadataOf(object.metadata, "bare"), labels: object.metadata.labels ?? {} },
});

export function projectLease(object: KubeObject): Lease {
  const { metadata, spec } = object as Lease;
  const { holderIdentity, leaseDurationSeconds, renewTime } = spec ?? {};
  return {
    metadata: metadataOf(metadata, "bare"),
    spec: {
      ...(holderIdentity == null ? {} : { holderIdentity }),
      ...(leaseDurationSeconds == null ? {} : { leaseDurationSeconds }),
      ...(renewTime == null ? {} : { renewTime }),
    },
  };
}

export function projectServiceCIDR(object: KubeObject): ServiceCIDR {
  const { metadata, spec } = object as ServiceCIDR;
  return { metadata: metadataOf(metadata, "bare"), spec: { cidrs: spec?.cidrs ?? [] } };
}

export function projectSpeakerStatus(object: KubeObject): SpeakerStatus {
  const { metadata, spec, status } = object as SpeakerStatus;
  const { links, withdrawnThrough, conditions, failing } = status ?? {};
  return {
    metadata: metadataOf(metadata, "bare"),
    spec,
    status: {
      ...(links === undefined ? {} : { links }),
      ...(withdrawnThrough === undefined ? {} : { withdrawnThrough }),
      ...(conditions === undefined ? {} : { conditions }),
      ...(failing === undefined ? {} : { failing }),
    },
  };
}

/**
 * The fields that we use of objects that others define: the Gateway API and core Kubernetes.
 * Types only; parsing is narrow and lenient (a missing optional field takes the API's default), and the rest is kept.
 */
import type { Condition, KubeObject, LabelSelector, ObjectMeta } from "./meta.ts";

export type GatewayClass = KubeObject & {
  spec: { controllerName: string; parametersRef?: { group: string; kind: string; name: string; namespace?: string } };
  status?: { conditions?: Condition[]; supportedFeatures?: { name: string }[] };
};

export type Listener = {
  name: string;
  port: number;
  protocol: string;
  hostname?: string;
  allowedRoutes?: {
    namespaces?: { from?: "Same" | "All" | "Selector"; selector?: LabelSelector };
    kinds?: { group?: string; kind: string }[];
  };
};

export type ListenerStatus = {
  name: string;
  supportedKinds: { group: string; kind: string }[];
  attachedRoutes: number;
  conditions: Condition[];
};

export type Gateway = KubeObject & {
  spec: {
    gatewayClassName: string;
    listeners: Listener[];
    addresses?: { type?: string; value?: string }[];
    infrastructure?: {
      labels?: Record<string, string>;
      annotations?: Record<string, string>;
      parametersRef?: { group: string; kind: string; name: string };
    };
  };
  status?: {
    addresses?: { type?: string; value: string }[];
    conditions?: Condition[];
    listeners?: ListenerStatus[];
  };
};

export type ServicePort = {
  name?: string;
  protocol?: string;
  port: number;
  targetPort?: number | string;
  nodePort?: number;
};

export type Service = KubeObject & {
  spec: {
    type?: string;
    loadBalancerClass?: string;
    ports?: ServicePort[];
    selector?: Record<string, string>;
    clusterIP?: string;
    clusterIPs?: string[];
    ipFamilies?: string[];
    ipFamilyPolicy?: string;
    externalTrafficPolicy?: string;
    sessionAffinity?: string;
    loadBalancerSourceRanges?: string[];
    loadBalancerIP?: string;
    publishNotReadyAddresses?: boolean;
  };
  status?: {
    loadBalancer?: { ingress?: { ip?: string; hostname?: string; ipMode?: string }[] };
    conditions?: Condition[];
  };
};

export type EndpointSlice = KubeObject & {
  addressType: "IPv4" | "IPv6" | "FQDN";
  endpoints?: {
    addresses: string[];
    conditions?: { ready?: boolean | null; serving?: boolean | null; terminating?: boolean | null };
    nodeName?: string;
    zone?: string;
  }[];
  ports?: { name?: string; protocol?: string; port?: number }[];
};

export type Node = KubeObject & {
  spec?: { podCIDR?: string; podCIDRs?: string[]; unschedulable?: boolean };
  status?: {
    addresses?: { type: string; address: string }[];
    conditions?: { type: string; status: string }[];
  };
};

export type Namespace = KubeObject;

export type Lease = KubeObject & {
  spec?: {
    holderIdentity?: string | null;
    leaseDurationSeconds?: number | null;
    acquireTime?: string | null;
    renewTime?: string | null;
    leaseTransitions?: number | null;
  };
};

export type ServiceCIDR = KubeObject & { spec: { cidrs: string[] } };

export type { ObjectMeta };

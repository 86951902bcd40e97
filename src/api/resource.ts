import { GROUP, VERSION } from "./names.ts";

/** A kind as the API server addresses it. */
export type Resource = {
  /** Empty for the core group. */
  readonly group: string;
  readonly version: string;
  readonly kind: string;
  readonly plural: string;
  readonly namespaced: boolean;
};

/** `apiVersion` as objects of the resource carry it. */
export const apiVersionOf = (resource: Resource): string =>
  resource.group === "" ? resource.version : `${resource.group}/${resource.version}`;

const ours = (kind: string, plural: string, namespaced = false): Resource => ({
  group: GROUP,
  version: VERSION,
  kind,
  plural,
  namespaced,
});
const gatewayApi = (kind: string, plural: string, namespaced: boolean): Resource => ({
  group: "gateway.networking.k8s.io",
  version: "v1",
  kind,
  plural,
  namespaced,
});
const core = (kind: string, plural: string, namespaced: boolean): Resource => ({
  group: "",
  version: "v1",
  kind,
  plural,
  namespaced,
});

export const IPADDRESSPOOL = ours("IPAddressPool", "ipaddresspools");
export const VIRTUALIP = ours("VirtualIP", "virtualips");
export const L2ADVERTISEMENT = ours("L2Advertisement", "l2advertisements");
export const SERVICEROUTE = ours("ServiceRoute", "serviceroutes", true);
export const SPEAKERSTATUS = ours("SpeakerStatus", "speakerstatuses");

export const GATEWAYCLASS = gatewayApi("GatewayClass", "gatewayclasses", false);
export const GATEWAY = gatewayApi("Gateway", "gateways", true);

export const SERVICE = core("Service", "services", true);
export const NODE = core("Node", "nodes", false);
export const NAMESPACES = core("Namespace", "namespaces", false);
export const EVENT: Resource = {
  group: "events.k8s.io",
  version: "v1",
  kind: "Event",
  plural: "events",
  namespaced: true,
};
export const LEASE: Resource = {
  group: "coordination.k8s.io",
  version: "v1",
  kind: "Lease",
  plural: "leases",
  namespaced: true,
};
export const ENDPOINTSLICE: Resource = {
  group: "discovery.k8s.io",
  version: "v1",
  kind: "EndpointSlice",
  plural: "endpointslices",
  namespaced: true,
};
export const SERVICECIDR: Resource = {
  group: "networking.k8s.io",
  version: "v1",
  kind: "ServiceCIDR",
  plural: "servicecidrs",
  namespaced: false,
};

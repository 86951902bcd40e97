/** Every name that Belfry puts into the Kubernetes API: one place, so that two parts can't spell it two ways. */

export const GROUP = "belfry.dev";
export const VERSION = "v1alpha1";
export const API_VERSION = `${GROUP}/${VERSION}`;

/** GatewayClass.spec.controllerName of load-balancer Gateways, and Service.spec.loadBalancerClass. */
export const LOAD_BALANCER = "belfry.dev/load-balancer";

/** On a VirtualIP: speakers withdraw, unprogram and report before the object may go. */
export const WITHDRAW_FINALIZER = "belfry.dev/withdraw";

export const Annotation = {
  addressPool: "belfry.dev/address-pool",
  loadBalancerIPs: "belfry.dev/loadBalancerIPs",
  allowSharedIP: "belfry.dev/allow-shared-ip",
} as const;

/** On a speaker's Lease: an admin says that the node is off. Its value is the time of the last renewal, for whoever reads it. */
export const GIVEN_UP_ANNOTATION = "belfry.dev/given-up";

/** Presence, not value, takes a node out of the candidates. */
export const EXCLUDE_NODE_LABEL = "node.kubernetes.io/exclude-from-external-load-balancers";

/** Label on an EndpointSlice that names its Service. */
export const SERVICE_NAME_LABEL = "kubernetes.io/service-name";

/** Namespace of our own pods, Leases and Events, unless a flag says otherwise. */
export const NAMESPACE = "belfry-system";

/** Lease that the controllers elect their leader by. */
export const CONTROLLER_LEASE = "belfry-controller";

/** Lease of the speaker on a node. */
export const speakerLeaseName = (node: string): string => `belfry-speaker-${node}`;

/** Field managers of server-side apply and of managedFields. */
export const FieldManager = { controller: "belfry-controller", speaker: "belfry-speaker" } as const;

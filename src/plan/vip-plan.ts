/**
 * What one node's nftables plane must hold for one VIP: the result of planning and the only input of `nft`.
 * A value; two equal plans mean the same elements on every node.
 */

import type { Protocol } from "../api/virtual-ip.ts";
import type { Address } from "../net/address.ts";
import type { Prefix } from "../net/prefix.ts";

/** A usable endpoint as this node sees it. */
export type Endpoint = {
  readonly address: Address;
  /** Port on the endpoint, 1 to 65535. */
  readonly port: number;
  /** True when it runs on this node (EndpointSlice nodeName). Decides who needs masquerade. */
  readonly local: boolean;
};

/** How many buckets a frontend may have; each has its own constant chain. */
export type BucketCount = 1 | 16 | 64 | 256 | 1024;

/** Bucket → endpoint. `undefined` is a bucket without element: the guard refuses its flows. Length is the bucket count. */
export type Buckets = readonly (Endpoint | undefined)[];

export type FrontendPlan = {
  readonly protocol: Protocol;
  readonly port: number;
  /** Prefixes that may connect, of the VIP's family; empty means any. Others are dropped silently. */
  readonly sourceRanges: readonly Prefix[];
  readonly action:
    | {
        readonly type: "balance";
        readonly affinity: "None" | "ClientIP";
        /** For clients in the cluster, and for everybody when `outside` is absent. */
        readonly buckets: Buckets;
        /** For clients outside the cluster, when they may use other endpoints (LocalOnly, PreferLocal); "drop" when this node has none. */
        readonly outside?: Buckets | "drop";
      }
    /** No usable endpoint, or nothing but dead weight: refused. */
    | { readonly type: "refuse" }
    /** Another data path (kube-proxy) serves it: packets pass untouched. */
    | { readonly type: "pass" };
};

export type VipPlan = {
  readonly address: Address;
  readonly scope: "External" | "Cluster" | "Node";
  readonly frontends: readonly FrontendPlan[];
};

/** What the plane must know of the cluster around it. Changes with nodes, not with VIPs. */
export type NodeSurroundings = {
  /** Pod CIDRs of this node. */
  readonly ownPods: readonly Prefix[];
  /** Pod CIDRs of all nodes (or of the cluster, by flag), this one's included. */
  readonly clusterPods: readonly Prefix[];
  /** Addresses of all nodes. */
  readonly nodeAddresses: readonly Address[];
  /**
   * net.bridge.bridge-nf-call-iptables and -ip6tables of this namespace: whether packets between two ports of a bridge
   * pass netfilter. Absent: they do not, and pods behind one bridge need masquerade to reach each other by a VIP.
   */
  readonly bridgeNetfilter?: { readonly IPv4: boolean; readonly IPv6: boolean };
  /**
   * For interfaces that have no address of a family: this node's address which answers echo requests for VIPs there.
   * At most one for an interface and family.
   */
  readonly echoTargets?: readonly { readonly interfaceIndex: number; readonly address: Address }[];
};

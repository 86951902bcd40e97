/** Whether packets for VIPs can get through this node: what Belfry needs of the kernel and can't set right by itself. */

/** What was seen of the node. `undefined`: it could not be read, or the kernel has no such thing; then it stands in no way. */
export type NodeObservation = {
  /** Text of utsname.release, such as `6.1.0-18-amd64`. */
  readonly kernelRelease: string;
  /** net.ipv4.ip_forward. */
  readonly ipv4Forwarding: boolean | undefined;
  /** net.ipv6.conf.all.forwarding. */
  readonly ipv6Forwarding: boolean | undefined;
  /** The effective rp_filter of each interface that VIPs are answered on: the larger of `all` and its own. */
  readonly reversePathFilter: readonly { readonly interface: string; readonly value: number }[];
  /** Base chains at the forward hook whose policy is drop, and whether any rule of their table accepts. */
  readonly droppingForwardChains: readonly { readonly chain: string; readonly accepts: boolean }[] | undefined;
  /** Names of eBPF service proxies that take packets before netfilter sees them. */
  readonly bypasses: readonly string[];
  /** This node or the cluster has addresses of the family at all. */
  readonly families: { readonly IPv4: boolean; readonly IPv6: boolean };
  /** Neither the Node nor a flag says which pods are this node's. */
  readonly podCIDRsKnown: boolean;
};

export type Readiness = { readonly ready: boolean; readonly reason: string; readonly message: string };

/** What stands in the way, each with the fix; the first is the reason. Remarks alone leave the node ready. */
export function judgeDataPath(seen: NodeObservation): Readiness {
  const obstacles = OBSTACLES.map((look) => look(seen)).filter((it) => it !== undefined);
  const [first] = obstacles;
  if (first !== undefined) {
    return { ready: false, reason: first.reason, message: obstacles.map(({ message }) => message).join("; ") };
  }
  const remarks = REMARKS.map((look) => look(seen)).filter((it) => it !== undefined);
  return { ready: true, reason: "Ready", message: remarks.map(({ message }) => message).join("; ") };
}

type Finding = { readonly reason: string; readonly message: string };
type Look = (seen: NodeObservation) => Finding | undefined;

const OBSTACLES: readonly Look[] = [
  ({ kernelRelease }) => {
    const [major = 0, minor = 0] = kernelRelease.split(".").map((part) => Number.parseInt(part, 10));
    if (Number.isNaN(major) || major > 5 || (major === 5 && minor >= 9)) return undefined;
    // reject in prerouting came with 5.9, concatenated ranges with 5.6.
    return { reason: "KernelTooOld", message: `kernel ${kernelRelease} is older than 5.9; boot a newer one` };
  },
  ({ ipv4Forwarding, families }) =>
    families.IPv4 && ipv4Forwarding === false
      ? {
          reason: "ForwardingOff",
          message: "net.ipv4.ip_forward is 0: packets for pods are dropped; run `sysctl -w net.ipv4.ip_forward=1`",
        }
      : undefined,
  ({ ipv6Forwarding, families }) =>
    families.IPv6 && ipv6Forwarding === false
      ? {
          reason: "ForwardingOff",
          message:
            "net.ipv6.conf.all.forwarding is 0: packets for pods are dropped; run `sysctl -w net.ipv6.conf.all.forwarding=1`",
        }
      : undefined,
  ({ droppingForwardChains }) => {
    const closed = (droppingForwardChains ?? []).find(({ accepts }) => !accepts);
    if (closed === undefined) return undefined;
    return {
      reason: "ForwardChainDrops",
      message: `chain ${closed.chain} at the forward hook has policy drop and its table accepts nothing: packets for pods are dropped; accept them there, or run \`iptables -P FORWARD ACCEPT\``,
    };
  },
  ({ reversePathFilter }) => {
    const strict = reversePathFilter.filter(({ value }) => value === 1);
    if (strict.length === 0) return undefined;
    const names = strict.map((it) => it.interface);
    return {
      reason: "StrictReversePathFilter",
      message: `rp_filter is strict (1) on ${names.join(", ")}: clients whose route back leaves by another interface are dropped; run ${names.map((name) => `\`sysctl -w net.ipv4.conf.${name}.rp_filter=2\``).join(", ")}`,
    };
  },
  ({ bypasses }) =>
    bypasses.length === 0
      ? undefined
      : {
          reason: "NetfilterBypassed",
          message: `${bypasses.join(", ")} takes packets before netfilter sees them; turn off its kube-proxy replacement on nodes that announce, or let it serve the VIPs (dataPath: ServiceProxy)`,
        },
];

const REMARKS: readonly Look[] = [
  ({ podCIDRsKnown }) =>
    podCIDRsKnown
      ? undefined
      : {
          reason: "PodCIDRsUnknown",
          message:
            "neither the Node's spec.podCIDRs nor --pod-cidr says which addresses this node's pods have: their connections to VIPs are masqueraded where it would not be needed",
        },
  ({ droppingForwardChains }) => {
    const doubtful = (droppingForwardChains ?? []).filter(({ accepts }) => accepts).map(({ chain }) => chain);
    return doubtful.length === 0
      ? undefined
      : {
          reason: "ForwardChainDrops",
          message: `${doubtful.join(", ")} at the forward hook has policy drop; its rules have to accept packets for pods`,
        };
  },
];

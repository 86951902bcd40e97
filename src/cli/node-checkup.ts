/** `belfry doctor`, this node's part: whether a speaker can do its work here. Pure. */
import type { DroppingChain } from "../nft/forward-chain.ts";
import type { Probe } from "../nft/probe.ts";
import { judgeDataPath, type NodeObservation } from "../plan/data-path-ready.ts";
import { bad, type Finding, fine, remark } from "./finding.ts";

/** What was seen of the node that we run on. */
export type NodeSight = {
  /** CapEff of this process; undefined where /proc does not say. */
  readonly capabilities: bigint | undefined;
  readonly probe: Probe;
  /** Why a packet socket (AF_PACKET) can't be opened; undefined when it can. */
  readonly packetSocket: string | undefined;
  readonly droppingChains: readonly DroppingChain[] | undefined;
  /** iptables-legacy has a filter table: its policy can't be read through nftables. */
  readonly legacyFilter: boolean;
  readonly observation: NodeObservation;
  readonly conntrack: { readonly count: number; readonly most: number } | undefined;
  /** Links that could answer for an address, with their state. */
  readonly links: readonly { readonly name: string; readonly up: boolean }[];
};

/** linux/capability.h */
const CAPABILITIES = [
  ["NET_BIND_SERVICE", 10],
  ["NET_ADMIN", 12],
  ["NET_RAW", 13],
] as const;

export function judgeNode(sight: NodeSight): Finding[] {
  return [
    capabilities(sight),
    kernel(sight),
    packetSocket(sight),
    dataPath(sight),
    ...forwarding(sight),
    ...conntrack(sight),
    links(sight),
  ];
}

function capabilities({ capabilities: has }: NodeSight): Finding {
  if (has === undefined) return remark("capabilities", "/proc/self/status does not say");
  const missing = CAPABILITIES.filter(([, bit]) => ((has >> BigInt(bit)) & 1n) === 0n).map(([name]) => name);
  return missing.length === 0
    ? fine("capabilities", CAPABILITIES.map(([name]) => name).join(", "))
    : bad(
        "capabilities",
        `missing: ${missing.join(", ")}`,
        "run as root on the node itself, or give the pod these capabilities",
      );
}

function kernel({ probe, observation }: NodeSight): Finding {
  if (probe.type === "fault")
    return bad("nftables", probe.fault.message, "load the modules, or boot a kernel with these options");
  const ownership = probe.ownership
    ? "a table can be owned"
    : "a table can't be owned (that needs 6.9): the speaker watches it and mends what others change";
  return fine("nftables", `kernel ${observation.kernelRelease} has all that is needed; ${ownership}`);
}

function packetSocket({ packetSocket: why }: NodeSight): Finding {
  return why === undefined
    ? fine("packet socket", "ARP and NDP can be answered")
    : bad("packet socket", `it can't be opened: ${why}`, "ARP and NDP need CAP_NET_RAW and a kernel with PACKET");
}

function dataPath({ observation, droppingChains }: NodeSight): Finding {
  const { ready, reason, message } = judgeDataPath({ ...observation, droppingForwardChains: droppingChains });
  if (!ready) return bad("data path", `${reason}: ${message}`);
  return message === ""
    ? fine("data path", "sysctls and chains let packets for pods pass")
    : remark("data path", message);
}

function forwarding({ legacyFilter }: NodeSight): Finding[] {
  if (!legacyFilter) return [];
  return [
    remark(
      "iptables-legacy",
      "its filter table is in use and can't be judged from here",
      "iptables-legacy -S FORWARD: does it accept packets for pods?",
    ),
  ];
}

function conntrack({ conntrack }: NodeSight): Finding[] {
  if (conntrack === undefined || conntrack.most === 0) return [];
  const percent = Math.round((conntrack.count / conntrack.most) * 100);
  const says = `${conntrack.count} of ${conntrack.most} entries`;
  return percent < 90
    ? [fine("conntrack", says)]
    : [
        bad(
          "conntrack",
          `${says}: when it is full new connections are dropped`,
          "raise net.netfilter.nf_conntrack_max",
        ),
      ];
}

function links({ links: all }: NodeSight): Finding {
  if (all.length === 0)
    return bad(
      "links",
      "no interface could answer for an address",
      "give the node an interface with a MAC address on the LAN",
    );
  const up = all.filter((link) => link.up).map(({ name }) => name);
  return up.length === 0
    ? bad("links", `${all.map(({ name }) => name).join(", ")}: all down or without carrier`, "plug one in")
    : fine("links", up.join(", "));
}

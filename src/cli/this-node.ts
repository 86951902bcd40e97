/** Looks at the node that we run on, as its speaker would. Changes nothing. */
import { existsSync, readFileSync } from "node:fs";
import { observeLinks } from "../host/link-observer.ts";
import { NETLINK_NETFILTER, openNetlink } from "../host/netlink-socket.ts";
import type { HostLink } from "../host/port.ts";
import { AF_PACKET, close, errnoName, SOCK_CLOEXEC, SOCK_RAW, socket } from "../host/sysnet.ts";
import { MessageWriter } from "../netlink/message.ts";
import { endsBatch, refusalsOf } from "../netlink/nfnetlink.ts";
import { type DroppingChain, readDroppingChains } from "../nft/forward-chain.ts";
import { encodeProbe, missingFrom, PROBE_MESSAGES, type Probe } from "../nft/probe.ts";
import type { NodeSight } from "./node-checkup.ts";
import type { SpeakerEyes } from "./world.ts";

export type ThisNode = {
  readonly sight: NodeSight;
  /** All its addresses: by them the cluster's Node is found. */
  readonly addresses: readonly string[];
};

/** `podCIDRsKnown`: the Node of this machine says which pods are its own, given its addresses. */
export async function lookAtThisNode(
  eyes: SpeakerEyes,
  podCIDRsKnown: (addresses: readonly string[]) => boolean,
): Promise<ThisNode> {
  const links = await readLinks();
  const addresses = links.flatMap((link) => link.addresses.map(({ address }) => address));
  const reported = eyes.reportedLinks(links);
  const { probe, droppingChains } = await askNftables();
  const observation = eyes.observeNode({
    links,
    interfaces: reported.map(({ name }) => name),
    podCIDRsKnown: podCIDRsKnown(addresses),
    droppingForwardChains: droppingChains,
  });
  return {
    addresses,
    sight: {
      capabilities: effectiveCapabilities(),
      probe,
      packetSocket: tryPacketSocket(),
      droppingChains,
      legacyFilter: hasLegacyFilter(),
      observation,
      conntrack: conntrackUse(),
      links: reported.map(({ name, up }) => ({ name, up })),
    },
  };
}

async function readLinks(): Promise<readonly HostLink[]> {
  const observer = await observeLinks(() => {});
  try {
    return observer.links();
  } finally {
    observer.close();
  }
}

async function askNftables(): Promise<{ probe: Probe; droppingChains: readonly DroppingChain[] | undefined }> {
  const what = "nftables on this node";
  let netlink: ReturnType<typeof openNetlink>;
  try {
    netlink = openNetlink({ protocol: NETLINK_NETFILTER });
  } catch (error) {
    return { probe: { type: "fault", fault: { what, message: messageOf(error) } }, droppingChains: undefined };
  }
  try {
    const encoded = encodeProbe(new MessageWriter(64 * 1024), 1);
    const replies = await netlink.exchange(encoded.bytes, (reply) => endsBatch(reply, encoded));
    const probe = missingFrom(encoded, refusalsOf(replies));
    if (probe.type === "fault") return { probe, droppingChains: undefined };
    let sequence = 1 + PROBE_MESSAGES;
    const exchange = netlink.exchange.bind(netlink);
    return { probe, droppingChains: await readDroppingChains(exchange, () => sequence++) };
  } catch (error) {
    return { probe: { type: "fault", fault: { what, message: messageOf(error) } }, droppingChains: undefined };
  } finally {
    netlink.close();
  }
}

function tryPacketSocket(): string | undefined {
  const fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
  if (fd < 0) return errnoName(fd);
  close(fd);
  return undefined;
}

/** proc(5): CapEff is in hexadecimal digits. */
function effectiveCapabilities(): bigint | undefined {
  const line = /^CapEff:\s*([0-9a-f]+)$/m.exec(read("/proc/self/status") ?? "")?.[1];
  return line === undefined ? undefined : BigInt(`0x${line}`);
}

/** The tables of iptables-legacy that are in use in this network namespace, one a line. */
const hasLegacyFilter = (): boolean =>
  ["/proc/net/ip_tables_names", "/proc/net/ip6_tables_names"].some((file) =>
    (read(file) ?? "").split("\n").includes("filter"),
  );

function conntrackUse(): { count: number; most: number } | undefined {
  const number = (name: string) => Number.parseInt(read(`/proc/sys/net/netfilter/${name}`) ?? "", 10);
  const [count, most] = [number("nf_conntrack_count"), number("nf_conntrack_max")];
  return Number.isNaN(count) || Number.isNaN(most) ? undefined : { count, most };
}

function read(file: string): string | undefined {
  try {
    return existsSync(file) ? readFileSync(file, "utf8") : undefined;
  } catch {
    return undefined;
  }
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

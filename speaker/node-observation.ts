import { existsSync, readFileSync } from "node:fs";
import { release } from "node:os";
import type { HostLink } from "../src/host/port.ts";
import type { NodeObservation } from "../src/plan/data-path-ready.ts";
import type { NodeSurroundings } from "../src/plan/vip-plan.ts";

/** Interfaces that eBPF service proxies make, and the proxy that each stands for. */
const BYPASSES: readonly (readonly [string, string])[] = [
  ["bpfin.cali", "the eBPF data plane of Calico"],
  ["bpfout.cali", "the eBPF data plane of Calico"],
];

/**
 * Reads what DataPathReady depends on from /proc and the links. `interfaces` are those that VIPs are answered on.
 * Strict rp_filter stands in the way only where the node has more than one way out: with one, every route back leaves by
 * the interface that the packet came in on.
 */
export function observeNode(options: {
  readonly links: readonly HostLink[];
  readonly interfaces: readonly string[];
  readonly podCIDRsKnown: boolean;
  readonly droppingForwardChains: NodeObservation["droppingForwardChains"];
}): NodeObservation {
  const { links, interfaces } = options;
  const waysOut = new Set(links.filter((link) => link.defaultGateways.length > 0).map((link) => link.name));
  const all = readNumber("net/ipv4/conf/all/rp_filter") ?? 0;
  const filtered = interfaces
    .filter((name) => [...waysOut].some((other) => other !== name))
    .map((name) => ({
      interface: name,
      value: Math.max(all, readNumber(`net/ipv4/conf/${name.replaceAll("/", "")}/rp_filter`) ?? 0),
    }));
  const addresses = links.filter((link) => !link.loopback).flatMap((link) => link.addresses.map((it) => it.address));
  const found = BYPASSES.filter(([name]) => links.some((link) => link.name === name)).map(([, proxy]) => proxy);
  return {
    kernelRelease: release(),
    ipv4Forwarding: readFlag("net/ipv4/ip_forward"),
    ipv6Forwarding: readFlag("net/ipv6/conf/all/forwarding"),
    reversePathFilter: filtered,
    droppingForwardChains: options.droppingForwardChains,
    bypasses: [...new Set(found)],
    families: {
      IPv4: addresses.some((address) => !address.includes(":")),
      IPv6: existsSync("/proc/sys/net/ipv6") && addresses.some((it) => it.includes(":") && !it.startsWith("fe80:")),
    },
    podCIDRsKnown: options.podCIDRsKnown,
  };
}

/**
 * Whether this namespace's bridges hand packets between two of their ports to netfilter (net.bridge.bridge-nf-call-*tables).
 * The settings are there only where the kernel has br_netfilter; without it none is handed over.
 */
export const bridgeNetfilter = (): NonNullable<NodeSurroundings["bridgeNetfilter"]> => ({
  IPv4: readFlag("net/bridge/bridge-nf-call-iptables") ?? false,
  IPv6: readFlag("net/bridge/bridge-nf-call-ip6tables") ?? false,
});

/** The effective arp_ignore of an interface: the larger of `all` and its own (ip-sysctl). */
export function arpIgnore(name: string): number {
  const of = (conf: string) => readNumber(`net/ipv4/conf/${conf}/arp_ignore`) ?? 0;
  return Math.max(of("all"), of(name.replaceAll("/", "")));
}

function readNumber(name: string): number | undefined {
  try {
    const value = Number(readFileSync(`/proc/sys/${name}`, "utf8").trim());
    return Number.isInteger(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function readFlag(name: string): boolean | undefined {
  const value = readNumber(name);
  return value === undefined ? undefined : value !== 0;
}

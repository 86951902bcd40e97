import type { L2AdvertisementSpec } from "../api/l2-advertisement.ts";
import type { Link } from "../api/speaker-status.ts";
import type { Address } from "../net/address.ts";
import { parseAddress } from "../net/address.ts";
import { prefixHolds, prefixOf } from "../net/prefix.ts";

/** Part of an L2Advertisement that chooses interfaces. */
export type InterfaceChoice = Pick<L2AdvertisementSpec, "interfaces" | "excludeInterfaces" | "requireSubnet">;

/** lo, and what container runtimes, CNI plugins, service proxies and tunnels make: no LAN is behind them. */
export const DEFAULT_EXCLUDES: readonly string[] = [
  "lo",
  "/^(veth|cni|docker|podman|nerdctl|virbr|vnet|cali|lxc|lxdbr|cilium|flannel|weave|kube-|azv|eni[0-9a-f]{8}|nodelocaldns|ovs-|antrea|genev|vxlan|tunl|ip6tnl|ip6_vti|ip_vti|sit|gre|erspan|wg|tun|tap|tailscale|zt|dummy|ifb)/",
  "/^br-[0-9a-f]{12}$/",
];

/** The names of the links on which a node may answer for the address, sorted. */
export function answeringInterfaces(
  address: Address,
  choices: readonly InterfaceChoice[],
  links: readonly Link[],
): string[] {
  return links
    .filter((link) => link.up && link.mac !== "" && choices.some((choice) => allows(choice, link, address)))
    .map((link) => link.name)
    .sort();
}

/** Why a choice has no interface for the address, from the most to the least basic cause. */
export function whyNoInterface(
  address: Address,
  choices: readonly InterfaceChoice[],
  links: readonly Link[],
): "NoInterface" | "LinkDown" | "NotInSubnet" {
  const allowed = links.filter((link) => choices.some((choice) => namesAllow(choice, link.name)));
  if (allowed.length === 0) return "NoInterface";
  if (!allowed.some((link) => link.up)) return "LinkDown";
  return answeringInterfaces(address, choices, allowed).length === 0 ? "NotInSubnet" : "LinkDown";
}

function allows(choice: InterfaceChoice, link: Link, address: Address): boolean {
  return namesAllow(choice, link.name) && (!choice.requireSubnet || holds(link, address));
}

/** Exact name or /regular expression/. A link that `interfaces` names exactly is taken in spite of the default excludes. */
function namesAllow(choice: InterfaceChoice, name: string): boolean {
  const wanted = choice.interfaces ?? [];
  if (wanted.length > 0 && !wanted.some((pattern) => matches(pattern, name))) return false;
  if (choice.excludeInterfaces !== undefined) return !choice.excludeInterfaces.some((it) => matches(it, name));
  return wanted.includes(name) || !DEFAULT_EXCLUDES.some((pattern) => matches(pattern, name));
}

/** True when the address lies in a subnet of the link. */
export function holds(link: Pick<Link, "subnets">, address: Address): boolean {
  return (link.subnets ?? []).some((subnet) => {
    const slash = subnet.indexOf("/");
    const own = parseAddress(subnet.slice(0, slash));
    const length = Number(subnet.slice(slash + 1));
    if (own === undefined || !Number.isInteger(length) || slash < 0) return false;
    // fe80::/64 is on every link and says nothing about where a VIP lives.
    if (own.startsWith("fe80:")) return false;
    return own.includes(":") === address.includes(":") && prefixHolds(prefixOf(own, length), address);
  });
}

const compiled = new Map<string, RegExp | undefined>();

/** A pattern that is no regular expression matches nothing; the controller reports it on the L2Advertisement. */
function matches(pattern: string, name: string): boolean {
  if (!(pattern.length > 1 && pattern.startsWith("/") && pattern.endsWith("/"))) return pattern === name;
  let expression = compiled.get(pattern);
  if (expression === undefined && !compiled.has(pattern)) {
    try {
      expression = new RegExp(pattern.slice(1, -1));
    } catch {
      expression = undefined;
    }
    if (compiled.size > 1000) compiled.clear();
    compiled.set(pattern, expression);
  }
  return expression?.test(name) ?? false;
}

import type { HostLink } from "../src/host/port.ts";
import { type Address, type Family, familyOf } from "../src/net/address.ts";
import type { NodeSurroundings } from "../src/plan/vip-plan.ts";
import { isNoPort } from "./link.ts";

type EchoTarget = NonNullable<NodeSurroundings["echoTargets"]>[number];

/**
 * Who answers echo requests for VIPs that come in on an interface without an address of their family: an address of this
 * node elsewhere, one for each family. `nodeAddresses` are those of its Node object; one of them is taken if it is
 * assigned here, else one of the link with a default gateway, else of the link with the lowest index. Sorted.
 */
export function echoTargets(links: readonly HostLink[], nodeAddresses: ReadonlySet<string>): EchoTarget[] {
  const found = (["IPv4", "IPv6"] as const).flatMap((family) => {
    const address = answererOf(links, family, nodeAddresses);
    if (address === undefined) return [];
    return links
      .filter((link) => !link.loopback && isNoPort(link, links) && usable(link, family).length === 0)
      .map((link) => ({ interfaceIndex: link.index, address }));
  });
  return found.sort((a, b) => a.interfaceIndex - b.interfaceIndex);
}

function answererOf(
  links: readonly HostLink[],
  family: Family,
  nodeAddresses: ReadonlySet<string>,
): Address | undefined {
  const ranked = links
    .flatMap((link) => usable(link, family).map((address) => ({ link, address })))
    .map(({ link, address }) => {
      const gateway = link.defaultGateways.some((hop) => familyOf(hop) === family);
      return { address, rank: nodeAddresses.has(address) ? 0 : gateway ? 1 : 2, index: link.index };
    });
  ranked.sort((a, b) => a.rank - b.rank || a.index - b.index || (a.address < b.address ? -1 : 1));
  return ranked[0]?.address;
}

/**
 * Addresses that an echo reply can come from. Newer kernels do not redirect a packet for a wider address to a link-local
 * one, and 127.0.0.0/8 and ::1 never leave the node.
 */
const usable = (link: HostLink, family: Family): Address[] =>
  link.addresses
    .filter(({ tentative }) => !tentative)
    .map(({ address }) => address)
    .filter((address) => familyOf(address) === family && !/^(127\.|169\.254\.|::1$|fe80:)/.test(address));

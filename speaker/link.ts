import type { Link } from "../src/api/speaker-status.ts";
import type { HostLink } from "../src/host/port.ts";

/** Links without a LAN behind them, whatever their name: nobody asks there who has an address. */
const TUNNELS =
  /^(vxlan|geneve|ipip|sit|gre|gretap|erspan|ip6tnl|ip6gre|ip6gretap|wireguard|tun|vti|vti6|xfrm|ifb|dummy)$/;

/**
 * The links that could answer for a VIP, as SpeakerStatus shows them. Ports of a bridge or bond are not among them, the
 * bridge or bond itself is (AR-04): it is where the node's own address lives and where frames arrive. Link-local addresses
 * are left out, since they hold no VIP. Sorted by name.
 */
export function reportedLinks(links: readonly HostLink[]): Link[] {
  return links
    .filter((link) => !link.loopback && !link.noArp && link.mac !== undefined && !TUNNELS.test(link.kind ?? ""))
    .filter((link) => isNoPort(link, links))
    .map((link) => ({
      name: link.name,
      mac: link.mac ?? "",
      up: link.up,
      subnets: link.addresses
        .filter(({ address }) => !address.startsWith("fe80:"))
        .map(({ address, prefixLength }) => `${address}/${prefixLength}`)
        .sort()
        .slice(0, 64),
      defaultGateways: [...link.defaultGateways].sort().slice(0, 16),
    }))
    .sort((a, b) => (a.name < b.name ? -1 : 1))
    .slice(0, 256);
}

/** Packets reach the IP layer from the link itself: it is no port of a bridge or bond. A VRF takes them only after that. */
export const isNoPort = (link: HostLink, links: readonly HostLink[]): boolean =>
  link.master === undefined || links.some(({ index, kind }) => index === link.master && kind === "vrf");

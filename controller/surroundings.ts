/** What the caches say of the nodes around the VIPs. */
import { EXCLUDE_NODE_LABEL } from "../src/api/names.ts";
import type { Reservation } from "../src/ipam/pool.ts";
import { parseAddress } from "../src/net/address.ts";
import { parsePrefix } from "../src/net/prefix.ts";
import { rangeOfAddress, rangeOfPrefix } from "../src/net/range.ts";
import type { NodeView } from "../src/plan/elect.ts";
import type { Speakers } from "./speakers.ts";
import type { World } from "./world.ts";

/** Addresses that are never given out: those of nodes, of default gateways, and of the cluster's Services. */
export function reservationsIn(world: World): readonly Reservation[] {
  const list: Reservation[] = [];
  const add = (text: string, why: Reservation["why"], of: string) => {
    const address = parseAddress(text.split("/")[0] ?? "");
    if (address !== undefined) list.push({ range: rangeOfAddress(address), why, of });
  };
  for (const { metadata, status } of world.cache("Node").values()) {
    for (const { address } of status?.addresses ?? []) add(address, "NodeAddress", metadata.name);
  }
  for (const { metadata, status } of world.cache("SpeakerStatus").values()) {
    for (const link of status?.links ?? []) {
      for (const subnet of link.subnets) add(subnet, "NodeAddress", metadata.name);
      for (const gateway of link.defaultGateways) add(gateway, "DefaultGateway", metadata.name);
    }
  }
  for (const { metadata, spec } of world.cache("ServiceCIDR").values()) {
    for (const cidr of spec.cidrs) {
      const parsed = parsePrefix(cidr);
      if (parsed.ok) list.push({ range: rangeOfPrefix(parsed.prefix), why: "ServiceCIDR", of: metadata.name });
    }
  }
  return once(list);
}

/** The nodes as candidates for an owner, by the cached word of their speakers. */
export function viewNodes(world: World, speakers: Speakers): ReadonlyMap<string, NodeView> {
  const map = new Map<string, NodeView>();
  for (const { metadata } of world.cache("Node").values()) {
    const status = world.get("SpeakerStatus", metadata.name)?.status;
    const labels = metadata.labels ?? {};
    map.set(metadata.name, {
      name: metadata.name,
      labels,
      live: speakers.isLive(metadata.name),
      excluded: Object.hasOwn(labels, EXCLUDE_NODE_LABEL),
      dataPathReady:
        status?.conditions?.some(({ type, status }) => type === "DataPathReady" && status === "False") !== true,
      links: status?.links ?? [],
    });
  }
  return map;
}

/** The same address of the same node is told by the Node and by its speaker. */
function once(list: readonly Reservation[]): Reservation[] {
  const seen = new Map<string, Reservation>();
  for (const each of list) {
    const key = `${each.range.family} ${each.range.first} ${each.range.last}`;
    if (!seen.has(key)) seen.set(key, each);
  }
  return [...seen.values()].sort((a, b) =>
    a.range.first < b.range.first ? -1 : a.range.first > b.range.first ? 1 : 0,
  );
}

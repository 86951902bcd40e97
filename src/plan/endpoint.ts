import type { EndpointSlice } from "../api/foreign.ts";
import { SERVICE_NAME_LABEL } from "../api/names.ts";
import type { Protocol } from "../api/virtual-ip.ts";
import { type Address, type Family, familyOf, parseAddress } from "../net/address.ts";

/** What is kept of an EndpointSlice. `service` is `namespace/name` of the Service that it belongs to. */
export type Slice = {
  readonly service: string;
  readonly family: Family;
  readonly ports: readonly SlicePort[];
  readonly endpoints: readonly SliceEndpoint[];
};

export type SlicePort = { readonly name: string; readonly protocol: string; readonly port: number };

export type SliceEndpoint = {
  readonly address: Address;
  /** undefined when the slice does not say: such an endpoint is local to no node. */
  readonly node: string | undefined;
  /** `terminating`: not ready, but still serving while it goes; used when nothing better exists. */
  readonly state: "ready" | "terminating" | "unusable";
};

/**
 * The slice, or undefined when it has nothing for us: no Service label, or names instead of addresses.
 * Conditions are read as kube-proxy reads them: an absent `ready` or `serving` means true, an absent `terminating` false.
 * Of an endpoint's addresses only the first counts (discovery/v1: all of them are the same pod).
 */
export function readSlice(object: EndpointSlice): Slice | undefined {
  const service = object.metadata.labels?.[SERVICE_NAME_LABEL];
  if (service === undefined || service === "" || object.addressType === "FQDN") return undefined;
  const endpoints: SliceEndpoint[] = [];
  for (const endpoint of object.endpoints ?? []) {
    const text = endpoint.addresses?.[0] ?? "";
    const parsed = parseAddress(text);
    // The same text twice is memory at 10,000 VIPs: keep the one that is there.
    const address = parsed === text ? (text as Address) : parsed;
    if (address === undefined || familyOf(address) !== object.addressType) continue;
    endpoints.push({ address, node: endpoint.nodeName, state: stateOf(endpoint.conditions) });
  }
  const ports: SlicePort[] = [];
  for (const { name, protocol, port } of object.ports ?? []) {
    if (port !== undefined && port !== null) ports.push({ name: name ?? "", protocol: protocol ?? "TCP", port });
  }
  return {
    // Joined, not a template: V8 keeps that one in pieces.
    service: [object.metadata.namespace ?? "", service].join("/"),
    family: object.addressType,
    ports,
    endpoints,
  };
}

function stateOf(
  conditions: { ready?: boolean | null; serving?: boolean | null; terminating?: boolean | null } | undefined,
): SliceEndpoint["state"] {
  if (conditions?.ready ?? true) return "ready";
  return (conditions?.serving ?? true) && (conditions?.terminating ?? false) ? "terminating" : "unusable";
}

/** An endpoint of a backend that may get traffic, with the node that it runs on. */
export type UsableEndpoint = {
  readonly address: Address;
  readonly port: number;
  readonly node: string | undefined;
};

/** The endpoints of one backend for one family, port name and protocol. */
export type Usable = {
  /** For everybody: the ready ones; when there are none, those that terminate and still serve. */
  readonly anywhere: readonly UsableEndpoint[];
  /** The same rule among the endpoints of one node: its last terminating endpoint serves until it is gone. */
  on(node: string): readonly UsableEndpoint[];
};

/** The usable endpoints, one per address and port, however many slices name them. Order is by address and port. */
export function usableEndpoints(slices: Iterable<Slice>, family: Family, portName: string, protocol: Protocol): Usable {
  const found = new Map<string, { endpoint: UsableEndpoint; ready: boolean }>();
  for (const slice of slices) {
    if (slice.family !== family) continue;
    for (const port of slice.ports) {
      if (port.name !== portName || port.protocol !== protocol) continue;
      for (const { address, node, state } of slice.endpoints) {
        if (state === "unusable") continue;
        const identity = `${address}|${port.port}`;
        const before = found.get(identity);
        const ready = state === "ready";
        // Two slices may hold the same endpoint while the controller moves it: the better news of the two counts.
        if (
          before === undefined ||
          (ready && !before.ready) ||
          (ready === before.ready && before.endpoint.node === undefined)
        ) {
          found.set(identity, { endpoint: { address, port: port.port, node }, ready });
        }
      }
    }
  }
  const all = [...found.entries()].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, entry]) => entry);
  return {
    anywhere: best(all),
    on: (node) => best(all.filter(({ endpoint }) => endpoint.node === node)),
  };
}

function best(entries: readonly { endpoint: UsableEndpoint; ready: boolean }[]): UsableEndpoint[] {
  const ready = entries.filter((entry) => entry.ready);
  return (ready.length > 0 ? ready : entries).map((entry) => entry.endpoint);
}

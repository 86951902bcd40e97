import type { L2AdvertisementSpec } from "../api/l2-advertisement.ts";
import { selects } from "../api/label-selector.ts";
import type { Link } from "../api/speaker-status.ts";
import type { Forward } from "../api/virtual-ip.ts";
import type { Address } from "../net/address.ts";
import { hashText } from "./hash.ts";
import { answeringInterfaces, whyNoInterface } from "./interface.ts";

/** What is known of a node that could own a VIP. */
export type NodeView = {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  /** Its speaker's Lease is not known to be expired. */
  readonly live: boolean;
  /** Carries the label that takes a node out of external load balancing (unless a flag says to ignore it). */
  readonly excluded: boolean;
  readonly dataPathReady: boolean;
  readonly links: readonly Link[];
};

export type Election = {
  readonly address: Address;
  /** The specs of the L2Advertisements that the VIP names and that exist. */
  readonly advertisements: readonly L2AdvertisementSpec[];
  /** See `needsDataPath`. */
  readonly needsDataPath: boolean;
  /** Nodes with a usable endpoint, when only they may answer. */
  readonly homes: ReadonlySet<string> | undefined;
  /** owner.node of the record. */
  readonly recorded: string | undefined;
};

/** False when the service proxy serves every port: then it is no matter to an address whether our plane works on a node. */
export const needsDataPath = (forwards: readonly Pick<Forward, "dataPath">[]): boolean =>
  forwards.length === 0 || forwards.some(({ dataPath }) => dataPath === "Belfry");

/** Why nobody may answer: the most telling cause among the nodes. Each is one a person can act on. */
export type NobodyReason =
  | "NoAdvertisement"
  | "NoNodeSelected"
  | "NoLocalEndpoints"
  | "NoLiveSpeaker"
  | "NodesExcluded"
  | "DataPathNotReady"
  | "NoInterface"
  | "LinkDown"
  | "NotInSubnet";

export type Elected =
  | { readonly type: "owner"; readonly node: string }
  | { readonly type: "nobody"; readonly reason: NobodyReason; readonly message: string };

/**
 * Who answers for the address. Sticky: the recorded owner, while it is a candidate; else, among the candidates that
 * the advertisements prefer most, the first by rendezvous hash of (node, address): every speaker finds the same one.
 */
export function elect(election: Election, nodes: ReadonlyMap<string, NodeView>): Elected {
  const recorded = election.recorded === undefined ? undefined : nodes.get(election.recorded);
  if (recorded !== undefined && judge(election, recorded).type === "candidate") {
    return { type: "owner", node: recorded.name };
  }
  let best: Standing | undefined;
  const refusals = new Map<NobodyReason, string>();
  for (const node of nodes.values()) {
    const verdict = judge(election, node);
    if (verdict.type === "no") {
      if (!refusals.has(verdict.reason)) refusals.set(verdict.reason, node.name);
      continue;
    }
    const standing = {
      node: node.name,
      preference: verdict.preference,
      hash: hashText(`${node.name}|${election.address}`),
    };
    if (best === undefined || outranks(standing, best)) best = standing;
  }
  return best === undefined ? nobody(election, refusals) : { type: "owner", node: best.node };
}

type Standing = { readonly node: string; readonly preference: number; readonly hash: number };

function outranks(a: Standing, b: Standing): boolean {
  if (a.preference !== b.preference) return a.preference > b.preference;
  if (a.hash !== b.hash) return a.hash > b.hash;
  return a.node < b.node;
}

export type Verdict =
  | { readonly type: "candidate"; readonly preference: number; readonly interfaces: readonly string[] }
  | { readonly type: "no"; readonly reason: NobodyReason };

/** Whether the node may answer for the address, on which interfaces, and how much it is preferred. */
export function judge(election: Election, node: NodeView): Verdict {
  const selecting = election.advertisements.filter(
    ({ nodeSelectors }) =>
      (nodeSelectors ?? []).length === 0 || nodeSelectors.some((selector) => selects(selector, node.labels)),
  );
  if (election.advertisements.length === 0) return { type: "no", reason: "NoAdvertisement" };
  if (selecting.length === 0) return { type: "no", reason: "NoNodeSelected" };
  if (!node.live) return { type: "no", reason: "NoLiveSpeaker" };
  if (node.excluded) return { type: "no", reason: "NodesExcluded" };
  const reaching = selecting.filter((choice) => answeringInterfaces(election.address, [choice], node.links).length > 0);
  if (reaching.length === 0) {
    return { type: "no", reason: whyNoInterface(election.address, selecting, node.links) };
  }
  if (election.needsDataPath && !node.dataPathReady) return { type: "no", reason: "DataPathNotReady" };
  if (election.homes !== undefined && !election.homes.has(node.name)) return { type: "no", reason: "NoLocalEndpoints" };
  let preference = 0;
  for (const { preferredNodeSelectors } of reaching) {
    for (const { weight, preference: selector } of preferredNodeSelectors ?? []) {
      if (selects(selector, node.labels)) preference += weight;
    }
  }
  return { type: "candidate", preference, interfaces: answeringInterfaces(election.address, reaching, node.links) };
}

/** The cause nearest to a working VIP comes first: it is what stands in the way of the best node. */
const NEAREST: readonly NobodyReason[] = [
  "NoLocalEndpoints",
  "DataPathNotReady",
  "NotInSubnet",
  "LinkDown",
  "NoInterface",
  "NodesExcluded",
  "NoLiveSpeaker",
  "NoNodeSelected",
];

const ADVICE: Record<NobodyReason, (address: Address, node: string) => string> = {
  NoAdvertisement: (address) =>
    `${address} is announced by no L2Advertisement that exists; create one that selects its pool`,
  NoNodeSelected: (address) =>
    `no node is selected by the L2Advertisements of ${address}; check their nodeSelectors against the node labels`,
  NoLocalEndpoints: (address) =>
    `${address} has nodes: LocalOnly (externalTrafficPolicy: Local) and no candidate node runs a ready endpoint`,
  NoLiveSpeaker: (address) =>
    `no node that the L2Advertisements of ${address} select has a speaker with a valid Lease; check the speaker pods`,
  NodesExcluded: (_, node) =>
    `the nodes that could answer, such as ${node}, carry node.kubernetes.io/exclude-from-external-load-balancers`,
  DataPathNotReady: (_, node) =>
    `the nodes that could answer, such as ${node}, have DataPathReady=False; their SpeakerStatus says how to fix it`,
  NoInterface: (_, node) =>
    `no interface of the selected nodes, such as ${node}, is allowed by interfaces and excludeInterfaces of the L2Advertisement`,
  LinkDown: (_, node) => `the allowed interfaces of the selected nodes, such as ${node}, are down or without carrier`,
  NotInSubnet: (address, node) =>
    `no interface of the selected nodes, such as ${node}, has a subnet that holds ${address}; neighbours would not ask for it there. Use an address of the LAN, or set requireSubnet: false`,
};

function nobody(election: Election, refusals: ReadonlyMap<NobodyReason, string>): Elected {
  const none = election.advertisements.length === 0 ? "NoAdvertisement" : "NoLiveSpeaker";
  const reason = NEAREST.find((it) => refusals.has(it)) ?? none;
  return { type: "nobody", reason, message: ADVICE[reason](election.address, refusals.get(reason) ?? "") };
}

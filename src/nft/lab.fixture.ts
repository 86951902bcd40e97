/** What the data plane's lab tests stand on: two nodes with a pod bridge each, a client, and planes on the nodes. */
import { type Claim, claimLab } from "../../lab/claim.ts";
import type { ClientActions } from "../../lab/client-resident.ts";
import { ip, run, tryRun } from "../../lab/command.ts";
import { attachPod, buildNetwork, type LabNode, type Network } from "../../lab/network.ts";
import type { PodActions } from "../../lab/pod-resident.ts";
import { type Resident, startResident } from "../../lab/resident.ts";
import type { Address } from "../net/address.ts";
import type { Prefix } from "../net/prefix.ts";
import type { BucketCount, Buckets, Endpoint, FrontendPlan, NodeSurroundings, VipPlan } from "../plan/vip-plan.ts";
import type { PlaneActions } from "./plane.fixture.ts";

export const VIP = { IPv4: "203.0.113.10" as Address, IPv6: "2001:db8:0:f::10" as Address };
export const OTHER_VIP = { IPv4: "203.0.113.11" as Address, IPv6: "2001:db8:0:f::11" as Address };

export type LabPod = {
  readonly name: string;
  readonly namespace: string;
  readonly node: LabNode;
  readonly IPv4: Address;
  readonly IPv6: Address;
};

export type PlaneLab = {
  readonly claim: Claim;
  readonly network: Network;
  readonly client: Resident<ClientActions>;
  /** Asks from inside a pod or a node. */
  asker(namespace: string): Promise<Resident<ClientActions>>;
  plane(node: LabNode): Promise<Resident<PlaneActions>>;
  /** The node itself serves a port, as its sshd would. */
  serveOnNode(node: LabNode, name: string, port: number): Promise<void>;
  /** A pod on the node that serves port 8080. */
  pod(node: LabNode, name: string, number: number): Promise<LabPod>;
  /** Surroundings as this node sees them. */
  surroundings(node: LabNode): NodeSurroundings;
  /** Sends VIPs from the client to this node. */
  route(node: LabNode): Promise<void>;
  inside(node: LabNode, program: string, ...args: string[]): Promise<string>;
  close(): Promise<void>;
};

export async function openPlaneLab(): Promise<PlaneLab> {
  const claim = claimLab();
  const network = await buildNetwork(claim, 2);
  const residents: { close(): Promise<void> }[] = [];
  const keep = async <T extends { close(): Promise<void> }>(starting: Promise<T>): Promise<T> => {
    const resident = await starting;
    residents.push(resident);
    return resident;
  };
  const asker = (namespace: string) =>
    keep(startResident<ClientActions>(namespace, new URL("../../lab/client-resident.ts", import.meta.url)));
  const server = (namespace: string) =>
    keep(startResident<PodActions>(namespace, new URL("../../lab/pod-resident.ts", import.meta.url)));
  return {
    claim,
    network,
    client: await asker(network.client.namespace),
    asker,
    plane: (node) => keep(startResident<PlaneActions>(node.namespace, new URL("./plane.fixture.ts", import.meta.url))),
    async serveOnNode(node, name, port) {
      await (await server(node.namespace)).call("serve", name, port);
    },
    async pod(node, name, number) {
      const namespace = `${node.namespace}-${name}`;
      const { ipv4, ipv6 } = await attachPod(claim, node, namespace, number);
      await (await server(namespace)).call("serve", name, 8080);
      return { name, namespace, node, IPv4: ipv4 as Address, IPv6: ipv6 as Address };
    },
    surroundings: (node) => ({
      ownPods: node.podCIDRs as readonly string[] as readonly Prefix[],
      clusterPods: network.nodes.flatMap((one) => one.podCIDRs) as readonly string[] as readonly Prefix[],
      nodeAddresses: network.nodes.flatMap((one) => [one.lanIPv4, one.lanIPv6]) as Address[],
      bridgeNetfilter: { IPv4: true, IPv6: true },
    }),
    async route(node) {
      await ip(network.client.namespace, [
        `route replace 203.0.113.0/24 via ${node.lanIPv4}`,
        `route replace 2001:db8:0:f::/64 via ${node.lanIPv6}`,
      ]);
    },
    inside: (node, program, ...args) => run("ip", ["netns", "exec", node.namespace, program, ...args]),
    async close() {
      for (const resident of residents) await resident.close();
      await claim.release();
    },
  };
}

/** The pod as an endpoint, seen from a node. */
export const endpoint = (pod: LabPod, family: "IPv4" | "IPv6", seenFrom: LabNode): Endpoint => ({
  address: pod[family],
  port: 8080,
  local: pod.node === seenFrom,
});

/** Endpoints dealt out over so many buckets; `undefined` stands for dead weight. */
export const deal = (count: BucketCount, endpoints: Buckets): Buckets =>
  Array.from({ length: count }, (_, bucket) => endpoints[bucket % endpoints.length]);

export const balance = (
  protocol: "TCP" | "UDP",
  port: number,
  buckets: Buckets,
  more: { affinity?: "ClientIP"; outside?: Buckets | "drop"; sourceRanges?: string[] } = {},
): FrontendPlan => ({
  protocol,
  port,
  sourceRanges: (more.sourceRanges ?? []) as Prefix[],
  action: {
    type: "balance",
    affinity: more.affinity ?? "None",
    buckets,
    ...(more.outside !== undefined && { outside: more.outside }),
  },
});

export const vip = (address: Address, ...frontends: FrontendPlan[]): VipPlan => ({
  address,
  scope: "External",
  frontends,
});

/** True when this machine can run lab tests of the data plane. */
export async function canRun(): Promise<boolean> {
  const user = await tryRun("id", ["-u"]);
  return user.stdout.trim() === "0" && (await tryRun("nft", ["--version"])).code === 0;
}

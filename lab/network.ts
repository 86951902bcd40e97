/**
 * The lab's wires: nodes, a client and a router on one LAN bridge; nodes and the control plane on a management bridge.
 *
 *        client .100   router .1     node-1 .11   node-2 .12   node-3 .13
 *           │             │             │            │            │          192.0.2.0/24, 2001:db8:0:1::/64
 *           └─────────────┴──── lan ────┴────────────┴────────────┘
 *                                       │mgmt0       │            │
 *                 control plane .1 ─────┴── mgmt ────┴────────────┘          198.51.100.0/24
 *
 * Every host is a network namespace of its own; nothing touches the machine's own interfaces.
 */
import type { Claim } from "./claim.ts";
import { ip, run } from "./command.ts";

export type Host = {
  /** Short name: `node-1`, `client`. */
  readonly name: string;
  /** Network namespace. */
  readonly namespace: string;
  readonly lanIPv4: string;
  readonly lanIPv6: string;
  readonly mac: string;
  /** Management address; the control plane and nodes have one. */
  readonly managementIPv4: string | undefined;
};

export type LabNode = Host & {
  readonly index: number;
  readonly podCIDRs: readonly [ipv4: string, ipv6: string];
};

export type Network = {
  readonly lan: string;
  readonly management: string;
  readonly controlPlane: string;
  readonly controlPlaneIPv4: string;
  readonly nodes: readonly LabNode[];
  readonly client: Host;
  readonly router: Host;
};

const CONTROL_PLANE_IPV4 = "198.51.100.1";

export async function buildNetwork(claim: Claim, nodeCount: number): Promise<Network> {
  const namespaceOf = (name: string) => `belfry-${claim.id}-${name}`;
  const host = (name: string, last: number, mac: number, managed: boolean): Host => ({
    name,
    namespace: namespaceOf(name),
    lanIPv4: `192.0.2.${last}`,
    lanIPv6: `2001:db8:0:1::${last}`,
    mac: `02:00:00:00:00:${mac.toString(16).padStart(2, "0")}`,
    managementIPv4: managed ? `198.51.100.${last}` : undefined,
  });
  const nodes = Array.from(
    { length: nodeCount },
    (_, i): LabNode => ({
      ...host(`node-${i + 1}`, 11 + i, 0x0a + i, true),
      index: i + 1,
      podCIDRs: [`198.18.${i + 1}.0/24`, `2001:db8:0:1${i + 1}::/64`],
    }),
  );
  const network: Network = {
    lan: namespaceOf("lan"),
    management: namespaceOf("mgmt"),
    controlPlane: namespaceOf("cp"),
    controlPlaneIPv4: CONTROL_PLANE_IPV4,
    nodes,
    client: host("client", 100, 0xc1, false),
    router: host("router", 1, 0x01, false),
  };
  const hosts = [...nodes, network.client, network.router];
  for (const namespace of [network.lan, network.management, network.controlPlane, ...hosts.map((h) => h.namespace)]) {
    await makeNamespace(claim, namespace);
  }
  await bridge(network.lan);
  await bridge(network.management);
  await attach(network.management, "cp", network.controlPlane, "mgmt0");
  await ip(network.controlPlane, [`address add ${CONTROL_PLANE_IPV4}/24 dev mgmt0`, "link set mgmt0 up"]);
  for (const each of hosts) await attachHost(network, each);
  for (const node of nodes) await routePods(node, nodes);
  return network;
}

export async function makeNamespace(claim: Claim, namespace: string): Promise<void> {
  claim.namespace(namespace);
  await run("ip", ["netns", "add", namespace]);
  await ip(namespace, ["link set lo up"]);
}

/** Writes sysctls in a namespace: names as under /proc/sys, with slashes. */
export const sysctl = (namespace: string, settings: Readonly<Record<string, string | number>>): Promise<string> =>
  run("ip", [
    "netns",
    "exec",
    namespace,
    "sh",
    "-ec",
    Object.entries(settings)
      .map(([name, value]) => `echo ${value} > /proc/sys/${name}`)
      .join("\n"),
  ]);

async function bridge(namespace: string): Promise<void> {
  await sysctl(namespace, { "net/ipv6/conf/default/disable_ipv6": 1 });
  await ip(namespace, ["link add br0 type bridge mcast_snooping 0", "link set br0 up"]);
}

/** A cable from a bridge's port (named after who is on the other end) to an interface in another namespace. */
async function attach(
  bridgeNamespace: string,
  port: string,
  namespace: string,
  device: string,
  mac?: string,
): Promise<void> {
  const address = mac === undefined ? "" : ` address ${mac}`;
  await ip(bridgeNamespace, [
    `link add ${port} type veth peer name ${device} netns ${namespace}${address}`,
    `link set ${port} master br0 up`,
  ]);
}

async function attachHost(network: Network, host: Host): Promise<void> {
  const forwards = host.name !== "client" ? 1 : 0;
  await sysctl(host.namespace, {
    "net/ipv4/ip_forward": forwards,
    "net/ipv6/conf/all/forwarding": forwards,
    "net/ipv6/conf/default/accept_dad": 0,
    "net/ipv6/conf/default/accept_ra": 0,
  });
  await attach(network.lan, host.name, host.namespace, "eth0", host.mac);
  await ip(host.namespace, [
    "link set eth0 up",
    `address add ${host.lanIPv4}/24 dev eth0`,
    `address add ${host.lanIPv6}/64 dev eth0 nodad`,
  ]);
  if (host.name !== "router") {
    await ip(host.namespace, [
      `route add default via ${network.router.lanIPv4}`,
      `route add default via ${network.router.lanIPv6}`,
    ]);
  }
  if (host.managementIPv4 !== undefined) {
    await attach(network.management, host.name, host.namespace, "mgmt0");
    await ip(host.namespace, [`address add ${host.managementIPv4}/24 dev mgmt0`, "link set mgmt0 up"]);
  }
}

/** The pod bridge of a node, and its routes to the pods of the others. */
async function routePods(node: LabNode, nodes: readonly LabNode[]): Promise<void> {
  const [ipv4, ipv6] = node.podCIDRs;
  await ip(node.namespace, [
    // Of its own, as CNI plugins give it: otherwise it changes with every pod's port.
    `link add cni0 address 02:00:00:01:00:${node.index.toString(16).padStart(2, "0")} type bridge`,
    "link set cni0 up",
    `address add ${ipv4.replace("0/24", "1/24")} dev cni0`,
    `address add ${ipv6.replace("::/64", "::1/64")} dev cni0 nodad`,
    ...nodes
      .filter((other) => other !== node)
      .flatMap((other) => [
        `route add ${other.podCIDRs[0]} via ${other.lanIPv4}`,
        `route add ${other.podCIDRs[1]} via ${other.lanIPv6}`,
      ]),
  ]);
}

/** Plugs a node's or the client's LAN cable in or out, at the bridge's side and so at both. */
export const setLanCable = (network: Network, host: Host, state: "up" | "down"): Promise<string> =>
  ip(network.lan, [`link set ${host.name} ${state}`]);

/** Cuts or restores the way from a node to the API server, and nothing else. */
export const setManagementCable = (network: Network, host: Host, state: "up" | "down"): Promise<string> =>
  ip(network.management, [`link set ${host.name} ${state}`]);

export type PodAddresses = { readonly ipv4: string; readonly ipv6: string };

/** A pod's namespace on a node's bridge; `number` is its place in the node's pod CIDRs, from 2. */
export async function attachPod(claim: Claim, node: LabNode, namespace: string, number: number): Promise<PodAddresses> {
  const ipv4 = node.podCIDRs[0].replace("0/24", `${number}`);
  const ipv6 = node.podCIDRs[1].replace("::/64", `::${number}`);
  await makeNamespace(claim, namespace);
  await sysctl(namespace, { "net/ipv6/conf/default/accept_dad": 0, "net/ipv6/conf/default/accept_ra": 0 });
  await ip(node.namespace, [
    `link add veth${number} type veth peer name eth0 netns ${namespace}`,
    `link set veth${number} master cni0 up`,
    // A pod may call a VIP that leads back to itself; the bridge must then send the frame out where it came in.
    `link set veth${number} type bridge_slave hairpin on`,
  ]);
  await ip(namespace, [
    "link set eth0 up",
    `address add ${ipv4}/24 dev eth0`,
    `address add ${ipv6}/64 dev eth0 nodad`,
    `route add default via ${node.podCIDRs[0].replace("0/24", "1")}`,
    `route add default via ${node.podCIDRs[1].replace("::/64", "::1")}`,
  ]);
  return { ipv4, ipv6 };
}

/** The quickstart's cluster content: the samples as a user would apply them, and pods behind their Services. */
import type { Gateway, Service } from "../src/api/foreign.ts";
import { GATEWAY, SERVICE, VIRTUALIP } from "../src/api/resource.ts";
import type { VirtualIP } from "../src/api/virtual-ip.ts";
import type { Family } from "../src/net/address.ts";
import { must, put, type SlicePort } from "./cluster.ts";
import { eventually } from "./eventually.ts";
import { DEPLOYMENT, isRolledOut, webDeployment } from "./kube/lab-pod.ts";
import type { Lab } from "./lab.ts";

export const DEMO = "demo";
export const SAMPLES = "config/samples/quickstart";
export const PORTS: readonly SlicePort[] = [
  { name: "http", protocol: "TCP", port: 8080 },
  { name: "dns", protocol: "UDP", port: 8080 },
];

export type Addresses = Readonly<Record<Family, string>>;

/** Applies the samples, and puts a Deployment of real pods behind their Services; needs a real Kubernetes. */
export async function startKubeDemo(lab: Lab, replicas = 3): Promise<void> {
  await lab.apply(SAMPLES);
  await put(lab.api, DEPLOYMENT, webDeployment(replicas));
  await eventually("Deployment demo/web is rolled out", 60_000, () => isRolledOut(lab.api, "web"));
}

/** Starts two pods on different nodes and applies the samples. */
export async function startDemo(lab: Lab): Promise<void> {
  await lab.apply(SAMPLES);
  for (const [i, name] of ["web-a", "web-b"].entries())
    await lab.startPod(name, lab.nodes[i % lab.nodes.length] ?? lab.node("node-1"));
  for (const service of ["web", "legacy"]) await lab.setEndpoints({ namespace: DEMO, name: service }, PORTS);
}

/** Waits until the Gateway and the Service show an address of each family and are programmed. */
export async function waitForDemo(lab: Lab, limitMs = 30_000): Promise<{ gateway: Addresses; service: Addresses }> {
  const gateway = await eventually("Gateway demo/web is programmed on both families", limitMs, () =>
    gatewayAddresses(lab, "web"),
  );
  const service = await eventually("Service demo/legacy has an address of both families", limitMs, () =>
    serviceAddresses(lab, "legacy"),
  );
  await eventually("every VirtualIP has an owner", limitMs, async () =>
    (await virtualIPs(lab)).every((vip) => vip.status?.owner?.generation === vip.metadata.generation),
  );
  return { gateway, service };
}

/**
 * Waits until exactly these pods answer on port 80 of the address, to the client and on every node. A pod that the API
 * server calls ready is not there yet for a speaker that has not heard of it: on a busy machine that takes a while.
 */
export async function waitForPods(
  lab: Lab,
  address: string,
  names: readonly string[],
  limitMs = 15_000,
): Promise<void> {
  const wanted = [...names].sort();
  for (const namespace of [lab.network.client.namespace, ...lab.nodes.map((node) => node.namespace)]) {
    const resident = await lab.residentOf(namespace);
    await eventually(`${wanted} answer at ${address}, asked from ${namespace}`, limitMs, async () => {
      const seen = Object.keys(await resident.call("survey", "TCP", address, 80, 20 * wanted.length)).sort();
      if (`${seen}` !== `${wanted}`) throw new Error(`${seen} did`);
      return true;
    });
  }
}

export async function gatewayAddresses(lab: Lab, name: string): Promise<Addresses | undefined> {
  const gateway = must("gateway", await lab.api.get<Gateway>(GATEWAY, { namespace: DEMO, name }));
  const programmed = gateway.status?.conditions?.find(({ type }) => type === "Programmed");
  if (programmed?.status !== "True") {
    const accepted = gateway.status?.conditions?.find(({ type }) => type === "Accepted");
    throw new Error(
      `${programmed?.reason ?? accepted?.reason ?? "no status"}: ${programmed?.message ?? accepted?.message ?? ""}`,
    );
  }
  return ofBothFamilies(gateway.status?.addresses?.map(({ value }) => value));
}

export async function serviceAddresses(lab: Lab, name: string): Promise<Addresses | undefined> {
  const service = must("service", await lab.api.get<Service>(SERVICE, { namespace: DEMO, name }));
  return ofBothFamilies(service.status?.loadBalancer?.ingress?.flatMap(({ ip }) => ip ?? []));
}

function ofBothFamilies(addresses: readonly string[] | undefined): Addresses | undefined {
  const ipv4 = addresses?.find((address) => !address.includes(":"));
  const ipv6 = addresses?.find((address) => address.includes(":"));
  return ipv4 === undefined || ipv6 === undefined ? undefined : { IPv4: ipv4, IPv6: ipv6 };
}

export const virtualIPs = async (lab: Lab): Promise<VirtualIP[]> =>
  must("virtualips", await lab.api.list<VirtualIP>(VIRTUALIP)).items;

/** The node that the VirtualIP of an address names as its owner. */
export async function ownerOf(lab: Lab, address: string): Promise<string | undefined> {
  return (await virtualIPs(lab)).find((vip) => vip.spec.address === address)?.status?.owner?.node;
}

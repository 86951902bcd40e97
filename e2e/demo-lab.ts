/** A lab with the quickstart's content, for the tests of one file. */
import { type Addresses, startDemo, waitForDemo, waitForPods } from "../lab/demo.ts";
import type { KubeOptions } from "../lab/kube/cluster.ts";
import { createLab, type Lab, type LabOptions } from "../lab/lab.ts";
import { renderLogs } from "../lab/ready.ts";
import { findKube } from "./kube/build.ts";

export type DemoLab = { readonly lab: Lab; readonly gateway: Addresses; readonly service: Addresses };

/** On the embedded API server, or on a real Kubernetes where BELFRY_LAB=kube says so: the same tests hold on both. */
export async function startDemoLab(options: LabOptions = {}): Promise<DemoLab> {
  const lab = await createLab({ ...options, kube: options.kube ?? (await chosenKube()) });
  try {
    await lab.startAll();
    await startDemo(lab);
    const addresses = await waitForDemo(lab);
    await waitForPods(lab, addresses.gateway.IPv4, [...lab.pods.keys()]);
    return { lab, ...addresses };
  } catch (error) {
    console.error(renderLogs(lab)); // they are gone with the lab
    await lab.close();
    throw error;
  }
}

/** On a real Kubernetes the controllers write EndpointSlices, and a pod is an endpoint of every Service that selects it. */
export const ON_KUBE = process.env["BELFRY_LAB"] === "kube";

async function chosenKube(): Promise<KubeOptions | undefined> {
  if (!ON_KUBE) return undefined;
  const found = await findKube((line) => console.log(line));
  if (found.type === "missing") throw new Error(found.why);
  return { binary: found.path, gatewayCrds: found.gatewayCrds };
}

/** An ARP request for `target`, broadcast by the lab's client, or a multicast NS with its checksum. */
export function probeFrame(target: string): string {
  if (target.includes(":")) return neighbourSolicitation(target);
  const hex = target
    .split(".")
    .map((octet) => Number(octet).toString(16).padStart(2, "0"))
    .join("");
  return `ffffffffffff0200000000c1080600010800060400010200000000c1c0000264000000000000${hex}`;
}

import { concat, fromHex, toHex } from "../src/core/bytes.ts";
import { type Address, bytesOf } from "../src/net/address.ts";

const CLIENT_IPV6 = "2001:db8:0:1::100" as Address;

/** RFC 4861 4.3, from the client with its link-layer address, to the target's solicited-node group. */
function neighbourSolicitation(target: string): string {
  const to = bytesOf(target as Address);
  const group = concat(fromHex("ff0200000000000000000001ff"), to.subarray(13));
  const source = bytesOf(CLIENT_IPV6);
  const body = concat(fromHex("8700000000000000"), to, fromHex("01010200000000c1"));
  const pseudo = concat(source, group, fromHex("000000200000003a"), body);
  let sum = 0;
  for (let i = 0; i < pseudo.length; i += 2) sum += ((pseudo[i] ?? 0) << 8) | (pseudo[i + 1] ?? 0);
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >>> 16);
  const checksum = (~sum & 0xffff).toString(16).padStart(4, "0");
  const icmp = toHex(body).replace(/^87000000/, `8700${checksum}`);
  return `3333ff${toHex(to.subarray(13))}0200000000c186dd6000000000203aff${toHex(source)}${toHex(group)}${icmp}`;
}

/**
 * What a kubelet and the endpoint controllers would write, written by the lab: Nodes, Namespaces and the EndpointSlices
 * of selector-less Services.
 */
import type { EndpointSlice, Node } from "../src/api/foreign.ts";
import type { KubeObject } from "../src/api/meta.ts";
import { SERVICE_NAME_LABEL } from "../src/api/names.ts";
import { ENDPOINTSLICE, NAMESPACES, NODE, type Resource } from "../src/api/resource.ts";
import type { Answer, ApiClient } from "../src/kube/port.ts";
import type { Family } from "../src/net/address.ts";
import type { LabNode, PodAddresses } from "./network.ts";

export type PodState = "Ready" | "NotReady" | "Terminating";

export type LabPod = PodAddresses & {
  readonly name: string;
  readonly node: string;
  readonly state: PodState;
};

/** The object of an answer, or an error with the server's words. */
export function must<T>(what: string, answer: Answer<T>): T {
  if (!answer.ok) throw new Error(`${what}: ${answer.failure.reason}: ${answer.failure.message}`);
  return answer.object;
}

/** Creates the object, or brings the one that is there to this form. */
export async function put<T extends KubeObject>(client: ApiClient, resource: Resource, object: T): Promise<T> {
  return must(
    `${resource.kind} ${object.metadata.name}`,
    await client.apply(resource, object, { fieldManager: "belfry-lab", force: true }),
  );
}

export const putNamespace = (client: ApiClient, name: string) =>
  put(client, NAMESPACES, { apiVersion: "v1", kind: "Namespace", metadata: { name } });

export async function putNode(client: ApiClient, node: LabNode, labels: Record<string, string> = {}): Promise<void> {
  const object: Node = {
    apiVersion: "v1",
    kind: "Node",
    metadata: { name: node.name, labels: { "kubernetes.io/hostname": node.name, ...labels } },
    spec: { podCIDR: node.podCIDRs[0], podCIDRs: [...node.podCIDRs] },
  };
  await put(client, NODE, object);
  await setNodeReady(client, node, true);
}

export async function setNodeReady(client: ApiClient, node: LabNode, ready: boolean): Promise<void> {
  const status = {
    addresses: [
      { type: "InternalIP", address: node.lanIPv4 },
      { type: "InternalIP", address: node.lanIPv6 },
    ],
    conditions: [{ type: "Ready", status: ready ? "True" : "Unknown" }],
  };
  must(`status of node ${node.name}`, await client.mergePatch(NODE, { name: node.name }, { status }, "status"));
}

export type SlicePort = { readonly name: string; readonly protocol: "TCP" | "UDP"; readonly port: number };

/** Writes the EndpointSlices of a Service, one per family: these pods and no others. */
export async function putEndpoints(
  client: ApiClient,
  service: { namespace: string; name: string },
  ports: readonly SlicePort[],
  pods: readonly LabPod[],
  families: readonly Family[] = ["IPv4", "IPv6"],
): Promise<void> {
  for (const family of families) {
    const slice: EndpointSlice = {
      apiVersion: "discovery.k8s.io/v1",
      kind: "EndpointSlice",
      metadata: {
        name: `${service.name}-${family.toLowerCase()}`,
        namespace: service.namespace,
        labels: { [SERVICE_NAME_LABEL]: service.name, "endpointslice.kubernetes.io/managed-by": "belfry-lab" },
      },
      addressType: family,
      endpoints: pods.map((pod) => ({
        addresses: [family === "IPv4" ? pod.ipv4 : pod.ipv6],
        conditions: {
          ready: pod.state === "Ready",
          serving: pod.state !== "NotReady",
          terminating: pod.state === "Terminating",
        },
        nodeName: pod.node,
      })),
      ports: ports.map((port) => ({ ...port })),
    };
    await put(client, ENDPOINTSLICE, slice);
  }
}

/** What the bench puts on the API server: Services, their EndpointSlices, and the VirtualIPs of the same Services. */
import { setTimeout as delay } from "node:timers/promises";
import type { EndpointSlice, Service } from "../src/api/foreign.ts";
import type { KubeObject } from "../src/api/meta.ts";
import { SERVICE_NAME_LABEL } from "../src/api/names.ts";
import { ENDPOINTSLICE, type Resource, SERVICE, VIRTUALIP } from "../src/api/resource.ts";
import { toHex } from "../src/core/bytes.ts";
import type { ApiClient } from "../src/kube/port.ts";
import { addressOf, bytesOf, parseAddress } from "../src/net/address.ts";

export const BENCH_NAMESPACE = "bench";
/** Large enough for the ClusterIPs; VIPs and endpoints have ranges of their own beside it. */
export const SERVICE_CIDR = "198.19.0.0/18";
const CLUSTER_IPS = firstOf("198.19.0.0") + 16n;
const VIPS = firstOf("198.19.64.0") + 16n;
const ENDPOINTS = firstOf("198.18.0.0");

/** Requests under way at once while objects are made. */
const IN_FLIGHT = 24;

function firstOf(text: string): bigint {
  const address = parseAddress(text);
  if (address === undefined) throw new Error(text);
  return bytesOf(address).reduce((value, byte) => (value << 8n) | BigInt(byte), 0n);
}

const ipv4 = (value: bigint) => addressOf(value, "IPv4");
export const nameOf = (i: number): string => `svc-${String(i).padStart(5, "0")}`;
export const clusterIpOf = (i: number) => ipv4(CLUSTER_IPS + BigInt(i));
export const vipOf = (i: number) => ipv4(VIPS + BigInt(i));

/** Addresses of pods on the two nodes (198.18.1.0/24, 198.18.2.0/24), shared by many Services. */
const endpointsOf = (i: number) => [1, 2].map((node) => ipv4(ENDPOINTS + BigInt(node * 256 + 2 + (i % 200))));
/** An address that no Service has at first: it comes into the kernel by change number `n` alone. */
export const freshEndpoint = (n: number) => ipv4(ENDPOINTS + 0x1000n + BigInt(n));

/** The key of a frontend, TCP port 80: address . protocol . port, as kube-proxy's map and ours have it. */
export const frontendKey = (address: string): string => {
  const parsed = parseAddress(address);
  if (parsed === undefined) throw new Error(address);
  return `${toHex(bytesOf(parsed))}0600000000500000`;
};

const service = (i: number): Service => ({
  apiVersion: "v1",
  kind: "Service",
  metadata: { name: nameOf(i), namespace: BENCH_NAMESPACE },
  spec: {
    type: "ClusterIP",
    ...{ clusterIP: clusterIpOf(i) },
    ipFamilyPolicy: "SingleStack",
    ipFamilies: ["IPv4"],
    ports: [{ name: "http", protocol: "TCP", port: 80, targetPort: 8080 }],
  },
});

const vip = (i: number): KubeObject =>
  ({
    apiVersion: "belfry.dev/v1alpha1",
    kind: "VirtualIP",
    metadata: { name: vipOf(i) },
    spec: {
      address: vipOf(i),
      scope: "External",
      pool: "bench",
      holders: [{ kind: "Service", namespace: BENCH_NAMESPACE, name: nameOf(i), uid: nameOf(i) }],
      forwards: [
        {
          protocol: "TCP",
          port: 80,
          dataPath: "Belfry",
          backends: [{ kind: "Service", namespace: BENCH_NAMESPACE, name: nameOf(i), portName: "http", weight: 1 }],
        },
      ],
    },
  }) as KubeObject;

/** The slice of a Service: its two endpoints, or these. */
export const slice = (i: number, addresses: readonly string[] = endpointsOf(i)): EndpointSlice => ({
  apiVersion: "discovery.k8s.io/v1",
  kind: "EndpointSlice",
  metadata: {
    name: nameOf(i),
    namespace: BENCH_NAMESPACE,
    labels: { [SERVICE_NAME_LABEL]: nameOf(i), "endpointslice.kubernetes.io/managed-by": "belfry-bench" },
  },
  addressType: "IPv4",
  endpoints: addresses.map((address, k) => ({
    addresses: [address],
    conditions: { ready: true, serving: true, terminating: false },
    nodeName: `node-${k + 1}`,
  })),
  ports: [{ name: "http", protocol: "TCP", port: 8080 }],
});

/** Writes the slice over the one that is there; gives the new resourceVersion. */
export async function replaceSlice(api: ApiClient, i: number, addresses?: readonly string[]): Promise<string> {
  const answer = await api.update(ENDPOINTSLICE, slice(i, addresses));
  if (!answer.ok) throw new Error(`slice ${nameOf(i)}: ${answer.failure.message}`);
  return answer.object.metadata.resourceVersion ?? "";
}

/** `size` Services with two endpoints each, and one more, number `size`, that has none yet. */
export async function createAll(api: ApiClient, size: number, tell: (line: string) => void): Promise<void> {
  let next = 0;
  const create = async (resource: Resource, object: KubeObject) => {
    for (let attempt = 0; ; attempt++) {
      const answer = await api.create(resource, object);
      if (answer.ok || answer.failure.reason === "AlreadyExists") return;
      if (attempt === 20) throw new Error(`${resource.kind} ${object.metadata.name}: ${answer.failure.message}`);
      // A request without an answer may be carried out yet, and holds its ClusterIP until then.
      await delay(500);
    }
  };
  const work = async () => {
    for (let i = next++; i <= size; i = next++) {
      await create(SERVICE, service(i));
      await create(ENDPOINTSLICE, i === size ? slice(i, []) : slice(i));
      await create(VIRTUALIP, vip(i));
      if (i % 2000 === 1999) tell(`${i + 1} Services with slice and VirtualIP`);
    }
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, work));
}

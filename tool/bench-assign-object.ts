/** What `bench:assign` creates. `bare` objects are nobody's: the bench writes their status itself. */
import type { Gateway, Service } from "../src/api/foreign.ts";
import type { KubeObject } from "../src/api/meta.ts";
import { LOAD_BALANCER } from "../src/api/names.ts";
import { GATEWAY, SERVICE } from "../src/api/resource.ts";

export type BenchKind = "Gateway" | "Service";
/** Who gives the address: the controller, or this client. */
export type Giver = "belfry" | "bare";

export const BENCH_NAMESPACE = "bench";
export const BARE_CONTROLLER = "bench.example/bare";

export const RESOURCES = { Gateway: GATEWAY, Service: SERVICE } as const;
const CLASSES = {
  belfry: { gatewayClassName: "belfry", loadBalancerClass: LOAD_BALANCER },
  bare: { gatewayClassName: "bare", loadBalancerClass: BARE_CONTROLLER },
} as const;

export function newObject(kind: BenchKind, giver: Giver, name: string): KubeObject {
  const metadata = { name, namespace: BENCH_NAMESPACE };
  const { gatewayClassName, loadBalancerClass } = CLASSES[giver];
  if (kind === "Gateway") {
    const listeners = [{ name: "http", protocol: "TCP", port: 80 }];
    return { metadata, spec: { gatewayClassName, listeners } } as Gateway;
  }
  const spec = {
    type: "LoadBalancer",
    loadBalancerClass,
    // A cluster has 2,768 node ports; nobody here needs one.
    allocateLoadBalancerNodePorts: false,
    ports: [{ name: "http", protocol: "TCP", port: 80, targetPort: 8080 }],
  };
  return { metadata, spec } as Service;
}

/** A status of the size and shape that the controller writes at first. */
export function bareStatus(kind: BenchKind, generation: number, address: string): unknown {
  const condition = (type: string, status: string, message = "") => ({
    type,
    status,
    reason: status === "True" ? type : "Pending",
    message,
    observedGeneration: generation,
    lastTransitionTime: `${new Date().toISOString().slice(0, 19)}Z`,
  });
  const conditions = [
    condition("Accepted", "True"),
    condition("Programmed", "False", `${address}: no node answers for it yet`),
  ];
  if (kind === "Service") return { loadBalancer: { ingress: [{ ip: address, ipMode: "VIP" }] }, conditions };
  const listener = {
    name: "http",
    supportedKinds: [{ group: "belfry.dev", kind: "ServiceRoute" }],
    attachedRoutes: 0,
    conditions: [
      condition("Accepted", "True"),
      condition("Programmed", "False", "the Gateway is not programmed, see there"),
      condition("ResolvedRefs", "True"),
      condition("Conflicted", "False"),
    ],
  };
  return { addresses: [{ type: "IPAddress", value: address }], conditions, listeners: [listener] };
}

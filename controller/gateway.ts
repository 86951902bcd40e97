import type { Gateway } from "../src/api/foreign.ts";
import { GATEWAY } from "../src/api/resource.ts";
import { isOurClass, judgeClass } from "../src/gateway/class.ts";
import { type GatewayResolution, resolveGateway } from "../src/gateway/resolve.ts";
import { keyOf } from "../src/kube/port.ts";
import { type Address, parseAddress } from "../src/net/address.ts";
import { gatewayStatus } from "../src/status/gateway.ts";
import type { Desk } from "./desk.ts";
import type { HolderKind } from "./holder.ts";
import { projectGateway } from "./project.ts";

/** What the Gateway's spec, class, routes and their Services come to. */
export function resolutionOf(desk: Desk, gateway: Gateway): GatewayResolution {
  const { world } = desk;
  const gatewayClass = world.get("GatewayClass", gateway.spec.gatewayClassName);
  return resolveGateway({
    gateway,
    classProblem: gatewayClass === undefined ? undefined : judgeClass(gatewayClass),
    routes: world.routesOf(keyOf(gateway)),
    service: (namespace, name) => world.get("Service", `${namespace}/${name}`),
    namespaceLabels: (namespace) => world.get("Namespace", namespace)?.metadata.labels,
  });
}

/** Whether the Gateway's class names us; "unknown" while there is no such class. */
export function standingOf(desk: Desk, gateway: Gateway): "ours" | "notOurs" | "unknown" {
  const gatewayClass = desk.world.get("GatewayClass", gateway.spec.gatewayClassName);
  if (gatewayClass === undefined) return "unknown";
  return isOurClass(gatewayClass, desk.controllerName) ? "ours" : "notOurs";
}

export const gatewayHolder = (desk: Desk): HolderKind<Gateway, GatewayResolution> => ({
  kind: "Gateway",
  resource: GATEWAY,
  project: projectGateway,
  standing: (gateway) => standingOf(desk, gateway),
  resolve: (gateway) => resolutionOf(desk, gateway),
  shown: (gateway) => (gateway.status?.addresses ?? []).flatMap(({ value }) => parseAddress(value) ?? []),
  status: (gateway, resolution, outcome, vips) =>
    gatewayStatus({
      gateway,
      resolution,
      outcome,
      vips,
      liveSpeakers: desk.liveSpeakers(),
      now: desk.timestamp(),
    }),
  // The other controller's status is its own business, but for addresses that we took away.
  without: (gateway, addresses) => {
    const shown = gateway.status?.addresses ?? [];
    const kept = shown.filter(({ value }) => !addresses.includes(value as Address));
    return kept.length === shown.length ? gateway.status : { ...gateway.status, addresses: kept };
  },
  present: (gateway) => gateway.status,
  refused: ({ accepted, addresses }) => accepted ?? addresses,
});

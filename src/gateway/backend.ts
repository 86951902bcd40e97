/** Where a port of a route leads: the Service port behind it, or why there is none. */
import type { Service } from "../api/foreign.ts";
import type { ServiceRoute } from "../api/service-route.ts";
import type { Backend } from "../api/virtual-ip.ts";
import type { Problem } from "../core/trouble.ts";
import { namespaceOf, printPort, type RoutePort } from "./attach.ts";

/** The Service of that name, or undefined. */
export type ServiceLookup = (namespace: string, name: string) => Service | undefined;

export type BackendResolution =
  | { readonly ok: true; readonly backend: Backend }
  /** InvalidKind, RefNotPermitted, BackendNotFound or UnsupportedProtocol. */
  | { readonly ok: false; readonly problem: Problem };

/** Resolves the backend of a route for one of its ports. */
export function resolveBackend(route: ServiceRoute, port: RoutePort, lookup: ServiceLookup): BackendResolution {
  const { group, kind, namespace = namespaceOf(route), name } = route.spec.backendRef;
  if (group !== "" || kind !== "Service") {
    return refuse("InvalidKind", `backendRef: ${group}/${kind} is not supported; use a Service`);
  }
  if (namespace !== namespaceOf(route)) {
    // Nothing is said about what is or isn't there: this namespace has no right to know.
    return refuse(
      "RefNotPermitted",
      `backendRef: Service ${namespace}/${name} is in another namespace, which is not permitted yet; move the route there`,
    );
  }
  const service = lookup(namespace, name);
  if (service === undefined) return refuse("BackendNotFound", `backendRef: there is no Service ${namespace}/${name}`);
  if (service.spec.type === "ExternalName") {
    return refuse("InvalidKind", `backendRef: Service ${namespace}/${name} is an ExternalName, which has no endpoints`);
  }
  return resolvePort(service, port, { namespace, name });
}

function resolvePort(
  service: Service,
  { protocol, port, backendPort = port }: RoutePort,
  { namespace, name }: { namespace: string; name: string },
): BackendResolution {
  const ports = service.spec.ports ?? [];
  const onNumber = ports.filter((each) => each.port === backendPort);
  const match = onNumber.find((each) => (each.protocol ?? "TCP") === protocol);
  if (match !== undefined) {
    return { ok: true, backend: { kind: "Service", namespace, name, portName: match.name ?? "", weight: 1 } };
  }
  const others = onNumber.map((each) => each.protocol ?? "TCP").join(", ");
  if (onNumber.length > 0) {
    return refuse(
      "UnsupportedProtocol",
      `Service ${namespace}/${name} serves port ${backendPort} by ${others}, not by ${protocol}`,
    );
  }
  const has = ports.map((each) => printPort({ protocol: each.protocol ?? "TCP", port: each.port })).join(", ");
  return refuse(
    "BackendNotFound",
    `Service ${namespace}/${name} has no port ${printPort({ protocol, port: backendPort })}; it has ${has || "none"}`,
  );
}

const refuse = (reason: string, message: string): BackendResolution => ({ ok: false, problem: { reason, message } });

/** One ServiceRoute: its status, from what each Gateway of ours that it names makes of it. */
import { SERVICEROUTE } from "../src/api/resource.ts";
import type { ServiceRoute } from "../src/api/service-route.ts";
import { keyOf } from "../src/kube/port.ts";
import { mergePatchTo } from "../src/reconcile/merge-patch.ts";
import { routeStatus } from "../src/status/route.ts";
import { type Desk, granted } from "./desk.ts";
import { resolutionOf, standingOf } from "./gateway.ts";
import { routeBrief, type WorkKey } from "./world.ts";

export async function reconcileServiceRoute(desk: Desk, key: string): Promise<void> {
  const route = desk.world.get("ServiceRoute", key);
  if (route === undefined) return;
  const gateways = routeBrief(route).parents.flatMap((parent) => desk.world.get("Gateway", parent) ?? []);
  // While the class of a parent is missing, what was said about it stands.
  if (gateways.some((gateway) => standingOf(desk, gateway) === "unknown")) return;
  const outcomes = gateways
    .filter((gateway) => standingOf(desk, gateway) === "ours")
    .flatMap((gateway) => resolutionOf(desk, gateway).routes.filter((outcome) => keyOf(outcome.route) === key));
  const status = routeStatus(route, outcomes, { controllerName: desk.controllerName, now: desk.timestamp() });
  if (status === route.status || (route.status === undefined && (status?.parents ?? []).length === 0)) return;
  const { namespace = "", name, resourceVersion } = route.metadata;
  const self: WorkKey = `ServiceRoute/${key}`;
  const patch = { metadata: { resourceVersion }, status: mergePatchTo(route.status, status ?? {}) };
  const answer = await desk.client.mergePatch<ServiceRoute>(SERVICEROUTE, { namespace, name }, patch, "status");
  if (!answer.ok && answer.failure.reason === "NotFound") return;
  desk.wrote(self, "ServiceRoute", granted(`status of ${self}`, answer));
}

/** One GatewayClass of ours: its status, and the finalizer that the Gateway API asks for while Gateways use it. */

import type { GatewayClass } from "../src/api/foreign.ts";
import { GATEWAYCLASS } from "../src/api/resource.ts";
import { isOurClass } from "../src/gateway/class.ts";
import { mergePatchTo } from "../src/reconcile/merge-patch.ts";
import { gatewayClassStatus } from "../src/status/gateway.ts";
import { type Desk, granted } from "./desk.ts";
import type { WorkKey } from "./world.ts";

/** Gateway API, GatewayClass: set while a Gateway uses the class. */
const IN_USE_FINALIZER = "gateway-exists-finalizer.gateway.networking.k8s.io";

export async function reconcileGatewayClass(desk: Desk, name: string): Promise<void> {
  const gatewayClass = desk.world.get("GatewayClass", name);
  if (gatewayClass === undefined || !isOurClass(gatewayClass, desk.controllerName)) return;
  const self: WorkKey = `GatewayClass/${name}`;
  if (await fixFinalizer(desk, self, gatewayClass)) return;
  const status = gatewayClassStatus(gatewayClass, desk.timestamp());
  if (status === gatewayClass.status) return;
  const { resourceVersion } = gatewayClass.metadata;
  const patch = { metadata: { resourceVersion }, status: mergePatchTo(gatewayClass.status, status) };
  const answer = await desk.client.mergePatch<GatewayClass>(GATEWAYCLASS, { name }, patch, "status");
  desk.wrote(self, "GatewayClass", granted(`status of ${self}`, answer));
}

/** True when it wrote: the informer brings the key back. */
async function fixFinalizer(desk: Desk, self: WorkKey, { metadata }: GatewayClass): Promise<boolean> {
  const { name, resourceVersion, finalizers = [], deletionTimestamp } = metadata;
  const used = desk.world.isClassUsed(name);
  const has = finalizers.includes(IN_USE_FINALIZER);
  // A class that is being deleted takes no new finalizer.
  if (used === has || (used && deletionTimestamp !== undefined)) return false;
  const wanted = used ? [...finalizers, IN_USE_FINALIZER] : finalizers.filter((each) => each !== IN_USE_FINALIZER);
  const patch = { metadata: { resourceVersion, finalizers: wanted } };
  const answer = await desk.client.mergePatch<GatewayClass>(GATEWAYCLASS, { name }, patch);
  if (!answer.ok && answer.failure.reason === "NotFound") return true;
  const object = granted(`finalizer of ${self}`, answer);
  if (deletionTimestamp === undefined || wanted.length > 0) desk.wrote(self, "GatewayClass", object);
  return true;
}

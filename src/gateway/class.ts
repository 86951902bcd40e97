import type { GatewayClass } from "../api/foreign.ts";
import type { Problem } from "../core/trouble.ts";

/**
 * Features of the Gateway API that we truly have, sorted: GatewayClass.status.supportedFeatures. There is no HTTPRoute
 * among them, since Belfry forwards TCP and UDP only.
 */
export const SUPPORTED_FEATURES = ["Gateway", "GatewayAddressEmpty", "GatewayStaticAddresses"] as const;

/** True when the class names our controller, whatever the class itself is called. */
export const isOurClass = (gatewayClass: GatewayClass, controllerName: string): boolean =>
  gatewayClass.spec.controllerName === controllerName;

/** Why a class of ours can't be accepted, or `undefined`. Its Gateways then report the same. */
export function judgeClass(gatewayClass: GatewayClass): Problem | undefined {
  const parameters = gatewayClass.spec.parametersRef;
  if (parameters === undefined) return undefined;
  return {
    reason: "InvalidParameters",
    message: `parametersRef ${parameters.group}/${parameters.kind} "${parameters.name}": no kind of parameters is supported yet; remove parametersRef`,
  };
}

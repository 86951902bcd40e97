/** Status of a Gateway and of a GatewayClass, as the Gateway API words it. */
import type { Gateway, GatewayClass, ListenerStatus } from "../api/foreign.ts";
import type { VirtualIP } from "../api/virtual-ip.ts";
import { unlessSame } from "../core/same.ts";
import type { Problem } from "../core/trouble.ts";
import { judgeClass, SUPPORTED_FEATURES } from "../gateway/class.ts";
import type { GatewayResolution, ListenerOutcome } from "../gateway/resolve.ts";
import type { AllocationOutcome } from "./allocation.ts";
import { mergeConditions, type Verdict, verdict } from "./condition.ts";
import { type Readiness, readiness, shownAddresses } from "./readiness.ts";

export type GatewayStatusInput = {
  readonly gateway: Gateway;
  readonly resolution: GatewayResolution;
  /** Answer to `resolution.request`; undefined while there is none. */
  readonly outcome: AllocationOutcome | undefined;
  /** VirtualIPs that this controller has just created, updated or read, and that name the Gateway as a holder. */
  readonly vips: readonly VirtualIP[];
  /** Speakers with a Lease that is not known to be dead. */
  readonly liveSpeakers: number;
  /** RFC 3339, in seconds and UTC. */
  readonly now: string;
};

type GatewayStatus = NonNullable<Gateway["status"]>;

/** The status that the Gateway should have; `gateway.status` itself when it has it. */
export function gatewayStatus(input: GatewayStatusInput): GatewayStatus {
  const { gateway, resolution, vips, now } = input;
  const programmed = programmedVerdict(input);
  const addresses = shownAddresses({ uid: gateway.metadata.uid, request: resolution.request, vips });
  const writing = { owned: ["Accepted", "Programmed"], generation: gateway.metadata.generation, now };
  return unlessSame(gateway.status, {
    ...gateway.status,
    addresses: addresses.map((value) => ({ type: "IPAddress", value })),
    conditions: [...mergeConditions(gateway.status?.conditions, [acceptedVerdict(resolution), programmed], writing)],
    listeners: resolution.listeners.map((listener) => listenerStatus(listener, programmed, gateway, now)),
  });
}

function acceptedVerdict({ accepted, someListenersInvalid }: GatewayResolution): Verdict {
  return verdict("Accepted", accepted, someListenersInvalid ?? { reason: "Accepted", message: "" });
}

function programmedVerdict({ gateway, resolution, outcome, vips, liveSpeakers }: GatewayStatusInput): Verdict {
  const { accepted, addresses, request, forwards } = resolution;
  if (accepted !== undefined) {
    return verdict("Programmed", { reason: "Invalid", message: accepted.message }, WELL);
  }
  const problem =
    addresses ?? problemOf(readiness({ uid: gateway.metadata.uid, request, forwards, outcome, vips, liveSpeakers }));
  return verdict("Programmed", problem, WELL);
}

const WELL: Problem = { reason: "Programmed", message: "every address is served by the node that answers for it" };

/** Gateway API has few reasons here, so what exactly is wrong opens the message. */
function problemOf(state: Readiness): Problem | undefined {
  switch (state.type) {
    case "programmed":
      return undefined;
    case "unusable":
      return { reason: "AddressNotUsable", message: `${state.refusal.reason}: ${state.refusal.message}` };
    case "unassigned":
      return { reason: "AddressNotAssigned", message: `${state.refusal.reason}: ${state.refusal.message}` };
    case "noSpeaker":
      return { reason: "NoResources", message: state.message };
    case "pending":
      return { reason: "Pending", message: state.message };
  }
}

const LISTENER_CONDITIONS = ["Accepted", "Programmed", "ResolvedRefs", "Conflicted"];

function listenerStatus(listener: ListenerOutcome, gateway: Verdict, of: Gateway, now: string): ListenerStatus {
  const { name, accepted, conflicted, resolvedRefs, supportedKinds, attachedRoutes } = listener;
  const current = of.status?.listeners?.find((each) => each.name === name);
  const verdicts = [
    verdict("Accepted", accepted, { reason: "Accepted", message: "" }),
    listenerProgrammed(accepted, gateway),
    verdict("ResolvedRefs", resolvedRefs, { reason: "ResolvedRefs", message: "" }),
    conflictVerdict(conflicted),
  ];
  const writing = { owned: LISTENER_CONDITIONS, generation: of.metadata.generation, now };
  return {
    ...current,
    name,
    supportedKinds: supportedKinds.map(({ group, kind }) => ({ group, kind })),
    attachedRoutes,
    conditions: [...mergeConditions(current?.conditions, verdicts, writing)],
  };
}

function listenerProgrammed(accepted: Problem | undefined, gateway: Verdict): Verdict {
  if (accepted !== undefined) return verdict("Programmed", { reason: "Invalid", message: accepted.message }, WELL);
  if (gateway.status === "True") return verdict("Programmed", undefined, { reason: "Programmed", message: "" });
  return verdict("Programmed", { reason: "Pending", message: "the Gateway is not programmed, see there" }, WELL);
}

/** The one condition whose True is bad and whose False the Gateway API wants to see. */
const conflictVerdict = (problem: Problem | undefined): Verdict =>
  problem === undefined
    ? { type: "Conflicted", status: "False", reason: "NoConflicts", message: "" }
    : { type: "Conflicted", status: "True", ...problem };

type GatewayClassStatus = NonNullable<GatewayClass["status"]>;

/** The status that a class of ours should have; `gatewayClass.status` itself when it has it. */
export function gatewayClassStatus(gatewayClass: GatewayClass, now: string): GatewayClassStatus {
  const accepted = verdict("Accepted", judgeClass(gatewayClass), { reason: "Accepted", message: "" });
  const writing = { owned: ["Accepted"], generation: gatewayClass.metadata.generation, now };
  return unlessSame(gatewayClass.status, {
    ...gatewayClass.status,
    conditions: [...mergeConditions(gatewayClass.status?.conditions, [accepted], writing)],
    supportedFeatures: SUPPORTED_FEATURES.map((name) => ({ name })),
  });
}

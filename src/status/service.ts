/** What a Service of ours shows: status.loadBalancer.ingress and conditions under our prefix. */
import type { Service } from "../api/foreign.ts";
import type { DataPath, VirtualIP } from "../api/virtual-ip.ts";
import { unlessSame } from "../core/same.ts";
import type { Problem } from "../core/trouble.ts";
import type { Address } from "../net/address.ts";
import type { ServiceResolution } from "../service/resolve.ts";
import type { AllocationOutcome } from "./allocation.ts";
import { mergeConditions, trouble, verdict } from "./condition.ts";
import { missingFamilies, type Readiness, readiness, shownAddresses } from "./readiness.ts";

const PROGRAMMED = "belfry.dev/Programmed";
const FAMILY_MISSING = "belfry.dev/FamilyMissing";
const PARTIALLY_INVALID = "belfry.dev/PartiallyInvalid";
const POOL_DIFFERS = "belfry.dev/PoolDiffers";
const OWNED = [PROGRAMMED, FAMILY_MISSING, PARTIALLY_INVALID, POOL_DIFFERS];

export type ServiceStatusInput = {
  readonly service: Service;
  readonly resolution: ServiceResolution;
  /** Answer to `resolution.request`; undefined while there is none. */
  readonly outcome: AllocationOutcome | undefined;
  /** VirtualIPs that this controller has just created, updated or read, and that name the Service as a holder. */
  readonly vips: readonly VirtualIP[];
  /** Speakers with a Lease that is not known to be dead. */
  readonly liveSpeakers: number;
  /** RFC 3339, in seconds and UTC. */
  readonly now: string;
};

type ServiceStatus = NonNullable<Service["status"]>;

/** The status that the Service should have; `service.status` itself when it has it. */
export function serviceStatus(input: ServiceStatusInput): ServiceStatus | undefined {
  return input.resolution.ours ? ourStatus(input, input.resolution) : leftStatus(input);
}

type Ours = Extract<ServiceResolution, { ours: true }>;

function ourStatus(input: ServiceStatusInput, resolution: Ours): ServiceStatus {
  const { service, outcome, vips, liveSpeakers, now } = input;
  const { request, forwards, problems } = resolution;
  const uid = service.metadata.uid;
  const problem = resolution.refused ?? problemOf(readiness({ uid, request, forwards, outcome, vips, liveSpeakers }));
  const verdicts = [
    verdict(PROGRAMMED, problem, {
      reason: "Programmed",
      message: "every address is served by the node that answers for it",
    }),
    ...trouble(FAMILY_MISSING, joined(missingFamilies(request, outcome).map(familyMissing))),
    ...trouble(PARTIALLY_INVALID, joined(problems)),
    ...trouble(POOL_DIFFERS, otherPool(resolution, outcome)),
  ];
  const addresses = shownAddresses({ uid, request, vips });
  return unlessSame(service.status, {
    ...service.status,
    ...loadBalancer(service, addresses.map(ingressOf(resolution.dataPath))),
    conditions: merged(service, verdicts, now),
  });
}

/**
 * KEP-1860. VIP: the service proxy of each node serves the address. Proxy: it leaves the address alone, and pods that call
 * it take the way of all clients, which is ours.
 */
const ingressOf = (dataPath: DataPath) => {
  const ipMode = dataPath === "ServiceProxy" ? "VIP" : "Proxy";
  return (ip: Address) => ({ ip, ipMode });
};

/**
 * Leaving us: our conditions go, and with them the addresses. Nothing is touched on a Service that we never wrote to, nor an
 * address that another implementation has written since.
 */
function leftStatus({ service, vips, now }: ServiceStatusInput): ServiceStatus | undefined {
  const { status } = service;
  if (status?.conditions?.some((condition) => OWNED.includes(condition.type)) !== true) return status;
  const isOurs = (ip: string | undefined) => vips.some((vip) => vip.spec.address === ip);
  const shown = status.loadBalancer?.ingress ?? [];
  const kept = service.spec.type === "LoadBalancer" ? shown.filter(({ ip }) => !isOurs(ip)) : [];
  return unlessSame(status, {
    ...status,
    ...loadBalancer(service, kept),
    conditions: merged(service, [], now),
  });
}

type Ingress = { ip?: string; ipMode?: string };

/**
 * An empty list clears what is there, also in a merge patch. The API server then drops the list, so where there is none
 * nothing is said: it would look like a change each time.
 */
function loadBalancer({ status }: Service, entries: Ingress[]): Pick<ServiceStatus, "loadBalancer"> {
  const current = status?.loadBalancer;
  if (entries.length === 0 && (current?.ingress ?? []).length === 0)
    return current === undefined ? {} : { loadBalancer: current };
  return { loadBalancer: { ...current, ingress: entries } };
}

const merged = (service: Service, verdicts: Parameters<typeof mergeConditions>[1], now: string) => [
  ...mergeConditions(service.status?.conditions, verdicts, {
    owned: OWNED,
    generation: service.metadata.generation,
    now,
  }),
];

function problemOf(state: Readiness): Problem | undefined {
  switch (state.type) {
    case "programmed":
      return undefined;
    case "unusable":
    case "unassigned":
      return state.refusal;
    case "noSpeaker":
      return { reason: "NoResources", message: state.message };
    case "pending":
      return { reason: "Pending", message: state.message };
  }
}

const familyMissing = ({ family, refusal }: ReturnType<typeof missingFamilies>[number]): Problem => ({
  reason: refusal.reason,
  message: `${family}: ${refusal.message}`,
});

/** The address stays: who wants one of the other pool makes the Service anew, or asks for an address of it by name. */
function otherPool({ request }: Ours, outcome: AllocationOutcome | undefined): Problem | undefined {
  const pool = request?.pool;
  if (pool === undefined) return undefined;
  const elsewhere = (outcome ?? []).flatMap((entry) =>
    entry.type === "assigned" && entry.pool !== pool ? [`${entry.address} is of pool "${entry.pool}"`] : [],
  );
  if (elsewhere.length === 0) return undefined;
  return {
    reason: "AppliesWhenRecreated",
    message: `${elsewhere.join(", ")} and stays; pool "${pool}" applies once the Service is created anew`,
  };
}

/** One problem of several: the first one's reason, all messages. */
function joined(problems: readonly Problem[]): Problem | undefined {
  const [first] = problems;
  if (first === undefined) return undefined;
  return { reason: first.reason, message: problems.map((problem) => problem.message).join("; ") };
}

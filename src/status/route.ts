/** RouteStatus of a ServiceRoute: one entry per parentRef and controller, of which only ours are touched. */
import type { ParentReference, RouteParentStatus, ServiceRoute } from "../api/service-route.ts";
import { unlessSame } from "../core/same.ts";
import type { RouteOutcome } from "../gateway/resolve.ts";
import { mergeConditions, trouble, type Verdict, verdict } from "./condition.ts";

const OWNED = ["Accepted", "ResolvedRefs", "belfry.dev/PortsBound", "belfry.dev/Superseded", "PartiallyInvalid"];

type RouteStatus = NonNullable<ServiceRoute["status"]>;

/**
 * The status that the route should have; `route.status` itself when it has it. `outcomes` are those of every Gateway of ours
 * that the route names: a parent that is not among them gets no entry, and an entry of ours for it goes.
 */
export function routeStatus(
  route: ServiceRoute,
  outcomes: readonly RouteOutcome[],
  { controllerName, now }: { readonly controllerName: string; readonly now: string },
): RouteStatus | undefined {
  const current = route.status?.parents ?? [];
  const isOurs = (entry: RouteParentStatus) => entry.controllerName === controllerName;
  const write = (outcome: RouteOutcome, old: RouteParentStatus | undefined): RouteParentStatus => {
    const writing = { owned: OWNED, generation: route.metadata.generation, now };
    return {
      parentRef: outcome.parentRef,
      controllerName,
      conditions: [...mergeConditions(old?.conditions, verdictsOf(outcome), writing)],
    };
  };
  const kept = current.flatMap((entry) => {
    if (!isOurs(entry)) return [entry];
    const outcome = outcomes.find((each) => sameParent(each.parentRef, entry.parentRef));
    return outcome === undefined ? [] : [write(outcome, entry)];
  });
  const added = inSpecOrder(route, outcomes)
    .filter((each) => !current.some((entry) => isOurs(entry) && sameParent(each.parentRef, entry.parentRef)))
    .map((each) => write(each, undefined));
  const parents = [...kept, ...added];
  if (route.status === undefined && parents.length === 0) return undefined;
  return unlessSame(route.status, { ...route.status, parents });
}

function verdictsOf({ accepted, resolvedRefs, portsBound, superseded, dropped }: RouteOutcome): Verdict[] {
  const isServed = accepted === undefined;
  return [
    verdict("Accepted", accepted, { reason: "Accepted", message: "" }),
    verdict("ResolvedRefs", resolvedRefs, { reason: "ResolvedRefs", message: "" }),
    verdict("belfry.dev/PortsBound", portsBound, { reason: "AllPorts", message: "" }),
    // Several routes on one listener are all accepted and only the oldest serves: the Gateway API does not tell the others.
    ...(isServed ? supersededVerdict(superseded) : []),
    ...trouble("PartiallyInvalid", dropped),
  ];
}

const supersededVerdict = (problem: RouteOutcome["superseded"]): Verdict[] =>
  problem === undefined
    ? [{ type: "belfry.dev/Superseded", status: "False", reason: "NoOlderRoute", message: "" }]
    : trouble("belfry.dev/Superseded", problem);

function inSpecOrder(route: ServiceRoute, outcomes: readonly RouteOutcome[]): RouteOutcome[] {
  const place = ({ parentRef }: RouteOutcome) => route.spec.parentRefs.findIndex((ref) => sameParent(ref, parentRef));
  return outcomes.toSorted((a, b) => place(a) - place(b));
}

/** Every field of the reference as the route wrote it: the key of an entry in RouteStatus. */
export const sameParent = (a: ParentReference, b: ParentReference): boolean =>
  a.group === b.group &&
  a.kind === b.kind &&
  a.namespace === b.namespace &&
  a.name === b.name &&
  a.sectionName === b.sectionName &&
  a.port === b.port;

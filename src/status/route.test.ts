import { expect, test } from "vitest";
import type { Listener } from "../api/foreign.ts";
import type { RouteParentStatus, ServiceRoute } from "../api/service-route.ts";
import { gateway, listener, parent, route, service } from "../gateway/gateway.fixture.ts";
import { type RouteOutcome, resolveGateway } from "../gateway/resolve.ts";
import { routeStatus } from "./route.ts";

const NOW = "2026-01-02T00:00:00Z";
const OURS = { controllerName: "belfry.dev/load-balancer", now: NOW };

/** Outcomes of one route at Gateway t1/web. */
function outcomesOf(
  of: ServiceRoute,
  listeners: Listener[] = [listener("http", "TCP", 80)],
  others: ServiceRoute[] = [],
) {
  const { routes } = resolveGateway({
    gateway: gateway(listeners),
    classProblem: undefined,
    routes: [of, ...others],
    service: (_, name) => (name === "gone" ? undefined : service(name, [{ port: 80 }])),
    namespaceLabels: () => ({}),
  });
  return routes.filter((outcome) => outcome.route === of);
}

const print = (parents: readonly RouteParentStatus[] | undefined): string[] =>
  (parents ?? []).map(({ parentRef, controllerName, conditions }) => {
    const said = conditions.map(({ type, status, reason }) => `${type.replace("belfry.dev/", "")}=${status}/${reason}`);
    return [parentRef.name, parentRef.sectionName, controllerName.split("/")[0], ...said].filter(Boolean).join(" ");
  });

const WELL =
  "Accepted=True/Accepted ResolvedRefs=True/ResolvedRefs PortsBound=True/AllPorts Superseded=False/NoOlderRoute";
const older = route("b", [{ port: 80 }]);

const rows: [string, ServiceRoute, Listener[] | undefined, ServiceRoute[], string][] = [
  ["all well", route("a", [{ port: 80 }]), undefined, [], WELL],
  [
    "GW-02: superseded by an older one",
    route("a", [{ port: 80 }], { day: 2 }),
    undefined,
    [older],
    "Accepted=True/Accepted ResolvedRefs=True/ResolvedRefs PortsBound=True/AllPorts Superseded=True/OlderRoute",
  ],
  [
    "GW-03: attached to a listener that is in conflict",
    route("a", [{ port: 80 }]),
    [listener("t", "TCP", 80), listener("h", "HTTP", 80)],
    [],
    "Accepted=True/Accepted ResolvedRefs=True/ResolvedRefs PortsBound=False/ListenerConflict Superseded=False/NoOlderRoute",
  ],
  [
    "not allowed",
    route("a", [{ port: 80 }]),
    [listener("h", "HTTP", 80)],
    [],
    "Accepted=False/NotAllowedByListeners ResolvedRefs=True/ResolvedRefs PortsBound=False/NoListener",
  ],
  [
    "a backend that is not there",
    route("gone", [{ port: 80 }]),
    undefined,
    [],
    "Accepted=True/Accepted ResolvedRefs=False/BackendNotFound PortsBound=True/AllPorts Superseded=False/NoOlderRoute",
  ],
  [
    "a part of its ports",
    route("a", [{ port: 80 }, { port: 81, backendPort: 80 }]),
    undefined,
    [],
    "Accepted=True/Accepted ResolvedRefs=True/ResolvedRefs PortsBound=False/NoListener Superseded=False/NoOlderRoute PartiallyInvalid=True/UnsupportedValue",
  ],
];

test.each(rows)("a route with %s says so in its entry", (_, of, listeners, others, expected) => {
  const status = routeStatus(of, outcomesOf(of, listeners, others), OURS);
  expect(print(status?.parents)).toEqual([`web belfry.dev ${expected}`]);
});

const foreignEntry: RouteParentStatus = {
  parentRef: parent(),
  controllerName: "example.net/other",
  conditions: [{ type: "Accepted", status: "True", lastTransitionTime: NOW, reason: "Accepted", message: "" }],
};

test("entries of other controllers stay as and where they are, even for the same parent", () => {
  const of = route("a", [{ port: 80 }]);
  of.status = { parents: [foreignEntry] };
  const parents = routeStatus(of, outcomesOf(of), OURS)?.parents;
  expect(print(parents)).toEqual(["web example.net Accepted=True/Accepted", `web belfry.dev ${WELL}`]);
  expect(parents?.[0]).toBe(foreignEntry);
});

test("an entry of ours goes when its parent does, and nobody else's", () => {
  const of = route("a", [{ port: 80 }]);
  const old = routeStatus(of, outcomesOf(of), OURS)?.parents ?? [];
  of.status = { parents: [foreignEntry, ...old] };
  expect(routeStatus(of, [], OURS)?.parents).toEqual([foreignEntry]);
});

test("a route of other parents gets no status from us", () => {
  const of = route("a", [{ port: 80 }], { spec: { parentRefs: [parent({ name: "other" })] } });
  expect(routeStatus(of, outcomesOf(of), OURS)).toBeUndefined();
  of.status = { parents: [foreignEntry] };
  expect(routeStatus(of, outcomesOf(of), OURS)).toBe(of.status);
});

test("each parentRef has an entry of its own, in the order of the spec", () => {
  const parentRefs = [parent({ sectionName: "y" }), parent({ sectionName: "x" })];
  const of = route("a", [{ port: 80 }, { port: 81, backendPort: 80 }], { spec: { parentRefs } });
  const outcomes = outcomesOf(of, [listener("x", "TCP", 80), listener("y", "TCP", 81)]);
  const names = (all: RouteOutcome[]) =>
    routeStatus(of, all, OURS)?.parents.map(({ parentRef }) => parentRef.sectionName);
  expect(names(outcomes)).toEqual(["y", "x"]);
  expect(names(outcomes.toReversed())).toEqual(["y", "x"]);
});

test("a status that is right is the very same one, whatever the time", () => {
  const of = route("a", [{ port: 80 }]);
  const status = routeStatus(of, outcomesOf(of), OURS);
  const again = status === undefined ? of : { ...of, status };
  expect(routeStatus(again, outcomesOf(again), { ...OURS, now: "2026-02-01T00:00:00Z" })).toBe(status);
});

test("what no longer holds is taken back in place", () => {
  const of = route("a", [{ port: 80 }, { port: 81, backendPort: 80 }]);
  const partly = routeStatus(of, outcomesOf(of), OURS);
  const mended: ServiceRoute = { ...of, ...(partly === undefined ? {} : { status: partly }) };
  const status = routeStatus(mended, outcomesOf(mended, [listener("x", "TCP", 80), listener("y", "TCP", 81)]), OURS);
  expect(print(status?.parents)).toEqual([`web belfry.dev ${WELL}`]);
});

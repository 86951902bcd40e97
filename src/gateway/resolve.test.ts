import fc from "fast-check";
import { expect, test } from "vitest";
import type { Gateway, Listener, Service } from "../api/foreign.ts";
import type { ServiceRoute } from "../api/service-route.ts";
import { gateway, listener, parent, route, service } from "./gateway.fixture.ts";
import { type GatewayResolution, resolveGateway } from "./resolve.ts";

const SERVICES: Record<string, Service> = {
  "t1/a": service("a", [{ name: "web", port: 80 }]),
  "t1/b": service("b", [{ port: 80 }, { name: "dns", port: 53, protocol: "UDP" }]),
  "t1/dns": service("dns", [
    { name: "t", port: 53 },
    { name: "u", port: 53, protocol: "UDP" },
  ]),
  "t1/sctp": service("sctp", [{ name: "s", port: 80, protocol: "SCTP" }]),
  "t1/ext": service("ext", [{ port: 80 }], { type: "ExternalName" }),
  "t2/a": service("a", [{ name: "web", port: 80 }]),
};

const NAMESPACES: Record<string, Record<string, string>> = { t1: {}, t2: { team: "blue" } };

const resolve = (of: Gateway, routes: ServiceRoute[]): GatewayResolution =>
  resolveGateway({
    gateway: of,
    classProblem: undefined,
    routes,
    service: (namespace, name) => SERVICES[`${namespace}/${name}`],
    namespaceLabels: (namespace) => NAMESPACES[namespace],
  });

/** `TCP 80 -> t1/a:web`, or `-> refused` where the backend is not there. */
const forwards = (resolution: GatewayResolution): string[] =>
  resolution.forwards.map(({ protocol, port, backends, refuseWeight }) => {
    const to = backends.map((backend) => `${backend.namespace}/${backend.name}:${backend.portName}`).join(" ");
    return `${protocol} ${port} -> ${to}${refuseWeight > 0 ? "refused" : ""}`;
  });

/** What each attachment says, in one line: the reasons of what is wrong, else `ok`. */
const outcomes = (resolution: GatewayResolution): string[] =>
  resolution.routes.map(({ route: { metadata }, accepted, resolvedRefs, portsBound, dropped, superseded }) => {
    const reasons = [
      accepted && `Accepted=${accepted.reason}`,
      resolvedRefs && `ResolvedRefs=${resolvedRefs.reason}`,
      portsBound && `PortsBound=${portsBound.reason}`,
      dropped && "PartiallyInvalid",
      superseded && "Superseded",
    ].filter((reason) => reason !== undefined);
    return `${metadata.namespace}/${metadata.name} ${reasons.join(" ") || "ok"}`;
  });

const attached = (resolution: GatewayResolution) =>
  Object.fromEntries(resolution.listeners.map(({ name, attachedRoutes }) => [name, attachedRoutes]));

const DNS = [listener("t", "TCP", 53), listener("u", "UDP", 53)];
const WEB = [listener("http", "TCP", 80)];
const to = (name: string, group = "", kind = "Service", namespace?: string): Partial<ServiceRoute["spec"]> => ({
  backendRef: { group, kind, name, ...(namespace === undefined ? {} : { namespace }) },
});

type Row = {
  claim: string;
  listeners: Listener[];
  routes: ServiceRoute[];
  forwards: string[];
  outcomes: string[];
  attached: Record<string, number>;
};

const rows: Row[] = [
  {
    claim: "a route hands a port over, under the name that EndpointSlices have for it",
    listeners: WEB,
    routes: [route("a", [{ port: 80 }])],
    forwards: ["TCP 80 -> t1/a:web"],
    outcomes: ["t1/a ok"],
    attached: { http: 1 },
  },
  {
    claim: "GW-01: one route serves TCP and UDP on one port",
    listeners: DNS,
    routes: [route("dns", [{ port: 53 }, { port: 53, protocol: "UDP" }])],
    forwards: ["TCP 53 -> t1/dns:t", "UDP 53 -> t1/dns:u"],
    outcomes: ["t1/dns ok"],
    attached: { t: 1, u: 1 },
  },
  {
    claim: "I-23: a listener without a route forwards nothing",
    listeners: DNS,
    routes: [route("dns", [{ port: 53 }])],
    forwards: ["TCP 53 -> t1/dns:t"],
    outcomes: ["t1/dns ok"],
    attached: { t: 1, u: 0 },
  },
  {
    claim: "GW-02: of two routes on a listener both are attached and the older one serves",
    listeners: WEB,
    routes: [route("a", [{ port: 80 }], { day: 2 }), route("b", [{ port: 80 }], { day: 1 })],
    forwards: ["TCP 80 -> t1/b:"],
    outcomes: ["t1/a Superseded", "t1/b ok"],
    attached: { http: 2 },
  },
  {
    claim: "I-23: of two equally old routes the first by namespace/name serves",
    listeners: WEB,
    routes: [route("b", [{ port: 80 }]), route("a", [{ port: 80 }])],
    forwards: ["TCP 80 -> t1/a:web"],
    outcomes: ["t1/a ok", "t1/b Superseded"],
    attached: { http: 2 },
  },
  {
    claim: "I-23: a TCP port does not attach to a UDP listener that the route names",
    listeners: DNS,
    routes: [route("dns", [{ port: 53 }], { spec: { parentRefs: [parent({ sectionName: "u" })] } })],
    forwards: [],
    outcomes: ["t1/dns Accepted=NotAllowedByListeners PortsBound=NoListener"],
    attached: { t: 0, u: 0 },
  },
  {
    claim: "a listener name that is not there is no parent",
    listeners: WEB,
    routes: [route("a", [{ port: 80 }], { spec: { parentRefs: [parent({ sectionName: "x" })] } })],
    forwards: [],
    outcomes: ["t1/a Accepted=NoMatchingParent PortsBound=NoListener"],
    attached: { http: 0 },
  },
  {
    claim: "a listener port that is not there is no parent",
    listeners: WEB,
    routes: [route("a", [{ port: 80 }], { spec: { parentRefs: [parent({ port: 81 })] } })],
    forwards: [],
    outcomes: ["t1/a Accepted=NoMatchingParent PortsBound=NoListener"],
    attached: { http: 0 },
  },
  {
    claim: "name and port of a parentRef must agree",
    listeners: DNS,
    routes: [route("dns", [{ port: 53 }], { spec: { parentRefs: [parent({ sectionName: "t", port: 54 })] } })],
    forwards: [],
    outcomes: ["t1/dns Accepted=NoMatchingParent PortsBound=NoListener"],
    attached: { t: 0, u: 0 },
  },
  {
    claim: "a route none of whose ports has a listener has no parent",
    listeners: WEB,
    routes: [route("a", [{ port: 8080 }])],
    forwards: [],
    outcomes: ["t1/a Accepted=NoMatchingParent ResolvedRefs=BackendNotFound PortsBound=NoListener"],
    attached: { http: 0 },
  },
  {
    claim: "a route some of whose ports have a listener is served on those",
    listeners: WEB,
    routes: [route("a", [{ port: 80 }, { port: 8080, backendPort: 80 }])],
    forwards: ["TCP 80 -> t1/a:web"],
    outcomes: ["t1/a PortsBound=NoListener PartiallyInvalid"],
    attached: { http: 1 },
  },
  {
    claim: "backendPort leads to another port of the Service",
    listeners: [listener("alt", "TCP", 8080)],
    routes: [route("a", [{ port: 8080, backendPort: 80 }])],
    forwards: ["TCP 8080 -> t1/a:web"],
    outcomes: ["t1/a ok"],
    attached: { alt: 1 },
  },
  {
    claim: "GW-10: a port in conflict is attached to, and served by nobody",
    listeners: [...DNS, listener("h", "HTTP", 53)],
    routes: [route("dns", [{ port: 53 }, { port: 53, protocol: "UDP" }])],
    forwards: ["UDP 53 -> t1/dns:u"],
    outcomes: ["t1/dns PortsBound=ListenerConflict"],
    attached: { t: 1, u: 1, h: 0 },
  },
  {
    claim: "a route is attached to each of two listeners in conflict",
    listeners: [listener("x", "TCP", 80), listener("y", "TCP", 80)],
    routes: [route("a", [{ port: 80 }])],
    forwards: [],
    outcomes: ["t1/a PortsBound=ListenerConflict"],
    attached: { x: 1, y: 1 },
  },
  {
    claim: "an HTTP listener takes no route",
    listeners: [listener("h", "HTTP", 80)],
    routes: [route("a", [{ port: 80 }])],
    forwards: [],
    outcomes: ["t1/a Accepted=NotAllowedByListeners PortsBound=NoListener"],
    attached: { h: 0 },
  },
  {
    claim: "a listener for other kinds takes no ServiceRoute",
    listeners: [listener("t", "TCP", 80, { allowedRoutes: { kinds: [{ kind: "TCPRoute" }] } })],
    routes: [route("a", [{ port: 80 }])],
    forwards: [],
    outcomes: ["t1/a Accepted=NotAllowedByListeners PortsBound=NoListener"],
    attached: { t: 0 },
  },
  {
    claim: "two parentRefs to two listeners are two attachments",
    listeners: DNS,
    routes: [
      route("dns", [{ port: 53 }, { port: 53, protocol: "UDP" }], {
        spec: { parentRefs: [parent({ sectionName: "t" }), parent({ sectionName: "u" })] },
      }),
    ],
    forwards: ["TCP 53 -> t1/dns:t", "UDP 53 -> t1/dns:u"],
    outcomes: ["t1/dns PortsBound=NoListener PartiallyInvalid", "t1/dns PortsBound=NoListener PartiallyInvalid"],
    attached: { t: 1, u: 1 },
  },
  {
    claim: "a route that names a listener twice counts once and does not supersede itself",
    listeners: WEB,
    routes: [route("a", [{ port: 80 }], { spec: { parentRefs: [parent(), parent({ sectionName: "http" })] } })],
    forwards: ["TCP 80 -> t1/a:web"],
    outcomes: ["t1/a ok", "t1/a ok"],
    attached: { http: 1 },
  },
  {
    claim: "routes of other parents are passed over",
    listeners: WEB,
    routes: [
      route("a", [{ port: 80 }], { spec: { parentRefs: [parent({ name: "other" })] } }),
      route("b", [{ port: 80 }], { spec: { parentRefs: [parent({ kind: "Service" })] } }),
      route("dns", [{ port: 80 }], { spec: { parentRefs: [parent({ group: "example.net" })] } }),
      route("sctp", [{ port: 80 }], { namespace: "t2" }),
    ],
    forwards: [],
    outcomes: [],
    attached: { http: 0 },
  },
  {
    claim: "a Service that is not there: accepted, and its connections are refused",
    listeners: WEB,
    routes: [route("gone", [{ port: 80 }])],
    forwards: ["TCP 80 -> refused"],
    outcomes: ["t1/gone ResolvedRefs=BackendNotFound"],
    attached: { http: 1 },
  },
  {
    claim: "a Service without the port is a backend that is not there",
    listeners: [listener("x", "TCP", 81)],
    routes: [route("a", [{ port: 81 }])],
    forwards: ["TCP 81 -> refused"],
    outcomes: ["t1/a ResolvedRefs=BackendNotFound"],
    attached: { x: 1 },
  },
  {
    claim: "a Service that has the port in another protocol is not one for it",
    listeners: [listener("u", "UDP", 80)],
    routes: [route("a", [{ port: 80, protocol: "UDP" }])],
    forwards: ["UDP 80 -> refused"],
    outcomes: ["t1/a ResolvedRefs=UnsupportedProtocol"],
    attached: { u: 1 },
  },
  {
    claim: "SCTP is no backend for TCP",
    listeners: WEB,
    routes: [route("sctp", [{ port: 80 }])],
    forwards: ["TCP 80 -> refused"],
    outcomes: ["t1/sctp ResolvedRefs=UnsupportedProtocol"],
    attached: { http: 1 },
  },
  {
    claim: "an ExternalName has no endpoints",
    listeners: WEB,
    routes: [route("ext", [{ port: 80 }])],
    forwards: ["TCP 80 -> refused"],
    outcomes: ["t1/ext ResolvedRefs=InvalidKind"],
    attached: { http: 1 },
  },
  {
    claim: "a backend of another kind is refused",
    listeners: WEB,
    routes: [route("a", [{ port: 80 }], { spec: to("a", "belfry.dev", "EndpointSelector") })],
    forwards: ["TCP 80 -> refused"],
    outcomes: ["t1/a ResolvedRefs=InvalidKind"],
    attached: { http: 1 },
  },
  {
    claim: "a backend in another namespace is not permitted, whether it is there or not",
    listeners: [listener("x", "TCP", 80), listener("y", "TCP", 81)],
    routes: [
      route("a", [{ port: 80 }], { spec: to("a", "", "Service", "t2") }),
      route("b", [{ port: 81 }], { spec: to("gone", "", "Service", "t2") }),
    ],
    forwards: ["TCP 80 -> refused", "TCP 81 -> refused"],
    outcomes: ["t1/a ResolvedRefs=RefNotPermitted", "t1/b ResolvedRefs=RefNotPermitted"],
    attached: { x: 1, y: 1 },
  },
  {
    claim: "Preserve with nodes Cluster hands no port over, and does not keep a younger route from it",
    listeners: WEB,
    routes: [
      route("a", [{ port: 80 }], {
        spec: { traffic: { sourceIP: "Preserve", nodes: "Cluster", sessionAffinity: "None" } },
      }),
      route("b", [{ port: 80 }], { day: 2 }),
    ],
    forwards: ["TCP 80 -> t1/b:"],
    outcomes: ["t1/a PortsBound=UnsupportedValue", "t1/b ok"],
    attached: { http: 2 },
  },
];

test.each(rows)("$claim", (row) => {
  const resolution = resolve(gateway(row.listeners), row.routes);
  expect(forwards(resolution)).toEqual(row.forwards);
  expect(outcomes(resolution)).toEqual(row.outcomes);
  expect(attached(resolution)).toEqual(row.attached);
});

const namespaces: [string, NonNullable<Listener["allowedRoutes"]>["namespaces"] | undefined, string, boolean][] = [
  ["default", undefined, "t1", true],
  ["default", undefined, "t2", false],
  ["Same", { from: "Same" }, "t2", false],
  ["All", { from: "All" }, "t2", true],
  ["Selector that fits", { from: "Selector", selector: { matchLabels: { team: "blue" } } }, "t2", true],
  ["Selector that does not", { from: "Selector", selector: { matchLabels: { team: "red" } } }, "t2", false],
  ["Selector of all", { from: "Selector", selector: {} }, "t2", true],
  ["Selector left out", { from: "Selector" }, "t2", false],
  ["Selector, namespace gone", { from: "Selector", selector: {} }, "t9", false],
  ["a word of a later release", { from: "None" as "Same" }, "t1", false],
];

test.each(namespaces)(
  "allowedRoutes.namespaces %s %j lets a route of %s in: %s",
  (_, allowed, namespace, isAllowed) => {
    const allowedRoutes = allowed === undefined ? {} : { namespaces: allowed };
    const guest = route("a", [{ port: 80 }], { namespace, spec: { parentRefs: [parent({ namespace: "t1" })] } });
    const resolution = resolve(gateway([listener("http", "TCP", 80, { allowedRoutes })]), [guest]);
    expect(resolution.routes[0]?.accepted?.reason).toBe(isAllowed ? undefined : "NotAllowedByListeners");
    expect(attached(resolution)).toEqual({ http: isAllowed ? 1 : 0 });
  },
);

test("nothing tells a namespace the name of a route in another one", () => {
  const open = listener("http", "TCP", 80, { allowedRoutes: { namespaces: { from: "All" } } });
  const guest = route("a", [{ port: 80 }], {
    namespace: "t2",
    day: 2,
    spec: { parentRefs: [parent({ namespace: "t1" })] },
  });
  const hidden = route("hidden", [{ port: 80 }]);
  const message = resolve(gateway([open]), [guest, hidden]).routes.find((each) => each.superseded)?.superseded?.message;
  expect(message).toBe("TCP 80 is served by a route of another namespace, which is older");
  const own = resolve(gateway([open]), [route("a", [{ port: 80 }], { day: 2 }), hidden]);
  expect(own.routes[0]?.superseded?.message).toContain("route t1/hidden");
});

test("a dropped port is told in the words of the Gateway API", () => {
  const resolution = resolve(gateway(WEB), [route("a", [{ port: 80 }, { port: 81 }, { port: 82, protocol: "UDP" }])]);
  expect(resolution.routes[0]?.dropped?.message).toMatch(
    /^Dropped Rule ports\[1\] \(TCP 81\), Dropped Rule ports\[2\]/,
  );
});

test("traffic of the route goes into its forwards", () => {
  const spec = { traffic: { sourceIP: "Preserve", nodes: "LocalOnly", sessionAffinity: "ClientIP" } } as const;
  const [forward] = resolve(gateway(WEB), [route("a", [{ port: 80 }], { spec })]).forwards;
  expect(forward).toMatchObject({ ...spec.traffic, dataPath: "Belfry", sourceRanges: [] });
});

const accepted: [string, Gateway, string | undefined, string | undefined, boolean][] = [
  ["one good listener", gateway(WEB), undefined, undefined, true],
  ["a good and a bad listener", gateway([...WEB, listener("h", "HTTP", 81)]), undefined, "ListenersNotValid", true],
  ["bad listeners only", gateway([listener("h", "HTTP", 81)]), "ListenersNotValid", undefined, false],
  [
    "a conflict only",
    gateway([listener("t", "TCP", 1), listener("h", "HTTP", 1)]),
    "ListenersNotValid",
    undefined,
    false,
  ],
  ["no listener", gateway([]), "ListenersNotValid", undefined, false],
  [
    "parameters of its own",
    gateway(WEB, { infrastructure: { parametersRef: { group: "g", kind: "K", name: "n" } } }),
    "InvalidParameters",
    undefined,
    false,
  ],
  [
    "an address type that we don't have",
    gateway(WEB, { addresses: [{ type: "Hostname", value: "a.example.net" }] }),
    "UnsupportedAddress",
    undefined,
    false,
  ],
  ["an address that is none", gateway(WEB, { addresses: [{ value: "192.0.2" }] }), undefined, undefined, false],
];

test.each(accepted)("a Gateway with %s: accepted, and asking the pools", (_, of, problem, partly, asks) => {
  const resolution = resolve(of, []);
  expect(resolution.accepted?.reason).toBe(problem);
  expect(resolution.someListenersInvalid?.reason).toBe(partly);
  expect(resolution.request !== undefined).toBe(asks);
});

test("a Gateway of a class that is not accepted is not accepted for the same reason", () => {
  const classProblem = { reason: "InvalidParameters", message: "class" };
  const resolution = resolveGateway({
    gateway: gateway(WEB),
    classProblem,
    routes: [],
    service: () => undefined,
    namespaceLabels: () => undefined,
  });
  expect(resolution.accepted).toBe(classProblem);
});

test("the request carries who asks, what its status shows and since when it waits", () => {
  const of = gateway(WEB);
  of.metadata.labels = { tier: "edge" };
  of.status = {
    addresses: [
      { type: "IPAddress", value: "192.0.2.9" },
      { type: "Hostname", value: "x.example.net" },
    ],
  };
  expect(resolve(of, []).request).toMatchObject({
    holder: { kind: "Gateway", namespace: "t1", name: "web", uid: "uid-web" },
    labels: { tier: "edge" },
    gatewayClass: "belfry",
    pool: undefined,
    shown: ["192.0.2.9"],
    createdAt: "2026-01-01T00:00:00Z",
  });
});

const arbitraryRoute = fc
  .record({
    name: fc.constantFrom("a", "b", "dns", "gone"),
    suffix: fc.nat(9),
    day: fc.integer({ min: 1, max: 3 }),
    ports: fc.uniqueArray(
      fc.record({ protocol: fc.constantFrom("TCP" as const, "UDP" as const), port: fc.constantFrom(53, 80, 443) }),
      { minLength: 1, maxLength: 4, selector: ({ protocol, port }) => `${protocol}${port}` },
    ),
    sectionName: fc.constantFrom(undefined, "l0", "l1"),
  })
  .map(({ name, suffix, day, ports, sectionName }) => {
    const spec = { parentRefs: [parent(sectionName === undefined ? {} : { sectionName })] };
    const made = route(name, ports, { day, spec });
    return { ...made, metadata: { ...made.metadata, name: `${name}${suffix}` } };
  });

const arbitraryListeners = fc
  .array(fc.tuple(fc.constantFrom("TCP", "UDP", "HTTP"), fc.constantFrom(53, 80, 443)), { minLength: 1, maxLength: 5 })
  .map((all) => all.map(([protocol, port], i) => listener(`l${i}`, protocol, port)));

test("the order of routes and of listeners changes nothing", () => {
  const routesOf = fc.uniqueArray(arbitraryRoute, { maxLength: 6, selector: ({ metadata }) => metadata.name });
  const shuffled = fc.tuple(arbitraryListeners, routesOf).chain(([listeners, routes]) =>
    fc.record({
      listeners: fc.constant(listeners),
      routes: fc.constant(routes),
      otherListeners: fc.shuffledSubarray(listeners, { minLength: listeners.length }),
      otherRoutes: fc.shuffledSubarray(routes, { minLength: routes.length }),
    }),
  );
  fc.assert(
    fc.property(shuffled, ({ listeners, routes, otherListeners, otherRoutes }) => {
      const [one, other] = [resolve(gateway(listeners), routes), resolve(gateway(listeners), otherRoutes)];
      expect(other).toEqual(one);
      const turned = resolve(gateway(otherListeners), otherRoutes);
      const byName = (resolution: GatewayResolution) =>
        resolution.listeners.toSorted((a, b) => (a.name < b.name ? -1 : 1));
      expect(turned.forwards).toEqual(one.forwards);
      expect(byName(turned)).toEqual(byName(one));
      expect(outcomes(turned)).toEqual(outcomes(one));
    }),
  );
});

test("no two forwards have one protocol and port, and each has a good listener", () => {
  const inputs = fc.tuple(arbitraryListeners, fc.array(arbitraryRoute, { maxLength: 6 }));
  fc.assert(
    fc.property(inputs, ([listeners, routes]) => {
      const resolution = resolve(gateway(listeners), routes);
      const keys = resolution.forwards.map(({ protocol, port }) => `${protocol} ${port}`);
      expect(new Set(keys).size).toBe(keys.length);
      const good = resolution.listeners.filter((each) => each.accepted === undefined);
      for (const key of keys) expect(good.map(({ protocol, port }) => `${protocol} ${port}`)).toContain(key);
    }),
  );
});

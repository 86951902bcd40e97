import fc from "fast-check";
import { expect, test } from "vitest";
import type { Service, ServicePort } from "../api/foreign.ts";
import { isOurService, resolveService, type ServiceResolution } from "./resolve.ts";

const service = (spec: Partial<Service["spec"]> = {}, annotations: Record<string, string> = {}): Service => ({
  metadata: {
    namespace: "t1",
    name: "web",
    uid: "uid-web",
    labels: { tier: "edge" },
    annotations,
    creationTimestamp: "2026-01-01T00:00:00Z",
  },
  spec: {
    type: "LoadBalancer",
    loadBalancerClass: "belfry.dev/load-balancer",
    ports: [{ name: "http", port: 80 }],
    ipFamilies: ["IPv4"],
    ipFamilyPolicy: "SingleStack",
    ...spec,
  },
});

type Ours = Extract<ServiceResolution, { ours: true }>;

function resolve(of: Service): Ours {
  const resolution = resolveService(of, { claimClassless: false, dataPath: "Belfry" });
  if (!resolution.ours) throw new Error("not ours");
  return resolution;
}

const { loadBalancerClass: _, ...CLASSLESS } = service().spec;
const ownership: [string, Service["spec"], boolean, boolean][] = [
  ["our class", service().spec, false, true],
  ["another class", { ...CLASSLESS, loadBalancerClass: "example.net/lb" }, true, false],
  ["no class", CLASSLESS, false, false],
  ["no class, claimed by flag", CLASSLESS, true, true],
  ["IP-14: our class and another type", { ...service().spec, type: "ClusterIP" }, true, false],
  ["no type", { ports: [] }, true, false],
];

test.each(ownership)("a Service with %s is ours when it should be", (_, spec, claimClassless, ours) => {
  const of = { ...service(), spec };
  expect(isOurService(of, { claimClassless })).toBe(ours);
  expect(resolveService(of, { claimClassless, dataPath: "Belfry" }).ours).toBe(ours);
});

test("the class that is ours can be set", () => {
  const of = service({ loadBalancerClass: "example.net/edge" });
  expect(isOurService(of, { claimClassless: false, loadBalancerClass: "example.net/edge" })).toBe(true);
  expect(isOurService(service(), { claimClassless: false, loadBalancerClass: "example.net/edge" })).toBe(false);
});

/** `IPv4! IPv6?` and the addresses by name, or the reason why nothing is asked. */
function asked({ request, refused }: Ours): string {
  if (request === undefined) return refused?.reason ?? "";
  const wanted = request.families.map(({ family, need }) => `${family}${need === "Required" ? "!" : "?"}`);
  return [...wanted, ...request.addresses].join(" ");
}

const IPS = "belfry.dev/loadBalancerIPs";
const families: [string, Partial<Service["spec"]>, Record<string, string>, string][] = [
  ["I-08: SingleStack IPv4", {}, {}, "IPv4!"],
  ["I-08: SingleStack IPv6", { ipFamilies: ["IPv6"] }, {}, "IPv6!"],
  [
    "I-08 DS-01: PreferDualStack",
    { ipFamilyPolicy: "PreferDualStack", ipFamilies: ["IPv4", "IPv6"] },
    {},
    "IPv4? IPv6?",
  ],
  [
    "PreferDualStack, IPv6 first",
    { ipFamilyPolicy: "PreferDualStack", ipFamilies: ["IPv6", "IPv4"] },
    {},
    "IPv6? IPv4?",
  ],
  ["PreferDualStack on a cluster of one family", { ipFamilyPolicy: "PreferDualStack" }, {}, "IPv4?"],
  [
    "I-08: RequireDualStack, IPv6 first",
    { ipFamilyPolicy: "RequireDualStack", ipFamilies: ["IPv6", "IPv4"] },
    {},
    "IPv6! IPv4!",
  ],
  ["RequireDualStack where one family is filled in", { ipFamilyPolicy: "RequireDualStack" }, {}, "IPv4! IPv6!"],
  [
    "I-08: RequireDualStack with loadBalancerIP",
    { ipFamilyPolicy: "RequireDualStack", ipFamilies: ["IPv4", "IPv6"], loadBalancerIP: "192.0.2.10" },
    {},
    "IPv4! IPv6! 192.0.2.10",
  ],
  [
    "PreferDualStack with one address by name",
    { ipFamilyPolicy: "PreferDualStack", ipFamilies: ["IPv4", "IPv6"] },
    { [IPS]: "2001:db8::10" },
    "IPv4? IPv6! 2001:db8::10",
  ],
  ["I-08 DS-04: an address of a family that it lacks", {}, { [IPS]: "192.0.2.10,2001:db8::10" }, "FamilyNotRequested"],
  ["two addresses of one family", {}, { [IPS]: "192.0.2.10,192.0.2.11" }, "DuplicateFamily"],
  ["one address twice", {}, { [IPS]: "192.0.2.10, 192.0.2.10" }, "IPv4! 192.0.2.10"],
  ["text that is no address", {}, { [IPS]: "192.0.2.10/32" }, "InvalidAddress"],
  ["annotation and field", { loadBalancerIP: "192.0.2.10" }, { [IPS]: "192.0.2.10" }, "ConflictingRequest"],
  ["an empty annotation", {}, { [IPS]: "" }, "IPv4!"],
];

test.each(families)("%s", (_, spec, annotations, expected) => {
  expect(asked(resolve(service(spec, annotations)))).toBe(expected);
});

test("DS-04: which family is lacking is said", () => {
  const { refused } = resolve(service({}, { [IPS]: "2001:db8::10" }));
  expect(refused?.message).toContain("2001:db8::10 is IPv6, and the Service has only IPv4");
});

const unfilled: [string, Service["spec"], string][] = [
  ["clusterIPs tell the families", { ...service().spec, clusterIPs: ["2001:db8::a", "198.18.0.1"] }, "IPv6!"],
  ["a headless Service is IPv4", { ...service().spec, clusterIPs: ["None"] }, "IPv4!"],
  ["PreferDualStack means both", { ...service().spec, ipFamilyPolicy: "PreferDualStack" }, "IPv4? IPv6?"],
  ["an address by name tells the family", { ...service().spec, loadBalancerIP: "2001:db8::5" }, "IPv6! 2001:db8::5"],
];

test.each(unfilled)("DS-05: where nobody filled in ipFamilies, %s", (_, spec, expected) => {
  const { ipFamilies: _ignored, ...rest } = spec;
  expect(asked(resolve({ ...service(), spec: rest }))).toBe(expected);
});

test("the request carries who asks, its pool, what its status shows and since when it waits", () => {
  const of = service({}, { "belfry.dev/address-pool": " edge " });
  of.status = { loadBalancer: { ingress: [{ ip: "192.0.2.9" }, { hostname: "x.example.net" }] } };
  expect(resolve(of).request).toMatchObject({
    holder: { kind: "Service", namespace: "t1", name: "web", uid: "uid-web" },
    labels: { tier: "edge" },
    gatewayClass: undefined,
    pool: "edge",
    shown: ["192.0.2.9"],
    createdAt: "2026-01-01T00:00:00Z",
  });
});

const ports: [string, ServicePort[], string[], string[], string | undefined][] = [
  ["TCP is the default", [{ port: 80 }], ["TCP 80 "], [], undefined],
  ["the name is the one in EndpointSlices", [{ name: "h", port: 80, targetPort: 8080 }], ["TCP 80 h"], [], undefined],
  [
    "SH-03: TCP and UDP on one port",
    [
      { name: "u", port: 53, protocol: "UDP" },
      { name: "t", port: 53, protocol: "TCP" },
    ],
    ["TCP 53 t", "UDP 53 u"],
    [],
    undefined,
  ],
  [
    "SCTP is left out by name",
    [
      { name: "sig", port: 2905, protocol: "SCTP" },
      { name: "h", port: 80 },
    ],
    ["TCP 80 h"],
    ['port "sig" SCTP 2905'],
    undefined,
  ],
  ["SCTP alone is nothing", [{ name: "sig", port: 2905, protocol: "SCTP" }], [], ["SCTP 2905"], "UnsupportedProtocol"],
  ["no port is nothing", [], [], [], "UnsupportedProtocol"],
];

test.each(ports)("ports: %s", (_, given, expected, problems, refused) => {
  const resolution = resolve(service({ ports: given }));
  const printed = resolution.forwards.map(
    ({ protocol, port, backends }) => `${protocol} ${port} ${backends[0]?.portName}`,
  );
  expect(printed).toEqual(expected);
  expect(resolution.problems).toHaveLength(problems.length);
  for (const [i, part] of problems.entries()) expect(resolution.problems[i]?.message).toContain(part);
  expect(resolution.refused?.reason).toBe(refused);
  expect(resolution.request === undefined).toBe(refused !== undefined);
});

test("more ports than a VirtualIP holds are cut, and that is said", () => {
  const many = Array.from({ length: 600 }, (_, i) => ({ name: `p${i}`, port: i + 1 }));
  const resolution = resolve(service({ ports: many }));
  expect(resolution.forwards).toHaveLength(512);
  expect(resolution.problems.map((problem) => problem.reason)).toEqual(["TooManyPorts"]);
});

const traffic: [string, Partial<Service["spec"]>, object][] = [
  ["the defaults", {}, { nodes: "Cluster", sourceIP: "MayMasquerade", sessionAffinity: "None", sourceRanges: [] }],
  ["policy Local", { externalTrafficPolicy: "Local" }, { nodes: "LocalOnly", sourceIP: "Preserve" }],
  ["policy Cluster", { externalTrafficPolicy: "Cluster" }, { nodes: "Cluster", sourceIP: "MayMasquerade" }],
  ["affinity", { sessionAffinity: "ClientIP" }, { sessionAffinity: "ClientIP" }],
  ["source ranges", { loadBalancerSourceRanges: ["192.0.2.0/24"] }, { sourceRanges: ["192.0.2.0/24"] }],
];

test.each(traffic)("%s of a Service become those of its forwards", (_, spec, expected) => {
  expect(resolve(service(spec)).forwards).toMatchObject([{ dataPath: "Belfry", refuseWeight: 0, ...expected }]);
});

test("left to the service proxy, the forwards say so and ask for the same address", () => {
  const of = service({ externalTrafficPolicy: "Local" });
  const left = resolveService(of, { claimClassless: false, dataPath: "ServiceProxy" });
  const kept = resolve(of);
  if (!left.ours) throw new Error("not ours");
  expect(left.dataPath).toBe("ServiceProxy");
  expect(left.forwards).toEqual(kept.forwards.map((forward) => ({ ...forward, dataPath: "ServiceProxy" })));
  expect(left.request).toEqual(kept.request);
});

test("a bad source range is a problem and the rest is served", () => {
  const resolution = resolve(service({ loadBalancerSourceRanges: ["192.0.2.0/24", "192.0.2/24"] }));
  expect(resolution.problems.map((problem) => problem.reason)).toEqual(["InvalidSourceRange"]);
  expect(resolution.request).toBeDefined();
});

test("an annotation that nothing acts on yet is refused by name", () => {
  const resolution = resolve(service({}, { "belfry.dev/allow-shared-ip": "dns" }));
  expect(resolution.problems[0]?.message).toContain("belfry.dev/allow-shared-ip is not supported yet");
  expect(resolution.warnings).toEqual([]);
});

test("SH-09: an unknown annotation under our prefix is a warning", () => {
  const resolution = resolve(service({}, { "belfry.dev/adress-pool": "edge" }));
  expect(resolution.warnings[0]?.message).toContain("did you mean belfry.dev/address-pool?");
  expect(resolution.request?.pool).toBeUndefined();
});

test("the order of ports changes nothing", () => {
  const port = fc.record({
    protocol: fc.constantFrom("TCP", "UDP"),
    port: fc.integer({ min: 1, max: 9 }),
    name: fc.constantFrom("a", "b"),
  });
  const pair = fc
    .uniqueArray(port, { minLength: 1, maxLength: 8, selector: (each) => `${each.protocol}${each.port}` })
    .chain((all) => fc.tuple(fc.constant(all), fc.shuffledSubarray(all, { minLength: all.length })));
  fc.assert(
    fc.property(pair, ([one, other]) => {
      expect(resolve(service({ ports: other })).forwards).toEqual(resolve(service({ ports: one })).forwards);
    }),
  );
});

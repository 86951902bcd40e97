import { expect, test } from "vitest";
import type { Gateway, GatewayClass } from "../api/foreign.ts";
import type { Condition } from "../api/meta.ts";
import type { VirtualIP } from "../api/virtual-ip.ts";
import { gateway, listener, route, service } from "../gateway/gateway.fixture.ts";
import { resolveGateway } from "../gateway/resolve.ts";
import type { Address } from "../net/address.ts";
import type { AllocationOutcome, RefusalReason } from "./allocation.ts";
import { gatewayClassStatus, gatewayStatus } from "./gateway.ts";

const NOW = "2026-01-02T00:00:00Z";
const WEB = [listener("http", "TCP", 80)];
const V4 = "192.0.2.5" as Address;
const V6 = "2001:db8::5" as Address;

const resolve = (of: Gateway) =>
  resolveGateway({
    gateway: of,
    classProblem: undefined,
    routes: [route("a", [{ port: 80 }])],
    service: () => service("a", [{ name: "web", port: 80 }]),
    namespaceLabels: () => ({}),
  });

const assigned = (address: Address): AllocationOutcome => [
  { type: "assigned", family: address.includes(":") ? "IPv6" : "IPv4", address, pool: "edge" },
];

const refused = (family: "IPv4" | "IPv6", reason: RefusalReason, requested?: Address): AllocationOutcome => [
  {
    type: "refused",
    family,
    ...(requested === undefined ? {} : { requested }),
    problem: { reason, message: `about ${family}` },
  },
];

type VipOptions = {
  programmed?: number;
  deleting?: boolean;
  uid?: string;
  forwards?: VirtualIP["spec"]["forwards"];
  announced?: string;
};

/** Generation 7; `programmed` is what the owner wrote. */
const vip = (of: Gateway, address: Address, options: VipOptions = {}): VirtualIP => {
  const { programmed = 7, deleting = false, uid = "uid-web", forwards, announced } = options;
  const said: Condition[] =
    announced === undefined
      ? []
      : [{ type: "Announced", status: "False", lastTransitionTime: NOW, reason: "NotInSubnet", message: announced }];
  return {
    metadata: { name: address, generation: 7, ...(deleting ? { deletionTimestamp: NOW } : {}) },
    spec: {
      address,
      scope: "External",
      pool: "edge",
      holders: [{ kind: "Gateway", namespace: "t1", name: "web", uid }],
      advertisements: { l2: ["all"] },
      forwards: forwards ?? [...resolve(of).forwards],
    },
    status: {
      ...(programmed === 0
        ? {}
        : { owner: { node: "node-a", interface: "eth0", since: NOW, term: 1, generation: programmed } }),
      conditions: said,
    },
  };
};

const statusOf = (of: Gateway, outcome: AllocationOutcome | undefined, vips: VirtualIP[], liveSpeakers = 3) =>
  gatewayStatus({ gateway: of, resolution: resolve(of), outcome, vips, liveSpeakers, now: NOW });

const print = (conditions: readonly Condition[] | undefined): string =>
  (conditions ?? []).map(({ type, status, reason }) => `${type}=${status}/${reason}`).join(" ");

const messageOf = (conditions: readonly Condition[] | undefined, type: string): string =>
  (conditions ?? []).find((each) => each.type === type)?.message ?? "";

const web = gateway(WEB);
const named = gateway(WEB, { addresses: [{ value: "192.0.2.5" }] });
const http = gateway([listener("h", "HTTP", 80)]);
const hostname = gateway(WEB, { addresses: [{ type: "Hostname", value: "a.example.net" }] });
const bad = gateway(WEB, { addresses: [{ value: "192.0.2" }] });

type Row = [string, Gateway, AllocationOutcome | undefined, VirtualIP[], number, string, string, string[]];

const ok = "Accepted=True/Accepted";
const rows: Row[] = [
  ["nothing decided yet", web, undefined, [], 3, `${ok} Programmed=False/Pending`, "no address is decided yet", []],
  ["no pool", web, [], [], 3, `${ok} Programmed=False/AddressNotAssigned`, "NoPoolForFamily: no pool", []],
  [
    "full pools",
    web,
    refused("IPv4", "PoolExhausted"),
    [],
    3,
    `${ok} Programmed=False/AddressNotAssigned`,
    "PoolExhausted: about IPv4",
    [],
  ],
  ["the pools wait", web, refused("IPv4", "Waiting"), [], 3, `${ok} Programmed=False/Pending`, "about IPv4", []],
  [
    "one family where one is offered",
    web,
    assigned(V4),
    [vip(web, V4)],
    3,
    `${ok} Programmed=True/Programmed`,
    "",
    [V4],
  ],
  [
    "one family while the other's pool is full",
    web,
    [...assigned(V4), ...refused("IPv6", "PoolExhausted")],
    [vip(web, V4)],
    3,
    `${ok} Programmed=True/Programmed`,
    "",
    [V4],
  ],
  [
    "both families, IPv4 first",
    web,
    [...assigned(V4), ...assigned(V6)],
    [vip(web, V6), vip(web, V4)],
    3,
    `${ok} Programmed=True/Programmed`,
    "",
    [V4, V6],
  ],
  [
    "one of two without owner",
    web,
    [...assigned(V4), ...assigned(V6)],
    [vip(web, V4), vip(web, V6, { programmed: 0 })],
    3,
    `${ok} Programmed=False/Pending`,
    `${V6}: no node answers`,
    [V4, V6],
  ],
  [
    "an owner of an older generation",
    web,
    assigned(V4),
    [vip(web, V4, { programmed: 6 })],
    3,
    `${ok} Programmed=False/Pending`,
    "node node-a has not programmed the last change yet",
    [V4],
  ],
  [
    "a VirtualIP that has not got the wanted forwards yet",
    web,
    assigned(V4),
    [vip(web, V4, { forwards: [] })],
    3,
    `${ok} Programmed=False/Pending`,
    "is being updated",
    [V4],
  ],
  [
    "no owner, and why",
    web,
    assigned(V4),
    [vip(web, V4, { programmed: 0, announced: "no node is in the subnet" })],
    3,
    `${ok} Programmed=False/Pending`,
    "no node is in the subnet",
    [V4],
  ],
  [
    "no owner and no speaker",
    web,
    assigned(V4),
    [vip(web, V4, { programmed: 0 })],
    0,
    `${ok} Programmed=False/NoResources`,
    "no speaker is running",
    [V4],
  ],
  [
    "an owner while no Lease is known",
    web,
    assigned(V4),
    [vip(web, V4)],
    0,
    `${ok} Programmed=True/Programmed`,
    "",
    [V4],
  ],
  ["a VirtualIP that is being made", web, assigned(V4), [], 3, `${ok} Programmed=False/Pending`, "is being made", []],
  [
    "a VirtualIP that is being deleted",
    web,
    assigned(V4),
    [vip(web, V4, { deleting: true })],
    3,
    `${ok} Programmed=False/Pending`,
    "is being made",
    [],
  ],
  [
    "a VirtualIP of another holder",
    web,
    assigned(V4),
    [vip(web, V4, { uid: "other" })],
    3,
    `${ok} Programmed=False/Pending`,
    "is being made",
    [],
  ],
  ["I-24: an address by name", named, assigned(V4), [vip(named, V4)], 3, `${ok} Programmed=True/Programmed`, "", [V4]],
  [
    "I-24 IP-21: an address by name outside the pools",
    named,
    refused("IPv4", "AddressNotInPool", V4),
    [],
    3,
    `${ok} Programmed=False/AddressNotUsable`,
    "AddressNotInPool: about IPv4",
    [],
  ],
  [
    "I-24: an address by name of another holder, beside one that can be had",
    gateway(WEB, { addresses: [{ value: V4 }, { value: V6 }] }),
    [...refused("IPv4", "AddressInUse", V4), ...assigned(V6)],
    [vip(web, V6)],
    3,
    `${ok} Programmed=False/AddressNotUsable`,
    "AddressInUse: about IPv4",
    [V6],
  ],
  [
    "I-24: addresses in the order in which they are asked for",
    gateway(WEB, { addresses: [{ value: "192.0.2.9" }, { value: V4 }] }),
    [...assigned("192.0.2.9" as Address), ...assigned(V4)],
    [vip(web, V4), vip(web, "192.0.2.9" as Address)],
    3,
    `${ok} Programmed=True/Programmed`,
    "",
    ["192.0.2.9", V4],
  ],
  ["text that is no address", bad, undefined, [], 3, `${ok} Programmed=False/AddressNotUsable`, '"192.0.2" is not', []],
  [
    "GW-07 I-24: a type of address that we don't have, and a working address from before",
    hostname,
    undefined,
    [vip(web, V4)],
    3,
    "Accepted=False/UnsupportedAddress Programmed=False/Invalid",
    "type Hostname is not supported",
    [V4],
  ],
  [
    "only listeners that are not valid",
    http,
    undefined,
    [],
    3,
    "Accepted=False/ListenersNotValid Programmed=False/Invalid",
    "protocol HTTP is not supported",
    [],
  ],
  [
    "some listeners that are not valid",
    gateway([...WEB, listener("h", "HTTP", 81)]),
    assigned(V4),
    [vip(web, V4)],
    3,
    "Accepted=True/ListenersNotValid Programmed=True/Programmed",
    "",
    [V4],
  ],
];

test.each(rows)("a Gateway with %s", (_, of, outcome, vips, liveSpeakers, conditions, message, addresses) => {
  const status = statusOf(of, outcome, vips, liveSpeakers);
  expect(print(status.conditions)).toBe(conditions);
  expect(messageOf(status.conditions, "Programmed")).toContain(message);
  expect(status.addresses).toEqual(addresses.map((value) => ({ type: "IPAddress", value })));
  for (const each of status.conditions ?? []) expect(each.observedGeneration).toBe(3);
});

test("each listener says what it takes, how many routes it has and how it stands", () => {
  const of = gateway([
    ...WEB,
    listener("h", "HTTP", 81),
    listener("k", "TCP", 82, { allowedRoutes: { kinds: [{ kind: "X" }] } }),
  ]);
  const listeners = statusOf(of, assigned(V4), [vip(of, V4)]).listeners ?? [];
  expect(
    listeners.map((each) => [each.name, each.attachedRoutes, each.supportedKinds, print(each.conditions)]),
  ).toEqual([
    [
      "http",
      1,
      [{ group: "belfry.dev", kind: "ServiceRoute" }],
      "Accepted=True/Accepted Programmed=True/Programmed ResolvedRefs=True/ResolvedRefs Conflicted=False/NoConflicts",
    ],
    [
      "h",
      0,
      [],
      "Accepted=False/UnsupportedProtocol Programmed=False/Invalid ResolvedRefs=True/ResolvedRefs Conflicted=False/NoConflicts",
    ],
    [
      "k",
      0,
      [],
      "Accepted=True/Accepted Programmed=True/Programmed ResolvedRefs=False/InvalidRouteKinds Conflicted=False/NoConflicts",
    ],
  ]);
});

test("GW-10 I-23: a conflict is on both listeners and not on the third", () => {
  const of = gateway([listener("t", "TCP", 53), listener("h", "HTTP", 53), listener("u", "UDP", 53)]);
  const listeners = statusOf(of, assigned(V4), [vip(of, V4)]).listeners ?? [];
  expect(listeners.map((each) => print(each.conditions))).toEqual([
    "Accepted=False/ProtocolConflict Programmed=False/Invalid ResolvedRefs=True/ResolvedRefs Conflicted=True/ProtocolConflict",
    "Accepted=False/UnsupportedProtocol Programmed=False/Invalid ResolvedRefs=True/ResolvedRefs Conflicted=True/ProtocolConflict",
    "Accepted=True/Accepted Programmed=True/Programmed ResolvedRefs=True/ResolvedRefs Conflicted=False/NoConflicts",
  ]);
});

test("a listener of a Gateway that is not programmed waits with it", () => {
  const status = statusOf(web, assigned(V4), [vip(web, V4, { programmed: 0 })]);
  expect(print(status.listeners?.[0]?.conditions)).toContain("Programmed=False/Pending");
});

test("a status that is right is the very same one, whatever the time", () => {
  const of = gateway(WEB);
  of.status = statusOf(of, assigned(V4), [vip(of, V4)]);
  const again = gatewayStatus({
    gateway: of,
    resolution: resolve(of),
    outcome: assigned(V4),
    vips: [vip(of, V4)],
    liveSpeakers: 1,
    now: "2026-02-01T00:00:00Z",
  });
  expect(again).toBe(of.status);
});

test("conditions and fields of others stay, and a listener that is gone goes", () => {
  const of = gateway(WEB);
  const foreign: Condition = {
    type: "example.net/Seen",
    status: "True",
    lastTransitionTime: NOW,
    reason: "R",
    message: "",
  };
  const status = { ...statusOf(gateway([...WEB, listener("old", "TCP", 81)]), undefined, []), attachedListenerSets: 2 };
  of.status = { ...status, conditions: [foreign, ...(status.conditions ?? [])] };
  const after = statusOf(of, assigned(V4), [vip(of, V4)]);
  expect(after.conditions?.[0]).toBe(foreign);
  expect(after).toMatchObject({ attachedListenerSets: 2 });
  expect(after.listeners?.map((each) => each.name)).toEqual(["http"]);
});

test("I-24: three edits of one object give their three outcomes, each with its generation", () => {
  const steps: [Partial<Gateway["spec"]>, AllocationOutcome | undefined, VirtualIP[], string][] = [
    [
      { addresses: [{ type: "test/fake", value: "x" }] },
      undefined,
      [],
      "Accepted=False/UnsupportedAddress Programmed=False/Invalid",
    ],
    [
      { addresses: [{ value: V4 }] },
      refused("IPv4", "AddressNotInPool", V4),
      [],
      `${ok} Programmed=False/AddressNotUsable`,
    ],
    [{ addresses: [{ value: V4 }] }, assigned(V4), [vip(named, V4)], `${ok} Programmed=True/Programmed`],
  ];
  let status: Gateway["status"];
  for (const [i, [spec, outcome, vips, expected]] of steps.entries()) {
    const of = gateway(WEB, spec);
    of.metadata.generation = i + 1;
    if (status !== undefined) of.status = status;
    status = statusOf(of, outcome, vips);
    expect(print(status.conditions)).toBe(expected);
    expect(status.conditions?.map((each) => each.observedGeneration)).toEqual([i + 1, i + 1]);
  }
});

const ours: GatewayClass = {
  metadata: { name: "belfry", generation: 2 },
  spec: { controllerName: "belfry.dev/load-balancer" },
};

test("a class of ours is accepted and tells its features, sorted", () => {
  const status = gatewayClassStatus(ours, NOW);
  expect(print(status.conditions)).toBe("Accepted=True/Accepted");
  expect(status.conditions?.[0]?.observedGeneration).toBe(2);
  expect(status.supportedFeatures).toEqual([
    { name: "Gateway" },
    { name: "GatewayAddressEmpty" },
    { name: "GatewayStaticAddresses" },
  ]);
  expect(gatewayClassStatus({ ...ours, status }, "2026-02-01T00:00:00Z")).toBe(status);
});

test("the Pending that the CRD fills in is replaced, and the time is that of the change", () => {
  const pending: Condition = {
    type: "Accepted",
    status: "Unknown",
    lastTransitionTime: "1970-01-01T00:00:00Z",
    reason: "Pending",
    message: "Waiting for controller",
  };
  const status = gatewayClassStatus({ ...ours, status: { conditions: [pending] } }, NOW);
  expect(status.conditions).toMatchObject([{ type: "Accepted", status: "True", lastTransitionTime: NOW }]);
});

test("a class with parameters is not accepted", () => {
  const spec = { ...ours.spec, parametersRef: { group: "g", kind: "K", name: "n" } };
  expect(print(gatewayClassStatus({ ...ours, spec }, NOW).conditions)).toBe("Accepted=False/InvalidParameters");
});

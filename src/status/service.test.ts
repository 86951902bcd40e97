import { expect, test } from "vitest";
import type { Service } from "../api/foreign.ts";
import type { Condition } from "../api/meta.ts";
import type { DataPath, VirtualIP } from "../api/virtual-ip.ts";
import type { Address, Family } from "../net/address.ts";
import { resolveService } from "../service/resolve.ts";
import type { AllocationOutcome, RefusalReason } from "./allocation.ts";
import { serviceStatus } from "./service.ts";

const NOW = "2026-01-02T00:00:00Z";
const V4 = "192.0.2.10" as Address;
const V6 = "2001:db8::10" as Address;

const service = (spec: Partial<Service["spec"]> = {}, annotations: Record<string, string> = {}): Service => ({
  metadata: { namespace: "t1", name: "web", uid: "uid-web", annotations },
  spec: {
    type: "LoadBalancer",
    loadBalancerClass: "belfry.dev/load-balancer",
    ports: [{ name: "http", port: 80 }],
    ipFamilies: ["IPv4"],
    ipFamilyPolicy: "SingleStack",
    ...spec,
  },
});

const resolve = (of: Service, dataPath: DataPath = "Belfry") => resolveService(of, { claimClassless: false, dataPath });

const assigned = (address: Address, pool = "edge"): AllocationOutcome => [
  { type: "assigned", family: address.includes(":") ? "IPv6" : "IPv4", address, pool },
];

const refused = (family: Family, reason: RefusalReason, message: string, requested?: Address): AllocationOutcome => [
  { type: "refused", family, ...(requested === undefined ? {} : { requested }), problem: { reason, message } },
];

const vip = (of: Service, address: Address, generation = 7): VirtualIP => {
  const resolution = resolve(of);
  return {
    metadata: { name: address, generation: 7 },
    spec: {
      address,
      scope: "External",
      pool: "edge",
      holders: [{ kind: "Service", namespace: "t1", name: "web", uid: "uid-web" }],
      advertisements: { l2: ["all"] },
      forwards: resolution.ours ? [...resolution.forwards] : [],
    },
    status: { owner: { node: "node-a", interface: "eth0", since: NOW, term: 1, generation } },
  };
};

const statusOf = (of: Service, outcome: AllocationOutcome | undefined, vips: VirtualIP[], now = NOW) =>
  serviceStatus({ service: of, resolution: resolve(of), outcome, vips, liveSpeakers: 3, now });

const print = (status: Service["status"]): string =>
  (status?.conditions ?? [])
    .map(({ type, status: is, reason }) => `${type.replace("belfry.dev/", "")}=${is}/${reason}`)
    .join(" ");

const ips = (status: Service["status"]) => (status?.loadBalancer?.ingress ?? []).map(({ ip }) => ip);

const single = service();
const prefer = service({ ipFamilyPolicy: "PreferDualStack", ipFamilies: ["IPv4", "IPv6"] });
const require6 = service({ ipFamilyPolicy: "RequireDualStack", ipFamilies: ["IPv6", "IPv4"] });

type Row = [string, Service, AllocationOutcome | undefined, VirtualIP[], Address[], string, string];

const rows: Row[] = [
  ["one address", single, assigned(V4), [vip(single, V4)], [V4], "Programmed=True/Programmed", ""],
  [
    "I-08 DS-01: PreferDualStack where only IPv4 is offered",
    prefer,
    assigned(V4),
    [vip(prefer, V4)],
    [V4],
    "Programmed=True/Programmed FamilyMissing=True/NoPoolForFamily",
    "IPv6: no pool",
  ],
  [
    "PreferDualStack where the IPv6 pools are full",
    prefer,
    [...assigned(V4), ...refused("IPv6", "PoolExhausted", 'pool "six" is full')],
    [vip(prefer, V4)],
    [V4],
    "Programmed=True/Programmed FamilyMissing=True/PoolExhausted",
    'IPv6: pool "six" is full',
  ],
  [
    "I-08: both families of PreferDualStack",
    prefer,
    [...assigned(V4), ...assigned(V6)],
    [vip(prefer, V6), vip(prefer, V4)],
    [V4, V6],
    "Programmed=True/Programmed",
    "",
  ],
  [
    "I-08: RequireDualStack, IPv6 first",
    require6,
    [...assigned(V6), ...assigned(V4)],
    [vip(require6, V4), vip(require6, V6)],
    [V6, V4],
    "Programmed=True/Programmed",
    "",
  ],
  [
    "I-08: RequireDualStack where only IPv4 is offered",
    require6,
    refused("IPv6", "NoPoolForFamily", "no pool has IPv6"),
    [],
    [],
    "Programmed=False/NoPoolForFamily",
    "no pool has IPv6",
  ],
  [
    "RequireDualStack where one family can be had and the other is full",
    require6,
    [...refused("IPv6", "PoolExhausted", 'pool "six" is full'), ...assigned(V4)],
    [vip(require6, V4)],
    [V4],
    "Programmed=False/PoolExhausted",
    'pool "six" is full',
  ],
  [
    "PreferDualStack where all pools are full",
    prefer,
    [
      ...refused("IPv4", "PoolExhausted", 'pool "four" is full'),
      ...refused("IPv6", "PoolExhausted", 'pool "six" is full'),
    ],
    [],
    [],
    "Programmed=False/PoolExhausted",
    'pool "four" is full; pool "six" is full',
  ],
  [
    "I-08: an address of a family that it has not asked for",
    service({}, { "belfry.dev/loadBalancerIPs": "192.0.2.10,2001:db8::10" }),
    undefined,
    [],
    [],
    "Programmed=False/FamilyNotRequested",
    "2001:db8::10 is IPv6",
  ],
  [
    "I-01 A: a full pool, by name",
    single,
    refused("IPv4", "PoolExhausted", 'pool "one" is full'),
    [],
    [],
    "Programmed=False/PoolExhausted",
    'pool "one"',
  ],
  [
    "I-01 C: an address of another holder, by name",
    service({ loadBalancerIP: V4 }),
    refused("IPv4", "AddressInUse", "192.0.2.10 is held by t1/zz-holder", V4),
    [],
    [],
    "Programmed=False/AddressInUse",
    "t1/zz-holder",
  ],
  [
    "IP-21: an address outside the pools",
    service({ loadBalancerIP: V4 }),
    refused("IPv4", "AddressNotInPool", "no pool has it", V4),
    [],
    [],
    "Programmed=False/AddressNotInPool",
    "no pool has it",
  ],
  [
    "an owner of an older generation",
    single,
    assigned(V4),
    [vip(single, V4, 6)],
    [V4],
    "Programmed=False/Pending",
    "has not programmed the last change",
  ],
  [
    "a bad edit, and a working address",
    service({}, { "belfry.dev/loadBalancerIPs": "x" }),
    undefined,
    [vip(single, V4)],
    [V4],
    "Programmed=False/InvalidAddress",
    '"x"',
  ],
  [
    "IP-17: another pool than the address's",
    service({}, { "belfry.dev/address-pool": "core" }),
    assigned(V4),
    [vip(single, V4)],
    [V4],
    "Programmed=True/Programmed PoolDiffers=True/AppliesWhenRecreated",
    'pool "core" applies once the Service is created anew',
  ],
];

test.each(rows)("a Service with %s", (_, of, outcome, vips, addresses, conditions, message) => {
  const status = statusOf(of, outcome, vips);
  expect(print(status)).toBe(conditions);
  expect(ips(status)).toEqual(addresses);
  expect((status?.conditions ?? []).map((each) => each.message).join("\n")).toContain(message);
});

test("parts that are left out are told beside what works", () => {
  const of = service({
    ports: [{ port: 80 }, { name: "sig", port: 2905, protocol: "SCTP" }],
    loadBalancerSourceRanges: ["192.0.2.0/24", "x"],
  });
  const status = statusOf(of, assigned(V4), [vip(of, V4)]);
  expect(print(status)).toBe("Programmed=True/Programmed PartiallyInvalid=True/UnsupportedProtocol");
  expect(status?.conditions?.[1]?.message).toMatch(/"sig" SCTP 2905.*; loadBalancerSourceRanges: "x"/);
});

test.each([
  ["Proxy", "Belfry"],
  ["VIP", "ServiceProxy"],
] as const)("DP-16: the address is shown with ipMode %s where the forwarding is left to %s", (ipMode, dataPath) => {
  const resolution = resolve(single, dataPath);
  const input = {
    service: single,
    resolution,
    outcome: assigned(V4),
    vips: [vip(single, V4)],
    liveSpeakers: 3,
    now: NOW,
  };
  expect(serviceStatus(input)?.loadBalancer).toEqual({ ingress: [{ ip: V4, ipMode }] });
});

test.each([{}, { loadBalancer: {} }])("without an address, and none shown in %j, no list is written", (before) => {
  const status = statusOf({ ...single, status: before }, [], []);
  expect(status?.loadBalancer).toEqual(before.loadBalancer);
  const again: Service = { ...single, status: { ...before, conditions: status?.conditions ?? [] } };
  expect(statusOf(again, [], [], "2026-02-01T00:00:00Z")).toBe(again.status);
});

test("an address that is lost goes by an empty list, so that a merge patch clears it", () => {
  const shown = statusOf(single, assigned(V4), [vip(single, V4)]);
  const status = statusOf({ ...single, status: shown ?? {} }, [], []);
  expect(status?.loadBalancer).toEqual({ ingress: [] });
});

test("a status that is right is the very same one, whatever the time", () => {
  const status = statusOf(single, assigned(V4), [vip(single, V4)]);
  const again = { ...single, status: status ?? {} };
  expect(statusOf(again, assigned(V4), [vip(single, V4)], "2026-02-01T00:00:00Z")).toBe(status);
});

const foreign: Condition = { type: "Other", status: "True", lastTransitionTime: NOW, reason: "R", message: "" };

/** A Service that had an address of ours, as another type or class now. */
function left(spec: Partial<Service["spec"]>): Service {
  const had = statusOf(single, assigned(V4), [vip(single, V4)]);
  const status = { ...had, conditions: [foreign, ...(had?.conditions ?? [])] };
  return { ...single, spec: { ...single.spec, ...spec }, status };
}

test("IP-14: leaving type LoadBalancer clears the address and our conditions", () => {
  const after = statusOf(left({ type: "ClusterIP" }), undefined, []);
  expect(after).toEqual({ loadBalancer: { ingress: [] }, conditions: [foreign] });
});

test("a class of another implementation: our address goes and theirs stays", () => {
  const of = left({ loadBalancerClass: "example.net/lb" });
  of.status?.loadBalancer?.ingress?.push({ ip: "198.51.100.7" });
  const after = statusOf(of, undefined, [vip(single, V4)]);
  expect(ips(after)).toEqual(["198.51.100.7"]);
  expect(after?.conditions).toEqual([foreign]);
});

test("a Service that we never wrote to is left alone", () => {
  const of = service({ loadBalancerClass: "example.net/lb" });
  of.status = { loadBalancer: { ingress: [{ ip: V4 }] }, conditions: [foreign] };
  expect(statusOf(of, undefined, [])).toBe(of.status);
  expect(statusOf(service({ type: "ClusterIP" }), undefined, [])).toBeUndefined();
});

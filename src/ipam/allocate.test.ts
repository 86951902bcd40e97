import { expect, test } from "vitest";
import type { IPAddressPool } from "../api/ip-address-pool.ts";
import type { Address } from "../net/address.ts";
import { slotsOf } from "./adopt.ts";
import { automaticPools, draw } from "./allocate.ts";
import { bookOf, pool, request, SURROUNDINGS, wanting } from "./fixture.ts";
import type { AddressRequest } from "./request.ts";

const first = (wanted: AddressRequest, pools: IPAddressPool[], occupied: Record<string, string> = {}) => {
  const book = bookOf(pools);
  for (const [address, by] of Object.entries(occupied)) book.occupy(address as Address, by);
  const [slot] = slotsOf(wanted);
  if (slot === undefined) throw new Error("no slot");
  return draw(wanted, slot, book, {
    namespaceLabels: (namespace) => (namespace === "demo" ? { team: "a" } : undefined),
    releasing: (address) => address === "192.0.2.99",
  });
};

const named = (...addresses: string[]): Partial<AddressRequest> => ({ addresses: addresses as Address[] });
const four = pool("four", ["192.0.2.0/30"]);
const six = pool("six", ["2001:db8::/126"]);
const full = Object.fromEntries([0, 1, 2, 3].map((n) => [`192.0.2.${n}`, "Gateway demo/other"]));

test.each<[string, AddressRequest, IPAddressPool[], Record<string, string>, string, RegExp]>([
  ["no pool at all", request("a"), [], {}, "NoPoolForFamily", /there is no IPAddressPool/],
  ["only the other family", request("a"), [six], {}, "NoPoolForFamily", /IPv4/],
  ["a full pool is named", request("a"), [four], full, "PoolExhausted", /pool "four"/],
  ["a pool that is not there", request("a", { pool: "nope" }), [four], {}, "PoolNotFound", /"nope"/],
  [
    "a pool for others",
    request("a", { pool: "p" }),
    [pool("p", ["192.0.2.0/30"], { serviceAllocation: allocation({ namespaces: ["prod"] }) })],
    {},
    "PoolNotAllowed",
    /Gateway demo\/a/,
  ],
  [
    "a pool that drains",
    request("a", { pool: "p" }),
    [pool("p", ["192.0.2.0/30"], { disabled: true })],
    {},
    "PoolDisabled",
    /drain/,
  ],
  [
    "IP-21: an address outside every pool",
    request("a", named("192.0.2.111")),
    [four],
    {},
    "AddressNotInPool",
    /192\.0\.2\.111/,
  ],
  [
    "an address of another pool than asked for",
    request("a", { ...named("192.0.2.1"), pool: "six" }),
    [four, six],
    {},
    "AddressNotInPool",
    /"six"/,
  ],
  [
    "an address in use names its holder",
    request("a", named("192.0.2.1")),
    [four],
    full,
    "AddressInUse",
    /Gateway demo\/other/,
  ],
  [
    "an address that is being given back",
    request("a", named("192.0.2.99")),
    [pool("p", ["192.0.2.96/28"])],
    { "192.0.2.99": "Service t1/x" },
    "AddressReleasing",
    /Service t1\/x/,
  ],
  [
    "an address of a pool that takes nobody here",
    request("a", named("192.0.2.1")),
    [pool("p", ["192.0.2.0/30"], { serviceAllocation: allocation({ gatewayClasses: ["other"] }) })],
    {},
    "PoolNotAllowed",
    /serviceAllocation/,
  ],
])("refused: %s", (_, wanted, pools, occupied, reason, message) => {
  const drawn = first(wanted, pools, occupied);
  expect(drawn).toMatchObject({ type: "refused", problem: { reason, message: expect.stringMatching(message) } });
});

function allocation(changes: object) {
  return { priority: 0, namespaces: [], namespaceSelectors: [], serviceSelectors: [], gatewayClasses: [], ...changes };
}

test.each<[string, IPAddressPool["spec"]["serviceAllocation"] | undefined, Partial<AddressRequest>, boolean]>([
  ["nothing said", undefined, {}, true],
  ["IP-12: only a priority", allocation({ priority: 50 }), {}, true],
  ["IP-12: empty", allocation({}), {}, true],
  ["its namespace by name", allocation({ namespaces: ["demo"] }), {}, true],
  ["another namespace by name", allocation({ namespaces: ["prod"] }), {}, false],
  ["its namespace by label", allocation({ namespaceSelectors: [{ matchLabels: { team: "a" } }] }), {}, true],
  [
    "selectors that match no namespace",
    allocation({ namespaceSelectors: [{ matchLabels: { team: "b" } }] }),
    {},
    false,
  ],
  [
    "its label",
    allocation({ serviceSelectors: [{ matchLabels: { tier: "web" } }] }),
    { labels: { tier: "web" } },
    true,
  ],
  ["not its label", allocation({ serviceSelectors: [{ matchLabels: { tier: "web" } }] }), {}, false],
  ["its class", allocation({ gatewayClasses: ["belfry"] }), {}, true],
  ["not its class", allocation({ gatewayClasses: ["other"] }), {}, false],
  ["a Service is not held to classes", allocation({ gatewayClasses: ["other"] }), { gatewayClass: undefined }, true],
])("who may draw: %s", (_, serviceAllocation, changes, allowed) => {
  const spec = serviceAllocation === undefined ? {} : { serviceAllocation };
  expect(first(request("a", changes), [pool("p", ["192.0.2.0/30"], spec)]).type).toBe(allowed ? "try" : "refused");
});

test("pools are tried by priority, 0 last, then those that name the holder before those for anybody, then by name", () => {
  const pools = [
    pool("z-open", ["192.0.2.0/30"]),
    pool("a-open", ["192.0.2.4/30"]),
    pool("named", ["192.0.2.8/30"], { serviceAllocation: allocation({ namespaces: ["demo"] }) }),
    pool("tenth", ["192.0.2.12/30"], { serviceAllocation: allocation({ priority: 10 }) }),
    pool("first", ["192.0.2.16/30"], { serviceAllocation: allocation({ priority: 1 }) }),
    pool("by-hand", ["192.0.2.20/30"], { autoAssign: false }),
    pool("drained", ["192.0.2.24/30"], { disabled: true }),
  ];
  const names = automaticPools(request("a"), bookOf(pools), SURROUNDINGS).map(({ name }) => name);
  expect(names).toEqual(["first", "tenth", "named", "a-open", "z-open"]);
  const reversed = automaticPools(request("a"), bookOf(pools.reverse()), SURROUNDINGS).map(({ name }) => name);
  expect(reversed).toEqual(names);
});

test("a full pool passes the request on to the next one", () => {
  const next = pool("next", ["203.0.113.0/30"]);
  expect(first(request("a"), [four, next], full)).toMatchObject({ type: "try", pool: "next" });
});

test("a pool with autoAssign off gives to those that name it or one of its addresses", () => {
  const byHand = pool("p", ["192.0.2.0/30"], { autoAssign: false });
  expect(first(request("a"), [byHand])).toMatchObject({ problem: { reason: "NoPoolForFamily" } });
  expect(first(request("a", { pool: "p" }), [byHand])).toMatchObject({ type: "try", pool: "p" });
  expect(first(request("a", named("192.0.2.2")), [byHand])).toEqual({ type: "try", address: "192.0.2.2", pool: "p" });
});

test("a request for any one address takes the first family that a pool has", () => {
  const any = request("a", { ...wanting("IPv4", "IPv6"), atMost: 1 });
  expect(slotsOf(any)).toHaveLength(1);
  expect(first(any, [six, four])).toMatchObject({ pool: "four" });
  expect(first(any, [six])).toMatchObject({ pool: "six" });
  expect(first(any, [])).toMatchObject({ problem: { reason: "NoPoolForFamily" } });
});

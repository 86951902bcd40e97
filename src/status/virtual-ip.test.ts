import { expect, test } from "vitest";
import type { Owner, VirtualIP, VirtualIPStatus } from "../api/virtual-ip.ts";
import type { Elected } from "../plan/elect.ts";
import { releasingStatus, virtualIPStatus } from "./virtual-ip.ts";

const NOW = "2026-01-02T00:00:00Z";
const LATER = "2026-02-01T00:00:00Z";

const vip = (status?: VirtualIPStatus): VirtualIP => ({
  metadata: { name: "192.0.2.5", generation: 4 },
  spec: {
    address: "192.0.2.5",
    scope: "External",
    pool: "edge",
    holders: [],
    advertisements: { l2: ["all"] },
    forwards: [],
  },
  ...(status === undefined ? {} : { status }),
});

const owner = (node: string, generation: number): Owner => ({
  node,
  interface: "eth0",
  since: NOW,
  term: 1,
  generation,
});
const will = (node: string): Elected => ({ type: "owner", node });
const nobody: Elected = { type: "nobody", reason: "NotInSubnet", message: "no node has an interface in the subnet" };

const statusOf = (
  of: VirtualIP,
  elected: Elected | undefined,
  more: Partial<Parameters<typeof virtualIPStatus>[0]> = {},
) => virtualIPStatus({ vip: of, elected, conflict: undefined, failing: [], now: NOW, ...more });

const print = (status: VirtualIPStatus): string =>
  (status.conditions ?? []).map(({ type, status: is, reason }) => `${type}=${is}/${reason}`).join(" ");

const rows: [string, VirtualIPStatus | undefined, Elected | undefined, string, string[]][] = [
  ["no owner, none known to come", undefined, undefined, "Programmed=False/Pending Announced=False/Pending", []],
  ["no owner, one about to come", undefined, will("node-a"), "Programmed=False/Pending Announced=False/Pending", []],
  ["nobody who could", undefined, nobody, "Programmed=False/NotInSubnet Announced=False/NotInSubnet", []],
  [
    "an owner of this generation",
    { owner: owner("node-a", 4) },
    will("node-a"),
    "Programmed=True/Programmed Announced=True/Answering",
    ["node-a"],
  ],
  [
    "an owner of an older generation",
    { owner: owner("node-a", 3) },
    will("node-a"),
    "Programmed=False/Pending Announced=True/Answering",
    ["node-a"],
  ],
  [
    "an owner that is being replaced",
    { owner: owner("node-a", 4) },
    will("node-b"),
    "Programmed=True/Programmed Announced=True/Answering",
    ["node-a"],
  ],
  [
    "an owner that may not answer any more, and nobody else",
    { owner: owner("node-a", 4) },
    nobody,
    "Programmed=True/Programmed Announced=False/NotInSubnet",
    ["node-a"],
  ],
];

test.each(rows)("a VirtualIP with %s", (_, status, elected, conditions, names) => {
  const after = statusOf(vip(status), elected);
  expect(print(after)).toBe(conditions);
  expect(after.announcers).toEqual({ count: names.length, names });
  expect(after.owner).toBe(status?.owner);
});

test("what the owner fails at is in the message", () => {
  const failing = [
    { node: "node-a", reason: "nftables refused the batch" },
    { node: "node-b", reason: "not asked" },
  ];
  const after = statusOf(vip({ owner: owner("node-a", 3) }), will("node-a"), { failing });
  expect(after.conditions?.[0]?.message).toBe(
    "node node-a has not programmed the last change yet: nftables refused the batch",
  );
});

test("a conflict is there while it lasts", () => {
  const conflict = { reason: "AddressClaimed", message: "02:00:00:00:00:99 claims it" };
  const during = statusOf(vip({ owner: owner("node-a", 4) }), will("node-a"), { conflict });
  expect(print(during)).toContain("Conflict=True/AddressClaimed");
  expect(print(statusOf(vip(during), will("node-a")))).not.toContain("Conflict");
});

test.each([
  ["Conflict: 02:00:00:00:00:99 on eth0 claims it", "AddressClaimed", "02:00:00:00:00:99"],
  ["KernelAnswers: eth1 has the address", "KernelAnswers", "eth1"],
])("a speaker's report %j becomes the condition Conflict and goes with it", (reason, expected, words) => {
  const during = statusOf(vip({ owner: owner("node-a", 4) }), will("node-a"), {
    failing: [{ node: "node-b", reason }],
  });
  expect(print(during)).toContain(`Conflict=True/${expected}`);
  const message = during.conditions?.find(({ type }) => type === "Conflict")?.message;
  expect(message).toContain(words);
  expect(message).toContain("node-b");
  expect(print(statusOf(vip(during), will("node-a")))).not.toContain("Conflict");
});

test("a status that is right is the very same one, whatever the time", () => {
  const status = statusOf(vip({ owner: owner("node-a", 4) }), will("node-a"));
  expect(statusOf(vip(status), will("node-a"), { now: LATER })).toBe(status);
});

test("a VirtualIP that is being deleted gets Releasing only while a dead node may answer, and nothing else", () => {
  const status = statusOf(vip({ owner: owner("node-a", 4) }), will("node-a"));
  const going = vip(status);
  expect(releasingStatus(going, [], NOW)).toBe(status);
  const held = releasingStatus(going, ["node-b", "node-a"], NOW);
  expect(held?.conditions?.slice(0, -1)).toEqual(status.conditions);
  expect(held?.conditions?.at(-1)).toMatchObject({ type: "Releasing", status: "True", reason: "NodeMayAnswer" });
  expect(held?.conditions?.at(-1)?.message).toContain("node-a, node-b may still answer");
  expect(held?.conditions?.at(-1)?.message).toContain("belfry release --force");
  const again = vip(held);
  expect(releasingStatus(again, ["node-a", "node-b"], LATER)).toBe(held);
  expect(releasingStatus(again, [], LATER)).toBe(held);
});

import { describe, expect, test } from "vitest";
import { type Instant, instant } from "../src/core/instant.ts";
import type { Address } from "../src/net/address.ts";
import type { NodeSurroundings, VipPlan } from "../src/plan/vip-plan.ts";
import type { CachedVip } from "./cache.ts";
import type { PlaneOutcome } from "./port.ts";
import { Programmer } from "./programmer.ts";
import { type Vip, VipTable } from "./vip.ts";

const NOTHING_FAILED: PlaneOutcome = { failed: new Map(), added: 1, deleted: 0 };
const SURROUNDINGS: NodeSurroundings = { ownPods: [], clusterPods: [], nodeAddresses: [] };

/** A programmer over a plane that holds what it is told, and refuses the addresses in `refuses` or everything. */
function programming() {
  const held = new Map<string, VipPlan>();
  const transactions: string[][] = [];
  const notices: string[] = [];
  const latencies: (Instant | undefined)[] = [];
  const refuses = new Set<string>();
  const world = { broken: false, now: 0, slow: undefined as Promise<void> | undefined };
  const versions = new Map<Vip, number>();
  const plans = new Map<Vip, VipPlan>();
  const vips = new VipTable();
  const programmer = new Programmer({
    plane: {
      start: async () => ({ ok: true, mode: "owned" }),
      heldCounts: async () => new Map(),
      adopt: async () => NOTHING_FAILED,
      forgetFlows() {},
      async apply(changes, surroundings) {
        transactions.push([...changes.keys(), ...(surroundings === undefined ? [] : ["surroundings"])]);
        await world.slow;
        if (world.broken) return { fault: { what: "nftables", message: "no such device" } };
        const failed = new Map<Address, { what: string; message: string }>();
        for (const [address, plan] of changes) {
          if (refuses.has(address)) failed.set(address, { what: "vip", message: "too many" });
          else if (plan === undefined) held.delete(address);
          else held.set(address, plan);
        }
        return { failed, added: 1, deleted: 0 };
      },
    },
    clock: { now: () => instant(world.now) },
    plan(vip) {
      const version = versions.get(vip) ?? 1;
      const before = plans.get(vip);
      if (before !== undefined && vip.plan === before && (before as { version?: number }).version === version)
        return before;
      const plan = { address: vip.object.address, scope: "External", frontends: [], version } as unknown as VipPlan;
      plans.set(vip, plan);
      return plan;
    },
    programmed(done, retired) {
      for (const vip of done) notices.push(`${vip.object.address} at ${vip.programmed}`);
      for (const vip of retired) notices.push(`${vip.object.address} gone`);
    },
    failed: (vip, message) => notices.push(`${vip?.object.address ?? "plane"}: ${message}`),
    transaction: (_, receivedAt) => latencies.push(receivedAt),
  });
  return {
    programmer,
    held,
    transactions,
    notices,
    latencies,
    refuses,
    world,
    add: (address: string): Vip =>
      vips.add({
        metadata: { name: address, uid: address, generation: 1 },
        address,
        advertisements: [],
        forwards: [],
      } as unknown as CachedVip),
    change: (vip: Vip) => versions.set(vip, (versions.get(vip) ?? 1) + 1),
  };
}

const turn = () => new Promise((resolve) => setImmediate(resolve));

describe("programming", () => {
  test("before the table is adopted changes only gather; then all are one transaction", async () => {
    const { programmer, add, transactions, notices } = programming();
    programmer.mark(add("192.0.2.1"), instant(3));
    programmer.mark(add("192.0.2.2"), instant(2));
    await turn();
    expect(transactions).toEqual([]);
    programmer.open();
    await turn();
    expect(transactions).toEqual([["192.0.2.1", "192.0.2.2"]]);
    expect(notices).toEqual(["192.0.2.1 at 1", "192.0.2.2 at 1"]);
  });

  test("what comes in one read is one transaction, and its latency counts from the oldest event", async () => {
    const { programmer, add, transactions, latencies } = programming();
    programmer.open();
    programmer.mark(add("192.0.2.1"), instant(7));
    programmer.mark(add("192.0.2.2"), instant(5));
    await turn();
    programmer.mark(add("192.0.2.3"), instant(9));
    await turn();
    expect(transactions).toEqual([["192.0.2.1", "192.0.2.2"], ["192.0.2.3"]]);
    expect(latencies).toEqual([5, 9]);
  });

  test("what comes while a transaction is under way is the next one", async () => {
    const { programmer, add, transactions, world } = programming();
    const gate = Promise.withResolvers<void>();
    world.slow = gate.promise;
    programmer.open();
    programmer.mark(add("192.0.2.1"));
    await turn();
    programmer.mark(add("192.0.2.2"));
    programmer.mark(add("192.0.2.3"));
    await turn();
    expect(transactions).toHaveLength(1);
    gate.resolve();
    await turn();
    expect(transactions).toEqual([["192.0.2.1"], ["192.0.2.2", "192.0.2.3"]]);
  });

  test("invariant 9: a plan that comes out the same sends nothing, and its generation counts as programmed", async () => {
    const { programmer, add, transactions, notices } = programming();
    programmer.open();
    const vip = add("192.0.2.1");
    programmer.mark(vip);
    await turn();
    (vip.object.metadata as { generation: number }).generation = 2;
    programmer.mark(vip);
    await turn();
    expect(transactions).toHaveLength(1);
    expect(notices).toEqual(["192.0.2.1 at 1", "192.0.2.1 at 2"]);
  });

  test("a VIP that the kernel refuses is told and tried again, and holds up no other (DP-04)", async () => {
    const { programmer, add, held, notices, refuses, world } = programming();
    refuses.add("192.0.2.2");
    programmer.open();
    for (const address of ["192.0.2.1", "192.0.2.2", "192.0.2.3"]) programmer.mark(add(address));
    await turn();
    expect(notices).toEqual(["192.0.2.1 at 1", "192.0.2.3 at 1", "192.0.2.2: too many"]);
    programmer.mark(add("192.0.2.4"));
    await turn();
    expect([...held.keys()]).toEqual(["192.0.2.1", "192.0.2.3", "192.0.2.4"]);
    refuses.clear();
    world.now = programmer.nextDeadline() ?? 0;
    programmer.tick(instant(world.now));
    await turn();
    expect([...held.keys()]).toContain("192.0.2.2");
    expect(programmer.idle).toBe(true);
  });

  test("a plane that refuses everything loses nothing: all of it is tried again, later and later", async () => {
    const { programmer, add, held, notices, world } = programming();
    world.broken = true;
    programmer.open();
    programmer.mark(add("192.0.2.1"));
    programmer.mark(add("192.0.2.2"));
    programmer.markSurroundings(SURROUNDINGS);
    await turn();
    expect(notices).toEqual(["plane: no such device"]);
    const waits: number[] = [];
    for (let i = 0; i < 4; i++) {
      const next = programmer.nextDeadline() ?? instant(0);
      waits.push(next - world.now);
      world.now = next;
      if (i === 3) world.broken = false;
      programmer.tick(next);
      await turn();
    }
    expect(waits).toEqual([200, 400, 800, 1600]);
    expect([...held.keys()]).toEqual(["192.0.2.1", "192.0.2.2"]);
    expect(programmer.idle).toBe(true);
  });

  test("a retiring VIP is taken out, also one that never was in", async () => {
    const { programmer, add, held, notices, transactions } = programming();
    programmer.open();
    const [vip, never] = [add("192.0.2.1"), add("192.0.2.2")];
    programmer.mark(vip);
    await turn();
    vip.retiring = { next: undefined };
    never.retiring = { next: undefined };
    programmer.mark(vip);
    programmer.mark(never);
    await turn();
    expect(held.size).toBe(0);
    expect(transactions[1]).toEqual(["192.0.2.1"]);
    expect(notices.slice(1)).toEqual(["192.0.2.1 gone", "192.0.2.2 gone"]);
  });
});

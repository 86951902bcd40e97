import { describe, expect, test } from "vitest";
import type { Lease } from "../src/api/foreign.ts";
import { type Instant, instant } from "../src/core/instant.ts";
import { Peers } from "./peers.ts";

/** Peers of node `a` on a clock that the test moves; `proof` is what a consistent read of a Lease says. */
function peersAt(proof: { still: boolean | undefined } = { still: true }) {
  const told: string[] = [];
  const asked: string[] = [];
  const peers = new Peers({
    me: "a",
    isStill: async (lease) => {
      asked.push(lease.metadata.name);
      return proof.still;
    },
    changed: (node, live) => told.push(`${node} ${live ? "lives" : "is gone"}`),
  });
  let version = 1;
  return {
    peers,
    told,
    asked,
    proof,
    renew: (node: string, at: number, holder: string | null = node) =>
      peers.observe(leaseOf(node, `${version++}`, holder), instant(at)),
    tick: async (at: number, sure = true) => {
      peers.tick(sure, instant(at));
      await new Promise((resolve) => setImmediate(resolve));
    },
  };
}

const leaseOf = (node: string, resourceVersion: string, holder: string | null): Lease => ({
  metadata: { name: `belfry-speaker-${node}`, namespace: "belfry-system", uid: `uid-${node}`, resourceVersion },
  spec: { holderIdentity: holder, leaseDurationSeconds: 6 },
});

describe("which speakers live", () => {
  test("a Lease that is not renewed for its own duration is called expired, once", async () => {
    const { told, renew, tick, asked } = peersAt();
    await tick(0);
    renew("b", 0);
    await tick(5999);
    expect(told).toEqual(["b lives"]);
    await tick(6000);
    await tick(7000);
    expect(told).toEqual(["b lives", "b is gone"]);
    expect(asked).toEqual(["belfry-speaker-b"]);
  });

  test("a renewal brings it back", async () => {
    const { told, renew, tick } = peersAt();
    await tick(0);
    renew("b", 0);
    await tick(6000);
    renew("b", 9000);
    await tick(9000);
    expect(told).toEqual(["b lives", "b is gone", "b lives"]);
  });

  test("the consistent read has the last word: a renewal that the watch has not told yet keeps it alive", async () => {
    const { told, renew, tick, proof } = peersAt({ still: false });
    await tick(0);
    renew("b", 0);
    await tick(6000);
    expect(told).toEqual(["b lives"]);
    proof.still = undefined;
    await tick(6500);
    expect(told).toEqual(["b lives"]);
    proof.still = true;
    await tick(7000);
    expect(told).toEqual(["b lives", "b is gone"]);
  });

  test("while this node is not sure of itself it calls nobody expired", async () => {
    const { told, renew, tick, peers } = peersAt();
    await tick(0);
    renew("b", 0);
    await tick(60_000, false);
    expect(told).toEqual(["b lives"]);
    expect(peers.nextDeadline(60_000 as Instant)).toBeUndefined();
  });

  test("sure again after an outage, it gives each Lease its whole duration and a grace anew", async () => {
    const { told, renew, tick } = peersAt();
    await tick(0);
    renew("b", 0);
    renew("c", 0);
    await tick(3000, false);
    await tick(60_000, true);
    await tick(71_900, true);
    expect(told).toEqual(["b lives", "c lives"]);
    renew("b", 71_950);
    await tick(72_000, true);
    expect(told).toEqual(["b lives", "c lives", "c is gone"]);
  });

  test("a watch that is opened again within a second is no outage: nothing is put off", async () => {
    const { told, renew, tick } = peersAt();
    await tick(0);
    renew("b", 0);
    await tick(5000, false);
    await tick(5900, true);
    await tick(6000, true);
    expect(told).toEqual(["b lives", "b is gone"]);
  });

  test("who was dead before the outage stays dead until its Lease changes", async () => {
    const { told, renew, tick } = peersAt();
    await tick(0);
    renew("b", 0);
    await tick(6000);
    await tick(8000, false);
    await tick(9000, true);
    await tick(20_000, true);
    expect(told).toEqual(["b lives", "b is gone"]);
    renew("b", 21_000);
    expect(told).toEqual(["b lives", "b is gone", "b lives"]);
  });

  test("a Lease that was given back, or deleted, is no life; this node's own never dies here; others' Leases mean nothing", async () => {
    const { told, renew, tick, peers } = peersAt();
    await tick(0);
    renew("b", 0, null);
    renew("a", 0);
    peers.observe({ ...leaseOf("x", "9", "c"), metadata: { name: "belfry-controller", uid: "c" } }, instant(0));
    await tick(10_000);
    expect(told).toEqual(["a lives"]);
    renew("c", 10_000);
    peers.forget(leaseOf("c", "1", "c"));
    expect(told).toEqual(["a lives", "c lives", "c is gone"]);
  });

  test("Restore: who was seen to renew since then, or has no Lease any more, is settled", async () => {
    const { renew, tick, peers } = peersAt();
    await tick(0);
    renew("b", 100);
    expect(peers.renewedSince("b", instant(1000))).toBe(false);
    renew("b", 2000);
    expect(peers.renewedSince("b", instant(1000))).toBe(true);
    expect(peers.renewedSince("nobody", instant(1000))).toBe(true);
  });
});

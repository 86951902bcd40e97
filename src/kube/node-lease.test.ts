import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { Lease } from "../api/foreign.ts";
import type { OwnerReference } from "../api/meta.ts";
import { type Instant, instant } from "../core/instant.ts";
import { silentLog } from "../core/log.ts";
import { isStill } from "./lease.ts";
import { LeaseStore } from "./lease-store.ts";
import { holdNodeLease } from "./node-lease.ts";
import type { Answer } from "./port.ts";

const clock = { now: () => instant(Date.now()) };
const KEY = { namespace: "belfry-system", name: "belfry-speaker-n1" };

beforeEach(() => {
  vi.useFakeTimers({ now: 1_000_000 });
});
afterEach(() => {
  vi.useRealTimers();
});

function hold(store: LeaseStore, beforeRenew?: () => Promise<boolean>, owner?: () => Promise<Answer<OwnerReference>>) {
  const stop = new AbortController();
  const renewals: { at: number; validUntil: Instant }[] = [];
  const changes: string[] = [];
  const lease = holdNodeLease({
    client: store.client(),
    key: KEY,
    identity: "n1",
    clock,
    log: silentLog,
    signal: stop.signal,
    onRenewed: (validUntil) => renewals.push({ at: Date.now(), validUntil }),
    onStoreChanged: ({ what }) => changes.push(what),
    ...(beforeRenew === undefined ? {} : { beforeRenew }),
    ...(owner === undefined ? {} : { owner }),
  });
  return { lease, stop, renewals, changes };
}
const stored = (store: LeaseStore): Lease => {
  const lease = store.leases.get(KEY.name);
  if (lease === undefined) throw new Error("no Lease");
  return lease;
};

test("is created, then renewed every two seconds, and valid for six from the start of each renewal", async () => {
  const store = new LeaseStore();
  const { renewals, lease, changes } = hold(store);
  await vi.advanceTimersByTimeAsync(4_100);
  expect(renewals.map(({ at, validUntil }) => [at - 1_000_000, validUntil - at])).toEqual([
    [0, 6_000],
    [2_000, 6_000],
    [4_000, 6_000],
  ]);
  expect(lease.validUntil).toBe(1_010_000);
  expect(stored(store).spec).toMatchObject({ holderIdentity: "n1", leaseDurationSeconds: 6 });
  expect(changes).toEqual([]);
});

test("counts from before the request, not from its answer", async () => {
  const store = new LeaseStore();
  const client = store.client();
  const slow = {
    ...client,
    create: async (...args: Parameters<typeof client.create>) => {
      await new Promise((resolve) => setTimeout(resolve, 1_500));
      return client.create(...args);
    },
  } as typeof client;
  const until: Instant[] = [];
  const stop = new AbortController();
  holdNodeLease({
    client: slow,
    key: KEY,
    identity: "n1",
    clock,
    log: silentLog,
    signal: stop.signal,
    onRenewed: (validUntil) => until.push(validUntil),
  });
  await vi.advanceTimersByTimeAsync(1_500);
  expect(until).toEqual([1_006_000]);
});

test("one that is there from an earlier life is taken over at once, and is no change of the store", async () => {
  const store = new LeaseStore();
  store.put({ metadata: { ...KEY }, spec: { holderIdentity: "n1", leaseDurationSeconds: 6, renewTime: "old" } });
  const { renewals, changes } = hold(store);
  await vi.advanceTimersByTimeAsync(0);
  expect(renewals.length).toBe(1);
  expect(changes).toEqual([]);
});

test("while the server is away it is not renewed; soon after it is back, it is", async () => {
  const store = new LeaseStore();
  const { renewals, lease, changes } = hold(store);
  await vi.advanceTimersByTimeAsync(2_000);
  store.away = true;
  await vi.advanceTimersByTimeAsync(60_000);
  expect(renewals.length).toBe(2);
  expect(lease.validUntil).toBeLessThan(clock.now());
  store.away = false;
  await vi.advanceTimersByTimeAsync(250);
  expect(renewals.length).toBe(3);
  expect(changes).toEqual([]);
});

test("a lost answer is no change of the store, whether it was carried out or not", async () => {
  const store = new LeaseStore();
  const { renewals, changes } = hold(store);
  await vi.advanceTimersByTimeAsync(1_000);
  store.fates.push("lost", "lost", undefined, "lost");
  await vi.advanceTimersByTimeAsync(5_000);
  expect(renewals.length).toBeGreaterThan(2);
  store.fates.push({ status: 409, reason: "Conflict", message: "injected" });
  await vi.advanceTimersByTimeAsync(5_000);
  expect(changes).toEqual([]);
});

test("a renewal that is carried out only after its holder asked what became of it is no change of the store", async () => {
  const store = new LeaseStore();
  const { renewals, changes } = hold(store);
  await vi.advanceTimersByTimeAsync(1_000);
  store.fates.push("late");
  await vi.advanceTimersByTimeAsync(6_000);
  expect(changes).toEqual([]);
  expect(renewals.length).toBeGreaterThan(2);
});

describe("before a renewal the caller is asked", () => {
  test("and false holds it back, until it is true", async () => {
    const store = new LeaseStore();
    let ready = true;
    const { renewals } = hold(store, async () => ready);
    await vi.advanceTimersByTimeAsync(1_000);
    ready = false;
    await vi.advanceTimersByTimeAsync(20_000);
    expect(renewals.length).toBe(1);
    ready = true;
    await vi.advanceTimersByTimeAsync(250);
    expect(renewals.length).toBe(2);
  });

  test("and an answer that takes long makes the Lease no longer", async () => {
    const store = new LeaseStore();
    let release = () => {};
    const { renewals } = hold(
      store,
      () =>
        new Promise((resolve) => {
          release = () => resolve(true);
        }),
    );
    await vi.advanceTimersByTimeAsync(30_000);
    expect(renewals.length).toBe(1);
    release();
    await vi.advanceTimersByTimeAsync(0);
    expect(renewals.at(-1)).toEqual({ at: 1_030_000, validUntil: 1_036_000 });
  });
});

describe("a Lease that is not as last written is reported, before it is called renewed", () => {
  const found: [string, (store: LeaseStore) => void, string][] = [
    ["deleted", (store) => store.leases.clear(), "Replaced"],
    [
      "made again under another uid",
      (store) => store.put({ metadata: { ...KEY, uid: "another" }, spec: { holderIdentity: "n1" } }),
      "Replaced",
    ],
    [
      "restored with an older version",
      (store) => {
        const old = stored(store);
        store.version -= 2;
        store.put(old);
      },
      "WentBack",
    ],
    [
      "restored with a newer version and old content",
      (store) => store.put({ ...stored(store), spec: { holderIdentity: "n1", renewTime: "old" } }),
      "Rewritten",
    ],
    [
      "renewed by another process",
      (store) => store.put({ ...stored(store), spec: { ...stored(store).spec, holderIdentity: "n1-new" } }),
      "Rewritten",
    ],
  ];
  test.each(found)("%s", async (_name, happen, what) => {
    const store = new LeaseStore();
    const { renewals, changes } = hold(store);
    await vi.advanceTimersByTimeAsync(7_000);
    const before = renewals.length;
    happen(store);
    await vi.advanceTimersByTimeAsync(1_250);
    expect(changes).toEqual([what]);
    expect(renewals.length).toBe(before + 1);
    await vi.advanceTimersByTimeAsync(10_000);
    expect(changes).toEqual([what]);
  });

  test.each(found)("%s: and the caller is asked again before anything is written over it", async (_name, happen) => {
    const store = new LeaseStore();
    const { renewals, changes } = hold(store, async () => changes.length === 0);
    await vi.advanceTimersByTimeAsync(7_000);
    const before = renewals.length;
    happen(store);
    const writes = store.writes.length;
    await vi.advanceTimersByTimeAsync(10_000);
    expect(changes).toHaveLength(1);
    expect(store.writes.length).toBe(writes);
    changes.length = 0;
    await vi.advanceTimersByTimeAsync(250);
    expect(renewals.length).toBe(before + 1);
  });

  test("a label that someone put on it is none of our business", async () => {
    const store = new LeaseStore();
    const { changes, renewals } = hold(store);
    await vi.advanceTimersByTimeAsync(1_000);
    store.put({ ...stored(store), metadata: { ...KEY, labels: { a: "b" } } });
    await vi.advanceTimersByTimeAsync(5_000);
    expect(changes).toEqual([]);
    expect(renewals.length).toBeGreaterThan(2);
    expect(stored(store).metadata.labels).toEqual({ a: "b" });
  });
});

test("it is created with what it goes with, and not before that is there", async () => {
  const store = new LeaseStore();
  const node = { apiVersion: "v1", kind: "Node", name: "n1", uid: "node-uid" };
  let there = false;
  const missing = { status: 404, reason: "NotFound", message: "no Node n1" };
  const { renewals } = hold(store, undefined, async () =>
    there ? { ok: true, object: node } : { ok: false, failure: missing },
  );
  await vi.advanceTimersByTimeAsync(5_000);
  expect([store.writes.length, renewals.length]).toEqual([0, 0]);
  there = true;
  await vi.advanceTimersByTimeAsync(5_000);
  expect(stored(store).metadata.ownerReferences).toEqual([node]);
  expect(renewals.length).toBeGreaterThan(1);
});

test("after the signal it is not renewed, and stays as it is", async () => {
  const store = new LeaseStore();
  const { stop } = hold(store);
  await vi.advanceTimersByTimeAsync(3_000);
  stop.abort();
  const last = stored(store);
  await vi.advanceTimersByTimeAsync(30_000);
  expect(stored(store)).toBe(last);
});

test("isStill: unchanged, changed or gone, or unknown", async () => {
  const store = new LeaseStore();
  const seen = store.put({ metadata: { ...KEY }, spec: { holderIdentity: "n1" } });
  expect(await isStill(store.client(), seen)).toBe(true);
  store.away = true;
  expect(await isStill(store.client(), seen)).toBeUndefined();
  store.away = false;
  store.put(seen);
  expect(await isStill(store.client(), seen)).toBe(false);
  store.leases.clear();
  expect(await isStill(store.client(), seen)).toBe(false);
});

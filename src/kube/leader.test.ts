import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { instant } from "../core/instant.ts";
import { silentLog } from "../core/log.ts";
import { electLeader } from "./leader.ts";
import { LeaseStore } from "./lease-store.ts";

const clock = { now: () => instant(Date.now()) };
const KEY = { namespace: "belfry-system", name: "belfry-controller" };

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

function candidate(store: LeaseStore, identity: string) {
  const stop = new AbortController();
  const story: string[] = [];
  let term: AbortSignal | undefined;
  const { left, ...election } = (() => {
    const made = electLeader({
      client: store.client(),
      key: KEY,
      identity,
      clock,
      log: silentLog,
      signal: stop.signal,
      onStarted(leading) {
        term = leading;
        story.push("started");
      },
      onStopped: (why) => story.push(term?.aborted ? `stopped: ${why}` : "stopped before the signal fired"),
    });
    return { left: made.left, isLeading: () => made.leading };
  })();
  return { stop, story, left, ...election };
}
const holder = (store: LeaseStore) => store.leases.get(KEY.name)?.spec?.holderIdentity;

test("one leads, the other waits; the leader renews every two seconds and the other writes nothing", async () => {
  const store = new LeaseStore();
  const a = candidate(store, "a");
  const b = candidate(store, "b");
  await vi.advanceTimersByTimeAsync(60_500);
  expect([a.story, b.story]).toEqual([["started"], []]);
  expect([a.isLeading(), b.isLeading()]).toEqual([true, false]);
  expect(store.writes.length).toBe(1 + 30);
  expect(store.leases.get(KEY.name)?.spec).toMatchObject({
    holderIdentity: "a",
    leaseDurationSeconds: 6,
    leaseTransitions: 0,
  });
});

test("SIGTERM: stops leading, gives the Lease back, and the other leads within one look", async () => {
  const store = new LeaseStore();
  const a = candidate(store, "a");
  const b = candidate(store, "b");
  await vi.advanceTimersByTimeAsync(10_000);
  a.stop.abort();
  await a.left;
  expect(a.story).toEqual(["started", "stopped: asked to stop"]);
  expect(holder(store)).toBe("");
  await vi.advanceTimersByTimeAsync(500);
  expect(b.story).toEqual(["started"]);
  expect(store.leases.get(KEY.name)?.spec).toMatchObject({ holderIdentity: "b", leaseTransitions: 1 });
});

test("kill -9: the other leads when the Lease has run out, and not before", async () => {
  const store = new LeaseStore();
  store.put({ metadata: { ...KEY }, spec: { holderIdentity: "dead", leaseDurationSeconds: 6 } });
  const b = candidate(store, "b");
  await vi.advanceTimersByTimeAsync(5_999);
  expect(b.story).toEqual([]);
  await vi.advanceTimersByTimeAsync(2);
  expect(b.story).toEqual(["started"]);
});

test("an API server that is away stops the leader before the Lease ends; it leads again when it is back", async () => {
  const store = new LeaseStore();
  const a = candidate(store, "a");
  await vi.advanceTimersByTimeAsync(2_000);
  store.away = true;
  await vi.advanceTimersByTimeAsync(5_499);
  expect(a.isLeading()).toBe(true);
  await vi.advanceTimersByTimeAsync(1);
  expect(a.story).toEqual(["started", "stopped: the Lease could not be renewed in time"]);
  await vi.advanceTimersByTimeAsync(60_000);
  store.away = false;
  await vi.advanceTimersByTimeAsync(500);
  expect(a.story.length).toBe(3);
  expect(a.isLeading()).toBe(true);
});

test("a Lease that someone deleted is made again without a change of leader", async () => {
  const store = new LeaseStore();
  const a = candidate(store, "a");
  await vi.advanceTimersByTimeAsync(3_000);
  store.leases.clear();
  await vi.advanceTimersByTimeAsync(5_000);
  expect(a.story).toEqual(["started"]);
  expect(holder(store)).toBe("a");
});

import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { instant } from "../core/instant.ts";
import { silentLog } from "../core/log.ts";
import type { Happening } from "./event-series.ts";
import { createEventRecorder } from "./events.ts";
import type { ApiClient } from "./port.ts";

beforeEach(() => {
  vi.useFakeTimers({ now: Date.UTC(2026, 0, 2, 3, 4, 5) });
});
afterEach(() => {
  vi.useRealTimers();
});

const VIP: Happening = {
  regarding: {
    apiVersion: "belfry.dev/v1alpha1",
    kind: "VirtualIP",
    metadata: { name: "192.0.2.5", uid: "u", resourceVersion: "7" },
  },
  type: "Warning",
  reason: "Conflict",
  action: "Announce",
  note: "another MAC claims 192.0.2.5",
};

function recorder(fails?: number) {
  const requests: [string, unknown][] = [];
  const answer = async (what: string, body: unknown) => {
    requests.push([what, body]);
    return fails === undefined
      ? { ok: true, object: {} }
      : { ok: false, failure: { status: fails, reason: "", message: "no" } };
  };
  const client = {
    create: (_resource: unknown, object: unknown) => answer("create", object),
    mergePatch: (_resource: unknown, key: { name: string }, patch: unknown) => answer(`patch ${key.name}`, patch),
  } as unknown as ApiClient;
  const events = createEventRecorder({
    client,
    controller: "belfry.dev/speaker",
    instance: "n1",
    clock: { now: () => instant(Date.now()) },
    log: silentLog,
  });
  return { events, requests };
}

test("an Event has all fields that events.k8s.io/v1 demands, and stands in default for cluster-scoped objects", () => {
  const { events, requests } = recorder();
  events.record(VIP);
  expect(requests).toEqual([
    [
      "create",
      {
        metadata: { name: expect.stringMatching(/^192\.0\.2\.5\.[0-9a-f]+$/), namespace: "default" },
        eventTime: "2026-01-02T03:04:05.000000Z",
        reportingController: "belfry.dev/speaker",
        reportingInstance: "n1",
        action: "Announce",
        reason: "Conflict",
        type: "Warning",
        note: "another MAC claims 192.0.2.5",
        regarding: {
          apiVersion: "belfry.dev/v1alpha1",
          kind: "VirtualIP",
          name: "192.0.2.5",
          uid: "u",
          resourceVersion: "7",
        },
      },
    ],
  ]);
});

test("a thousand equal happenings are two writes: the Event and, a minute later, its count", async () => {
  const { events, requests } = recorder();
  for (let i = 0; i < 1_000; i++) events.record(VIP);
  await vi.advanceTimersByTimeAsync(59_999);
  expect(requests.length).toBe(1);
  await vi.advanceTimersByTimeAsync(3_600_000);
  expect(requests.slice(1)).toEqual([
    [
      expect.stringMatching(/^patch 192\.0\.2\.5\./),
      { series: { count: 1_000, lastObservedTime: "2026-01-02T03:05:05.000000Z" } },
    ],
  ]);
});

test("a failure is nobody's trouble", async () => {
  const { events, requests } = recorder(500);
  events.record(VIP);
  await vi.advanceTimersByTimeAsync(0);
  events.record(VIP);
  await vi.advanceTimersByTimeAsync(120_000);
  expect(requests.length).toBe(1);
});

test("a note that is too long is cut between characters", () => {
  const { events, requests } = recorder();
  events.record({ ...VIP, note: "ä".repeat(600) });
  expect(requests[0]?.[1]).toMatchObject({ note: "ä".repeat(512) });
});

test("after close nothing is written", async () => {
  const { events, requests } = recorder();
  events.record(VIP);
  events.record(VIP);
  events.close();
  events.record({ ...VIP, reason: "Other" });
  await vi.advanceTimersByTimeAsync(120_000);
  expect(requests.length).toBe(1);
});

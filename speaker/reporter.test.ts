import { describe, expect, test } from "vitest";
import type { SpeakerStatus } from "../src/api/speaker-status.ts";
import { instant } from "../src/core/instant.ts";
import { silentLog } from "../src/core/log.ts";
import type { ApiClient } from "../src/kube/port.ts";
import { type Report, Reporter } from "./reporter.ts";

const report = (more: Partial<Report> = {}): Report => ({
  links: [{ name: "eth0", mac: "02:00:00:00:00:0a", up: true, subnets: [], defaultGateways: [] }],
  conditions: [{ type: "DataPathReady", status: "True", reason: "Ready", message: "" }],
  failing: [],
  failingCount: 0,
  withdrawnThrough: undefined,
  ...more,
});

function reporting() {
  const calls: string[] = [];
  const patches: {
    status: { conditions: { lastTransitionTime: string }[]; failingCount: number; withdrawnThrough: string | null };
  }[] = [];
  const world = { now: 0, wall: "2026-01-01T00:00:00Z", exists: true, up: true, node: true };
  const client = {
    mergePatch: async (_: unknown, __: unknown, patch: (typeof patches)[number]) => {
      calls.push(`patch at ${world.now}`);
      if (!world.up) return { ok: false, failure: { status: 0, reason: "NoAnswer", message: "" } };
      if (!world.exists) return { ok: false, failure: { status: 404, reason: "NotFound", message: "" } };
      patches.push(patch);
      return { ok: true, object: { metadata: { name: "a", resourceVersion: "10" } } };
    },
    create: async (_: unknown, object: SpeakerStatus) => {
      calls.push(`create for ${object.metadata.ownerReferences?.[0]?.uid}`);
      world.exists = true;
      return { ok: true, object: {} };
    },
  } as unknown as ApiClient;
  const reporter = new Reporter({
    node: "a",
    client,
    clock: { now: () => instant(world.now) },
    log: silentLog,
    wallClock: () => world.wall,
    owner: () => (world.node ? { apiVersion: "v1", kind: "Node", name: "a", uid: "node-uid" } : undefined),
  });
  const at = async (now: number) => {
    world.now = now;
    reporter.tick(instant(now));
    await new Promise((resolve) => setImmediate(resolve));
  };
  const want = async (wanted: Report) => {
    reporter.want(wanted);
    await new Promise((resolve) => setImmediate(resolve));
  };
  return { reporter, calls, patches, world, at, want };
}

test("what did not change is not written, and what does is written at most once a second", async () => {
  const { calls, patches, want, at } = reporting();
  await want(report());
  await want(report());
  await at(300);
  expect(calls).toEqual(["patch at 0"]);
  for (let count = 1; count <= 5; count++) await want(report({ failingCount: count }));
  await at(999);
  expect(calls).toHaveLength(1);
  await at(1000);
  expect(calls).toEqual(["patch at 0", "patch at 1000"]);
  expect(patches[1]?.status.failingCount).toBe(5);
});

test("a restart that finds its last word still true writes nothing", async () => {
  const { reporter, calls, want } = reporting();
  const { conditions, withdrawnThrough: _, ...rest } = report();
  reporter.adopt({
    ...rest,
    links: [...rest.links],
    failing: [],
    conditions: conditions.map((it) => ({ ...it, lastTransitionTime: "2025-12-31T00:00:00Z" })),
  });
  await want(report());
  expect(calls).toEqual([]);
});

describe("what the watch tells of our own object", () => {
  const told = (version: number, wanted: Report): SpeakerStatus => ({
    metadata: { name: "a", uid: "a", resourceVersion: `${version}` },
    spec: { nodeName: "a" },
    status: {
      ...wanted,
      links: [...wanted.links],
      failing: [],
      conditions: wanted.conditions.map((it) => ({ ...it, lastTransitionTime: "2025-12-31T00:00:00Z" })),
      withdrawnThrough: wanted.withdrawnThrough,
    } as NonNullable<SpeakerStatus["status"]>,
  });
  const table: [string, () => SpeakerStatus | undefined, string[]][] = [
    ["as it was written: nothing is written", () => told(10, report()), []],
    ["an echo of an earlier write: nothing is written", () => told(9, report({ failingCount: 3 })), []],
    ["written by somebody else: it is written again", () => told(11, report({ failingCount: 3 })), ["patch at 1000"]],
    [
      "without a status: it is written again",
      () => ({ ...told(11, report()), status: undefined }) as never,
      ["patch at 1000"],
    ],
    ["deleted: it is made again", () => undefined, ["patch at 1000", "create for node-uid", "patch at 1000"]],
  ];
  test.each(table)("%s", async (_name, object, writes) => {
    const { reporter, calls, world, want, at } = reporting();
    await want(report());
    calls.length = 0;
    if (object() === undefined) world.exists = false;
    reporter.seen(object());
    await at(1000);
    expect(calls).toEqual(writes);
    await at(2000);
    expect(calls).toEqual(writes);
  });

  test("told while a write is under way counts after it", async () => {
    const { reporter, calls, at } = reporting();
    reporter.want(report());
    reporter.seen(told(11, report({ failingCount: 3 })));
    await at(1000);
    expect(calls).toEqual(["patch at 0", "patch at 1000"]);
  });

  test("an older version counts once the store has changed", async () => {
    const { reporter, calls, want, at } = reporting();
    await want(report());
    reporter.forgetVersion();
    reporter.seen(told(9, report({ failingCount: 3 })));
    await at(1000);
    expect(calls).toEqual(["patch at 0", "patch at 1000"]);
  });
});

test("withdrawnThrough that counts no more is taken back", async () => {
  const { patches, want, at } = reporting();
  await want(report({ withdrawnThrough: "900" }));
  await want(report());
  await at(1000);
  expect(patches.map(({ status }) => status.withdrawnThrough)).toEqual(["900", null]);
});

test("the first write of a node's life creates the object", async () => {
  const { calls, world, want } = reporting();
  world.exists = false;
  await want(report());
  expect(calls).toEqual(["patch at 0", "create for node-uid", "patch at 0"]);
});

test("nothing is created for a Node that is not there", async () => {
  const { calls, world, want, at } = reporting();
  world.exists = false;
  world.node = false;
  await want(report());
  world.node = true;
  await at(2000);
  expect(calls).toEqual(["patch at 0", "patch at 2000", "create for node-uid", "patch at 2000"]);
});

test("lastTransitionTime moves with the status of a condition only", async () => {
  const { patches, world, want, at } = reporting();
  await want(report());
  world.wall = "2026-01-01T00:01:00Z";
  await at(1000);
  await want(report({ conditions: [{ type: "DataPathReady", status: "True", reason: "Ready", message: "a remark" }] }));
  await at(2000);
  await want(
    report({ conditions: [{ type: "DataPathReady", status: "False", reason: "ForwardingOff", message: "" }] }),
  );
  expect(patches.map(({ status }) => status.conditions[0]?.lastTransitionTime)).toEqual([
    "2026-01-01T00:00:00Z",
    "2026-01-01T00:00:00Z",
    "2026-01-01T00:01:00Z",
  ]);
});

test("an API server that is away is tried again, later and later, with the newest word", async () => {
  const { reporter, calls, patches, world, want, at } = reporting();
  world.up = false;
  await want(report());
  await at(1000);
  expect(calls).toHaveLength(1);
  await at(reporter.nextDeadline() ?? 0);
  expect(calls).toEqual(["patch at 0", "patch at 2000"]);
  world.up = true;
  reporter.want(report({ failingCount: 3 }));
  await at(reporter.nextDeadline() ?? 0);
  expect(patches).toHaveLength(1);
  expect(patches[0]?.status.failingCount).toBe(3);
});

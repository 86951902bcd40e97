import fc from "fast-check";
import { expect, test } from "vitest";
import { type Instant, instant } from "../core/instant.ts";
import { DirtyQueue, type Lane } from "./queue.ts";

const at = instant;
const make = (random = () => 1) => new DirtyQueue({ backoffMilliseconds: 100, mostBackoffMilliseconds: 1_000, random });

test("a key that is marked twice is taken once", () => {
  const queue = make();
  queue.mark("a");
  queue.mark("a");
  expect([queue.take(at(0)), queue.take(at(0))]).toEqual(["a", undefined]);
});

test("the key that was marked first is taken first, however often others are marked again", () => {
  const queue = make();
  for (const key of ["a", "b", "c", "b", "c"]) queue.mark(key);
  expect([queue.take(at(0)), queue.take(at(0)), queue.take(at(0))]).toEqual(["a", "b", "c"]);
});

test("a key in flight is given to nobody else, and comes back when it was marked meanwhile", () => {
  const queue = make();
  queue.mark("a");
  queue.take(at(0));
  queue.mark("a");
  expect(queue.take(at(0))).toBe(undefined);
  expect(queue.succeed("a")).toBe(true);
  expect(queue.take(at(0))).toBe("a");
  expect(queue.succeed("a")).toBe(false);
});

test("a key that fails waits twice as long each time, up to the most, and starts anew after a success", () => {
  const queue = make();
  queue.mark("a");
  const waits: number[] = [];
  let now = at(0);
  for (let i = 0; i < 6; i++) {
    expect(queue.take(now)).toBe("a");
    queue.fail("a", now);
    const next = queue.nextDeadline() as Instant;
    waits.push(next - now);
    expect(queue.take(at(next - 1))).toBe(undefined);
    now = next;
  }
  expect(waits).toEqual([100, 200, 400, 800, 1_000, 1_000]);
  queue.take(now);
  queue.succeed("a");
  queue.mark("a");
  queue.take(now);
  queue.fail("a", now);
  expect(queue.nextDeadline()).toBe(now + 100);
});

test("jitter takes up to half of the wait away", () => {
  const queue = make(() => 0);
  queue.mark("a");
  queue.take(at(0));
  queue.fail("a", at(0));
  expect(queue.nextDeadline()).toBe(50);
});

test("a mark does not cut a backoff short, and forgiving does", () => {
  const queue = make();
  queue.mark("a");
  queue.take(at(0));
  queue.fail("a", at(0));
  queue.mark("a");
  expect(queue.take(at(1))).toBe(undefined);
  queue.forgive();
  expect(queue.take(at(1))).toBe("a");
});

test("a server's Retry-After is waited for", () => {
  const queue = make();
  queue.mark("a");
  queue.take(at(0));
  queue.fail("a", at(0), 5_000);
  expect(queue.nextDeadline()).toBe(5_000);
});

test("a key that wants to be looked at later is ready then, or when it is marked before", () => {
  const queue = make();
  queue.markAt("a", at(500));
  queue.markAt("a", at(900));
  expect(queue.nextDeadline()).toBe(500);
  expect(queue.take(at(499))).toBe(undefined);
  expect(queue.take(at(500))).toBe("a");
  queue.succeed("a");
  queue.markAt("b", at(900));
  queue.mark("b");
  expect(queue.take(at(501))).toBe("b");
});

test("a time that is asked for while the key is in flight is kept", () => {
  const queue = make();
  queue.mark("a");
  queue.take(at(0));
  queue.markAt("a", at(300));
  queue.succeed("a");
  expect(queue.nextDeadline()).toBe(300);
  expect(queue.take(at(300))).toBe("a");
});

test("whatever happens, no marked key is lost and none is in two hands", () => {
  const command = fc.record({
    what: fc.constantFrom("mark", "markAt", "take", "succeed", "fail", "forgive", "wait"),
    key: fc.constantFrom("a", "b", "c", "d"),
    lane: fc.constantFrom<Lane>("first", "later"),
  });
  fc.assert(
    fc.property(fc.array(command, { maxLength: 80 }), (commands) => {
      const queue = make(() => 0.5);
      const inHand = new Set<string>();
      const owed = new Set<string>();
      let now = at(0);
      for (const { what, key, lane } of commands) {
        if (what === "mark") {
          queue.mark(key, lane);
          owed.add(key);
        } else if (what === "markAt") {
          queue.markAt(key, at(now + 250), lane);
          owed.add(key);
        } else if (what === "take") {
          const taken = queue.take(now, lane);
          if (taken === undefined) continue;
          expect(inHand.has(taken)).toBe(false);
          inHand.add(taken);
          owed.delete(taken);
        } else if (what === "succeed" && inHand.delete(key)) queue.succeed(key);
        else if (what === "fail" && inHand.delete(key)) {
          queue.fail(key, now);
          owed.add(key);
        } else if (what === "forgive") queue.forgive();
        else if (what === "wait") now = at(now + 100);
      }
      for (const key of inHand) queue.succeed(key);
      now = at(now + 10_000);
      for (let key = queue.take(now); key !== undefined; key = queue.take(now)) {
        owed.delete(key);
        queue.succeed(key);
      }
      expect([...owed]).toEqual([]);
      expect(queue.nextDeadline()).toBe(undefined);
    }),
  );
});

test("the lane `first` goes before `later`; a key that is marked in both goes with the first", () => {
  const queue = make();
  queue.mark("report", "later");
  queue.mark("other", "later");
  queue.mark("address");
  queue.mark("other", "first");
  queue.mark("address", "later");
  expect([queue.readyIn("first"), queue.readyIn("later")]).toEqual([2, 1]);
  expect([1, 2, 3, 4].map(() => queue.take(at(0)))).toEqual(["address", "other", "report", undefined]);
  expect([queue.inFlightIn("first"), queue.inFlightIn("later"), queue.depth]).toEqual([2, 1, 3]);
});

test("without the lane `later` its keys stay where they are", () => {
  const queue = make();
  queue.mark("report", "later");
  expect(queue.take(at(0), "first")).toBe(undefined);
  expect(queue.take(at(0))).toBe("report");
});

test("a key comes back in the foremost lane of its mark, its work and its wait", () => {
  const rows: { work: Lane; meanwhile?: Lane; wait?: Lane; failed?: true; comesBack: Lane }[] = [
    { work: "later", meanwhile: "later", comesBack: "later" },
    { work: "later", meanwhile: "first", comesBack: "first" },
    { work: "first", meanwhile: "later", comesBack: "later" },
    { work: "later", meanwhile: "later", wait: "first", comesBack: "first" },
    { work: "later", failed: true, comesBack: "later" },
    { work: "first", failed: true, comesBack: "first" },
    { work: "later", meanwhile: "first", failed: true, comesBack: "first" },
    { work: "first", wait: "later", comesBack: "later" },
  ];
  for (const { work, meanwhile, wait, failed, comesBack } of rows) {
    const queue = make();
    queue.mark("key", work);
    queue.take(at(0));
    if (wait !== undefined) queue.markAt("key", at(10), wait);
    if (meanwhile !== undefined) queue.mark("key", meanwhile);
    if (failed) queue.fail("key", at(0));
    else queue.succeed("key");
    const first = queue.take(at(1000), "first");
    const seen = first === undefined ? "later" : "first";
    expect({ work, meanwhile, wait, failed, seen }).toEqual({ work, meanwhile, wait, failed, seen: comesBack });
    if (first === undefined) expect(queue.take(at(1000))).toBe("key");
  }
});

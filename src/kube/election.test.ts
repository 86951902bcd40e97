import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Lease } from "../api/foreign.ts";
import { type Instant, instant } from "../core/instant.ts";
import {
  beginElection,
  DEFAULT_ELECTION,
  type Election,
  type ElectionEffect,
  type ElectionInput,
  nextElectionDeadline,
  stepElection,
} from "./election.ts";
import { holderOf } from "./lease.ts";
import type { Answer } from "./port.ts";

const settings = (identity: string) => ({ ...DEFAULT_ELECTION, identity });
const lease = (holder: string, version: number, durationSeconds = 6): Lease => ({
  metadata: { name: "l", uid: "u", resourceVersion: String(version) },
  spec: { holderIdentity: holder, leaseDurationSeconds: durationSeconds },
});
const found = (object: Lease): Answer<Lease> => ({ ok: true, object });
const failed = (status: number, retryAfterSeconds?: number): Answer<Lease> => ({
  ok: false,
  failure: { status, reason: "", message: "", ...(retryAfterSeconds === undefined ? {} : { retryAfterSeconds }) },
});

type Said = "tick" | "stop" | Answer<Lease>;
/** Runs a timeline of [milliseconds, what is heard, effects expected]. */
function run(identity: string, timeline: readonly [number, Said, string[]][]): Election {
  let state = beginElection(settings(identity), instant(0));
  for (const [at, said, expected] of timeline) {
    const input: ElectionInput = typeof said === "string" ? { type: said } : { type: "answered", answer: said };
    const step = stepElection(state, input, instant(at));
    state = step.state;
    expect(
      step.effects.map(({ type }) => type),
      `at ${at} ms`,
    ).toEqual(expected);
  }
  return state;
}

describe("a candidate", () => {
  test("creates a Lease that is not there and leads from the answer on", () => {
    const state = run("a", [
      [0, "tick", ["look"]],
      [1, failed(404), ["write"]],
      [9, found(lease("a", 1)), ["started"]],
      [2000, "tick", []],
      [2001, "tick", ["write"]],
      [2005, found(lease("a", 2)), []],
    ]);
    expect(state.role).toEqual({ type: "leader", until: 2001 + 5500 });
  });

  test("takes what was given back at once", () => {
    run("b", [
      [0, "tick", ["look"]],
      [1, found(lease("", 7, 1)), ["write"]],
      [2, found(lease("b", 8)), ["started"]],
    ]);
  });

  test("takes its own Lease of an earlier life at once", () => {
    run("a", [
      [0, "tick", ["look"]],
      [1, found(lease("a", 7)), ["write"]],
    ]);
  });

  test("waits for the duration in the Lease, not its own, from the last change that it saw", () => {
    const looks: [number, Said, string[]][] = [];
    for (let at = 1; at < 10_000; at += 501) looks.push([at - 1, "tick", ["look"]], [at, found(lease("a", 7, 10)), []]);
    run("b", [
      ...looks,
      [10_000, "tick", []],
      [10_001, "tick", ["look"]],
      [10_002, found(lease("a", 7, 10)), ["write"]],
    ]);
  });

  test("waits anew after each change", () => {
    run("b", [
      [0, "tick", ["look"]],
      [1, found(lease("a", 7)), []],
      [5_999, "tick", ["look"]],
      [6_000, found(lease("a", 8)), []],
      [11_999, "tick", ["look"]],
      [11_999, found(lease("a", 8)), []],
      [12_000, "tick", ["look"]],
      [12_001, found(lease("a", 8)), ["write"]],
    ]);
  });

  test("who loses the race to write looks again and does not lead", () => {
    run("b", [
      [0, "tick", ["look"]],
      [1, failed(404), ["write"]],
      [2, failed(409), []],
      [252, "tick", ["look"]],
      [253, found(lease("a", 1)), []],
    ]);
  });

  test("does not lead on an answer that took longer than the term", () => {
    run("a", [
      [0, "tick", ["look"]],
      [1, failed(404), ["write"]],
      [5_501, found(lease("a", 1)), ["write"]],
      [5_502, found(lease("a", 2)), ["started"]],
    ]);
  });
});

const LEADING: [number, Said, string[]][] = [
  [0, "tick", ["look"]],
  [0, failed(404), ["write"]],
  [0, found(lease("a", 1)), ["started"]],
];

describe("a leader", () => {
  test("stops before its Lease ends when it can't renew", () => {
    run("a", [
      ...LEADING,
      [2_000, "tick", ["write"]],
      [4_000, failed(0), []],
      [4_250, "tick", ["look"]],
      [5_499, "tick", []],
      [5_500, "tick", ["stopped"]],
    ]);
  });

  test("stops in the tick that finds it overdue, before it looks at the answer", () => {
    run("a", [...LEADING, [2_000, "tick", ["write"]], [30_000, found(lease("a", 2)), ["stopped", "write"]]]);
  });

  test("after a lost answer looks, and goes on when the Lease is still in its name", () => {
    run("a", [
      ...LEADING,
      [2_000, "tick", ["write"]],
      [2_100, failed(0), []],
      [2_350, "tick", ["look"]],
      [2_351, found(lease("a", 2)), ["write"]],
      [2_352, found(lease("a", 3)), []],
    ]);
  });

  test("stops at once when another holds the Lease", () => {
    run("a", [
      ...LEADING,
      [2_000, "tick", ["write"]],
      [2_001, failed(409), []],
      [2_251, "tick", ["look"]],
      [2_252, found(lease("b", 9)), ["stopped"]],
    ]);
  });

  test("waits for what Retry-After asks", () => {
    run("a", [
      ...LEADING,
      [2_000, "tick", ["write"]],
      [2_001, failed(429, 1), []],
      [3_000, "tick", []],
      [3_001, "tick", ["look"]],
    ]);
  });

  test("asked to stop, stops first and then gives the Lease back", () => {
    run("a", [
      ...LEADING,
      [1_000, "stop", ["stopped", "give-back"]],
      [1_001, found(lease("", 2)), ["left"]],
      [9_000, "tick", []],
    ]);
  });

  test("asked to stop while it renews, gives back what the answer says", () => {
    run("a", [
      ...LEADING,
      [2_000, "tick", ["write"]],
      [2_001, "stop", ["stopped"]],
      [2_002, found(lease("a", 2)), ["give-back"]],
      [2_003, failed(409), ["left"]],
    ]);
  });
});

test("a follower asked to stop leaves without a write", () => {
  run("b", [
    [0, "tick", ["look"]],
    [1, found(lease("a", 7)), []],
    [2, "stop", ["left"]],
  ]);
});

test("two never lead at once, whatever is lost, late or stands still; and someone leads when the faults end", () => {
  type Fate = { out: number; back: number; lost: "no" | "request" | "answer"; stall: number };
  const fate = fc.record<Fate>({
    out: fc.integer({ min: 1, max: 4_000 }),
    back: fc.integer({ min: 1, max: 4_000 }),
    lost: fc.constantFrom("no", "no", "no", "request", "answer"),
    stall: fc.constantFrom(0, 0, 0, 0, 3_000, 9_000),
  });
  const calm: Fate = { out: 1, back: 1, lost: "no", stall: 0 };
  fc.assert(
    fc.property(fc.array(fate, { maxLength: 150 }), (fates) => {
      const agenda: { at: number; order: number; run: () => void }[] = [];
      let order = 0;
      let now = 0;
      const plan = (at: number, run: () => void) => void agenda.push({ at, order: order++, run });
      let stored: Lease | undefined;
      let version = 0;
      const names = ["a", "b", "c"];
      const states = new Map(names.map((name) => [name, beginElection(settings(name), instant(0))]));
      const stalledUntil = new Map<string, number>();
      const leads = (name: string) => {
        const role = states.get(name)?.role;
        return role?.type === "leader" && now < role.until;
      };

      const serve = (effect: ElectionEffect, name: string): Answer<Lease> => {
        if (effect.type === "look") return stored === undefined ? failed(404) : found(stored);
        if (effect.type !== "write") throw new Error("nobody stops here");
        if (effect.over?.metadata.resourceVersion !== stored?.metadata.resourceVersion) return failed(409);
        stored = lease(name, ++version);
        return found(stored);
      };
      const feed = (name: string, input: ElectionInput): void => {
        const wake = stalledUntil.get(name) ?? 0;
        if (now < wake) {
          plan(wake, () => feed(name, input));
          return;
        }
        const before = states.get(name);
        if (before === undefined) return;
        const step = stepElection(before, input, instant(now));
        states.set(name, step.state);
        for (const effect of step.effects) {
          if (effect.type !== "look" && effect.type !== "write") continue;
          const { out, back, lost, stall } = fates.pop() ?? calm;
          if (stall > 0) stalledUntil.set(name, now + stall);
          plan(now + out, () => {
            const answer = lost === "request" ? failed(0) : serve(effect, name);
            plan(now + back, () => feed(name, { type: "answered", answer: lost === "no" ? answer : failed(0) }));
          });
        }
        const deadline: Instant | undefined = nextElectionDeadline(step.state);
        if (deadline !== undefined) plan(Math.max(deadline, now + 1), () => feed(name, { type: "tick" }));
        expect(names.filter(leads).length, `leaders at ${now} ms`).toBeLessThanOrEqual(1);
      };
      for (const name of names) plan(0, () => feed(name, { type: "tick" }));

      let calmSince: number | undefined;
      while (calmSince === undefined || now < calmSince + 25_000) {
        agenda.sort((x, y) => x.at - y.at || x.order - y.order);
        const next = agenda.shift();
        if (next === undefined) throw new Error("nobody has anything to do");
        now = next.at;
        next.run();
        if (fates.length === 0) calmSince ??= now;
      }
      expect(names.filter(leads).length).toBe(1);
      expect(names.find(leads)).toBe(stored === undefined ? undefined : holderOf(stored));
    }),
    { numRuns: 150 },
  );
});

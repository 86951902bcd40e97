import { describe, expect, it } from "vitest";
import { type Instant, instant } from "../core/instant.ts";
import type { Mac } from "../net/mac.ts";
import { nextDeadline, type Ownership, type OwnershipInput, step } from "./ownership.ts";

const NOW = instant(100_000);
const THEM = "02:00:00:00:00:0b" as Mac;
const US = "02:00:00:00:00:0a" as Mac;
const VALID = instant(100_001);
const EXPIRED = instant(100_000);

const answering: Ownership = { type: "answering" };
const suspended: Ownership = { type: "suspended", since: instant(99_000), attempt: 0 };
const suspendedHeard: Ownership = { ...suspended, heard: THEM };
const probing: Ownership = { type: "probing", until: instant(100_500), attempt: 0 };
const probingAgain: Ownership = { ...probing, attempt: 2 };
const yielded: Ownership = { type: "yielded", probeAt: instant(101_000), attempt: 1 };
const disowned: Ownership = { type: "disowned" };

const claim = (leaseValidUntil: Instant): OwnershipInput => ({ type: "claim", mac: THEM, leaseValidUntil });
const rival = (mac: Mac, ours: Mac): OwnershipInput => ({ type: "rival", mac, ours });
const report = (hasYielded: boolean) => ({ type: "report", mac: THEM, yielded: hasYielded });
const herald = { type: "herald" };

/** What the machine does in each state with each input: the state after it, and the effects. */
const CELLS: readonly [string, Ownership, OwnershipInput | { type: "tick" }, object, object[]][] = [
  [
    "answering, claim, Lease valid",
    answering,
    claim(VALID),
    { ...answering, defendedAt: NOW },
    [{ type: "defend" }, report(false)],
  ],
  [
    "answering, claim, Lease not valid",
    answering,
    claim(EXPIRED),
    { type: "yielded", probeAt: 102_000, attempt: 1 },
    [report(true)],
  ],
  ["answering, rival", answering, rival(THEM, US), answering, []],
  ["answering, stalled", answering, { type: "stalled" }, { type: "suspended", since: NOW, attempt: 0 }, []],
  ["answering, named", answering, { type: "named" }, answering, []],
  ["answering, unnamed", answering, { type: "unnamed" }, answering, []],
  ["answering, unconfirmed", answering, { type: "unconfirmed" }, answering, []],
  ["answering, returned, Lease valid", answering, { type: "returned", leaseValidUntil: VALID }, answering, [herald]],
  [
    "answering, returned, Lease not valid",
    answering,
    { type: "returned", leaseValidUntil: EXPIRED },
    { type: "probing", until: 101_000, attempt: 0 },
    [{ type: "probe" }],
  ],
  ["answering, taken over", answering, { type: "takenOver" }, answering, [herald]],
  ["answering, tick", answering, { type: "tick" }, answering, []],

  ["suspended, claim", suspended, claim(VALID), suspendedHeard, []],
  ["suspended, rival", suspended, rival(THEM, US), suspended, []],
  ["suspended, stalled", suspended, { type: "stalled" }, { type: "suspended", since: NOW, attempt: 0 }, []],
  ["suspended, named", suspended, { type: "named" }, answering, [herald]],
  [
    "suspended after yielding, named",
    { ...suspended, attempt: 1 },
    { type: "named" },
    answering,
    [{ type: "resumed" }, herald],
  ],
  ["suspended, unnamed", suspended, { type: "unnamed" }, disowned, []],
  [
    "suspended, unconfirmed",
    suspended,
    { type: "unconfirmed" },
    { type: "probing", until: 101_000, attempt: 0 },
    [{ type: "probe" }],
  ],
  [
    "suspended with a claim heard, unconfirmed",
    suspendedHeard,
    { type: "unconfirmed" },
    { type: "yielded", probeAt: 102_000, attempt: 1 },
    [report(true)],
  ],
  ["suspended, returned", suspended, { type: "returned", leaseValidUntil: VALID }, suspended, []],
  ["suspended, taken over", suspended, { type: "takenOver" }, answering, [herald]],
  ["suspended, tick too early", suspended, { type: "tick" }, suspended, []],
  [
    "suspended, tick when nobody answered for 5 s",
    { ...suspended, since: instant(95_000) },
    { type: "tick" },
    { type: "probing", until: 101_000, attempt: 0 },
    [{ type: "probe" }],
  ],

  ["probing, claim", probing, claim(VALID), { type: "yielded", probeAt: 102_000, attempt: 1 }, [report(true)]],
  ["probing after yielding, claim", probingAgain, claim(VALID), { type: "yielded", probeAt: 108_000, attempt: 3 }, []],
  [
    "probing, rival with the lower MAC",
    probing,
    rival(US, THEM),
    { type: "yielded", probeAt: 102_000, attempt: 1 },
    [{ type: "report", mac: US, yielded: true }],
  ],
  ["probing, rival with the higher MAC", probing, rival(THEM, US), probing, []],
  ["probing, stalled", probingAgain, { type: "stalled" }, { type: "suspended", since: NOW, attempt: 2 }, []],
  ["probing, named", probing, { type: "named" }, answering, [herald]],
  ["probing after yielding, named", probingAgain, { type: "named" }, answering, [{ type: "resumed" }, herald]],
  ["probing, unnamed", probing, { type: "unnamed" }, disowned, []],
  ["probing, unconfirmed", probing, { type: "unconfirmed" }, probing, []],
  ["probing, returned", probing, { type: "returned", leaseValidUntil: VALID }, probing, []],
  ["probing, taken over", probing, { type: "takenOver" }, answering, [herald]],
  ["probing, tick too early", probing, { type: "tick" }, probing, []],
  ["probing, tick after silence", { ...probing, until: NOW }, { type: "tick" }, answering, [herald]],
  [
    "probing after yielding, tick after silence",
    { ...probingAgain, until: NOW },
    { type: "tick" },
    answering,
    [{ type: "resumed" }, herald],
  ],

  ["yielded, claim", yielded, claim(VALID), yielded, []],
  ["yielded, rival", yielded, rival(US, THEM), yielded, []],
  ["yielded, stalled", yielded, { type: "stalled" }, { type: "suspended", since: NOW, attempt: 1 }, []],
  ["yielded, named", yielded, { type: "named" }, answering, [{ type: "resumed" }, herald]],
  ["yielded, unnamed", yielded, { type: "unnamed" }, yielded, []],
  ["yielded, unconfirmed", yielded, { type: "unconfirmed" }, yielded, []],
  ["yielded, returned", yielded, { type: "returned", leaseValidUntil: VALID }, yielded, []],
  ["yielded, taken over", yielded, { type: "takenOver" }, answering, [herald]],
  ["yielded, tick too early", yielded, { type: "tick" }, yielded, []],
  [
    "yielded, tick when its probe is due",
    { ...yielded, probeAt: NOW },
    { type: "tick" },
    { type: "probing", until: 101_000, attempt: 1 },
    [{ type: "probe" }],
  ],

  ["disowned, claim", disowned, claim(VALID), disowned, []],
  ["disowned, rival", disowned, rival(US, THEM), disowned, []],
  ["disowned, stalled", disowned, { type: "stalled" }, disowned, []],
  ["disowned, named", disowned, { type: "named" }, answering, [herald]],
  ["disowned, unnamed", disowned, { type: "unnamed" }, disowned, []],
  ["disowned, unconfirmed", disowned, { type: "unconfirmed" }, disowned, []],
  ["disowned, returned", disowned, { type: "returned", leaseValidUntil: EXPIRED }, disowned, []],
  ["disowned, taken over", disowned, { type: "takenOver" }, answering, [herald]],
  ["disowned, tick", disowned, { type: "tick" }, disowned, []],
];

describe("ownership of a VIP", () => {
  it.each(CELLS)("%s", (_, state, input, after, effects) => {
    expect(step(state, input, NOW)).toEqual({ state: after, effects });
  });

  it("has a cell for every state and input", () => {
    const inputs = ["claim", "rival", "stalled", "named", "unnamed", "unconfirmed", "returned", "takenOver", "tick"];
    const states = ["answering", "suspended", "probing", "yielded", "disowned"];
    const covered = new Set(CELLS.map(([, state, input]) => `${state.type} ${input.type}`));
    for (const state of states) for (const input of inputs) expect(covered).toContain(`${state} ${input}`);
  });

  it("a valid owner defends at most once per 10 s, however often it is claimed", () => {
    let state: Ownership = answering;
    const defences: number[] = [];
    for (let now = 0; now <= 40_000; now += 100) {
      const next = step(state, { type: "claim", mac: THEM, leaseValidUntil: instant(1e9) }, instant(now));
      state = next.state;
      if (next.effects.some((effect) => effect.type === "defend")) defences.push(now);
    }
    expect(defences).toEqual([0, 10_000, 20_000, 30_000, 40_000]);
  });

  it("whoever keeps answering is asked more and more seldom, and never less than every 32 s", () => {
    let state: Ownership = answering;
    const probes: number[] = [];
    let now = instant(0);
    state = step(state, { type: "claim", mac: THEM, leaseValidUntil: instant(0) }, now).state;
    for (let turns = 0; probes.length < 8 && turns < 20; turns++) {
      now = nextDeadline(state) ?? instant(Number.NaN);
      const next = step(state, { type: "tick" }, now);
      state = next.state;
      if (next.effects.some((effect) => effect.type === "probe")) probes.push(now);
      if (state.type === "probing") state = step(state, claim(EXPIRED), now).state;
    }
    expect(probes.map((at, i) => at - (probes[i - 1] ?? 0))).toEqual([
      2000, 4000, 8000, 16_000, 32_000, 32_000, 32_000, 32_000,
    ]);
  });
});

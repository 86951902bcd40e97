import { expect, test } from "vitest";
import { judge, type Probe, type Verdict } from "./probe.ts";

const bad: Verdict = { good: false, against: 0 };
const good: Verdict = { good: true, against: 0 };

test.each<[string, Verdict, boolean[], Probe, boolean[]]>([
  ["one success is enough by default", bad, [true], {}, [true]],
  ["three failures in a row turn it, two do not", good, [false, false, false], {}, [true, true, false]],
  [
    "a success between starts the count anew",
    good,
    [false, false, true, false, false],
    {},
    [true, true, true, true, true],
  ],
  [
    "thresholds may be others",
    bad,
    [true, true, false],
    { successThreshold: 2, failureThreshold: 1 },
    [false, true, false],
  ],
])("%s", (_what, from, answers, probe, verdicts) => {
  let verdict = from;
  const seen = answers.map((answer) => {
    verdict = judge(verdict, answer, probe);
    return verdict.good;
  });
  expect(seen).toEqual(verdicts);
});

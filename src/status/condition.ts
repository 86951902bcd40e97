/** Conditions of any object: what we say, merged into what is there. */
import type { Condition } from "../api/meta.ts";
import type { Problem } from "../core/trouble.ts";

/** A condition without its history: what holds now, and why. */
export type Verdict = {
  readonly type: string;
  readonly status: Condition["status"];
  readonly reason: string;
  readonly message: string;
};

/** The verdict that all is well, or that the problem stands in the way. */
export function verdict(type: string, problem: Problem | undefined, well: Problem): Verdict {
  const { reason, message } = problem ?? well;
  return { type, status: problem === undefined ? "True" : "False", reason, message };
}

/** The verdict that the problem is there: for types that name what is wrong. None without a problem. */
export const trouble = (type: string, problem: Problem | undefined): Verdict[] =>
  problem === undefined ? [] : [{ type, status: "True", reason: problem.reason, message: problem.message }];

export type Writing = {
  /** Types that are ours: those without a verdict are removed. */
  readonly owned: readonly string[];
  /** metadata.generation of the object that the verdicts were made from. */
  readonly generation: number | undefined;
  /** RFC 3339, in seconds and UTC. */
  readonly now: string;
};

/**
 * The conditions with our verdicts in them. Types of others stay as and where they are, lastTransitionTime moves only with
 * the status, and what was decided from a newer generation is left alone. When nothing changes the answer is `current`
 * itself, so that nobody writes.
 */
export function mergeConditions(
  current: readonly Condition[] | undefined,
  verdicts: readonly Verdict[],
  { owned, generation, now }: Writing,
): readonly Condition[] {
  const before = current ?? [];
  const isNewer = (condition: Condition) =>
    generation !== undefined && condition.observedGeneration !== undefined && condition.observedGeneration > generation;
  const kept = before.flatMap((condition) => {
    if (isNewer(condition)) return [condition];
    const wanted = verdicts.find(({ type }) => type === condition.type);
    if (wanted !== undefined) return [renew(condition, wanted, generation, now)];
    return owned.includes(condition.type) ? [] : [condition];
  });
  const added = verdicts
    .filter(({ type }) => !before.some((condition) => condition.type === type))
    .map((wanted) => fresh(wanted, generation, now));
  const after = [...kept, ...added];
  const same = after.length === before.length && after.every((condition, i) => condition === before[i]);
  return same ? before : after;
}

function renew(old: Condition, wanted: Verdict, generation: number | undefined, now: string): Condition {
  const same =
    old.status === wanted.status &&
    old.reason === wanted.reason &&
    old.message === wanted.message &&
    old.observedGeneration === generation;
  if (same) return old;
  const { lastTransitionTime } = old;
  return fresh(wanted, generation, old.status === wanted.status ? lastTransitionTime : now);
}

function fresh(wanted: Verdict, generation: number | undefined, lastTransitionTime: string): Condition {
  const { type, status, reason, message } = wanted;
  const observed = generation === undefined ? {} : { observedGeneration: generation };
  return { type, status, ...observed, lastTransitionTime, reason, message };
}

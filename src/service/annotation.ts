/** The annotations under our prefix: those we know, and what somebody may have meant by another. */
import { Annotation, GROUP } from "../api/names.ts";
import type { Problem } from "../core/trouble.ts";

const PREFIX = `${GROUP}/`;
const KNOWN: readonly string[] = Object.values(Annotation);

/** A warning for each key under our prefix that means nothing, with the known name that is nearest to it. */
export function unknownAnnotations(annotations: Readonly<Record<string, string>>): Problem[] {
  return Object.keys(annotations)
    .filter((key) => key.startsWith(PREFIX) && !KNOWN.includes(key))
    .sort()
    .map((key) => ({
      reason: "UnknownAnnotation",
      message: `annotation ${key} is not known; did you mean ${nearest(key)}?`,
    }));
}

function nearest(key: string): string {
  const [best = ""] = KNOWN.toSorted((a, b) => distance(key, a) - distance(key, b));
  return best;
}

/** Fewest letters to insert, delete or replace, upper and lower case alike (Levenshtein). */
function distance(a: string, b: string): number {
  const [from, to] = [a.toLowerCase(), b.toLowerCase()];
  let row = Array.from({ length: to.length + 1 }, (_, j) => j);
  for (let i = 1; i <= from.length; i++) {
    const next = [i];
    for (let j = 1; j <= to.length; j++) {
      const replaced = (row[j - 1] ?? 0) + (from[i - 1] === to[j - 1] ? 0 : 1);
      next.push(Math.min(replaced, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[to.length] ?? 0;
}

/** A status that is on its way says why in words that change with every step: not each of them is worth a write. */
import type { Condition } from "../api/meta.ts";
import { same } from "../core/same.ts";

type Status = { readonly conditions?: readonly Condition[] };

/**
 * Since when (RFC 3339) the object is Pending, where `wanted` differs from `present` in nothing but the words of what is
 * Pending in both; undefined where it differs in more.
 */
export function pendingSince(present: unknown, wanted: unknown): string | undefined {
  const times = (present as Status | undefined)?.conditions
    ?.filter(({ reason }) => reason === "Pending")
    .map(({ lastTransitionTime }) => lastTransitionTime);
  if (times === undefined || times.length === 0) return undefined;
  return same(withoutWords(present), withoutWords(wanted)) ? times.sort().at(-1) : undefined;
}

/** The value without the messages of conditions that are Pending, wherever they are. */
function withoutWords(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutWords);
  if (typeof value !== "object" || value === null) return value;
  const isPending = (value as Partial<Condition>).reason === "Pending";
  return Object.fromEntries(
    Object.entries(value)
      .filter(([name]) => !(isPending && name === "message"))
      .map(([name, field]) => [name, withoutWords(field)]),
  );
}

/**
 * True when two JSON values say the same: fields in any order, a field that is undefined as one that is absent, lists in
 * order.
 */
export function same(a: unknown, b: unknown): boolean {
  if (Object.is(a, b)) return true;
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return false;
  if (Array.isArray(a) || Array.isArray(b)) {
    return Array.isArray(a) && Array.isArray(b) && a.length === b.length && a.every((item, i) => same(item, b[i]));
  }
  let fields = 0;
  for (const name of Object.keys(a)) {
    const value = fieldOf(a, name);
    if (value === undefined) continue;
    fields++;
    // What `b` inherits is no field of it.
    if (!Object.hasOwn(b, name) || !same(value, fieldOf(b, name))) return false;
  }
  return fields === countFields(b);
}

// Object.keys names what is there; of JSON values nothing else is asked.
const fieldOf = (object: object, name: string): unknown => (object as Readonly<Record<string, unknown>>)[name];

/** Without a list or map of them: this runs for every status that might be written. */
function countFields(object: object): number {
  let count = 0;
  for (const name of Object.keys(object)) if (fieldOf(object, name) !== undefined) count++;
  return count;
}

/** `current` itself when `wanted` says the same, so that an unchanged status is known by `===`. */
export const unlessSame = <T>(current: T | undefined, wanted: T): T =>
  current !== undefined && same(current, wanted) ? current : wanted;

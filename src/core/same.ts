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
  const [left, right] = [fieldsOf(a), fieldsOf(b)];
  return (
    left.size === right.size && [...left].every(([name, value]) => right.has(name) && same(value, right.get(name)))
  );
}

const fieldsOf = (object: object): Map<string, unknown> =>
  new Map(Object.entries(object).filter(([, value]) => value !== undefined));

/** `current` itself when `wanted` says the same, so that an unchanged status is known by `===`. */
export const unlessSame = <T>(current: T | undefined, wanted: T): T =>
  current !== undefined && same(current, wanted) ? current : wanted;

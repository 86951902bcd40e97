/**
 * Order of two resourceVersions of one resource, as decimals (KEP-5504): negative when `a` is older, 0 when equal.
 * Undefined when one is not a decimal: then nothing may be concluded.
 */
export function compareVersions(a: string, b: string): number | undefined {
  if (!DECIMAL.test(a) || !DECIMAL.test(b)) return undefined;
  if (a.length !== b.length) return a.length - b.length;
  return a < b ? -1 : a > b ? 1 : 0;
}

/** True only when both are decimals and `a` is older than `b`. */
export const isOlder = (a: string, b: string): boolean => (compareVersions(a, b) ?? 0) < 0;

const DECIMAL = /^(0|[1-9][0-9]*)$/;

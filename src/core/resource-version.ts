/**
 * resourceVersions of one resource are decimals that grow (KEP-5504). Negative when a is older than b, 0 when equal,
 * undefined when one of them is no decimal, so that nothing can be said.
 */
export function compareVersions(a: string | undefined, b: string | undefined): number | undefined {
  if (a === undefined || b === undefined || !isDecimal(a) || !isDecimal(b)) return undefined;
  if (a.length !== b.length) return a.length - b.length;
  return a < b ? -1 : a > b ? 1 : 0;
}

/** True only when both are decimals and `version` is at least `goal`. */
export function reaches(version: string | undefined, goal: string | undefined): boolean {
  const order = compareVersions(version, goal);
  return order !== undefined && order >= 0;
}

/** True only when both are decimals and `version` is older than `other`. */
export const isOlder = (version: string | undefined, other: string | undefined): boolean =>
  (compareVersions(version, other) ?? 0) < 0;

const isDecimal = (text: string): boolean => /^(0|[1-9][0-9]*)$/.test(text);

/**
 * A point on the monotonic clock, in milliseconds since an arbitrary start (with fractions).
 * Only `host/clock.ts` makes them from the kernel's clock; everywhere else `now` is an argument.
 */
export type Instant = number & { readonly __instant: never };

/** The instant that lies `milliseconds` on the monotonic clock. For doors and tests. */
export const instant = (milliseconds: number): Instant => milliseconds as Instant;

/** The instant `milliseconds` later (or earlier, when negative). */
export const after = (start: Instant, milliseconds: number): Instant => (start + milliseconds) as Instant;

/** The earlier of two deadlines, where `undefined` means "none". */
export function earlier(a: Instant | undefined, b: Instant | undefined): Instant | undefined {
  if (a === undefined) return b;
  if (b === undefined) return a;
  return a < b ? a : b;
}

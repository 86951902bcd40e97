/** Between the first and the last wait, doubled with each failure, of which a random half is taken. */
export type BackoffLimits = { readonly firstMilliseconds: number; readonly lastMilliseconds: number };

export const DEFAULT_BACKOFF: BackoffLimits = { firstMilliseconds: 100, lastMilliseconds: 30_000 };

/** How long to wait after `failures` failures in a row (1 is the first). `random` is in [0, 1). */
export function backoffMilliseconds(limits: BackoffLimits, failures: number, random: number): number {
  const whole = Math.min(limits.lastMilliseconds, limits.firstMilliseconds * 2 ** Math.max(0, failures - 1));
  return whole / 2 + (whole / 2) * random;
}

/** Resolves after the time (at once when that is past), or when the signal fires. */
export function pause(milliseconds: number, signal?: AbortSignal): Promise<void> {
  if (signal?.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, Math.max(0, milliseconds));
    signal?.addEventListener("abort", done);
  });
}

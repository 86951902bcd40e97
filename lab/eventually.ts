import { setTimeout as delay } from "node:timers/promises";

/**
 * Asks `probe` again and again until it gives something other than `undefined` or `false`, and gives that.
 * Rejects after `limitMs` with `what` and the last error, if there was one.
 */
export async function eventually<T>(
  what: string,
  limitMs: number,
  probe: () => Promise<T | undefined | false> | T | undefined | false,
  everyMs = 50,
): Promise<T> {
  const deadline = performance.now() + limitMs;
  let trouble: unknown;
  for (;;) {
    try {
      const value = await probe();
      if (value !== undefined && value !== false) return value;
      trouble = undefined;
    } catch (error) {
      trouble = error;
    }
    if (performance.now() > deadline) {
      const why = trouble instanceof Error ? `: ${trouble.message}` : "";
      throw new Error(`not within ${limitMs / 1000} s: ${what}${why}`);
    }
    await delay(everyMs);
  }
}

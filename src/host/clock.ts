import { type Instant, instant } from "../core/instant.ts";
import type { Clock } from "./port.ts";

/** CLOCK_MONOTONIC; the one place that knows what time it is. It stands still while the machine sleeps. */
export const clock: Clock = {
  now: (): Instant => instant(Number(process.hrtime.bigint()) / 1e6),
};

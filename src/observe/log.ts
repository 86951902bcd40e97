import { pino } from "pino";
import type { Log } from "../core/log.ts";

/** The levels that `--log-level` takes. */
export const LOG_LEVELS = ["debug", "info", "warn", "error"] as const;

/**
 * A log of JSON lines on standard output, written synchronously so that the last line before an exit is not lost.
 * `name` is the process (`controller`, `speaker`).
 */
export function createLog(options: { name: string; level: string }): Log {
  return pino({
    name: options.name,
    level: options.level,
    base: { name: options.name },
    formatters: { level: (label) => ({ level: label }) },
    timestamp: () => `,"time":"${new Date().toISOString()}"`,
  });
}

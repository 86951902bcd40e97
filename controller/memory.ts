import type { Log } from "../src/core/log.ts";
import { releaseMemory } from "../src/host/memory.ts";

const LOOK_MILLISECONDS = 5_000;
/** A collection stops the thread for about 0.1 s at ten thousand VIPs, so it must be worth it. */
const WORTHWHILE_BYTES = 24 * 1024 * 1024;

/**
 * Gives memory back after a burst. Reading ten thousand objects leaves V8 with a heap many times what is kept of them,
 * and a process that then has nothing to do never collects it by itself (measured: 330 MB, after this 130 MB).
 * `busy` says whether there is work, which goes first. Ends with the signal.
 */
export function giveMemoryBack(busy: () => boolean, log: Log, signal: AbortSignal): void {
  /** What is needed without burst, as far as it was seen. The start is one, too. */
  let known = 0;
  let quiet = 0;
  let collected = false;
  const timer = setInterval(() => {
    const rss = process.memoryUsage.rss();
    // The pages go back to the kernel a moment after the collection.
    if (collected) known = rss;
    collected = false;
    quiet = busy() ? 0 : quiet + 1;
    if (quiet < 2 || rss - known < WORTHWHILE_BYTES) return;
    void releaseMemory();
    log.debug({ rss }, "memory given back");
    collected = true;
    quiet = 0;
  }, LOOK_MILLISECONDS);
  timer.unref();
  signal.addEventListener("abort", () => clearInterval(timer), { once: true });
}

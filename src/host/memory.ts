import { Session } from "node:inspector";
import { releaseProgramPages } from "./program-pages.ts";

/** A whole collection throws compiled code away; what is used is compiled again first, which takes 15 MB of the program. */
const PROGRAM_PAGES_MILLISECONDS = 10_000;

/**
 * Gives back what a burst of work left behind: a whole collection of this thread's heap, then the free memory of the
 * C heap, and some seconds later the pages of the program that were used once. V8 keeps the pages that the first list of
 * thousands of objects needed, malloc keeps what HTTP/2 and TLS used, and a process that has nothing to do never gives
 * back either. Stops the thread for about 0.1 s at ten thousand VIPs.
 *
 * The inspector is the one door to a whole collection that needs no flag of V8.
 */
export function releaseMemory(): Promise<void> {
  const session = new Session();
  session.connect();
  return new Promise((resolve) => {
    session.post("HeapProfiler.collectGarbage", () => {
      // Within its own callback a disconnect never returns (Node 24).
      setImmediate(() => {
        session.disconnect();
        void trim().then(resolve);
        setTimeout(() => void releaseProgramPages(), PROGRAM_PAGES_MILLISECONDS).unref();
      });
    });
  });
}

/** Native code is loaded only where memory is really given back. */
async function trim(): Promise<void> {
  const { mallocTrim } = await import("./sysnet.ts");
  mallocTrim();
}

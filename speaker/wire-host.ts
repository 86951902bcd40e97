import { Worker } from "node:worker_threads";
import type { Log } from "../src/core/log.ts";
import type { FromWire, ToWire } from "./wire-protocol.ts";

/** The wire worker as the main thread sees it. */
export type Wire = {
  send(message: ToWire): void;
  /** Every message of the worker from the first on: those that came before the first listener are kept for it. */
  onMessage(listener: (message: FromWire) => void): void;
  /** Ends the worker; resolves when it is gone. It falls silent and says nothing about leaving. */
  close(): Promise<void>;
};

/**
 * Starts the wire worker. Its sockets are in the network namespace of the calling thread.
 * A worker that ends by itself is a bug: it throws in the main thread, so that the process restarts.
 */
export function startWire(options: { readonly log: Log }): Wire {
  const { log } = options;
  // Beside this file in both forms: as a source, and as a file of its own in the bundle.
  const entry = import.meta.url.endsWith(".ts") ? "./wire.ts" : "./wire.js";
  const worker = new Worker(new URL(entry, import.meta.url), {
    name: "wire",
    // A small nursery: short pauses between frames, and little garbage resident after a burst.
    resourceLimits: { maxYoungGenerationSizeMb: 4 },
  });
  const listeners: ((message: FromWire) => void)[] = [];
  let early: FromWire[] = [];
  let closing = false;
  const gone = new Promise<void>((resolve) => {
    worker.on("exit", (code) => {
      resolve();
      if (!closing) throw new Error(`the wire worker ended by itself with code ${code}`);
    });
  });
  worker.on("error", (error) => {
    log.error({ error: String(error) }, "wire worker failed");
    throw error;
  });
  worker.on("message", (message: FromWire) => {
    if (listeners.length === 0) early.push(message);
    for (const listener of listeners) listener(message);
  });
  return {
    send: (message) => worker.postMessage(message),
    onMessage(listener) {
      listeners.push(listener);
      const kept = early;
      early = [];
      for (const message of kept) listener(message);
    },
    async close() {
      if (!closing) {
        closing = true;
        worker.postMessage({ type: "stop" } satisfies ToWire);
      }
      await gone;
    },
  };
}

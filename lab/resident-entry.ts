import { parentPort, workerData } from "node:worker_threads";
import { enterNetworkNamespace } from "../src/host/namespace.ts";
import type { Actions, Call, Reply } from "./resident.ts";

/** To be called once by a resident's module: moves this thread into its namespace and serves the actions. */
export function serveActions(actions: Actions): void {
  if (parentPort === null) throw new Error("a resident runs in a worker thread");
  const port = parentPort;
  enterNetworkNamespace((workerData as { namespace: string }).namespace);
  port.on("message", async ({ id, action, args }: Call) => {
    let reply: Reply;
    try {
      reply = { id, value: await actions[action]?.(...args) };
    } catch (error) {
      reply = { id, error: error instanceof Error ? error.message : String(error) };
    }
    port.postMessage(reply);
  });
  port.postMessage("ready");
}

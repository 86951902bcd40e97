import { parentPort, workerData } from "node:worker_threads";
import { enterNetworkNamespace } from "../src/host/namespace.ts";
import { endWatches } from "../src/host/sysnet.ts";
import { type Actions, type Call, LEAVE, type Reply } from "./resident.ts";

/** To be called once by a resident's module: moves this thread into its namespace and serves the actions. */
export function serveActions(actions: Actions): void {
  if (parentPort === null) throw new Error("a resident runs in a worker thread");
  const port = parentPort;
  enterNetworkNamespace((workerData as { namespace: string }).namespace);
  port.on("message", async (message: Call | typeof LEAVE) => {
    if (message === LEAVE) {
      endWatches();
      process.exit(0); // of this thread
    }
    const { id, action, args } = message;
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

/**
 * A resident lives in a network namespace: a worker thread that has moved there and does what it is told.
 * One process thus holds a client and many pods, and every socket is real.
 */
import { once } from "node:events";
import { Worker } from "node:worker_threads";

/** What a resident offers: named actions from plain values to plain values. */
// biome-ignore lint/suspicious/noExplicitAny: each action types itself; the caller gets the types through `Resident<typeof actions>`.
export type Actions = Record<string, (...args: any[]) => unknown>;

export type Call = { readonly id: number; readonly action: string; readonly args: readonly unknown[] };
/** What a resident is told last. */
export const LEAVE = "leave";
export type Reply = { readonly id: number; readonly value?: unknown; readonly error?: string };

export type Resident<A extends Actions> = {
  call<K extends keyof A & string>(action: K, ...args: Parameters<A[K]>): Promise<Awaited<ReturnType<A[K]>>>;
  close(): Promise<void>;
};

/** One that is stuck in a call is ended from outside. */
const LEAVE_MILLISECONDS = 5_000;

/** Starts `entry` (a module URL that calls `serveActions`) in the namespace. */
export async function startResident<A extends Actions>(namespace: string, entry: URL): Promise<Resident<A>> {
  const worker = new Worker(entry, { workerData: { namespace }, name: namespace });
  const waiting = new Map<number, { resolve: (value: unknown) => void; reject: (error: Error) => void }>();
  let next = 0;
  worker.on("message", (reply: Reply | "ready") => {
    if (reply === "ready") return;
    const call = waiting.get(reply.id);
    waiting.delete(reply.id);
    if (reply.error === undefined) call?.resolve(reply.value);
    else call?.reject(new Error(reply.error));
  });
  const fail = (error: Error) => {
    for (const call of waiting.values()) call.reject(error);
    waiting.clear();
  };
  worker.on("error", fail);
  const gone = new Promise<void>((resolve) => {
    worker.on("exit", () => {
      fail(new Error(`the resident of ${namespace} has left`));
      resolve();
    });
  });
  await once(worker, "message");
  return {
    call: (action, ...args) =>
      new Promise((resolve, reject) => {
        const id = next++;
        waiting.set(id, { resolve: resolve as (value: unknown) => void, reject });
        worker.postMessage({ id, action, args } satisfies Call);
      }),
    close: async () => {
      worker.postMessage(LEAVE);
      const patience = setTimeout(() => void worker.terminate(), LEAVE_MILLISECONDS);
      await gone;
      clearTimeout(patience);
    },
  };
}

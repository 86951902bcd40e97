/** Asks containers from the node's namespace, as the probes of a kubelet do. */
import net from "node:net";
import { serveActions } from "../resident-entry.ts";

const actions = {
  /** True when somebody accepts a connection. */
  tcp(host: string, port: number, timeoutMs: number): Promise<boolean> {
    return new Promise((resolve) => {
      const socket = net.connect({ host, port });
      const finish = (good: boolean) => {
        socket.destroy();
        resolve(good);
      };
      socket.setTimeout(timeoutMs, () => finish(false));
      socket.once("connect", () => finish(true));
      socket.once("error", () => finish(false));
    });
  },

  /** True for a status from 200 to 399. */
  async http(host: string, port: number, path: string, timeoutMs: number): Promise<boolean> {
    try {
      const signal = AbortSignal.timeout(timeoutMs);
      const response = await fetch(`http://${host}:${port}${path}`, { signal, redirect: "manual" });
      await response.arrayBuffer();
      return response.status >= 200 && response.status < 400;
    } catch {
      return false;
    }
  },
};

export type ProbeActions = typeof actions;

serveActions(actions);

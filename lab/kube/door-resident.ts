/** Listens on a unix socket, which every namespace sees, and dials from inside its own. */
import net from "node:net";
import { serveActions } from "../resident-entry.ts";

const actions = {
  /** Joins everybody who comes to the socket with a TCP connection to the host and port. */
  listen(path: string, host: string, port: number): Promise<void> {
    const server = net.createServer((outer) => {
      const inner = net.connect({ host, port });
      inner.setNoDelay(true);
      outer.on("error", () => inner.destroy());
      inner.on("error", () => outer.destroy());
      outer.on("close", () => inner.destroy());
      inner.on("close", () => outer.destroy());
      outer.pipe(inner).pipe(outer);
    });
    return new Promise((resolve, reject) => {
      server.once("error", reject);
      server.listen(path, resolve);
    });
  },
};

export type DoorActions = typeof actions;

serveActions(actions);

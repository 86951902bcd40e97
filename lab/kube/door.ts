/** A way from this machine's 127.0.0.1 into a network namespace, so that a process out here speaks as somebody in there. */
import { once } from "node:events";
import net from "node:net";
import { startResident } from "../resident.ts";
import type { DoorActions } from "./door-resident.ts";

export type Door = { readonly port: number; close(): Promise<void> };

/** Opens a port on 127.0.0.1 that leads to `host:port` as seen from the namespace. `path` is a free name for a socket. */
export async function openDoor(namespace: string, path: string, host: string, port: number): Promise<Door> {
  const resident = await startResident<DoorActions>(namespace, new URL("./door-resident.ts", import.meta.url));
  await resident.call("listen", path, host, port);
  const door = net.createServer((outer) => {
    const inner = net.connect({ path });
    outer.setNoDelay(true);
    outer.on("error", () => inner.destroy());
    inner.on("error", () => outer.destroy());
    outer.on("close", () => inner.destroy());
    inner.on("close", () => outer.destroy());
    outer.pipe(inner).pipe(outer);
  });
  door.listen(0, "127.0.0.1");
  await once(door, "listening");
  door.unref();
  return {
    port: (door.address() as net.AddressInfo).port,
    close: async () => {
      door.close();
      await resident.close();
    },
  };
}

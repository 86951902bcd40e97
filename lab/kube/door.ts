/** A way from this machine's 127.0.0.1 into a network namespace, so that a process out here speaks as somebody in there. */
import { openRelay } from "../relay.ts";
import { startResident } from "../resident.ts";
import type { DoorActions } from "./door-resident.ts";

export type Door = { readonly port: number; close(): Promise<void> };

/** Opens a port on 127.0.0.1 that leads to `host:port` as seen from the namespace. `path` is a free name for a socket. */
export async function openDoor(namespace: string, path: string, host: string, port: number): Promise<Door> {
  const resident = await startResident<DoorActions>(namespace, new URL("./door-resident.ts", import.meta.url));
  await resident.call("listen", path, host, port);
  const relay = await openRelay({ path });
  return {
    port: relay.port,
    close: async () => {
      relay.close();
      await resident.close();
    },
  };
}

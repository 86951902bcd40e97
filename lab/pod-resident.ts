/** A pod: small servers that say their name, so that a client sees who answered. */
import dgram from "node:dgram";
import net from "node:net";
import { serveActions } from "./resident-entry.ts";

const closers: (() => void)[] = [];

const actions = {
  /**
   * Serves TCP and UDP on the port, both families. TCP: greets with `NAME CLIENT\n`, then sends back every byte it gets.
   * UDP: answers each datagram with `NAME CLIENT`.
   */
  async serve(name: string, port: number): Promise<void> {
    const tcp = net.createServer((socket) => {
      socket.on("error", () => {});
      socket.setNoDelay(true);
      socket.write(`${name} ${bare(socket.remoteAddress ?? "")}\n`);
      socket.on("data", (bytes) => socket.write(bytes));
      socket.on("end", () => socket.end());
    });
    await new Promise<void>((resolve, reject) => {
      tcp.once("error", reject);
      tcp.listen({ port, host: "::", backlog: 1024 }, resolve);
    });
    closers.push(() => tcp.close());
    // One socket per family: the kernel then answers from the address that was asked.
    for (const type of ["udp4", "udp6"] as const) {
      const udp = dgram.createSocket({ type, ipv6Only: type === "udp6" });
      udp.on("message", (_, from) => udp.send(`${name} ${from.address}`, from.port, from.address, () => {}));
      await new Promise<void>((resolve, reject) => {
        udp.once("error", reject);
        udp.bind(port, resolve);
      });
      closers.push(() => udp.close());
    }
  },
  stop(): void {
    for (const close of closers.splice(0)) close();
  },
};

export type PodActions = typeof actions;

/** An IPv4 client of a dual-stack socket without its `::ffff:`. */
const bare = (address: string): string => address.replace(/^::ffff:/, "");

serveActions(actions);

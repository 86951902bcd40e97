/** A port of this machine's 127.0.0.1 that leads elsewhere, and that can be cut. */
import { once } from "node:events";
import net from "node:net";

export type Relay = {
  readonly port: number;
  /** Nothing passes any more, as behind a cut cable, until the returned function is called. */
  cut(): () => void;
  close(): void;
};

/** Opens it; it keeps no process alive that is done otherwise. */
export async function openRelay(target: net.NetConnectOpts): Promise<Relay> {
  const outers = new Set<net.Socket>();
  let isCut = false;
  const server = net.createServer((outer) => {
    if (isCut) return void outer.destroy();
    outers.add(outer);
    const inner = net.connect(target);
    for (const [socket, other] of [
      [outer, inner],
      [inner, outer],
    ] as const) {
      socket.setNoDelay(true);
      socket.on("error", () => other.destroy());
      socket.on("close", () => other.destroy());
      socket.pipe(other);
    }
    outer.on("close", () => outers.delete(outer));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  server.unref();
  const sever = () => {
    for (const outer of outers) outer.destroy();
  };
  return {
    port: (server.address() as net.AddressInfo).port,
    cut() {
      isCut = true;
      sever();
      return () => {
        isCut = false;
      };
    },
    close() {
      server.close();
      sever();
    },
  };
}

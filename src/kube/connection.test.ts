import net from "node:net";
import { Worker } from "node:worker_threads";
import { afterEach, expect, test } from "vitest";
import { silentLog } from "../core/log.ts";
import { clock } from "../host/clock.ts";
import type { ApiConfig } from "./config.ts";
import { createConnector } from "./connection.ts";

const cleanUps: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp();
});

/** A port whose SYNs are dropped: a thread listens with room for few, and never accepts. */
async function silentPort(): Promise<number> {
  const listener = new Worker(
    `const { parentPort } = require("node:worker_threads");
     const server = require("node:net").createServer().listen({ port: 0, host: "127.0.0.1", backlog: 1 }, () => {
       parentPort.postMessage(server.address().port);
       setTimeout(() => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0), 50);
     });`,
    { eval: true },
  );
  cleanUps.push(() => listener.terminate());
  const port = await new Promise<number>((resolve) => listener.once("message", resolve));
  await new Promise((resolve) => setTimeout(resolve, 200));
  for (let i = 0; i < 4; i++) {
    const filler = net.connect(port, "127.0.0.1").on("error", () => {});
    cleanUps.push(() => filler.destroy());
  }
  await new Promise((resolve) => setTimeout(resolve, 100));
  return port;
}

test.each(["https", "http"])(
  "an attempt over %s that hears nothing at all is over when its time is",
  async (scheme) => {
    const port = await silentPort();
    const config: ApiConfig = {
      connection: () => ({
        origin: `${scheme}://127.0.0.1:${port}`,
        basePath: "",
        ca: undefined,
        clientCertificate: undefined,
        serverName: undefined,
        insecure: true,
      }),
      token: () => undefined,
      forgetToken: () => {},
    };
    const connector = createConnector(config, {
      clock,
      log: silentLog,
      limits: { connectTimeoutMilliseconds: 200, backoff: { firstMilliseconds: 1, lastMilliseconds: 1 } },
    });
    cleanUps.push(() => connector.close());
    for (let attempt = 0; attempt < 3; attempt++) {
      const startedAt = performance.now();
      await expect(connector.session()).rejects.toThrow("in 200 ms");
      expect(performance.now() - startedAt).toBeLessThan(1000);
    }
  },
);

import type { AddressInfo } from "node:net";
import type { Metrics } from "./metrics.ts";

// An import of `node:http` asks for each of its exports, one of which loads a whole second HTTP client: 13 MB resident.
const { createServer } = process.getBuiltinModule("node:http");

/** What stands in the way, in words for a person; none means healthy. */
export type Check = () => readonly string[];

export type HealthServer = { readonly address: string; close(): Promise<void> };

/** `HOST:PORT` or `[V6]:PORT`; port 0 takes a free one. */
export function parseBind(text: string): { host: string; port: number } | undefined {
  const match = /^(?:\[([0-9a-fA-F:]+)\]|([^:[\]]+)):([0-9]{1,5})$/.exec(text);
  const host = match?.[1] ?? match?.[2];
  const port = Number(match?.[3]);
  return host === undefined || port > 65535 ? undefined : { host, port };
}

/**
 * Serves /metrics, /livez and /readyz. Liveness fails only for a wedged thread: a lost API server shows in readiness,
 * since a restart would not bring it back and would cost what still works.
 */
export function serveHealth(options: {
  bind: { host: string; port: number };
  metrics: Metrics;
  live: Check;
  ready: Check;
}): Promise<HealthServer> {
  const server = createServer(async (request, response) => {
    const answer = (code: number, type: string, body: string) => {
      response.writeHead(code, { "content-type": type, "x-content-type-options": "nosniff" });
      response.end(body);
    };
    const report = (check: Check) => {
      const complaints = check();
      answer(complaints.length === 0 ? 200 : 503, "text/plain; charset=utf-8", `${complaints.join("\n") || "ok"}\n`);
    };
    if (request.method !== "GET") return answer(405, "text/plain; charset=utf-8", "only GET\n");
    switch (request.url) {
      case "/metrics":
        return answer(200, "text/plain; version=0.0.4; charset=utf-8", await options.metrics.render());
      case "/livez":
        return report(options.live);
      case "/readyz":
        return report(options.ready);
      default:
        return answer(404, "text/plain; charset=utf-8", "try /metrics, /livez or /readyz\n");
    }
  });
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(options.bind.port, options.bind.host, () => {
      const { address, port, family } = server.address() as AddressInfo;
      resolve({
        address: family === "IPv6" ? `[${address}]:${port}` : `${address}:${port}`,
        close: () =>
          new Promise((done) => {
            server.close(() => done());
            server.closeAllConnections();
          }),
      });
    });
  });
}

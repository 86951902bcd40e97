/** For tests: an HTTP/2 server that answers exactly what the test says, also what no API server would. */
import { createSecureServer, createServer, type ServerHttp2Session, type ServerHttp2Stream } from "node:http2";
import { type AddressInfo, connect, createServer as createTcpServer, type Server, type Socket } from "node:net";
import type { ApiConfig } from "./config.ts";

export type ScriptedRequest = {
  readonly method: string;
  readonly path: string;
  readonly query: URLSearchParams;
  readonly token: string | undefined;
  readonly contentType: string | undefined;
  readonly stream: ServerHttp2Stream;
  readonly session: ServerHttp2Session;
  /** The whole body, parsed; resolves when it has come. */
  body(): Promise<unknown>;
  json(status: number, body: unknown, headers?: Record<string, string>): void;
};

export type ScriptedApi = {
  readonly origin: string;
  readonly requests: ScriptedRequest[];
  readonly sessions: Set<ServerHttp2Session>;
  answer: (request: ScriptedRequest) => void;
  close(): Promise<void>;
};

export async function startScriptedApi(options: {
  answer: (request: ScriptedRequest) => void;
  certificate?: { certificatePem: string; keyPem: string };
  port?: number;
}): Promise<ScriptedApi> {
  const { certificate } = options;
  const server =
    certificate === undefined
      ? createServer()
      : createSecureServer({ cert: certificate.certificatePem, key: certificate.keyPem });
  const sessions = new Set<ServerHttp2Session>();
  server.on("session", (session) => {
    sessions.add(session);
    session.on("error", () => {});
    session.on("close", () => sessions.delete(session));
  });
  server.on("stream", (stream, headers) => {
    stream.on("error", () => {});
    const url = new URL(headers[":path"] ?? "/", "http://api");
    const chunks: Buffer[] = [];
    const whole = new Promise<void>((resolve) => stream.on("end", resolve));
    stream.on("data", (chunk: Buffer) => chunks.push(chunk));
    // A server's streams belong to a server's session; the types say less.
    const session = stream.session as ServerHttp2Session | undefined;
    if (session === undefined) return;
    const request: ScriptedRequest = {
      method: headers[":method"] ?? "",
      path: url.pathname,
      query: url.searchParams,
      token: headers.authorization?.replace("Bearer ", ""),
      contentType: headers["content-type"],
      stream,
      session,
      async body() {
        await whole;
        return JSON.parse(Buffer.concat(chunks).toString());
      },
      json(status, body, more = {}) {
        stream.respond({ ":status": status, "content-type": "application/json", ...more });
        stream.end(JSON.stringify(body));
      },
    };
    api.requests.push(request);
    api.answer(request);
  });
  await new Promise<void>((resolve) => server.listen(options.port ?? 0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const api: ScriptedApi = {
    origin: `${certificate === undefined ? "http" : "https"}://127.0.0.1:${port}`,
    requests: [],
    sessions,
    answer: options.answer,
    close() {
      for (const session of sessions) session.destroy();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
  return api;
}

/** A configuration for it; the token may be replaced. */
export function configFor(origin: string, ca?: () => string): ApiConfig & { tokens: string[] } {
  let cached: string | undefined;
  return {
    /** Tokens as the file would have them, one for each time it is read; the last one stays. */
    tokens: ["token"],
    connection: () => ({
      origin,
      basePath: "",
      ca: ca?.(),
      clientCertificate: undefined,
      serverName: undefined,
      insecure: false,
    }),
    token() {
      cached ??= this.tokens.length > 1 ? this.tokens.shift() : this.tokens[0];
      return cached;
    },
    forgetToken() {
      cached = undefined;
    },
  };
}

/** A TCP relay that can fall silent in both directions while its connections stay open, as a dead peer does. */
export async function startRelay(targetPort: number): Promise<{ port: number; silent: boolean; close(): void }> {
  const sockets = new Set<Socket>();
  const relay = { port: 0, silent: false, close: () => {} };
  const server: Server = createTcpServer((near) => {
    const far = connect(targetPort, "127.0.0.1");
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(from);
      from.on("error", () => {});
      from.on("data", (chunk) => {
        if (!relay.silent) to.write(chunk);
      });
      from.on("close", () => {
        sockets.delete(from);
        to.destroy();
      });
    }
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  relay.port = (server.address() as AddressInfo).port;
  relay.close = () => {
    for (const socket of sockets) socket.destroy();
    server.close();
  };
  return relay;
}

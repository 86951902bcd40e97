/**
 * Listening sockets, TLS and HTTP/1.1 + HTTP/2 on the connections that come in. Raw TCP connections are kept at hand,
 * since tests order resets of them.
 */

import { rmSync } from "node:fs";
import type { IncomingMessage, ServerResponse } from "node:http";
import {
  createSecureServer,
  type Http2SecureServer,
  type Http2ServerRequest,
  type Http2ServerResponse,
  type ServerHttp2Session,
} from "node:http2";
import { createServer, type Server, type Socket } from "node:net";
import type { TLSSocket } from "node:tls";

export type Request = IncomingMessage | Http2ServerRequest;
/** Http2ServerResponse has the same calls: Node's HTTP/2 compatibility API. */
export type Response = ServerResponse;

export type Connection = {
  /** TCP RST to the client. */
  reset(): void;
  /** HTTP/2 GOAWAY; HTTP/1 connections are left alone. */
  goAway(): void;
};

export type ListenAddress = { readonly host: string; readonly port: number } | { readonly path: string };

/** `HOST:PORT` or `[V6]:PORT`. Throws on anything else: it comes from flags. */
export function parseListenAddress(text: string): { host: string; port: number } {
  const match = /^(?:\[([^\]]+)\]|([^:]+)):(\d+)$/.exec(text);
  const host = match?.[1] ?? match?.[2];
  const port = Number(match?.[3]);
  if (host === undefined || !(port <= 65_535)) throw new Error(`${text} is not HOST:PORT; write [::1]:6443 for IPv6`);
  return { host, port };
}

export class Connections {
  readonly #http: Http2SecureServer;
  readonly #listeners: Server[] = [];
  readonly #open = new Map<Socket, Known>();
  /** By TLS socket for HTTP/1, by session for HTTP/2. */
  readonly #byTransport = new WeakMap<object, Connection>();
  #addresses: ListenAddress[];

  constructor(
    addresses: readonly ListenAddress[],
    certificate: { cert: string; key: string },
    onRequest: (request: Request, response: Response) => void,
  ) {
    this.#addresses = [...addresses];
    this.#http = createSecureServer({ ...certificate, allowHTTP1: true, settings: { maxConcurrentStreams: 1000 } });
    this.#http.on("request", (request: Request, response: ServerResponse | Http2ServerResponse) => {
      onRequest(request, response as ServerResponse);
    });
    // First in line, so that a session's connection is known before its first request is.
    let securing: Known | undefined;
    this.#http.prependListener("secureConnection", (socket: TLSSocket) => {
      securing = this.#open.get(rawOf(socket));
      this.#noteSecure(socket);
    });
    this.#http.on("session", (session) => this.#noteSession(session, securing));
    this.#http.on("sessionError", () => {});
    this.#http.on("clientError", () => {});
  }

  /** Where it listens, with the ports that port 0 became. */
  get addresses(): readonly ListenAddress[] {
    return this.#addresses;
  }

  useCertificate(certificate: { cert: string; key: string }): void {
    this.#http.setSecureContext(certificate);
  }

  async listen(): Promise<void> {
    for (const [i, address] of this.#addresses.entries()) {
      if ("path" in address) rmSync(address.path, { force: true });
      const server = createServer((raw) => this.#accept(raw));
      await new Promise<void>((resolve, reject) => {
        server.once("error", reject);
        server.listen(address, () => resolve());
      });
      const bound = server.address();
      // A later start takes the same port again, or clients would not find it.
      if (typeof bound === "object" && bound !== null && "host" in address) {
        this.#addresses[i] = { host: address.host, port: bound.port };
      }
      this.#listeners.push(server);
    }
  }

  /** Closes the listeners and resets every connection. */
  async stop(): Promise<void> {
    const closed = this.#listeners
      .splice(0)
      .map((server) => new Promise<void>((resolve) => server.close(() => resolve())));
    this.resetAll();
    await Promise.all(closed);
  }

  resetAll(): void {
    for (const { connection } of [...this.#open.values()]) connection.reset();
  }

  goAwayAll(): void {
    for (const { connection } of this.#open.values()) connection.goAway();
  }

  /** The connection that a request came in on. */
  of(request: Request): Connection | undefined {
    const transport = "stream" in request ? request.stream.session : request.socket;
    return transport === undefined ? undefined : this.#byTransport.get(transport);
  }

  #accept(raw: Socket): void {
    raw.setNoDelay(true);
    raw.on("error", () => {});
    const known: Known = {
      session: undefined,
      connection: {
        reset: () => {
          // A unix socket knows no RST.
          if (raw.remoteAddress === undefined) raw.destroy();
          else raw.resetAndDestroy();
          known.session?.destroy();
        },
        goAway: () => known.session?.goaway(),
      },
    };
    this.#open.set(raw, known);
    raw.once("close", () => this.#open.delete(raw));
    // An HTTP/2 session on a TLSSocket of our own making never speaks (Node 24): the server makes it from the raw one.
    this.#http.emit("connection", raw);
  }

  /** TLS is through: from now on requests can be traced to their connection. */
  #noteSecure(socket: TLSSocket): void {
    const known = this.#open.get(rawOf(socket));
    if (known !== undefined) this.#byTransport.set(socket, known.connection);
  }

  #noteSession(session: ServerHttp2Session, known: Known | undefined): void {
    session.on("error", () => {});
    if (known === undefined) return;
    known.session = session;
    this.#byTransport.set(session, known.connection);
  }
}

type Known = { connection: Connection; session: ServerHttp2Session | undefined };

/** The socket under TLS. Node keeps it there for its own use; no public way leads from one to the other. */
const rawOf = (socket: TLSSocket): Socket => (socket as TLSSocket & { _parent: Socket })._parent;

import { type ClientHttp2Session, connect } from "node:http2";
import { connect as connectTcp, isIP, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import { after, type Instant } from "../core/instant.ts";
import type { Log } from "../core/log.ts";
import type { Clock } from "../host/port.ts";
import { type BackoffLimits, backoffMilliseconds, DEFAULT_BACKOFF, pause } from "./backoff.ts";
import type { ApiConfig, Connection } from "./config.ts";
import { type KubeMetrics, NO_METRICS } from "./metrics.ts";

export type ConnectionLimits = {
  /** From the first SYN to the server's SETTINGS. */
  readonly connectTimeoutMilliseconds: number;
  /** A PING goes out this often; one that is not answered by the next ends the connection. */
  readonly pingMilliseconds: number;
  readonly backoff: BackoffLimits;
};

export const DEFAULT_CONNECTION_LIMITS: ConnectionLimits = {
  connectTimeoutMilliseconds: 5_000,
  pingMilliseconds: 5_000,
  backoff: DEFAULT_BACKOFF,
};

/** One HTTP/2 connection. Two requests with the same number went over the same TCP connection. */
export type Session = {
  readonly number: number;
  readonly basePath: string;
  readonly http2: ClientHttp2Session;
};

/** The one connection to the API server: made when it is needed, and again after it was lost. */
export type Connector = {
  /** The live connection, or the next one. Rejects when the attempt fails; the next call waits out the back-off. */
  session(): Promise<Session>;
  /** Number of the live connection. */
  readonly current: number | undefined;
  /** A whole answer has come: the next loss starts the back-off anew. */
  answered(): void;
  close(): void;
};

/** Room for lists and bursts of events, so that one round trip does not limit them (default: 64 KiB). */
const WINDOW_BYTES = 4 * 1024 * 1024;

export function createConnector(
  config: ApiConfig,
  options: { clock: Clock; log: Log; metrics?: KubeMetrics; limits?: Partial<ConnectionLimits> },
): Connector {
  const { clock, log, metrics = NO_METRICS } = options;
  const limits = { ...DEFAULT_CONNECTION_LIMITS, ...options.limits };
  const closing = new AbortController();
  let live: Session | undefined;
  let attempt: Promise<Session> | undefined;
  let failures = 0;
  let notBefore: Instant | undefined;
  let number = 0;
  let complained = false;

  async function establish(): Promise<Session> {
    const wait = notBefore === undefined ? 0 : notBefore - clock.now();
    if (wait > 0) await pause(wait, closing.signal);
    if (closing.signal.aborted) throw new Error("the client is closed");
    try {
      const session = await open();
      if (complained) log.info({ server: session.http2.originSet?.[0] }, "the API server can be reached again");
      complained = false;
      return session;
    } catch (error) {
      lost();
      if (!complained) log.warn({ error: messageOf(error) }, "no connection to the API server");
      complained = true;
      throw error;
    }
  }

  function lost(): void {
    failures++;
    notBefore = after(clock.now(), backoffMilliseconds(limits.backoff, failures, Math.random()));
  }

  function open(): Promise<Session> {
    const target = config.connection();
    return new Promise((resolve, reject) => {
      const socket = dial(target);
      const http2 = connect(target.origin, {
        createConnection: () => socket,
        settings: { enablePush: false, initialWindowSize: WINDOW_BYTES },
        // In MB; the default of 10 refuses new streams while several lists are under way.
        maxSessionMemory: 64,
      });
      const session: Session = { number: ++number, basePath: target.basePath, http2 };
      let cause: unknown = new Error("the connection was closed");
      const patience = setTimeout(() => {
        cause = new Error(`no answer from ${target.origin} in ${limits.connectTimeoutMilliseconds} ms`);
        http2.destroy();
        // A session that is not connected waits for its socket, and that for the kernel's last SYN: up to two minutes.
        socket.destroy();
      }, limits.connectTimeoutMilliseconds);
      let pinging: NodeJS.Timeout | undefined;
      // Also sessions that only finish their streams after GOAWAY.
      const end = () => {
        http2.destroy();
        if (socket.connecting) socket.destroy();
      };
      closing.signal.addEventListener("abort", end);
      const forsake = () => {
        if (live !== session) return;
        live = undefined;
        lost();
      };
      http2.on("error", (error) => {
        cause = error;
      });
      // SETTINGS, not `connect`: a TCP proxy in front of a dead server accepts connections too.
      http2.once("remoteSettings", () => {
        clearTimeout(patience);
        http2.setLocalWindowSize(WINDOW_BYTES);
        pinging = keepAlive(http2, limits.pingMilliseconds, () => {
          log.warn({ server: target.origin }, "the API server does not answer PING");
        });
        live = session;
        metrics.connected();
        resolve(session);
      });
      // After GOAWAY the streams that are open go on; new ones take a new connection (RFC 9113 6.8).
      http2.on("goaway", () => {
        log.debug({ server: target.origin }, "GOAWAY");
        forsake();
      });
      http2.once("close", () => {
        clearTimeout(patience);
        clearInterval(pinging);
        closing.signal.removeEventListener("abort", end);
        forsake();
        reject(cause);
      });
    });
  }

  return {
    session() {
      if (live !== undefined && !live.http2.closed && !live.http2.destroyed) return Promise.resolve(live);
      attempt ??= establish().finally(() => {
        attempt = undefined;
      });
      return attempt;
    },
    get current() {
      return live?.number;
    },
    answered() {
      failures = 0;
    },
    close() {
      closing.abort();
    },
  };
}

/** Opens the TCP connection, with TLS for an https origin; HTTP/2 is asked for by ALPN. */
function dial({ origin, ca, clientCertificate, serverName, insecure }: Connection): Socket {
  const { protocol, hostname, port } = new URL(origin);
  const host = hostname.replace(/^\[|\]$/g, "");
  if (protocol === "http:") return connectTcp({ host, port: Number(port || 80) });
  return connectTls({
    host,
    port: Number(port || 443),
    ALPNProtocols: ["h2"],
    rejectUnauthorized: !insecure,
    // An address is no name to ask for (RFC 6066 section 3), but the certificate is checked against it.
    ...(serverName !== undefined ? { servername: serverName } : isIP(host) === 0 ? { servername: host } : {}),
    ...(ca === undefined ? {} : { ca }),
    ...(clientCertificate === undefined ? {} : { cert: clientCertificate.certificate, key: clientCertificate.key }),
  });
}

/** Finds a dead peer: the session is destroyed when a PING has no answer until the next is due. */
function keepAlive(http2: ClientHttp2Session, everyMilliseconds: number, onSilence: () => void): NodeJS.Timeout {
  let unanswered = false;
  const timer = setInterval(() => {
    if (http2.destroyed) return;
    if (unanswered) {
      onSilence();
      http2.destroy(new Error("no answer to PING"));
      return;
    }
    unanswered = true;
    http2.ping((error) => {
      if (error === null) unanswered = false;
    });
  }, everyMilliseconds);
  timer.unref();
  return timer;
}

export const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

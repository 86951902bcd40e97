import type { ClientHttp2Stream, IncomingHttpHeaders } from "node:http2";
import { constants } from "node:http2";
import { type Connector, messageOf } from "./connection.ts";

export type Call = {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** Path and query, from `/api` or `/apis` on. */
  readonly path: string;
  readonly contentType?: string;
  readonly body?: string;
  readonly token: string | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Whole time until the headers of the answer, waiting for a connection included. */
  readonly timeoutMilliseconds: number;
  /** The body may take longer than that, as long as something of it comes. */
  readonly isLong?: boolean;
};

/** What a stream hears. Exactly one of `end` and `broken` is called last. */
export type Hearing = {
  headers(status: number, headers: IncomingHttpHeaders, connection: number): void;
  data(chunk: Buffer): void;
  /** END_STREAM: the answer is whole as far as HTTP/2 can tell. */
  end(): void;
  /** No answer or half of one. `again`: the server has certainly not seen the request, and another try may do at once. */
  broken(message: string, again: boolean): void;
};

/** Sends one request. The returned function ends it early, with `broken`. */
export function openStream(connector: Connector, call: Call, hearing: Hearing): (why: string) => void {
  let stream: ClientHttp2Stream | undefined;
  let finished = false;
  const patience = setTimeout(
    () => stop(`no answer in ${call.timeoutMilliseconds} ms`),
    Math.max(1, call.timeoutMilliseconds),
  );
  const onAbort = () => stop("aborted");

  function settle(): boolean {
    if (finished) return false;
    finished = true;
    clearTimeout(patience);
    call.signal?.removeEventListener("abort", onAbort);
    return true;
  }
  function stop(why: string): void {
    if (!settle()) return;
    stream?.close(constants.NGHTTP2_CANCEL);
    hearing.broken(why, false);
  }

  if (call.signal?.aborted) queueMicrotask(onAbort);
  else call.signal?.addEventListener("abort", onAbort);

  connector.session().then(
    (session) => {
      if (finished) return;
      let request: ClientHttp2Stream;
      try {
        request = session.http2.request(
          {
            ":method": call.method,
            ":path": session.basePath + call.path,
            accept: "application/json",
            "user-agent": "belfry",
            ...(call.token === undefined ? {} : { authorization: `Bearer ${call.token}` }),
            ...(call.body === undefined ? {} : { "content-type": call.contentType ?? "application/json" }),
          },
          { endStream: call.body === undefined },
        );
      } catch (error) {
        // The session went away between being handed out and this line.
        if (settle()) hearing.broken(messageOf(error), true);
        return;
      }
      stream = request;
      let failure: string | undefined;
      request.on("response", (headers) => {
        if (finished) return;
        clearTimeout(patience);
        connector.answered();
        hearing.headers(headers[":status"] ?? 0, headers, session.number);
      });
      request.on("data", (chunk: Buffer) => {
        if (!finished) hearing.data(chunk);
      });
      request.on("error", (error) => {
        failure = messageOf(error);
      });
      request.on("end", () => {
        // A stream cut by RST_STREAM(NO_ERROR) or by a lost connection also says `end`.
        if (request.aborted || request.rstCode !== constants.NGHTTP2_NO_ERROR || session.http2.destroyed) return;
        if (settle()) hearing.end();
      });
      request.on("close", () => {
        if (!settle()) return;
        // RFC 9113 8.7: a refused stream was not processed.
        const refused = request.rstCode === constants.NGHTTP2_REFUSED_STREAM;
        hearing.broken(failure ?? "the connection broke", refused);
      });
      if (call.body !== undefined) request.end(call.body);
    },
    (error: unknown) => {
      if (settle()) hearing.broken(messageOf(error), false);
    },
  );
  return stop;
}

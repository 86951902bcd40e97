/**
 * Plain requests to the API server over HTTPS, for what Belfry's own client has no word for: tokens, bindings, deletion
 * with a grace period.
 */
import { Agent, request } from "node:https";

export type KubeAnswer = { readonly status: number; readonly text: string };

/** One request; the body is sent as JSON, a string as it is. Rejects only when no answer came. */
export type KubeRequest = (method: string, path: string, body?: unknown, contentType?: string) => Promise<KubeAnswer>;

export type KubeTarget = { readonly port: number; readonly ca: string; readonly token: string };

/** A client of the API server behind a port of 127.0.0.1. */
export function createKubeRequest({ port, ca, token }: KubeTarget): KubeRequest {
  const agent = new Agent({ keepAlive: true, maxSockets: 8 });
  return (method, path, body, contentType = "application/json") =>
    new Promise((resolve, reject) => {
      const text = body === undefined ? "" : typeof body === "string" ? body : JSON.stringify(body);
      const outgoing = request(
        {
          host: "127.0.0.1",
          port,
          ca,
          agent,
          method,
          path,
          timeout: 15_000,
          headers: {
            authorization: `Bearer ${token}`,
            "content-type": contentType,
            // Of a DELETE, Node would send the body without saying where it ends.
            "content-length": Buffer.byteLength(text),
            accept: "application/json",
          },
        },
        (response) => {
          let answer = "";
          response.setEncoding("utf8");
          response.on("data", (chunk) => {
            answer += chunk;
          });
          response.on("end", () => resolve({ status: response.statusCode ?? 0, text: answer }));
          response.on("error", reject);
        },
      );
      outgoing.on("timeout", () => outgoing.destroy(new Error(`${method} ${path}: no answer`)));
      outgoing.on("error", reject);
      outgoing.end(text);
    });
}

/** The object of an answer, or an error with the server's words. */
export function objectOf<T>(what: string, answer: KubeAnswer): T {
  if (answer.status < 200 || answer.status > 299) throw new Error(`${what}: ${answer.status} ${answer.text}`);
  return JSON.parse(answer.text) as T;
}

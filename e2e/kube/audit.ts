/** What Belfry's accounts asked of the API server, as its audit log tells. */
import { readFileSync } from "node:fs";

export type AuditEntry = {
  /** `belfry-controller` or `belfry-speaker`. */
  readonly account: string;
  readonly verb: string;
  /** `virtualips/status`. */
  readonly resource: string;
  readonly name: string | undefined;
  readonly code: number;
  readonly message: string;
  /** When the API server received it: seconds on the machine's real-time clock, as captures have them. */
  readonly at: number;
};

type Event = {
  user: { username: string };
  verb: string;
  objectRef?: { resource?: string; subresource?: string; name?: string };
  responseStatus?: { code?: number; message?: string };
  requestReceivedTimestamp: string;
};

export function readAudit(file: string): AuditEntry[] {
  return readFileSync(file, "utf8")
    .split("\n")
    .filter((line) => line.endsWith("}"))
    .map((line) => {
      const { user, verb, objectRef, responseStatus, requestReceivedTimestamp } = JSON.parse(line) as Event;
      return {
        account: user.username.split(":").at(-1) ?? "",
        verb,
        resource: [objectRef?.resource, objectRef?.subresource].filter((part) => part !== undefined).join("/"),
        name: objectRef?.name,
        code: responseStatus?.code ?? 0,
        message: responseStatus?.message ?? "",
        at: secondsOf(requestReceivedTimestamp),
      };
    });
}

/** Requests that the API server did not allow, one line per kind of request. */
export const forbidden = (entries: readonly AuditEntry[]): string[] => [
  ...new Set(
    entries
      .filter(({ code }) => code === 401 || code === 403)
      .map(({ account, verb, resource, code, message }) => `${account}: ${verb} ${resource}: ${code} ${message}`),
  ),
];

/** metav1.MicroTime; a Date knows milliseconds only. */
const secondsOf = (text: string): number =>
  Math.floor(Date.parse(text) / 1000) + Number(`0.${/\.(\d+)Z$/.exec(text)?.[1] ?? 0}`);

/** What Belfry's accounts asked of the API server, as its audit log tells. */
import { appendFileSync, existsSync, readFileSync } from "node:fs";

export type AuditEntry = {
  /** `belfry-controller` or `belfry-speaker`. */
  readonly account: string;
  readonly verb: string;
  /** `virtualips/status`. */
  readonly resource: string;
  /** Of the resource; empty for the core group. */
  readonly group: string;
  readonly name: string | undefined;
  readonly code: number;
  readonly message: string;
  /** When the API server received it: seconds on the machine's real-time clock, as captures have them. */
  readonly at: number;
  /** False for what a test asked with the account's token. */
  readonly byBelfry: boolean;
};

type Event = {
  user: { username: string };
  userAgent?: string;
  verb: string;
  objectRef?: { resource?: string; subresource?: string; apiGroup?: string; name?: string };
  responseStatus?: { code?: number; message?: string };
  requestReceivedTimestamp: string;
};

export function readAudit(file: string): AuditEntry[] {
  return readFileSync(file, "utf8")
    .split("\n")
    .filter((line) => line.endsWith("}"))
    .map((line) => {
      const event = JSON.parse(line) as Event;
      const { user, userAgent, verb, objectRef, responseStatus } = event;
      return {
        account: user.username.split(":").at(-1) ?? "",
        verb,
        resource: [objectRef?.resource, objectRef?.subresource].filter((part) => part !== undefined).join("/"),
        group: objectRef?.apiGroup ?? "",
        name: objectRef?.name,
        code: responseStatus?.code ?? 0,
        message: responseStatus?.message ?? "",
        at: secondsOf(event.requestReceivedTimestamp),
        byBelfry: userAgent === "belfry",
      };
    });
}

/** metav1.MicroTime; a Date knows milliseconds only. */
const secondsOf = (text: string): number =>
  Math.floor(Date.parse(text) / 1000) + Number(`0.${/\.(\d+)Z$/.exec(text)?.[1] ?? 0}`);

/** Requests that the API server did not allow, one line per kind of request. */
export const forbidden = (entries: readonly AuditEntry[]): string[] => [
  ...new Set(
    entries
      .filter(({ code }) => code === 401 || code === 403)
      .map(({ account, verb, resource, code, message }) => `${account}: ${verb} ${resource}: ${code} ${message}`),
  ),
];

/** Rights that the processes made use of, each once: `belfry-controller patch services/status` with `.GROUP` behind it. */
export const usedRights = (entries: readonly AuditEntry[]): string[] => [
  ...new Set(
    entries
      .filter(({ code, byBelfry, resource }) => byBelfry && resource !== "" && code !== 401 && code !== 403)
      .map(({ account, verb, resource, group }) => `${account} ${verb} ${resource}${group === "" ? "" : `.${group}`}`),
  ),
];

/** Names a file: each lab that closes appends the rights that were used in it. */
export const RIGHTS_FILE = "BELFRY_RIGHTS_FILE";

/** Leaves word of the rights that an audit log shows, where somebody wants to know. */
export function leaveRights(auditLog: string): void {
  const file = process.env[RIGHTS_FILE];
  if (file === undefined || !existsSync(auditLog)) return;
  appendFileSync(
    file,
    usedRights(readAudit(auditLog))
      .map((line) => `${line}\n`)
      .join(""),
  );
}

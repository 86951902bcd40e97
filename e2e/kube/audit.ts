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
};

type Event = {
  user: { username: string };
  verb: string;
  objectRef?: { resource?: string; subresource?: string; name?: string };
  responseStatus?: { code?: number; message?: string };
};

export function readAudit(file: string): AuditEntry[] {
  return readFileSync(file, "utf8")
    .split("\n")
    .filter((line) => line.endsWith("}"))
    .map((line) => {
      const { user, verb, objectRef, responseStatus } = JSON.parse(line) as Event;
      return {
        account: user.username.split(":").at(-1) ?? "",
        verb,
        resource: [objectRef?.resource, objectRef?.subresource].filter((part) => part !== undefined).join("/"),
        name: objectRef?.name,
        code: responseStatus?.code ?? 0,
        message: responseStatus?.message ?? "",
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

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { forbidden, readAudit, usedRights } from "./audit.ts";

/** One line of the log, as audit.k8s.io/v1 has it. */
const line = (verb: string, objectRef: object, code = 200, userAgent = "belfry") =>
  JSON.stringify({
    user: { username: "system:serviceaccount:belfry-system:belfry-speaker" },
    userAgent,
    verb,
    objectRef,
    responseStatus: { code, message: "no" },
    requestReceivedTimestamp: "2026-06-01T12:00:00.250000Z",
  });
const NODES = { resource: "nodes", apiVersion: "v1" };
const STATUS = { resource: "virtualips", apiGroup: "belfry.dev", subresource: "status", name: "192.0.2.5" };

const folder = mkdtempSync(join(tmpdir(), "belfry-audit-"));
const file = join(folder, "audit.log");
writeFileSync(
  file,
  [
    line("list", NODES),
    line("list", NODES),
    line("patch", STATUS, 409),
    line("get", NODES, 403),
    line("delete", STATUS, 200, "kubectl"),
    line("get", {}),
    '{"half',
  ].join("\n"),
);
const entries = readAudit(file);
rmSync(folder, { recursive: true });

test("a line that is being written is left out, the others say who did what, and when", () => {
  expect(entries).toHaveLength(6);
  expect(entries[2]).toEqual({
    account: "belfry-speaker",
    verb: "patch",
    resource: "virtualips/status",
    group: "belfry.dev",
    name: "192.0.2.5",
    code: 409,
    message: "no",
    at: Date.UTC(2026, 5, 1, 12) / 1000 + 0.25,
    byBelfry: true,
  });
});

test("a right is used by what the processes were allowed to ask, whatever came of it, and is told once", () => {
  expect(usedRights(entries)).toEqual([
    "belfry-speaker list nodes",
    "belfry-speaker patch virtualips/status.belfry.dev",
  ]);
});

test("what was forbidden is told with the words of the server", () => {
  expect(forbidden(entries)).toEqual(["belfry-speaker: get nodes: 403 no"]);
});

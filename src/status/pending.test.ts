import { expect, test } from "vitest";
import { pendingSince } from "./pending.ts";

const AT = "2026-01-02T00:00:00Z";
const status = (reason: string, message: string, more: object = {}) => ({
  addresses: [{ value: "192.0.2.10" }],
  conditions: [{ type: "Programmed", status: "False", reason, message, lastTransitionTime: AT }],
  listeners: [{ name: "http", conditions: [{ type: "Programmed", status: "False", reason, message }] }],
  ...more,
});
const waiting = status("Pending", "192.0.2.10: no node answers for it yet");

test.each([
  ["only the words of what is Pending differ", waiting, status("Pending", "its VirtualIP is being made"), AT],
  ["an address came", waiting, status("Pending", "x", { addresses: [] }), undefined],
  ["another reason", waiting, status("NoResources", "no speaker is running"), undefined],
  ["the words of another reason", status("NoResources", "a"), status("NoResources", "b"), undefined],
  ["there is nothing yet", undefined, waiting, undefined],
])("%s", (_, present, wanted, since) => {
  expect(pendingSince(present, wanted)).toBe(since);
});

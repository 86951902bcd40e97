import { expect, test } from "vitest";
import type { VirtualIP } from "../api/virtual-ip.ts";
import { request, vip } from "./fixture.ts";
import { decideRelease, type ReleaseInput, type SpeakerView } from "./life.ts";

const owned = (node: string | undefined): VirtualIP => {
  const deleted = vip("192.0.2.1", request("a").holder, {
    resourceVersion: "100",
    deletionTimestamp: "2026-01-01T00:00:00Z",
  });
  if (node === undefined) return deleted;
  return {
    ...deleted,
    status: { owner: { node, interface: "eth0", since: "2026-01-01T00:00:00Z", term: 1, generation: 1 } },
  };
};
const speaker = (node: string, changes: Partial<SpeakerView> = {}): SpeakerView => ({
  node,
  live: true,
  withdrawnThrough: undefined,
  nodeState: "Ready",
  ...changes,
});
const decide = (speakers: SpeakerView[], changes: Partial<ReleaseInput> = {}) =>
  decideRelease({ vip: owned("n1"), speakers, listVersion: "200", shownByHolder: false, ...changes });

const FREE = { type: "removeFinalizer" };

test.each<[string, SpeakerView[], Partial<ReleaseInput>, object]>([
  ["no speaker was ever there", [], {}, FREE],
  ["a live speaker has reported", [speaker("n1", { withdrawnThrough: "100" })], {}, FREE],
  ["a live speaker has reported later events too", [speaker("n1", { withdrawnThrough: "150" })], {}, FREE],
  [
    "a live speaker has reported an earlier event",
    [speaker("n1", { withdrawnThrough: "99" })],
    {},
    { reporting: ["n1"] },
  ],
  ["99 is before 100, though not as a text", [speaker("n1", { withdrawnThrough: "9" })], {}, { reporting: ["n1"] }],
  [
    "a report above the server's list is of another life",
    [speaker("n1", { withdrawnThrough: "300" })],
    {},
    { reporting: ["n1"] },
  ],
  ["a report that is no decimal says nothing", [speaker("n1", { withdrawnThrough: "abc" })], {}, { reporting: ["n1"] }],
  [
    "one of two has not reported",
    [speaker("n1", { withdrawnThrough: "100" }), speaker("n2")],
    {},
    { reporting: ["n2"], holding: [] },
  ],
  [
    "a dead owner holds it, though its Node is not Ready",
    [speaker("n1", { live: false, nodeState: "NotReady" })],
    {},
    { holding: ["n1"] },
  ],
  [
    "a dead owner that reported before it died holds it still",
    [speaker("n1", { live: false, withdrawnThrough: "100" })],
    {},
    { holding: ["n1"] },
  ],
  [
    "a dead one on a Ready Node holds it: its table outlives it",
    [speaker("n2", { live: false })],
    {},
    { holding: ["n2"] },
  ],
  [
    "a dead one that never owned it, on a Node that is not Ready",
    [speaker("n2", { live: false, nodeState: "NotReady" })],
    {},
    FREE,
  ],
  ["a dead owner whose Node is deleted", [speaker("n1", { live: false, nodeState: "Deleted" })], {}, FREE],
  [
    "the holder still shows it",
    [speaker("n1", { withdrawnThrough: "100" })],
    { shownByHolder: true },
    { type: "wait" },
  ],
])("release: %s", (_, speakers, changes, decision) => {
  expect(decide(speakers, changes)).toMatchObject(decision);
});

test("nodes are named in order, so that the condition is written once", () => {
  const dead = { live: false } as const;
  expect(decide([speaker("n3", dead), speaker("n1", dead), speaker("n2")])).toEqual({
    type: "wait",
    reporting: ["n2"],
    holding: ["n1", "n3"],
    shownByHolder: false,
  });
});

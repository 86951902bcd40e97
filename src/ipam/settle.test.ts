import { expect, test } from "vitest";
import { instant } from "../core/instant.ts";
import { alsoWaitingFor, type LeaseSight, SETTLED, settle, unsettle } from "./settle.ts";

const sight = (renewed: string[], expired: string[]): LeaseSight => ({
  renewedSince: (node) => renewed.includes(node),
  expired: (node) => expired.includes(node),
});
const all = () => true;
const at = instant(10);

test.each([
  ["noMemory", ["a", "b"], [], "settled"],
  ["noMemory", ["a"], ["b"], "settled"],
  ["noMemory", ["a"], [], "unsettled"],
  ["storeChanged", ["a", "b"], [], "settled"],
  ["storeChanged", ["a"], ["b"], "unsettled"],
] as const)("%s, renewed %j, expired %j: %s", (why, renewed, expired, type) => {
  const state = unsettle(why, ["a", "b"], "", instant(0));
  expect(settle(state, sight([...renewed], [...expired]), all, at).type).toBe(type);
});

test("a deleted Node is waited for no longer", () => {
  const state = unsettle("storeChanged", ["a", "b"], "", instant(0));
  expect(settle(state, sight(["a"], []), (node) => node !== "b", at)).toBe(SETTLED);
});

test("what was heard once need not be heard again", () => {
  const state = settle(unsettle("noMemory", ["a", "b"], "", instant(0)), sight(["a"], []), all, at);
  expect(settle(state, sight(["b"], []), all, at)).toBe(SETTLED);
});

test("where no speaker was ever there, nothing is waited for", () => {
  expect(settle(unsettle("noMemory", [], "", instant(0)), sight([], []), all, at)).toBe(SETTLED);
});

test("who was waited for before is waited for still, once; the new reason and its time count", () => {
  const before = unsettle("noMemory", ["a", "b"], "first", instant(0));
  const state = unsettle("storeChanged", ["b", "c"], "then", at);
  expect(alsoWaitingFor(state, before)).toEqual({ ...state, waitingFor: ["a", "b", "c"] });
  expect(alsoWaitingFor(state, SETTLED)).toBe(state);
});

/** Label and field selectors as they stand in a query: `a=b,c!=d,e in (f,g),!h`. */
import type { KubeObject } from "../api/meta.ts";
import { badRequest } from "./refusal.ts";

export type Match = (object: KubeObject) => boolean;

const SET = /^([^\s,!=()]+)\s+(in|notin)\s+\(([^)]*)\)$/;
const EQUAL = /^([^\s,!=()]+)\s*(==|=|!=)\s*([^\s,!=()]*)$/;
const EXISTS = /^(!?)\s*([^\s,!=()]+)$/;

/** @throws Refusal 400 when the selector can't be read */
export function parseLabelSelector(text: string): Match {
  const matches = requirementsOf(text).map(labelMatch);
  return (object) => matches.every((match) => match(object.metadata.labels ?? {}));
}

/** Commas inside of parentheses do not part requirements. */
const requirementsOf = (text: string): string[] =>
  (text.match(/(?:[^,(]|\([^)]*\))+/g) ?? []).map((one) => one.trim()).filter((one) => one !== "");

function labelMatch(requirement: string): (labels: Readonly<Record<string, string>>) => boolean {
  const set = SET.exec(requirement);
  if (set !== null) {
    const [, key = "", operator, list = ""] = set;
    const values = list.split(",").map((value) => value.trim());
    return operator === "in"
      ? (labels) => labels[key] !== undefined && values.includes(labels[key])
      : (labels) => labels[key] === undefined || !values.includes(labels[key]);
  }
  const equal = EQUAL.exec(requirement);
  if (equal !== null) {
    const [, key = "", operator, value = ""] = equal;
    return operator === "!=" ? (labels) => labels[key] !== value : (labels) => labels[key] === value;
  }
  const exists = EXISTS.exec(requirement);
  if (exists !== null) {
    const [, not, key = ""] = exists;
    return (labels) => (labels[key] !== undefined) === (not === "");
  }
  throw badRequest(`unable to parse requirement: ${requirement}`);
}

/** `anyField`: every field of the object may be named, not only its name and namespace. */
export function parseFieldSelector(text: string, anyField: boolean): Match {
  const matches = requirementsOf(text).map((requirement): Match => {
    const equal = EQUAL.exec(requirement);
    if (equal === null) throw badRequest(`invalid field selector: ${requirement}`);
    const [, path = "", operator, value] = equal;
    if (!anyField && path !== "metadata.name" && path !== "metadata.namespace") {
      throw badRequest(`field label not supported: ${path}`);
    }
    const steps = path.split(".");
    return (object) => (textAt(object, steps) === value) === (operator !== "!=");
  });
  return (object) => matches.every((match) => match(object));
}

function textAt(object: unknown, steps: readonly string[]): string {
  const value = steps.reduce<unknown>(
    (inner, step) => (inner as Record<string, unknown> | undefined | null)?.[step],
    object,
  );
  return value === undefined || value === null ? "" : String(value);
}

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { chosenLine, KUBE_LINES, kubePath, SOURCES } from "./build.ts";

describe.each(KUBE_LINES)("Kubernetes %s", (line) => {
  const { version, modules } = SOURCES[line];
  const text = readFileSync(join(import.meta.dirname, modules), "utf8");

  test("is built from the modules of one release", () => {
    expect(text).toContain(`k8s.io/kubernetes ${version}\n`);
    const staging = [...text.matchAll(/^\tk8s\.io\/[\w-]+ => k8s\.io\/[\w-]+ (v\S+)$/gm)].map(([, each]) => each);
    expect(staging.length).toBeGreaterThan(25);
    expect(new Set(staging)).toEqual(new Set([version.replace(/^v1/, "v0")]));
  });

  test("says the version of its line", () => {
    expect(version).toMatch(new RegExp(`^v${line.replace(".", "\\.")}\\.\\d+$`));
  });
});

test("each line has a binary of its own", () => {
  expect(new Set(KUBE_LINES.map(kubePath)).size).toBe(KUBE_LINES.length);
});

test("without a word it is the newest; a line that there is not is refused with those there are", () => {
  expect(chosenLine("")).toBe(KUBE_LINES[0]);
  expect(chosenLine("1.34")).toBe("1.34");
  expect(() => chosenLine("1.12")).toThrow("BELFRY_KUBERNETES=1.12: choose 1.37 or 1.34");
});

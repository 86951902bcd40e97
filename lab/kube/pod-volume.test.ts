import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Pod } from "./pod.ts";
import { PodVolumes, writeFiles } from "./pod-volume.ts";
import type { Files } from "./volume.ts";

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "belfry-pod-volume-"));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

const files = (entries: Readonly<Record<string, string>>): Files =>
  new Map(Object.entries(entries).map(([path, text]) => [path, { bytes: Buffer.from(text), mode: 0o640 }]));
const read = (path: string) => readFileSync(join(directory, path), "utf8");
const names = () =>
  readdirSync(directory)
    .filter((name) => !name.startsWith(".."))
    .sort();

describe("files that are written", () => {
  test("are there under their paths, with their mode", () => {
    expect(writeFiles(directory, files({ a: "1", "b/c": "2" }))).toBe(true);
    expect([read("a"), read("b/c"), names()]).toEqual(["1", "2", ["a", "b"]]);
    expect(statSync(join(directory, "a")).mode & 0o777).toBe(0o640);
  });

  test("are changed all in one step: what was opened before stays whole", () => {
    writeFiles(directory, files({ a: "old", b: "old" }));
    const before = statSync(join(directory, "a")).ino;
    expect(writeFiles(directory, files({ a: "new", b: "new" }))).toBe(true);
    expect([read("a"), read("b")]).toEqual(["new", "new"]);
    expect(statSync(join(directory, "a")).ino).not.toBe(before);
  });

  test("that did not change are not touched", () => {
    writeFiles(directory, files({ a: "1", "b/c": "2" }));
    const before = statSync(join(directory, "a")).ino;
    expect(writeFiles(directory, files({ a: "1", "b/c": "2" }))).toBe(false);
    expect(statSync(join(directory, "a")).ino).toBe(before);
  });

  test("that are not wanted any more go, and leave nothing", () => {
    writeFiles(directory, files({ a: "1", b: "2" }));
    writeFiles(directory, files({ b: "2", c: "3" }));
    expect(names()).toEqual(["b", "c"]);
    expect(readdirSync(directory)).toHaveLength(4); // ..data and what it leads to
  });
});

describe("the volumes of a pod", () => {
  const pod: Pod = {
    metadata: { name: "web", namespace: "demo", uid: "u" },
    spec: {
      serviceAccountName: "web",
      containers: [],
      volumes: [
        { name: "config", configMap: { name: "config" } },
        {
          name: "access",
          projected: { sources: [{ serviceAccountToken: { path: "token", expirationSeconds: 600 } }] },
        },
        { name: "scratch", emptyDir: {} },
      ],
    },
  };

  /** An API server with the ConfigMap, which numbers the tokens that it gives. */
  function server() {
    const asked: unknown[] = [];
    const state = { mode: "fast" as string | undefined, tokens: 0 };
    const request = async (method: string, path: string, body?: unknown) => {
      if (method === "GET") {
        const text = JSON.stringify({ kind: "ConfigMap", data: { mode: state.mode } });
        return state.mode === undefined ? { status: 404, text: "" } : { status: 200, text };
      }
      asked.push([path, body]);
      const expirationTimestamp = new Date(Date.now() + 600_000).toISOString();
      return { status: 201, text: JSON.stringify({ status: { token: `t${++state.tokens}`, expirationTimestamp } }) };
    };
    return { request, asked, state };
  }

  test("follow their objects; a token stays until its time, and is bound to the pod", async () => {
    const { request, asked, state } = server();
    const volumes = new PodVolumes(pod, request, directory);
    await volumes.update([]);
    expect([read("config/mode"), read("access/token"), readdirSync(join(directory, "scratch"))]).toEqual([
      "fast",
      "t1",
      [],
    ]);
    state.mode = "slow";
    await volumes.update([]);
    expect([read("config/mode"), read("access/token")]).toEqual(["slow", "t1"]);
    await volumes.update([], true);
    expect(read("access/token")).toBe("t2");
    expect(asked[0]).toEqual([
      "/api/v1/namespaces/demo/serviceaccounts/web/token",
      expect.objectContaining({
        spec: {
          audiences: [],
          expirationSeconds: 600,
          boundObjectRef: { apiVersion: "v1", kind: "Pod", name: "web", uid: "u" },
        },
      }),
    ]);
    volumes.remove();
    expect(() => readdirSync(directory)).toThrow();
  });

  test("are not complete without what they refer to", async () => {
    const { request, state } = server();
    state.mode = undefined;
    await expect(new PodVolumes(pod, request, directory).update([])).rejects.toThrow("ConfigMap config is not there");
  });
});

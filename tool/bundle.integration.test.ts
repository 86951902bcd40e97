/** What the image runs: the bundle, in an empty directory, on the Node that the lockfile pins. */
import { execFileSync, spawn } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parseAllDocuments } from "yaml";
import { NODE } from "../lab/program.ts";
import { startEmbedded } from "../src/embedded/embedded.ts";
import { bundle, ENTRIES } from "./bundle.ts";

const ROOT = dirname(import.meta.dirname);
const temporary = mkdtempSync(join(tmpdir(), "belfry-bundle-"));
const folder = join(temporary, "bundle");

beforeAll(() => bundle(folder), 60_000);
afterAll(() => rmSync(temporary, { recursive: true }));

test.each(["controller/main.js", "speaker/main.js"])("%s --help tells its flags", (file) => {
  const text = execFileSync(NODE, [file, "--help"], { cwd: folder, env: {}, encoding: "utf8" });
  expect(text).toMatch(/^Usage: belfry-(controller|speaker) \[options\]/);
});

test("the controller gets ready on an API server, and leaves on SIGTERM", async () => {
  const api = await startEmbedded();
  const kubeconfig = join(temporary, "kubeconfig");
  writeFileSync(kubeconfig, api.kubeconfig);
  const flags = ["--kubeconfig", kubeconfig, "--identity", "bundled", "--metrics-bind", "127.0.0.1:0"];
  const child = spawn(NODE, ["controller/main.js", ...flags], { cwd: folder, env: {} });
  try {
    let log = "";
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding("utf8").on("data", (text) => {
        log += text;
      });
    }
    await expect.poll(() => log, { timeout: 15_000 }).toContain('"started"');
    const [, address] = /"health":"([^"]+)"/.exec(log) ?? [];
    await expect.poll(async () => (await fetch(`http://${address}/readyz`)).status, { timeout: 15_000 }).toBe(200);
    await expect
      .poll(async () => (await fetch(`http://${address}/metrics`)).text(), { timeout: 15_000 })
      .toContain("\nbelfry_controller_leading 1\n");
    const ended = new Promise((resolve) => child.once("exit", (code, signal) => resolve(code ?? signal)));
    child.kill("SIGTERM");
    expect(await ended).toBe(0);
  } finally {
    child.kill("SIGKILL");
    await api.close();
  }
});

test("every thread is one file, and nothing is asked for but Node's own modules and the native one", () => {
  for (const entry of ENTRIES) {
    const text = readFileSync(join(folder, entry.replace(/ts$/, "js")), "utf8");
    const imported = [...text.matchAll(/^import .*? from "([^"]+)";$/gm)].map(([, name]) => name ?? "");
    expect(imported.filter((name) => name !== "koffi" && !isBuiltIn(name))).toEqual([]);
  }
});

test("the licence of every package that is inside comes along", () => {
  const text = readFileSync(join(folder, "THIRD-PARTY-LICENSES.txt"), "utf8");
  for (const name of ["commander", "koffi", "pino", "prom-client", "yaml"]) expect(text).toMatch(`\n${name} `);
});

test("the manifests start files that the bundle has", () => {
  const commands = ["manifests/controller", "manifests/speaker", "uninstall/clean"].flatMap((name) =>
    parseAllDocuments(readFileSync(join(ROOT, `config/${name}.yaml`), "utf8")).flatMap((document) => {
      const { initContainers = [], containers = [] } = document.toJS().spec?.template?.spec ?? {};
      return [...initContainers, ...containers].map(({ command }: { command: string[] }) => command);
    }),
  );
  expect(commands).toEqual([
    ["node", "controller/main.js"],
    ["node", "speaker/main.js"],
    ["node", "speaker/clean.js"],
    ["node", "--eval", expect.any(String)],
  ]);
  for (const [, file = ""] of commands.slice(0, -1)) expect(existsSync(join(folder, file)), file).toBe(true);
});

describe("config/image/Dockerfile", () => {
  const instructions = readFileSync(join(ROOT, "config/image/Dockerfile"), "utf8")
    .replace(/^#.*\n/gm, "")
    .replaceAll("\\\n", " ")
    .split("\n")
    .filter((line) => line !== "");
  const copies = instructions.filter((line) => line.startsWith("COPY ")).map((line) => line.split(/\s+/).slice(1));

  test("every file that it copies is in the repository and not ignored, and is all that the bundle is made of", () => {
    const sources = copies.filter(([first]) => !first?.startsWith("--from")).flatMap((words) => words.slice(0, -1));
    const allowed = readFileSync(join(ROOT, "config/image/Dockerfile.dockerignore"), "utf8")
      .split("\n")
      .filter((line) => line.startsWith("!"))
      .map((line) => line.slice(1));
    expect(sources.toSorted()).toEqual(allowed.toSorted());
    for (const source of sources) expect(existsSync(join(ROOT, source)), source).toBe(true);
  });

  test("what it builds with is pinned: the base by digest, packages by the lockfile", () => {
    expect(instructions.filter((line) => line.startsWith("FROM "))).toEqual([
      "FROM $" + "{BASE}@$" + "{BASE_DIGEST} AS build",
      "FROM scratch",
    ]);
    expect(instructions.filter((line) => line.includes("npm "))).toEqual(["RUN npm ci"]);
  });

  test("its processes are not root unless the manifest says so", () => {
    expect(instructions).toContain("USER 65532:65532");
  });

  test("the file system that it gathers has Node, its libraries and the bundle, and no shell", () => {
    const root = join(temporary, "root");
    execFileSync("sh", [join(ROOT, "config/image/gather-root.sh"), NODE, folder, root]);
    const files = readdirSync(root, { recursive: true, encoding: "utf8" });
    for (const file of ["usr/bin/node", "belfry/controller/main.js", "belfry/speaker/wire.js", "etc/passwd"])
      expect(files).toContain(file);
    expect(files.some((file) => file.endsWith("/libc.so.6"))).toBe(true);
    expect(files.some((file) => file.endsWith("/libstdc++.so.6"))).toBe(true);
    expect(files.filter((file) => /(^|\/)(sh|bash|busybox|npm|apt|dpkg)$/.test(file))).toEqual([]);
  });
});

const isBuiltIn = (name: string): boolean => name.startsWith("node:") || BUILT_IN.has(name);
const BUILT_IN = new Set(process.getBuiltinModule("node:module").builtinModules);

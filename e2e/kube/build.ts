/**
 * Builds a whole Kubernetes from its Go modules into one file, once per machine, and finds the CRDs of the Gateway API in
 * the module cache. `node e2e/kube/build.ts` builds and prints the path.
 */
import { execFile, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, renameSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { whyNoGo } from "../../tool/kubectl/build.ts";

const run = promisify(execFile);

const FOLDER = import.meta.dirname;
const VERSION = { full: "v1.37.2", major: "1", minor: "37" };
const PROGRESS_MILLISECONDS = 15_000;

/** The binary (its first argument names the program: etcd, kube-apiserver, kubectl, …) and the folder of Gateway API CRDs. */
export type Kube =
  | { readonly type: "built"; readonly path: string; readonly gatewayCrds: string }
  | { readonly type: "missing"; readonly why: string };

/** Where the binary is or will be: named after what it is made from. */
export function kubePath(): string {
  const hash = createHash("sha256");
  for (const file of ["go.sum", "main.go"]) hash.update(readFileSync(join(FOLDER, file)));
  const cache = process.env["XDG_CACHE_HOME"] || join(homedir(), ".cache");
  return join(cache, "belfry", `kube-${hash.digest("hex").slice(0, 16)}`);
}

/** The binary in the cache; built first when it is not there, which takes 8 minutes on 2 cores and downloads modules. */
export async function findKube(tell: (line: string) => void = () => {}): Promise<Kube> {
  const why = await whyNoGo();
  if (why !== undefined) return { type: "missing", why };
  const path = kubePath();
  try {
    if (!existsSync(path)) await build(path, tell);
    return { type: "built", path, gatewayCrds: await gatewayCrds() };
  } catch (error) {
    return { type: "missing", why: error instanceof Error ? error.message : String(error) };
  }
}

async function build(path: string, tell: (line: string) => void): Promise<void> {
  tell(`building Kubernetes ${VERSION.full} (${path}); the first time this takes about 8 minutes on 2 cores`);
  const { stdout } = await go(["list", "-deps", "."]);
  const packages = stdout.trim().split("\n").length;
  mkdirSync(dirname(path), { recursive: true });
  // Built beside and moved into place, so that two builds at once end with one whole file.
  const unfinished = `${path}.${process.pid}`;
  const flag = (name: string, value: string): string => `-X k8s.io/component-base/version.${name}=${value}`;
  const versions = [
    flag("gitVersion", VERSION.full),
    flag("gitMajor", VERSION.major),
    flag("gitMinor", VERSION.minor),
  ].join(" ");
  const args = ["build", "-v", "-trimpath", "-ldflags", `-s -w ${versions}`, "-o", unfinished, "."];
  const startedAt = performance.now();
  // Compiling is long work; whoever else works on this machine goes first.
  const child = spawn("nice", ["-n", "19", "go", ...args], {
    cwd: FOLDER,
    env: goEnvironment(),
    stdio: ["ignore", "ignore", "pipe"],
  });
  let output = "";
  child.stderr.setEncoding("utf8").on("data", (text) => {
    output += text;
  });
  const progress = setInterval(() => {
    const seconds = Math.round((performance.now() - startedAt) / 1000);
    tell(`building Kubernetes: ${output.split("\n").length - 1} of at most ${packages} packages after ${seconds} s`);
  }, PROGRESS_MILLISECONDS);
  try {
    const code = await new Promise<number>((resolve, reject) => {
      child.once("error", reject);
      child.once("close", (status) => resolve(status ?? 1));
    });
    if (code !== 0) throw new Error(`go build failed: ${output.trim().split("\n").slice(-3).join("; ")}`);
  } finally {
    clearInterval(progress);
  }
  renameSync(unfinished, path);
}

/** The folder with the CRDs of the standard channel, downloaded when the module cache does not have it. */
async function gatewayCrds(): Promise<string> {
  const { stdout } = await go(["mod", "download", "-json", "sigs.k8s.io/gateway-api"]);
  return join((JSON.parse(stdout) as { Dir: string }).Dir, "config/crd/standard");
}

const goEnvironment = () => ({ ...process.env, CGO_ENABLED: "0", GOTOOLCHAIN: "local" });

const go = (args: readonly string[]) =>
  run("go", [...args], { cwd: FOLDER, env: goEnvironment(), maxBuffer: 64 * 1024 * 1024 });

if (import.meta.main) {
  const kube = await findKube((line) => console.error(line));
  console.log(kube.type === "built" ? kube.path : kube.why);
  if (kube.type === "missing") process.exitCode = 1;
}

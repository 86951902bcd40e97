/**
 * Builds a whole Kubernetes from its Go modules into one file, once per machine and line, and finds the CRDs of the Gateway
 * API in the module cache. `node e2e/kube/build.ts` builds and prints the path; BELFRY_KUBERNETES chooses the line.
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
/**
 * Lines of Kubernetes that tests run on, each with a module file of its own beside the one `main.go`. The first is what
 * `npm test` builds. After an edit of an older one: `go mod tidy -modfile=FILE` without gateway-api.go, which is the newest
 * line's to pin.
 */
export const KUBE_LINES = ["1.37", "1.34"] as const;
export type KubeLine = (typeof KUBE_LINES)[number];

/** What the binary of a line is made of. */
export const SOURCES: Readonly<Record<KubeLine, { readonly version: string; readonly modules: string }>> = {
  "1.37": { version: "v1.37.2", modules: "go.mod" },
  "1.34": { version: "v1.34.3", modules: "go.1.34.mod" },
};
const PROGRESS_MILLISECONDS = 15_000;

/** The binary (its first argument names the program: etcd, kube-apiserver, kubectl, …) and the folder of Gateway API CRDs. */
export type Kube =
  | { readonly type: "built"; readonly path: string; readonly gatewayCrds: string }
  | { readonly type: "missing"; readonly why: string };

/** The line that BELFRY_KUBERNETES names, or the newest. Throws for one that there is not. */
export function chosenLine(name = process.env["BELFRY_KUBERNETES"] ?? ""): KubeLine {
  const line = name === "" ? KUBE_LINES[0] : KUBE_LINES.find((each) => each === name);
  if (line === undefined) throw new Error(`BELFRY_KUBERNETES=${name}: choose ${KUBE_LINES.join(" or ")}`);
  return line;
}

/** Where the binary is or will be: named after what it is made from. */
export function kubePath(line: KubeLine): string {
  const hash = createHash("sha256");
  const sums = SOURCES[line].modules.replace(/mod$/, "sum");
  for (const file of [sums, "main.go"]) hash.update(readFileSync(join(FOLDER, file)));
  const cache = process.env["XDG_CACHE_HOME"] || join(homedir(), ".cache");
  return join(cache, "belfry", `kube-${hash.digest("hex").slice(0, 16)}`);
}

/** The binary in the cache; built first when it is not there, which takes 8 minutes on 2 cores and downloads modules. */
export async function findKube(tell: (text: string) => void = () => {}, line = chosenLine()): Promise<Kube> {
  const why = await whyNoGo();
  if (why !== undefined) return { type: "missing", why };
  const path = kubePath(line);
  try {
    if (!existsSync(path)) await build(line, path, tell);
    return { type: "built", path, gatewayCrds: await gatewayCrds() };
  } catch (error) {
    return { type: "missing", why: error instanceof Error ? error.message : String(error) };
  }
}

async function build(line: KubeLine, path: string, tell: (text: string) => void): Promise<void> {
  const { version, modules } = SOURCES[line];
  tell(`building Kubernetes ${version} (${path}); the first time this takes about 8 minutes on 2 cores`);
  const modfile = `-modfile=${modules}`;
  const { stdout } = await go(["list", modfile, "-deps", "."]);
  const packages = stdout.trim().split("\n").length;
  mkdirSync(dirname(path), { recursive: true });
  // Built beside and moved into place, so that two builds at once end with one whole file.
  const unfinished = `${path}.${process.pid}`;
  const flag = (name: string, value: string): string => `-X k8s.io/component-base/version.${name}=${value}`;
  const [major = "", minor = ""] = line.split(".");
  const versions = [flag("gitVersion", version), flag("gitMajor", major), flag("gitMinor", minor)].join(" ");
  const args = ["build", modfile, "-v", "-trimpath", "-ldflags", `-s -w ${versions}`, "-o", unfinished, "."];
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
  const kube = await findKube((text) => console.error(text));
  console.log(kube.type === "built" ? kube.path : kube.why);
  if (kube.type === "missing") process.exitCode = 1;
}

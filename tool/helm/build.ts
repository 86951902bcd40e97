/** Builds the real Helm from its Go module, once per machine, into the user's cache. */
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, renameSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { whyNoGo } from "../kubectl/build.ts";

const run = promisify(execFile);

/** As in go.mod. Without it Helm calls itself an unknown version. */
const VERSION = "v4.3.2";

export type Helm =
  | { readonly type: "built"; readonly path: string }
  | { readonly type: "missing"; readonly why: string };

/** The Helm in the cache; built first when it is not there, which takes some minutes and downloads modules. */
export async function findHelm(): Promise<Helm> {
  const folder = import.meta.dirname;
  const sum = createHash("sha256")
    .update(readFileSync(join(folder, "go.sum")))
    .digest("hex");
  const cache = process.env["XDG_CACHE_HOME"] || join(homedir(), ".cache");
  const path = join(cache, "belfry", `helm-${sum.slice(0, 16)}`);
  if (existsSync(path)) return { type: "built", path };
  const why = await whyNoGo();
  if (why !== undefined) return { type: "missing", why };
  console.log("Building Helm from its Go module: some minutes, once on this machine.");
  mkdirSync(dirname(path), { recursive: true });
  // Built beside and moved into place, so that two builds at once end with one whole file.
  const unfinished = `${path}.${process.pid}`;
  const version = `-X helm.sh/helm/v4/internal/version.version=${VERSION}`;
  const build = [
    "go",
    "build",
    "-trimpath",
    "-ldflags",
    `-s -w ${version}`,
    "-o",
    unfinished,
    "helm.sh/helm/v4/cmd/helm",
  ];
  try {
    await run("nice", ["-n", "19", ...build], { cwd: folder, env: { ...process.env, CGO_ENABLED: "0" } });
  } catch (error) {
    const { stderr = "" } = error as { stderr?: string };
    return { type: "missing", why: `go build failed: ${stderr.trim().split("\n").at(-1)}` };
  }
  renameSync(unfinished, path);
  return { type: "built", path };
}

if (import.meta.main) console.log(JSON.stringify(await findHelm()));

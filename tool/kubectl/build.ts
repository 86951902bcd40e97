/** Builds the real kubectl from its Go module, once per machine, into the user's cache. */
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, renameSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);

/** What go.mod asks for. */
const LEAST_GO = { major: 1, minor: 26 };
const KUBERNETES = { version: "v1.37.2", major: "1", minor: "37" };

export type Kubectl =
  | { readonly type: "built"; readonly path: string }
  | { readonly type: "missing"; readonly why: string };

/** Path of a kubectl that runs, or undefined when it can't be built here; `findKubectl` says why. */
export async function kubectl(): Promise<string | undefined> {
  const found = await findKubectl();
  return found.type === "built" ? found.path : undefined;
}

/** The kubectl in the cache; built first when it is not there, which takes about half a minute and downloads modules. */
export async function findKubectl(): Promise<Kubectl> {
  const folder = import.meta.dirname;
  const hash = createHash("sha256");
  for (const file of ["go.sum", "main.go"]) hash.update(readFileSync(join(folder, file)));
  const cache = process.env["XDG_CACHE_HOME"] || join(homedir(), ".cache");
  const path = join(cache, "belfry", `kubectl-${hash.digest("hex").slice(0, 16)}`);
  if (existsSync(path)) return { type: "built", path };
  const why = await whyNoGo();
  if (why !== undefined) return { type: "missing", why };
  mkdirSync(dirname(path), { recursive: true });
  // Built beside and moved into place, so that two builds at once end with one whole file.
  const unfinished = `${path}.${process.pid}`;
  try {
    const flag = (name: string, value: string): string => `-X k8s.io/component-base/version.${name}=${value}`;
    const versions = [
      flag("gitVersion", KUBERNETES.version),
      flag("gitMajor", KUBERNETES.major),
      flag("gitMinor", KUBERNETES.minor),
    ];
    await run("go", ["build", "-trimpath", "-ldflags", `-s -w ${versions.join(" ")}`, "-o", unfinished, "."], {
      cwd: folder,
      env: { ...process.env, CGO_ENABLED: "0" },
    });
  } catch (error) {
    return { type: "missing", why: `go build failed: ${firstLine((error as { stderr?: string }).stderr)}` };
  }
  renameSync(unfinished, path);
  return { type: "built", path };
}

/** Why a Go module can not be built here, or undefined when it can. */
export async function whyNoGo(): Promise<string | undefined> {
  const wanted = `Go >= ${LEAST_GO.major}.${LEAST_GO.minor}`;
  try {
    const { stdout } = await run("go", ["env", "GOVERSION"], { env: { ...process.env, GOTOOLCHAIN: "local" } });
    const [major = 0, minor = 0] = stdout.trim().replace(/^go/, "").split(".").map(Number);
    const fits = major > LEAST_GO.major || (major === LEAST_GO.major && minor >= LEAST_GO.minor);
    return fits ? undefined : `${wanted} is needed, this is ${stdout.trim()}`;
  } catch {
    return `${wanted} is not installed`;
  }
}

const firstLine = (text: string | undefined): string => (text ?? "").trim().split("\n")[0] ?? "";

/** Running other programs, with an error that says which and why. */
import { spawn } from "node:child_process";

export type Output = { readonly stdout: string; readonly stderr: string; readonly code: number };

/** Runs a program to its end. Never rejects for its exit code; `input` goes to its standard input. */
export function tryRun(program: string, args: readonly string[], input = ""): Promise<Output> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { stdio: ["pipe", "pipe", "pipe"] });
    let stdout = "";
    let stderr = "";
    child.stdout.setEncoding("utf8").on("data", (text) => {
      stdout += text;
    });
    child.stderr.setEncoding("utf8").on("data", (text) => {
      stderr += text;
    });
    child.once("error", reject);
    child.once("close", (code) => resolve({ stdout, stderr, code: code ?? 1 }));
    child.stdin.on("error", () => {}); // a program that reads nothing may be gone before we have written
    child.stdin.end(input);
  });
}

/** Runs a program to its end and returns its standard output; rejects when it fails. */
export async function run(program: string, args: readonly string[], input = ""): Promise<string> {
  const output = await tryRun(program, args, input);
  if (output.code !== 0) {
    const what = `${program} ${args.join(" ")}${input === "" ? "" : ` <<< ${JSON.stringify(input)}`}`;
    throw new Error(`${what}: ${output.stderr.trim() || output.stdout.trim() || `exit code ${output.code}`}`);
  }
  return output.stdout;
}

/** Runs `ip` with many lines at once, inside a network namespace (or the host's, when none is named). */
export const ip = (namespace: string | undefined, lines: readonly string[]): Promise<string> =>
  run("ip", [...(namespace === undefined ? [] : ["-n", namespace]), "-batch", "-"], `${lines.join("\n")}\n`);

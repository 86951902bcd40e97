/** What `npm run check` and `npm test` look at beside tests: types, lint and layers, and whether generated files are fresh. */
import { spawn } from "node:child_process";
import { styleText } from "node:util";

const CHECKS: readonly (readonly [what: string, command: readonly string[]])[] = [
  ["types", ["tsc", "-p", "."]],
  ["lint and format", ["biome", "check", "--error-on-warnings", "."]],
  ["layers", ["vitest", "run", "--project", "unit", "src/layers.test.ts"]],
  ["generated files", [process.execPath, "tool/generate.ts", "--check"]],
];

/** Runs every check; gives the names of those that failed. Output of a failed check is printed. */
export async function check(): Promise<string[]> {
  const failed: string[] = [];
  for (const [what, [program = "", ...args]] of CHECKS) {
    const { code, output } = await gather(program, args);
    console.log(`${code === 0 ? styleText("green", "✓") : styleText("red", "✗")} ${what}`);
    if (code === 0) continue;
    failed.push(what);
    console.log(output);
  }
  return failed;
}

function gather(program: string, args: readonly string[]): Promise<{ code: number; output: string }> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, {
      stdio: ["ignore", "pipe", "pipe"],
      env: { ...process.env, PATH: `node_modules/.bin:${process.env["PATH"] ?? ""}` },
    });
    let output = "";
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding("utf8").on("data", (text) => {
        output += text;
      });
    }
    child.once("error", reject);
    child.once("close", (code) => resolve({ code: code ?? 1, output }));
  });
}

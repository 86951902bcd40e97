import { spawn } from "node:child_process";
import { expect, test } from "vitest";
import { tryRun } from "../lab/command.ts";
import { NODE, REPOSITORY } from "../lab/program.ts";

function quickstart(): Promise<{ code: number | null; output: string }> {
  return new Promise((resolve) => {
    const child = spawn(NODE, ["bin/belfry.js", "quickstart"], { cwd: REPOSITORY, stdio: ["ignore", "pipe", "pipe"] });
    let output = "";
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding("utf8").on("data", (text) => {
        output += text;
      });
    }
    child.once("close", (code) => resolve({ code, output }));
  });
}

test("two quickstarts at once in one clone are both green, and leave nothing behind", async () => {
  const before = (await tryRun("ip", ["netns", "list"])).stdout;
  for (const { code, output } of await Promise.all([quickstart(), quickstart()])) {
    expect(code, output).toBe(0);
    expect(output).toContain("All seen");
    expect(output).not.toContain("✗");
  }
  const after = (await tryRun("ip", ["netns", "list"])).stdout;
  expect(after.split("\n").filter((line) => line.startsWith("belfry-") && !before.includes(line))).toEqual([]);
});

test("another Node is refused in one line that says what to do", async () => {
  const old = `Object.defineProperty(process, "version", { value: "v20.20.2" }); process.argv.splice(1, 0, "x"); await import("${REPOSITORY}/bin/belfry.js")`;
  const { code, stdout, stderr } = await tryRun(NODE, ["--input-type=module", "-e", old, "controller"]);
  expect(code).toBe(1);
  expect(stdout).toBe("");
  expect(stderr.trim()).toMatch(/^belfry needs Node 24 or newer, and this is v20\.20\.2: run it through npm/);
  expect(stderr.trim().split("\n")).toHaveLength(1);
});

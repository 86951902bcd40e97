/** The CLI as a process: the one place of it that knows the terminal and the time. */
import { createInterface } from "node:readline/promises";
import { runCli } from "./program.ts";
import type { World } from "./world.ts";

/** Runs the command line of this process; gives the exit code. */
export async function runFromShell(options: Pick<World, "programName" | "speakerEyes">): Promise<number> {
  // `belfry get vips | head -1` is no error.
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code !== "EPIPE") throw error;
    process.exit(0);
  });
  return runCli({
    ...options,
    argv: process.argv.slice(2),
    environment: process.env,
    stdout: { write: (text) => void process.stdout.write(text), isTTY: process.stdout.isTTY === true },
    stderr: { write: (text) => void process.stderr.write(text), isTTY: process.stderr.isTTY === true },
    async ask(question) {
      if (process.stdin.isTTY !== true) return undefined;
      const terminal = createInterface({ input: process.stdin, output: process.stderr });
      try {
        return await terminal.question(question);
      } finally {
        terminal.close();
      }
    },
    secondsSince(timestamp) {
      const at = Date.parse(timestamp);
      return Number.isNaN(at) ? undefined : (Date.now() - at) / 1000;
    },
    isRoot: process.getuid?.() === 0,
    pause: (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds)),
  });
}

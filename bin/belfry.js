#!/usr/bin/env node
// Every process starts here: `belfry.js controller …`. What is no process is a command of the CLI. Plain JavaScript, so
// that an older Node reads far enough to be told.
import { basename } from "node:path";
import { refuseNodeVersion } from "../src/observe/node-version.js";

/** @type {Record<string, string>} */
const PROCESSES = {
  controller: "../controller/main.ts",
  speaker: "../speaker/main.ts",
  api: "../src/embedded/main.ts",
  lab: "../lab/main.ts",
  quickstart: "../lab/quickstart.ts",
};

const isPlugin = basename(process.argv[1] ?? "").startsWith("kubectl-belfry");
const refusal = refuseNodeVersion(process.version);
const name = process.argv[2] ?? "";
const entry = isPlugin ? undefined : PROCESSES[name];
if (refusal !== undefined) {
  console.error(refusal);
  process.exitCode = 1;
} else {
  // Stripped and compiled sources are kept, so that the next start neither strips nor compiles. Without a writable
  // place for them this does nothing.
  const { enableCompileCache, flushCompileCache } = await import("node:module");
  const { directory } = enableCompileCache();
  // Node writes it when a process leaves by itself; one that is killed should have written it, too.
  setTimeout(flushCompileCache, 3000).unref();
  // Worker threads look for it in the environment.
  if (directory !== undefined) process.env["NODE_COMPILE_CACHE"] ??= directory;
  if (entry !== undefined) {
    process.argv.splice(1, 2, `belfry ${name}`);
    await import(entry);
  } else {
    const { runFromShell } = await import("../src/cli/entry.ts");
    process.exitCode = await runFromShell({
      programName: isPlugin ? "kubectl belfry" : "belfry",
      speakerEyes: async () => ({
        ...(await import("../speaker/node-observation.ts")),
        ...(await import("../speaker/link.ts")),
      }),
    });
  }
}

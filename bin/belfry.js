#!/usr/bin/env node
// Every process starts here: `belfry.js controller …`. Plain JavaScript, so that an older Node reads far enough to be told.
import { refuseNodeVersion } from "../src/observe/node-version.js";

/** @type {Record<string, string>} */
const PROCESSES = {
  controller: "../controller/main.ts",
  speaker: "../speaker/main.ts",
  api: "../src/embedded/main.ts",
  lab: "../lab/main.ts",
  quickstart: "../lab/quickstart.ts",
};

const refusal = refuseNodeVersion(process.version);
const name = process.argv[2] ?? "";
const entry = PROCESSES[name];
if (refusal !== undefined) {
  console.error(refusal);
  process.exitCode = 1;
} else if (entry === undefined) {
  console.error(`belfry.js runs one of: ${Object.keys(PROCESSES).join(", ")}; each has --help`);
  process.exitCode = 2;
} else {
  // Stripped and compiled sources are kept, so that the next start neither strips nor compiles. Without a writable
  // place for them this does nothing.
  const { enableCompileCache } = await import("node:module");
  enableCompileCache();
  process.argv.splice(1, 2, `belfry ${name}`);
  await import(entry);
}

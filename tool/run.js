// Every tool starts here (`npm test`, `npm run check` …). Plain JavaScript, so that an older Node reads far enough to be told.
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { refuseNodeVersion } from "../src/observe/node-version.js";

const [name = "", ...args] = process.argv.slice(2);
const refusal = refuseNodeVersion(process.version);
if (refusal !== undefined) {
  console.error(refusal);
  process.exitCode = 1;
} else {
  const entry = fileURLToPath(new URL(`./${name}.ts`, import.meta.url));
  process.exitCode = spawnSync(process.execPath, [entry, ...args], { stdio: "inherit" }).status ?? 1;
}

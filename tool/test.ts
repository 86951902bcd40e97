/**
 * `npm test`: everything that this machine can run. What it can't run is named and counted as skipped.
 * The last line is `N passed, N failed, N skipped`; failed counts failed tests and checks, files that did not load,
 * and unhandled errors.
 */
import { existsSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { styleText } from "node:util";
import { startVitest, type TestCase, type TestModule } from "vitest/node";
import { findKube } from "../e2e/kube/build.ts";
import { RIGHTS_FILE } from "../lab/kube/audit.ts";
import { check } from "./checks.ts";
import { canMakeNamespaces, installMissing } from "./prerequisite.ts";
import { compareUsed } from "./rights.ts";

type Tally = { passed: number; failed: number; skipped: number };

const tally: Tally = { passed: 0, failed: 0, skipped: 0 };
const loud = (text: string) => console.log(styleText(["yellow", "bold"], text));

const missing = installMissing(["ip", "nft", "tcpdump", "conntrack", "iptables", "arping", "ndisc6", "ping"]);
if (missing.length > 0) loud(`NOT THERE, tests that need them fail or are skipped: ${missing.join(", ")}`);

const broken = await check();
tally.failed += broken.length;
tally.passed += 4 - broken.length;

await runProject("unit", true);
await runProject("integration", true);
const namespaces = canMakeNamespaces();
if (!namespaces.can) loud(`LAB TESTS ARE SKIPPED: ${namespaces.why}`);
await runProject("lab", namespaces.can);
const kube = namespaces.can ? await findKube(loud) : ({ type: "missing", why: namespaces.why } as const);
if (kube.type === "missing") loud(`TESTS ON A REAL KUBERNETES ARE SKIPPED: ${kube.why}`);
const rightsFile = join(tmpdir(), `belfry-rights-${process.pid}`);
process.env[RIGHTS_FILE] = rightsFile;
await runProject("kube", kube.type === "built");
await runProject("kube-alone", kube.type === "built");
if (kube.type === "built") checkRights();

const { passed, failed, skipped } = tally;
console.log(`${passed} passed, ${failed} failed, ${skipped} skipped`);
process.exit(failed > 0 || passed === 0 ? 1 : 0);

/** Whether the table of rights says the truth about what the clusters saw; those that failed may have seen too little. */
function checkRights(): void {
  const used = existsSync(rightsFile) ? readFileSync(rightsFile, "utf8").trim().split("\n") : [];
  rmSync(rightsFile, { force: true });
  const everything = process.argv.length === 2 && tally.failed === 0;
  const problems = compareUsed(new Set(used), everything);
  for (const problem of problems) console.log(`tool/rights.ts: ${problem}`);
  if (problems.length === 0) tally.passed++;
  else tally.failed++;
}

/** Runs the tests of a vitest project, or only counts them. */
async function runProject(project: string, canRun: boolean): Promise<void> {
  const vitest = await startVitest("test", process.argv.slice(2), {
    project: [project],
    watch: false,
    passWithNoTests: true,
    // A pattern that nothing matches: the files are loaded and counted, and no test or hook runs.
    ...(canRun ? {} : { testNamePattern: "a^" }),
  });
  for (const module of vitest.state.getTestModules()) count(module);
  tally.failed += vitest.state.getUnhandledErrors().length;
  await vitest.close();
}

function count(module: TestModule): void {
  const tests = [...module.children.allTests()];
  const failedTests = tests.filter((each) => each.result().state === "failed").length;
  tally.passed += tests.filter((each) => each.result().state === "passed").length;
  tally.skipped += tests.filter((each) => isSkipped(each)).length;
  // A file that failed without a failed test did not load, or broke in a hook.
  tally.failed += failedTests === 0 && module.state() === "failed" ? 1 : failedTests;
}

function isSkipped(each: TestCase): boolean {
  return ["skipped", "pending"].includes(each.result().state);
}

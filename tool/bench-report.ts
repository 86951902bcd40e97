/** How every bench begins and ends: on which machine, and its figures beside their goals. */
import { writeFileSync } from "node:fs";
import { cpus } from "node:os";
import Table from "cli-table3";
import { canMakeNamespaces, installMissing } from "./prerequisite.ts";

export type Figures = Readonly<Record<string, number>>;

/** Ends the process with a sentence where a bench can't run; otherwise says what the machine is. */
export function beginBench(programs: readonly string[]): void {
  const missing = installMissing(programs);
  const namespaces = canMakeNamespaces();
  const why = missing.length > 0 ? `missing: ${missing.join(", ")}` : namespaces.can ? undefined : namespaces.why;
  if (why !== undefined) {
    console.error(why);
    process.exit(1);
  }
  console.log(`${cpus().length} × ${cpus()[0]?.model ?? "unknown processor"}, Node ${process.version}`);
}

/** Prints the figures; a ratio, a time or a size at or below its goal is good. Writes them to `json` too, if that is given. */
export function reportFigures(figures: Figures, goals: Figures, json: string | undefined): void {
  const table = new Table({ head: ["figure", "seen", "goal"], colAligns: ["left", "right", "right"] });
  for (const [key, value] of Object.entries(figures)) {
    table.push([key, value.toPrecision(4), goals[key] === undefined ? "" : `≤ ${goals[key]}`]);
  }
  console.log(table.toString());
  if (json !== undefined) writeFileSync(json, `${JSON.stringify(figures, undefined, 2)}\n`);
}

/**
 * `npm run bench:assign -- --json FILE`: from the creation of a Gateway or Service to the address in its status, on a real
 * API server, beside a bare client that writes the status itself. Prints, and asserts nothing.
 */
import { Command } from "commander";
import { benchAssign } from "./bench-assign-run.ts";
import { beginBench, reportFigures } from "./bench-report.ts";

const program = new Command("bench:assign")
  .description("Times the controller from creation to address on a real API server, beside a bare client.")
  .option("--json <file>", "also write the figures there, flat, units in the keys")
  .option("--size <count>", "Gateways and Services of the largest part, half of each", Number, 10_000)
  .option("--samples <count>", "creations of each kind and giver at each size", Number, 100)
  .option("--burst <count>", "creations of a burst", Number, 500)
  .option("--profile <directory>", "write a CPU profile of each controller there")
  .parse();
const options = program.opts<{ json?: string; size: number; samples: number; burst: number; profile?: string }>();

beginBench(["ip"]);

/** A figure at or below its goal is good. */
const GOALS: Readonly<Record<string, number>> = {
  gateway_p50_ratio_0: 1.6,
  gateway_p50_ratio_1k: 1.6,
  gateway_p50_ratio_10k: 1.6,
  gateway_p50_growth_10k: 1.2,
  service_p50_ratio_0: 1.6,
  service_p50_ratio_1k: 1.6,
  service_p50_ratio_10k: 1.6,
  service_p50_growth_10k: 1.2,
  burst500_ratio_0: 1.5,
  burst500_ratio_10k: 1.5,
  restart_10k_s: 3,
};

const tell = (line: string) => console.log(line);
const figures = await benchAssign({ ...options, tell });
reportFigures(figures, GOALS, options.json);
process.exit(0);

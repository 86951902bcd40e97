/** `npm run bench -- --json FILE`: figures of this machine, beside nft in the same run. Prints, and asserts nothing. */
import { Command } from "commander";
import { benchCluster } from "./bench-cluster.ts";
import { benchNft } from "./bench-nft.ts";
import { beginBench, reportFigures } from "./bench-report.ts";

const program = new Command("bench")
  .description("Times the nftables plane beside `nft -f`, and the real processes at ten thousand VIPs.")
  .option("--json <file>", "also write the figures there, flat, units in the keys")
  .option("--size <count>", "VIPs of the cluster part", Number, 10_000)
  .parse();
const options = program.opts<{ json?: string; size: number }>();

beginBench(["ip", "nft"]);

/** Goals of the figures that have one. A ratio below its goal is good, as is a time or a size. */
const GOALS: Readonly<Record<string, number>> = {
  nft_load_ratio: 0.5,
  endpoint_change_ratio: 0.05,
  endpoint_change_p50_ms_10k: 0.5,
  controller_rss_mb_10k: 90,
  speaker_rss_mb_10k: 110,
  controller_restart_10k_s: 3,
};

const tell = (line: string) => console.log(line);
const figures: Record<string, number> = { ...(await benchNft()), ...(await benchCluster(options.size, tell)) };
const peer = figures["nft_f_change_p50_ms_10k"];
if (peer !== undefined) figures["endpoint_change_ratio"] = (figures["endpoint_change_p50_ms_10k"] ?? 0) / peer;

reportFigures(figures, GOALS, options.json);
process.exit(0);

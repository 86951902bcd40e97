/** `npm run lab`: a cluster to play with, left running until Ctrl-C. */
import { Command, InvalidArgumentError } from "commander";
import { startDemo, waitForDemo } from "./demo.ts";
import { createLab } from "./lab.ts";
import { closeOnSignal, refuseMachine, renderWhatToTry } from "./ready.ts";
import { Story } from "./story.ts";

const program = new Command("lab")
  .description(
    "A cluster in network namespaces: an API server, two controllers, a speaker per node, pods and a client.",
  )
  .option("--nodes <count>", "how many nodes", parseNodes, 3)
  .option("--empty", "start without the quickstart's objects and pods", false)
  .option("--log-level <level>", "of controllers and speakers", "info")
  .parse();
const options = program.opts<{ nodes: number; empty: boolean; logLevel: string }>();

const refusal = refuseMachine();
if (refusal !== undefined) {
  console.error(refusal);
  process.exit(1);
}
const story = new Story();
const lab = await story.step(`${options.nodes} nodes, a client and a router`, () => createLab(options));
closeOnSignal(lab);
try {
  await story.step("API server, two controllers, speakers", () => lab.startAll());
  let address: string | undefined;
  if (!options.empty) {
    await story.step("pods and objects", () => startDemo(lab));
    address = (await story.step("the Gateway has its addresses", () => waitForDemo(lab))).gateway.IPv4;
  }
  console.log(`\n${renderWhatToTry(lab, address)}\n\nCtrl-C ends the lab and removes all that it made.`);
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  await lab.close();
  process.exit(1);
}
setInterval(() => {}, 1 << 30); // stay until a signal comes

function parseNodes(text: string): number {
  const count = Number(text);
  if (!Number.isInteger(count) || count < 1 || count > 9) throw new InvalidArgumentError("1 to 9");
  return count;
}

/** `npm run lab`: a cluster to play with, left running until Ctrl-C. */
import { Command, InvalidArgumentError, Option } from "commander";
import { findKube, KUBE_LINES, type KubeLine } from "../e2e/kube/build.ts";
import { DataPath } from "../src/api/virtual-ip.ts";
import { startDemo, startKubeDemo, waitForDemo } from "./demo.ts";
import { type KubeOptions, SERVICE_PROXIES, type ServiceProxy } from "./kube/cluster.ts";
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
  .addOption(
    new Option(
      "--kube [line]",
      "on a real Kubernetes of this line, built from its Go modules (needs Go 1.26; 8 minutes the first time)",
    )
      .choices(KUBE_LINES)
      .preset(KUBE_LINES[0]),
  )
  .addOption(
    new Option("--service-proxy <mode>", "with --kube: the kube-proxy beside Belfry")
      .choices(SERVICE_PROXIES)
      .default("nftables"),
  )
  .addOption(
    new Option("--service-data-path <who>", "who forwards for Services").choices(DataPath.options).default("Belfry"),
  )
  .parse();
type Flags = {
  nodes: number;
  empty: boolean;
  logLevel: string;
  kube?: KubeLine;
  serviceProxy: ServiceProxy;
  serviceDataPath: DataPath;
};
const { kube: line, serviceProxy, ...options } = program.opts<Flags>();

const refusal = refuseMachine(line !== undefined && serviceProxy === "iptables" ? ["iptables"] : []);
if (refusal !== undefined) {
  console.error(refusal);
  process.exit(1);
}
const story = new Story();
const kube =
  line === undefined
    ? undefined
    : await story.step(`Kubernetes ${line}, built from its modules`, () => buildKube(line));
const lab = await story.step(`${options.nodes} nodes, a client and a router`, () => createLab({ ...options, kube }));
closeOnSignal(lab);
try {
  await story.step("API server, two controllers, speakers", () => lab.startAll());
  let address: string | undefined;
  if (!options.empty) {
    await story.step("pods and objects", () => (kube !== undefined ? startKubeDemo(lab) : startDemo(lab)));
    address = (await story.step("the Gateway has its addresses", () => waitForDemo(lab))).gateway.IPv4;
  }
  console.log(`\n${renderWhatToTry(lab, address)}\n\nCtrl-C ends the lab and removes all that it made.`);
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  await lab.close();
  process.exit(1);
}
setInterval(() => {}, 1 << 30); // stay until a signal comes

async function buildKube(line: KubeLine): Promise<KubeOptions> {
  const kube = await findKube((text) => console.log(text), line);
  if (kube.type === "missing") {
    console.error(`no Kubernetes: ${kube.why}`);
    process.exit(1);
  }
  return { binary: kube.path, gatewayCrds: kube.gatewayCrds, serviceProxy };
}

function parseNodes(text: string): number {
  const count = Number(text);
  if (!Number.isInteger(count) || count < 1 || count > 9) throw new InvalidArgumentError("1 to 9");
  return count;
}

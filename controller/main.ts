/** The controller process: flags, wiring, and leaving in order. */
import { hostname } from "node:os";
import { Command, InvalidArgumentError, Option } from "commander";
import { LOAD_BALANCER, NAMESPACE } from "../src/api/names.ts";
import { DataPath } from "../src/api/virtual-ip.ts";
import { clock } from "../src/host/clock.ts";
import { loadConfig } from "../src/kube/config.ts";
import { parseBind, serveHealth } from "../src/observe/health.ts";
import { createLog, LOG_LEVELS } from "../src/observe/log.ts";
import { createMetrics } from "../src/observe/metrics.ts";
import { refuseNodeVersion } from "../src/observe/node-version.js";
import { startController } from "./controller.ts";

const refusal = refuseNodeVersion(process.version);
if (refusal !== undefined) {
  process.stderr.write(`${refusal}\n`);
  process.exit(1);
}

const DEFAULT_BIND = "0.0.0.0:9471";

const bind = (text: string) => {
  const parsed = parseBind(text);
  if (parsed === undefined) throw new InvalidArgumentError("write HOST:PORT");
  return parsed;
};

type Flags = {
  kubeconfig?: string;
  namespace: string;
  identity: string;
  metricsBind: { host: string; port: number };
  logLevel: string;
  gatewayControllerName: string;
  claimClasslessServices: boolean;
  serviceDataPath: DataPath;
};

const flags = new Command("belfry-controller")
  .description("Gives Gateways and Services their addresses and tells the speakers what to forward.")
  .option("--kubeconfig <file>", "how to reach the API server; without it, the pod's service account")
  .option("--namespace <name>", "namespace of Belfry's Leases", NAMESPACE)
  .option("--identity <name>", "name of this replica", hostname())
  .addOption(
    new Option("--metrics-bind <host:port>", "where /metrics, /livez and /readyz are served")
      .argParser(bind)
      .default(bind(DEFAULT_BIND), DEFAULT_BIND),
  )
  .addOption(new Option("--log-level <level>", "least level that is logged").choices(LOG_LEVELS).default("info"))
  .option("--gateway-controller-name <name>", "controllerName and loadBalancerClass that are ours", LOAD_BALANCER)
  .option("--claim-classless-services", "also serve Services of type LoadBalancer without a class", false)
  .addOption(
    new Option(
      "--service-data-path <who>",
      "who forwards what comes in for Services: the cluster's service proxy, or Belfry as it does for Gateways",
    )
      .choices(DataPath.options)
      .default("ServiceProxy"),
  )
  .parse()
  .opts<Flags>();

const log = createLog({ name: "controller", level: flags.logLevel });
const metrics = createMetrics();
const leaving = new AbortController();
for (const name of ["SIGTERM", "SIGINT"] as const) process.once(name, () => leaving.abort());

try {
  const config = loadConfig({ kubeconfig: flags.kubeconfig });
  const controller = startController({
    config,
    clock,
    log,
    metrics,
    namespace: flags.namespace,
    identity: flags.identity,
    controllerName: flags.gatewayControllerName,
    claimClassless: flags.claimClasslessServices,
    serviceDataPath: flags.serviceDataPath,
    signal: leaving.signal,
  });
  const health = await serveHealth({
    bind: flags.metricsBind,
    metrics,
    // Answering at all proves that the thread turns, and nothing else is a reason to be killed.
    live: () => [],
    ready: () => controller.notReady(),
  });
  log.info({ health: health.address, identity: flags.identity }, "started");
  await controller.left;
  await health.close();
  log.info({}, "stopped");
} catch (error) {
  log.error({ message: error instanceof Error ? error.message : String(error) }, "can't start");
  process.exitCode = 1;
}

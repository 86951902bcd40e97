/** The speaker of one node: wiring only. */
import { Command, Option } from "commander";
import { clock } from "../src/host/clock.ts";
import { observeLinks } from "../src/host/link-observer.ts";
import { NETLINK_NETFILTER, openNetlink } from "../src/host/netlink-socket.ts";
import { pause } from "../src/kube/backoff.ts";
import { createClient, LEASE_CLIENT_LIMITS } from "../src/kube/client.ts";
import { ConfigError, loadConfig } from "../src/kube/config.ts";
import { createKubeMetrics } from "../src/kube/metrics.ts";
import { NFNLGRP_NFTABLES } from "../src/netlink/nfnetlink.ts";
import { DataPlane } from "../src/nft/session.ts";
import { parseBind, serveHealth } from "../src/observe/health.ts";
import { createLog, LOG_LEVELS } from "../src/observe/log.ts";
import { createMetrics } from "../src/observe/metrics.ts";
import { refuseNodeVersion } from "../src/observe/node-version.js";
import { judgeDataPath, type NodeObservation } from "../src/plan/data-path-ready.ts";
import { readHeldCounts } from "./held-count.ts";
import { reportedLinks } from "./link.ts";
import { BACKOFF, Speaker } from "./loop.ts";
import { describeSpeaker, followWire } from "./metrics.ts";
import { arpIgnore, bridgeNetfilter, observeNode } from "./node-observation.ts";
import { startWire } from "./wire-host.ts";

type Flags = {
  nodeName: string;
  kubeconfig?: string;
  namespace: string;
  metricsBind: string;
  podCidr: string[];
  logLevel: string;
  nftPlain: boolean;
  ignoreExcludeLabel: boolean;
};

/** A thread that has not gone round for so long is wedged: then a restart helps. */
const WEDGED_MILLISECONDS = 60_000;
/** A dump of all chains of the node, of which kube-proxy may have thousands. */
const FORWARD_CHAINS_MILLISECONDS = 30_000;

const refusal = refuseNodeVersion(process.version);
if (refusal !== undefined) leave(refusal);

const program = new Command("belfry-speaker")
  .description("Answers for VIPs on this node and forwards their traffic.")
  .requiredOption("--node-name <name>", "name of this node's Node object")
  .option("--kubeconfig <file>", "where the API server is; default: the pod's service account")
  .option("--namespace <name>", "namespace of Belfry's Leases", "belfry-system")
  .option("--metrics-bind <host:port>", "address of /metrics, /livez and /readyz", "127.0.0.1:9472")
  .option(
    "--pod-cidr <prefix>",
    "pods of this node, if its Node does not say; may be given more than once",
    collect,
    [],
  )
  .addOption(new Option("--log-level <level>", "least level that is logged").choices([...LOG_LEVELS]).default("info"))
  .option("--nft-plain", "do not own the nftables table, even where the kernel can", false)
  .option("--ignore-exclude-label", "also answer on nodes excluded from external load balancers", false);

await run(program.parse().opts<Flags>());

async function run(flags: Flags): Promise<void> {
  const bind = parseBind(flags.metricsBind);
  if (bind === undefined) leave(`--metrics-bind ${flags.metricsBind}: give HOST:PORT`);
  const log = createLog({ name: "speaker", level: flags.logLevel });
  const stopping = new AbortController();
  const { signal } = stopping;
  for (const name of ["SIGTERM", "SIGINT"] as const) process.once(name, () => stopping.abort());

  const metrics = createMetrics();
  const kubeMetrics = createKubeMetrics(metrics);
  const config = configOrLeave(flags.kubeconfig);
  const client = createClient(config, { clock, log, metrics: kubeMetrics, limits: { backoff: BACKOFF } });
  const leaseClient = createClient(config, { clock, log, metrics: kubeMetrics, limits: LEASE_CLIENT_LIMITS });
  const links = await observeLinks((trouble) => log.warn({ trouble: String(trouble) }, "following links failed"));
  const netlink = openNetlink({ protocol: NETLINK_NETFILTER });
  const conntrack = openNetlink({ protocol: NETLINK_NETFILTER });
  const plane = new DataPlane({
    netlink,
    conntrack,
    clock,
    pause,
    plain: flags.nftPlain,
    // What this plane does itself is no news: a large load would overrun the watch and cost a needless full compare.
    watch: (onChange, onOverrun, ignoreSender) =>
      openNetlink({
        protocol: NETLINK_NETFILTER,
        groups: [NFNLGRP_NFTABLES],
        onMessage: onChange,
        onOverrun,
        ignoreSender,
      }),
    onRepair: (repaired) => log.warn({ ...repaired }, "others changed table inet belfry; made right again"),
    onFlowFault: (fault) => log.warn({ ...fault }, "stale conntrack entries stay"),
  });
  const wire = startWire({ log });
  followWire(metrics, wire);
  let droppingForwardChains: NodeObservation["droppingForwardChains"];
  const lookAtForwardChains = async () => {
    const found = await plane.droppingForwardChains();
    droppingForwardChains = "fault" in found ? undefined : found;
  };
  await lookAtForwardChains();
  const looking = setInterval(() => void lookAtForwardChains(), FORWARD_CHAINS_MILLISECONDS);
  const speaker = new Speaker({
    node: flags.nodeName,
    namespace: flags.namespace,
    podCIDRs: flags.podCidr,
    ignoreExcludeLabel: flags.ignoreExcludeLabel,
    client,
    leaseClient,
    plane: {
      start: () => plane.start(),
      heldCounts: () => readHeldCounts((bytes, done) => netlink.exchange(bytes, done)),
      adopt: (plans, surroundings) => plane.adopt(plans, surroundings),
      apply: (changes, surroundings) => plane.apply(changes, surroundings),
      forgetFlows: (address) => plane.forgetFlows(address),
    },
    wire,
    links,
    dataPath: (podCIDRsKnown) => {
      const seen = links.links();
      return judgeDataPath(
        observeNode({
          links: seen,
          interfaces: reportedLinks(seen).map(({ name }) => name),
          podCIDRsKnown,
          droppingForwardChains,
        }),
      );
    },
    arpIgnore,
    bridgeNetfilter,
    clock,
    wallClock: () => new Date().toISOString().replace(/\.\d+Z$/, "Z"),
    log,
    metrics: describeSpeaker(metrics, () => speaker.gauges()),
    kubeMetrics,
    signal,
  });
  const health = await serveHealth({
    bind,
    metrics,
    live: () =>
      speaker.lastTickAt !== undefined && clock.now() - speaker.lastTickAt > WEDGED_MILLISECONDS
        ? ["the main loop stands still"]
        : [],
    ready: () => speaker.unready(),
  });
  log.info({ node: flags.nodeName, metrics: health.address }, "speaker started");
  await speaker.start();
  await new Promise<void>((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener("abort", () => resolve());
  });
  // The Lease is no longer renewed, and the table stays: a restart within the Lease finds everything as it was.
  log.info({}, "speaker stops; its table and its records stay for the next one");
  clearInterval(looking);
  await wire.close();
  await health.close();
  plane.close();
  links.close();
  client.close();
  leaseClient.close();
  netlink.close();
  conntrack.close();
  process.exit(0);
}

function configOrLeave(kubeconfig: string | undefined): ReturnType<typeof loadConfig> {
  try {
    return loadConfig({ kubeconfig });
  } catch (error) {
    if (error instanceof ConfigError) leave(error.message);
    throw error;
  }
}

function collect(value: string, before: string[]): string[] {
  return [...before, value];
}

function leave(message: string): never {
  process.stderr.write(`${message}\n`);
  process.exit(2);
}

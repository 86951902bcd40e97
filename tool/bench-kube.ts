/**
 * `npm run bench:kube -- --json FILE`: a Belfry speaker beside the real kube-proxy (nftables mode), in one run and on one
 * real API server, ten thousand Services with two endpoints each. Prints, and asserts nothing.
 *
 * Fair to the peer where the two differ: its Services are of type ClusterIP, the least that it can be asked to do for each
 * (no load-balancer address, no node port); the speaker programs the same endpoints behind as many VirtualIPs. Each has a
 * node (a network namespace) and an nftables table of its own, and is measured while the other one is not running. Both
 * are watched from outside by one observer:
 *
 * - load: exec → the kernel holds the frontends of all Services (lookups of single elements; both key them alike).
 * - change: an EndpointSlice's event, as read by a watcher beside → the kernel tells of the new endpoint's address.
 * - restart: SIGKILL, a Service gets its first endpoints meanwhile; exec → the kernel holds its frontend.
 * - memory: VmRSS after the changes and twenty seconds of rest.
 */
import { join } from "node:path";
import { Command } from "commander";
import { findKube } from "../e2e/kube/build.ts";
import { type Claim, claimLab, removeStaleLabs } from "../lab/claim.ts";
import { putNamespace, putNode } from "../lab/cluster.ts";
import { run } from "../lab/command.ts";
import { eventually } from "../lab/eventually.ts";
import { CLUSTER_CIDRS, type ControlPlane, startControlPlane } from "../lab/kube/control-plane.ts";
import { buildNetwork, type LabNode } from "../lab/network.ts";
import { NODE, startCommand } from "../lab/program.ts";
import { silentLog } from "../src/core/log.ts";
import { clock } from "../src/host/clock.ts";
import { createClient } from "../src/kube/client.ts";
import { loadConfig } from "../src/kube/config.ts";
import { BENCH_NAMESPACE, clusterIpOf, createAll, SERVICE_CIDR, vipOf } from "./bench-kube-cluster.ts";
import { measure, type Subject } from "./bench-kube-measure.ts";
import { beginBench, reportFigures } from "./bench-report.ts";
import { bundle } from "./bundle.ts";

const program = new Command("bench:kube")
  .description("Times a speaker beside the real kube-proxy with ten thousand Services on a real API server.")
  .option("--json <file>", "also write the figures there, flat, units in the keys")
  .option("--size <count>", "Services", Number, 10_000)
  .option("--only <name>", "measure only kube_proxy or belfry, without ratios")
  .parse();
const options = program.opts<{ json?: string; size: number; only?: string }>();
const tell = (line: string) => console.log(line);

beginBench(["ip", "nft"]);
const found = await findKube(tell);
if (found.type === "missing") {
  console.error(found.why);
  process.exit(1);
}
/** Goals of the figures that have one. */
const GOALS: Readonly<Record<string, number>> = {
  load_ratio: 0.05,
  restart_ratio: 0.02,
  change_p50_ratio: 0.005,
  rss_ratio: 0.4,
};
reportFigures(await bench(found.path), GOALS, options.json);
process.exit(0);

async function bench(binary: string): Promise<Record<string, number>> {
  await removeStaleLabs();
  const claim = claimLab();
  let controlPlane: ControlPlane | undefined;
  try {
    const network = await buildNetwork(claim, 2);
    // Without controllers: they would write slices of their own and act on ours.
    controlPlane = await startControlPlane(claim, network, binary, {
      controllers: false,
      serviceCidrs: [SERVICE_CIDR],
    });
    const { hostKubeconfig } = controlPlane;
    await eventually("Belfry's kinds are served", 30_000, async () => {
      const kubectl = (...args: string[]) => run(binary, ["kubectl", "--kubeconfig", hostKubeconfig, ...args]);
      await kubectl("apply", "--server-side", "-k", "config/crd");
      await kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=10s");
      return true;
    });
    const api = createClient(loadConfig({ kubeconfig: hostKubeconfig }), {
      clock,
      log: silentLog,
      limits: { requestTimeoutMilliseconds: 60_000 },
    });
    for (const name of ["belfry-system", BENCH_NAMESPACE]) await putNamespace(api, name);
    for (const node of network.nodes) await putNode(api, node);
    const startedAt = performance.now();
    await createAll(api, options.size, tell);
    tell(`all objects written in ${((performance.now() - startedAt) / 1000).toFixed(1)} s`);
    const figures: Record<string, number> = {};
    // What runs in a cluster is the bundle, as what is measured beside it is a binary.
    const bundled = join(claim.directory, "bundle");
    await bundle(bundled);
    const subjects = subjectsOf(claim, network.nodes, controlPlane, { binary, bundled });
    for (const subject of subjects.filter(({ name }) => options.only === undefined || options.only === name)) {
      Object.assign(figures, await measure(subject, api, controlPlane.kubeconfigs.admin, options.size, tell));
    }
    for (const [ratio, key] of [
      ["load_ratio", "load_s"],
      ["restart_ratio", "restart_s"],
      ["change_p50_ratio", "change_p50_ms"],
      ["rss_ratio", "rss_mb"],
    ] as const) {
      const [peer, ours] = [figures[`kube_proxy_${key}`], figures[`belfry_${key}`]];
      if (peer !== undefined && ours !== undefined) figures[ratio] = ours / peer;
    }
    api.close();
    return figures;
  } finally {
    await controlPlane?.close();
    await claim.release();
  }
}

function subjectsOf(
  claim: Claim,
  nodes: readonly LabNode[],
  controlPlane: ControlPlane,
  { binary, bundled }: { binary: string; bundled: string },
): Subject[] {
  const [first, second] = nodes;
  if (first === undefined || second === undefined) throw new Error("the lab has two nodes");
  const { kubeconfigs } = controlPlane;
  return [
    {
      name: "kube_proxy",
      namespace: first.namespace,
      map: { family: "ip", table: "kube-proxy", map: "service-ips" },
      addressOf: clusterIpOf,
      // Its own defaults, but for what a network namespace may not change.
      start: () =>
        startCommand(claim, {
          name: "kube-proxy",
          namespace: first.namespace,
          command: [
            binary,
            "kube-proxy",
            `--kubeconfig=${kubeconfigs.proxy}`,
            "--proxy-mode=nftables",
            `--hostname-override=${first.name}`,
            `--cluster-cidr=${CLUSTER_CIDRS.join(",")}`,
            "--metrics-bind-address=127.0.0.1:10249",
            "--healthz-bind-address=127.0.0.1:10256",
            "--conntrack-max-per-core=0",
            "--conntrack-tcp-timeout-established=0",
            "--conntrack-tcp-timeout-close-wait=0",
          ],
        }),
    },
    {
      name: "belfry",
      namespace: second.namespace,
      map: { family: "inet", table: "belfry", map: "frontend4" },
      addressOf: vipOf,
      start: () =>
        startCommand(claim, {
          name: "speaker",
          namespace: second.namespace,
          command: [
            NODE,
            join(bundled, "speaker/main.js"),
            ...["--node-name", second.name, "--kubeconfig", kubeconfigs.admin, "--metrics-bind", "127.0.0.1:9121"],
          ],
        }),
    },
  ];
}

/** For tests: a terminal that remembers what was printed, and a cluster on the embedded API. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { KubeObject } from "../api/meta.ts";
import { silentLog } from "../core/log.ts";
import { type Embedded, startEmbedded } from "../embedded/embedded.ts";
import { clock } from "../host/clock.ts";
import { createClient } from "../kube/client.ts";
import { loadConfig } from "../kube/config.ts";
import type { ApiClient } from "../kube/port.ts";
import { type Cluster, healthyCluster } from "./cluster.fixture.ts";
import { runCli } from "./program.ts";
import type { World } from "./world.ts";

export type Ran = { readonly code: number; readonly out: string; readonly err: string };

/** Runs one command line, given as it is typed. */
export async function run(line: string, more: Partial<World> = {}): Promise<Ran> {
  let [out, err] = ["", ""];
  const code = await runCli({
    argv: line.split(" ").filter((word) => word !== ""),
    programName: "belfry",
    environment: {},
    stdout: {
      write: (text) => {
        out += text;
      },
      isTTY: false,
    },
    stderr: {
      write: (text) => {
        err += text;
      },
      isTTY: false,
    },
    ask: () => Promise.resolve(undefined),
    secondsSince: (timestamp) => (Date.now() - Date.parse(timestamp)) / 1000,
    pause: () => Promise.resolve(),
    isRoot: false,
    speakerEyes: () => Promise.reject(new Error("no speaker's eyes in this test")),
    ...more,
  });
  return { code, out, err };
}

export type Served = {
  readonly embedded: Embedded;
  /** Of somebody else, who changes things meanwhile. */
  readonly client: ApiClient;
  readonly directory: string;
  readonly kubeconfig: string;
  close(): Promise<void>;
};

/** The healthy cluster, spoilt a little, on the embedded API. */
export async function serve(spoil: (cluster: Cluster) => void = () => {}): Promise<Served> {
  const embedded = await startEmbedded();
  const cluster = healthyCluster();
  spoil(cluster);
  embedded.seed({ apiVersion: "v1", kind: "Namespace", metadata: { name: "demo" } } as KubeObject);
  const { gatewayClasses, routes, pools, advertisements, nodes, speakers, leases, slices, gateways, services } =
    cluster;
  embedded.seed(...gatewayClasses, ...routes, ...pools, ...advertisements, ...nodes, ...speakers, ...leases);
  embedded.seed(...slices, ...gateways, ...services);
  for (const vip of cluster.vips) {
    // uids and generations are the server's to give.
    for (const holder of vip.spec.holders) {
      holder.uid = embedded.read(holder.kind, holder.name, holder.namespace)?.metadata.uid ?? holder.uid;
    }
    if (vip.status?.owner !== undefined) vip.status.owner.generation -= 1;
    delete vip.metadata.resourceVersion;
    embedded.seed(vip);
  }
  const directory = mkdtempSync(join(tmpdir(), "belfry-cli-"));
  const kubeconfig = join(directory, "kubeconfig");
  writeFileSync(kubeconfig, embedded.kubeconfig);
  const client = createClient(loadConfig({ kubeconfig }), { clock, log: silentLog });
  const close = async () => {
    client.close();
    await embedded.close();
    rmSync(directory, { recursive: true });
  };
  return { embedded, client, directory, kubeconfig, close };
}

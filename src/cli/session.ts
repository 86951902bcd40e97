/** One command's way to the cluster: logged in, asked, closed. */
import { LOAD_BALANCER, NAMESPACE } from "../api/names.ts";
import { silentLog } from "../core/log.ts";
import { clock } from "../host/clock.ts";
import { createClient } from "../kube/client.ts";
import type { Gathering } from "./gather.ts";
import { login } from "./login.ts";
import type { World } from "./world.ts";

export type ClusterFlags = {
  readonly kubeconfig?: string;
  readonly context?: string;
  readonly namespace?: string;
  readonly systemNamespace?: string;
  readonly controllerName?: string;
};

/** Does the work with a client that is closed afterwards, however it ends. */
export async function withCluster<T>(
  world: World,
  flags: ClusterFlags,
  work: (gathering: Gathering) => Promise<T>,
): Promise<T> {
  const { kubeconfig, context } = flags;
  const { config, namespace } = await login({ kubeconfig, context, environment: world.environment });
  // A person waits: an answer that takes longer than this is none.
  const client = createClient(config, { clock, log: silentLog, limits: { requestTimeoutMilliseconds: 10_000 } });
  try {
    return await work({
      client,
      namespace: flags.namespace ?? namespace,
      systemNamespace: flags.systemNamespace ?? NAMESPACE,
      controllerName: flags.controllerName ?? LOAD_BALANCER,
      world,
    });
  } finally {
    client.close();
  }
}

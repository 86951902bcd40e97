/** Images of the lab: what stands for pulling and starting a container. */
import type { Claim } from "../claim.ts";
import type { PodActions } from "../pod-resident.ts";
import { NODE, startCommand } from "../program.ts";
import { startResident } from "../resident.ts";

export type ContainerStart = {
  readonly claim: Claim;
  /** Network namespace. */
  readonly namespace: string;
  readonly podName: string;
  /** Names the log. */
  readonly id: string;
  /** `command` and `args` of the container, expanded; empty: the image's own. */
  readonly command: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
};

export type RunningContainer = {
  /** Resolves with the exit code. */
  readonly ended: Promise<number>;
  /** Asks it to end, as SIGTERM does. */
  terminate(): void;
  /** Ends it, as SIGKILL does. */
  kill(): void;
};

export type Image = (start: ContainerStart) => Promise<RunningContainer>;

/** The lab's pod server: says NAME (or the pod's name) on PORT (or 8080), TCP and UDP. */
export const POD_SERVER = "belfry.dev/lab/pod-server";

const IMAGES: Readonly<Record<string, Image>> = {
  [POD_SERVER]: startPodServer,
  node: startNode,
};

/** The program of an image, whatever its tag; undefined when the lab has none. */
export const findImage = (image: string): Image | undefined => IMAGES[image.replace(/[@:][^/]*$/, "")];

async function startPodServer({ namespace, podName, environment }: ContainerStart): Promise<RunningContainer> {
  const resident = await startResident<PodActions>(namespace, new URL("../pod-resident.ts", import.meta.url));
  await resident.call("serve", environment["NAME"] ?? podName, Number(environment["PORT"] ?? 8080));
  const { promise: ended, resolve } = Promise.withResolvers<number>();
  const leave = (code: number) => void resident.close().then(() => resolve(code));
  return {
    ended,
    // One that is gone already has nothing to stop.
    terminate: () =>
      void resident.call("stop").then(
        () => leave(0),
        () => {},
      ),
    kill: () => leave(137),
  };
}

/** Node itself, in the pod's network, with the pod's name as host name. */
async function startNode(start: ContainerStart): Promise<RunningContainer> {
  const [program = "node", ...args] = start.command;
  const command = [program === "node" ? NODE : program, ...args];
  const child = startCommand(start.claim, {
    name: `pod-${start.id}`,
    namespace: start.namespace,
    command: ["unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', start.podName, ...command],
    environment: { ...start.environment },
  });
  return {
    ended: child.ended.then((end) => (typeof end === "number" ? end : 128 + (end === "SIGKILL" ? 9 : 15))),
    terminate: () => child.signal("SIGTERM"),
    kill: () => child.signal("SIGKILL"),
  };
}

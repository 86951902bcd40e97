/** Images of the lab: what stands for pulling and starting a container. */
import { spawn } from "node:child_process";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { bundle } from "../../tool/bundle.ts";
import type { Claim } from "../claim.ts";
import type { PodActions } from "../pod-resident.ts";
import { NODE, REPOSITORY, startCommand } from "../program.ts";
import { startResident } from "../resident.ts";

/** A directory or file of the machine, and where the container sees it. */
export type Mount = {
  readonly source: string;
  readonly target: string;
  readonly isDirectory: boolean;
  readonly readOnly: boolean;
};

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
  readonly workingDirectory: string | undefined;
  readonly mounts: readonly Mount[];
};

export type RunningContainer = {
  /** Resolves with the exit code. */
  readonly ended: Promise<number>;
  /** Asks it to end, as SIGTERM does. */
  terminate(): void;
  /** Ends it, as SIGKILL does. */
  kill(): void;
  /** Runs a command inside, with its environment and files; true when that ends well in time. */
  exec(command: readonly string[], timeoutMs: number): Promise<boolean>;
};

export type Image = (start: ContainerStart) => Promise<RunningContainer>;

/** The lab's pod server: says NAME (or the pod's name) on PORT (or 8080), TCP and UDP. */
export const POD_SERVER = "belfry.dev/lab/pod-server";

const IMAGES: Readonly<Record<string, Image>> = {
  [POD_SERVER]: startPodServer,
  node: startNode,
  belfry: startBelfry,
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
    // It has no files of its own.
    exec: (command, timeoutMs) => succeeds(["ip", "netns", "exec", namespace, ...command], environment, timeoutMs),
  };
}

/** Node itself, in the pod's network, with the pod's name as host name and its volumes where it looks for them. */
async function startNode(start: ContainerStart): Promise<RunningContainer> {
  const [program = "node", ...args] = start.command;
  const command = [program === "node" ? NODE : program, ...args];
  const environment = { ...start.environment };
  const script = [
    "set -e",
    'hostname "$1"',
    ...(start.mounts.length === 0 ? [] : mountLines(start)),
    ...runLines(start),
  ];
  const child = startCommand(start.claim, {
    name: `pod-${start.id}`,
    namespace: start.namespace,
    command: ["unshare", "--uts", "--mount", "sh", "-c", script.join("\n"), "sh", start.podName, ...command],
    environment,
  });
  // Not its processes: the container shares those of the machine.
  const enter = ["nsenter", `--target=${child.pid}`, "--uts", "--net", "--mount", "--root"];
  return {
    ended: child.ended.then((end) => (typeof end === "number" ? end : 128 + (end === "SIGKILL" ? 9 : 15))),
    terminate: () => child.signal("SIGTERM"),
    kill: () => child.signal("SIGKILL"),
    exec: async ([name = "", ...rest], timeoutMs) =>
      child.running && succeeds([...enter, name === "node" ? NODE : name, ...rest], environment, timeoutMs),
  };
}

const bundles = new Map<string, Promise<void>>();

/** Belfry's own image: the bundle, made once for each lab, with Node beside it. */
async function startBelfry(start: ContainerStart): Promise<RunningContainer> {
  const folder = join(start.claim.directory, "images/belfry");
  const made = bundles.get(folder) ?? bundle(folder);
  bundles.set(folder, made);
  await made;
  return startNode({ ...start, workingDirectory: folder });
}

const rootOf = ({ claim, id }: ContainerStart): string => join(claim.directory, "containers", id);

/**
 * Shell lines that make a root of the container's own: this machine's files, with its volumes among them, and whatever is
 * written elsewhere is gone with the container. Everything is mounted in a mount namespace that nobody else sees.
 */
function mountLines(start: ContainerStart): string[] {
  const base = rootOf(start);
  mkdirSync(base, { recursive: true });
  const root = quote(`${base}/root`);
  const layers = `lowerdir=/,upperdir=${base}/upper,workdir=${base}/work`;
  return [
    `mount -t tmpfs tmpfs ${quote(base)}`,
    `mkdir ${quote(`${base}/upper`)} ${quote(`${base}/work`)} ${root}`,
    `mount -t overlay overlay -o ${quote(layers)} ${root}`,
    // Other file systems are not part of the one below.
    ...["/proc", "/sys", "/dev", REPOSITORY, start.claim.directory].flatMap((path) => [
      `mkdir -p ${root}${quote(path)}`,
      `mount --rbind ${quote(path)} ${root}${quote(path)}`,
    ]),
    // Inside, so that a link in a path leads nowhere else: /var/run is one.
    ...start.mounts.flatMap(({ source, target, isDirectory, readOnly }) => [
      isDirectory
        ? `chroot ${root} mkdir -p ${quote(target)}`
        : `chroot ${root} sh -c 'mkdir -p "$(dirname "$1")" && touch "$1"' sh ${quote(target)}`,
      `chroot ${root} mount --bind ${quote(source)} ${quote(target)}`,
      ...(readOnly ? [`chroot ${root} mount -o remount,bind,ro ${quote(target)}`] : []),
    ]),
  ];
}

/** Shell lines that become the program; its first argument is the pod's name, the rest is the command. */
function runLines(start: ContainerStart): string[] {
  const directory = quote(start.workingDirectory ?? REPOSITORY);
  if (start.mounts.length === 0) return ["shift", `cd ${directory}`, 'exec "$@"'];
  return ["shift", `exec chroot ${quote(`${rootOf(start)}/root`)} sh -c 'cd "$0" && exec "$@"' ${directory} "$@"`];
}

const quote = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;

/** True when the program ends with 0 in time; it is killed when it does not. */
function succeeds(
  [program = "", ...args]: readonly string[],
  environment: Readonly<Record<string, string>>,
  timeoutMs: number,
): Promise<boolean> {
  return new Promise((resolve) => {
    const child = spawn(program, args, {
      stdio: "ignore",
      env: { ...process.env, ...environment },
      timeout: timeoutMs,
      killSignal: "SIGKILL",
    });
    child.once("error", () => resolve(false));
    child.once("exit", (code) => resolve(code === 0));
  });
}

/** For lab tests of the wire: network namespaces on one bridge, wires and peers in them. All of it goes with `close`. */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { type Instant, instant } from "../src/core/instant.ts";
import { clock } from "../src/host/clock.ts";
import { enterNetworkNamespace } from "../src/host/namespace.ts";
import { CLONE_NEWNET, close, O_RDONLY, open, orThrow, setns } from "../src/host/sysnet.ts";
import type { FromWire, ToWire } from "./wire-protocol.ts";

export type Told = FromWire & { readonly at: number };
export type Frame = { readonly at: number; readonly hex: string };

/** True where namespaces can be made: root, and the `ip` program. */
export const canLab = process.getuid?.() === 0 && spawnSync("ip", ["netns", "list"]).status === 0;

/** Runs a program and gives its output; throws with its words when it fails. */
export function run(...words: string[]): string {
  const [program = "", ...rest] = words;
  const result = spawnSync(program, rest, { encoding: "utf8" });
  if (result.status !== 0) throw new Error(`${words.join(" ")}: ${result.stderr}${result.error ?? ""}`);
  return result.stdout;
}

export const sleep = (milliseconds: number): Promise<void> =>
  new Promise((resolve) => setTimeout(resolve, milliseconds));

/** Waits until `find` finds something, looking again whenever the clock has gone on a little. */
export async function until<T>(what: string, find: () => T | undefined, milliseconds = 5_000): Promise<T> {
  for (const start = clock.now(); ; ) {
    const found = find();
    if (found !== undefined) return found;
    if (clock.now() - start > milliseconds) throw new Error(`${what}: not seen within ${milliseconds} ms`);
    await sleep(5);
  }
}

/** Runs it with this thread in the namespace; sockets that it opens before its first await stay there. */
export function inNamespace<T>(namespace: string, act: () => T): T {
  const home = orThrow("own network namespace", open("/proc/thread-self/ns/net", O_RDONLY));
  try {
    enterNetworkNamespace(namespace);
    return act();
  } finally {
    orThrow("return to the own network namespace", setns(home, CLONE_NEWNET));
    close(home);
  }
}

export class WireLab {
  readonly #tag: string;
  readonly #namespaces: string[] = [];
  readonly #children: ChildProcess[] = [];

  constructor() {
    this.#tag = `bw${process.pid.toString(36)}${Math.floor(Math.random() * 1296).toString(36)}`;
  }

  /** A namespace of this lab, made when first named. */
  namespace(name: string): string {
    const full = `${this.#tag}-${name}`;
    if (!this.#namespaces.includes(full)) {
      run("ip", "netns", "add", full);
      this.#namespaces.push(full);
      run("ip", "-n", full, "link", "set", "lo", "up");
      run("ip", "netns", "exec", full, "sysctl", "-qw", "net.ipv6.conf.default.accept_dad=0");
    }
    return full;
  }

  ip(namespace: string, ...words: string[]): string {
    return run("ip", "-n", this.namespace(namespace), ...words);
  }

  exec(namespace: string, ...words: string[]): string {
    return run("ip", "netns", "exec", this.namespace(namespace), ...words);
  }

  /** Like exec, but gives the exit status as well and never throws. */
  tryExec(namespace: string, ...words: string[]): { status: number | null; output: string } {
    const result = spawnSync("ip", ["netns", "exec", this.namespace(namespace), ...words], { encoding: "utf8" });
    return { status: result.status, output: `${result.stdout}${result.stderr}` };
  }

  bridge(namespace: string, name: string, ...options: string[]): void {
    this.ip(namespace, "link", "add", name, "type", "bridge", ...options);
    this.ip(namespace, "link", "set", name, "up");
  }

  /** A veth of this name, MAC and addresses, its other end in the bridge. */
  plug(namespace: string, name: string, mac: string, addresses: readonly string[], bridge: [string, string]): void {
    const [bridgeNamespace, bridgeName] = bridge;
    const port = portOf(namespace, name);
    run(
      ...["ip", "-n", this.namespace(bridgeNamespace), "link", "add", port, "type", "veth", "peer", "name", name],
      ...["address", mac, "netns", this.namespace(namespace)],
    );
    this.ip(bridgeNamespace, "link", "set", port, "master", bridgeName, "up");
    for (const address of addresses) {
      this.ip(namespace, "address", "add", address, "dev", name, ...(address.includes(":") ? ["nodad"] : []));
    }
    this.ip(namespace, "link", "set", name, "up");
  }

  /** The wire worker in a process of its own; `prefix` is a program that starts it. */
  wire(namespace: string, ...prefix: string[]): WireProcess {
    return new WireProcess(this.#start(namespace, prefix, "wire-lab-node.ts"));
  }

  async peer(namespace: string, link: string): Promise<Peer> {
    const peer = new Peer(this.#start(namespace, [], "wire-lab-peer.ts", link));
    await until(`peer on ${link}`, () => (peer.ready ? true : undefined), 20_000);
    return peer;
  }

  #start(namespace: string, prefix: readonly string[], script: string, ...words: string[]): ChildProcess {
    const path = fileURLToPath(new URL(script, import.meta.url));
    const command = [...prefix, process.execPath, path, ...words];
    const child = spawn("ip", ["netns", "exec", this.namespace(namespace), ...command], {
      stdio: ["ignore", "pipe", "pipe", "ipc"],
    });
    this.#children.push(child);
    return child;
  }

  async close(): Promise<void> {
    for (const child of this.#children) {
      if (child.exitCode !== null || child.signalCode !== null) continue;
      const gone = new Promise((resolve) => child.once("exit", resolve));
      child.kill("SIGKILL");
      await gone;
    }
    for (const namespace of this.#namespaces.splice(0).reverse()) run("ip", "netns", "delete", namespace);
  }
}

/** Name of the bridge's end of a cable. */
export const portOf = (namespace: string, name: string): string => `p-${namespace}-${name}`.slice(0, 15);

export class WireProcess {
  readonly child: ChildProcess;
  readonly told: Told[] = [];
  /** Everything that the process printed. */
  output = "";
  /** Whether a stall is answered as an API server would that names this node for everything announced: a busy machine stalls too. */
  confirms = true;
  readonly #announced = new Set<string>();

  constructor(child: ChildProcess) {
    this.child = child;
    child.on("message", (message: Told) => {
      this.told.push(message);
      if (message.type !== "stalled" || !this.confirms) return;
      this.send({ type: "confirmed", stall: message.stall, addresses: [...this.#announced] as never[] });
    });
    child.stdout?.on("data", (chunk) => (this.output += String(chunk)));
    child.stderr?.on("data", (chunk) => (this.output += String(chunk)));
  }

  send(message: ToWire): void {
    this.child.send(message);
  }

  /** A Lease that is provably valid for so long from now; the clock is the same in all processes. */
  lease(milliseconds: number): void {
    this.send({ type: "lease", validUntil: instant(clock.now() + milliseconds) });
  }

  announce(address: string, interfaces: readonly string[], term = 1): void {
    this.#announced.add(address);
    this.send({
      type: "announce",
      announcement: { address: address as never, interfaces, term, refreshIntervalSeconds: 60 },
    });
  }

  /** The first message of the type that `suits`, told at `since` or later. */
  heard<T extends FromWire["type"]>(
    type: T,
    suits: (message: Extract<Told, { type: T }>) => boolean = () => true,
    since = 0,
    milliseconds = 10_000,
  ): Promise<Extract<Told, { type: T }>> {
    return until(
      `${type} (printed: ${this.output.slice(0, 2000)})`,
      () =>
        this.told.find(
          (message): message is Extract<Told, { type: T }> =>
            message.type === type && message.at >= since && suits(message as Extract<Told, { type: T }>),
        ),
      milliseconds,
    );
  }

  /** A counter's last total. */
  counter(name: string): number {
    const last = this.told.findLast((message) => message.type === "counters");
    return last?.type === "counters" ? (last.counters[name] ?? 0) : 0;
  }
}

export class Peer {
  readonly #child: ChildProcess;
  readonly frames: Frame[] = [];
  ready = false;
  #flooded: { flooded: number; seen: number } | undefined;

  constructor(child: ChildProcess) {
    this.#child = child;
    child.stderr?.on("data", (chunk) => process.stderr.write(chunk));
    child.on("message", (message: Frame & { ready?: true; flooded?: number; seen: number }) => {
      if (message.ready) this.ready = true;
      else if (message.flooded !== undefined) this.#flooded = { flooded: message.flooded, seen: message.seen };
      else this.frames.push(message);
    });
  }

  /** Gives the instant just before it left. */
  send(hex: string): Instant {
    const before = clock.now();
    this.#child.send({ type: "send", hex: hex.replace(/\s/g, "") });
    return before;
  }

  async flood(hex: string, count: number, perSecond: number): Promise<{ flooded: number; seen: number }> {
    this.#flooded = undefined;
    this.#child.send({ type: "flood", hex: hex.replace(/\s/g, ""), count, perSecond });
    return until("end of the flood", () => this.#flooded, 60_000);
  }

  /** The first frame that `suits`, seen at `since` or later. */
  saw(what: string, suits: (hex: string) => boolean, since = 0, milliseconds = 5_000): Promise<Frame> {
    return until(what, () => this.frames.find((frame) => frame.at >= since && suits(frame.hex)), milliseconds);
  }

  /** Sends and waits for a frame equal to `answer` (padding aside). */
  async ask(question: string, answer: string, milliseconds = 5_000): Promise<Frame> {
    const wanted = answer.replace(/\s/g, "");
    const since = this.send(question);
    return this.saw(`answer ${wanted}`, (hex) => hex.startsWith(wanted), since, milliseconds);
  }

  /** Sends and gives the frames whose Ethernet destination is the asker's own MAC that came within the time. */
  async answersTo(question: string, milliseconds = 300): Promise<string[]> {
    const asker = question.replace(/\s/g, "").slice(12, 24);
    const since = this.send(question);
    await sleep(milliseconds);
    return this.frames.filter((frame) => frame.at >= since && frame.hex.startsWith(asker)).map((frame) => frame.hex);
  }
}

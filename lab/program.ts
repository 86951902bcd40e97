/** The real processes, each in its namespace, with its log in a file. */
import { type ChildProcess, spawn } from "node:child_process";
import { openSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Claim } from "./claim.ts";

export const REPOSITORY = dirname(dirname(fileURLToPath(import.meta.url)));

/** The Node that the lockfile pins, whoever started us. */
export const NODE = join(REPOSITORY, "node_modules/.bin/node");

export type Program = {
  readonly name: string;
  readonly pid: number;
  readonly logFile: string;
  /** True until it has ended. */
  readonly running: boolean;
  /** Everything it has printed so far. */
  log(): string;
  signal(signal: NodeJS.Signals): void;
  /** Resolves with the exit code, or the signal that ended it. */
  readonly ended: Promise<number | NodeJS.Signals>;
  /** Sends the signal and waits for the end; SIGKILL after `limitMs`. */
  end(signal?: NodeJS.Signals, limitMs?: number): Promise<number | NodeJS.Signals>;
};

/** Starts one of our processes in a namespace; `undefined` is the machine's own. */
export const startProgram = (
  claim: Claim,
  options: {
    name: string;
    namespace: string | undefined;
    process: "api" | "controller" | "speaker";
    args: readonly string[];
    environment?: Record<string, string>;
  },
): Program =>
  startCommand(claim, {
    ...options,
    command: [NODE, join(REPOSITORY, "bin/belfry.js"), options.process, ...options.args],
  });

/** Starts any program in a namespace; `undefined` is the machine's own. */
export function startCommand(
  claim: Claim,
  options: {
    name: string;
    namespace: string | undefined;
    command: readonly string[];
    environment?: Record<string, string>;
  },
): Program {
  const logFile = join(claim.directory, `${options.name}.log`);
  const output = openSync(logFile, "a");
  const [program = NODE, ...args] =
    options.namespace === undefined ? options.command : ["ip", "netns", "exec", options.namespace, ...options.command];
  const child: ChildProcess = spawn(program, args, {
    stdio: ["ignore", output, output],
    cwd: REPOSITORY,
    env: { ...process.env, ...options.environment },
  });
  const pid = child.pid;
  if (pid === undefined) throw new Error(`${options.name} did not start`);
  claim.process(pid);
  let running = true;
  const ended = new Promise<number | NodeJS.Signals>((resolve) => {
    child.once("exit", (code, signal) => {
      running = false;
      resolve(code ?? signal ?? 1);
    });
  });
  const signal = (name: NodeJS.Signals) => {
    if (running) process.kill(pid, name);
  };
  return {
    name: options.name,
    pid,
    logFile,
    get running() {
      return running;
    },
    log: () => readFileSync(logFile, "utf8"),
    signal,
    ended,
    async end(name = "SIGTERM", limitMs = 10_000) {
      signal(name);
      const timer = setTimeout(() => signal("SIGKILL"), limitMs);
      const result = await ended;
      clearTimeout(timer);
      return result;
    },
  };
}

/**
 * What a lab has made, on disk, so that it can be removed after a crash: one file per lab, locked as long as the lab lives.
 * A file whose lock nobody holds belongs to a dead lab; a name alone proves nothing.
 */
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type FileLock, tryLockFile } from "../src/host/file-lock.ts";
import { tryRun } from "./command.ts";

const DIRECTORY = "/run/belfry-lab";

type Made = {
  namespaces: string[];
  /** Processes that outlive us if we crash. The start time (clock ticks since boot) tells them from later ones with the pid. */
  processes: { pid: number; startTime: string }[];
  directories: string[];
};

export type Claim = {
  readonly id: string;
  readonly directory: string;
  /** To be called before a thing is made, so that no crash leaves an unknown one. */
  namespace(name: string): void;
  process(pid: number): void;
  /** Removes all that was noted, and the note. */
  release(): Promise<void>;
};

/** Claims a fresh lab id, such as `b3f1`. */
export function claimLab(): Claim {
  mkdirSync(DIRECTORY, { recursive: true });
  for (;;) {
    const id = `b${Math.floor(Math.random() * 0x1000)
      .toString(16)
      .padStart(3, "0")}`;
    const file = join(DIRECTORY, `${id}.json`);
    const directory = join(DIRECTORY, id);
    const lock = tryLockFile(file, { exclusiveCreate: true });
    if (lock === undefined) continue;
    mkdirSync(directory, { recursive: true });
    const made: Made = { namespaces: [], processes: [], directories: [directory] };
    const note = () => writeFileSync(file, JSON.stringify(made));
    note();
    return {
      id,
      directory,
      namespace(name) {
        made.namespaces.push(name);
        note();
      },
      process(pid) {
        const startTime = startTimeOf(pid);
        if (startTime === undefined) return;
        made.processes.push({ pid, startTime });
        note();
      },
      async release() {
        await removeAll(made);
        rmSync(file, { force: true });
        lock.release();
      },
    };
  }
}

/** Removes what dead labs left behind; returns their ids. */
export async function removeStaleLabs(): Promise<string[]> {
  const removed: string[] = [];
  let files: string[];
  try {
    files = readdirSync(DIRECTORY).filter((name) => name.endsWith(".json"));
  } catch {
    return removed; // no lab ever ran here
  }
  for (const name of files) {
    const file = join(DIRECTORY, name);
    let lock: FileLock | undefined;
    try {
      lock = tryLockFile(file, {});
    } catch {
      continue; // gone meanwhile: its owner has just removed it
    }
    if (lock === undefined) continue;
    try {
      const text = readFileSync(file, "utf8");
      if (text !== "") await removeAll(JSON.parse(text) as Made);
      rmSync(file, { force: true });
      removed.push(name.replace(/\.json$/, ""));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    } finally {
      lock.release();
    }
  }
  return removed;
}

async function removeAll(made: Made): Promise<void> {
  for (const { pid, startTime } of made.processes) {
    if (startTimeOf(pid) === startTime) process.kill(pid, "SIGKILL");
  }
  for (const namespace of made.namespaces) await tryRun("ip", ["netns", "delete", namespace]);
  for (const directory of made.directories) rmSync(directory, { recursive: true, force: true });
}

/** Field 22 of /proc/PID/stat, counted after the command's closing parenthesis (proc(5)). */
function startTimeOf(pid: number): string | undefined {
  try {
    return readFileSync(`/proc/${pid}/stat`, "utf8").split(") ").at(-1)?.split(" ")[19];
  } catch {
    return undefined; // no such process
  }
}

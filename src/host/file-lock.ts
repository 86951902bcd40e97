import { closeSync, openSync } from "node:fs";
import { EAGAIN, flock, orThrow } from "./sysnet.ts";

/** A lock that lives as long as this process holds it; the kernel gives it back when the process dies. */
export type FileLock = { release(): void };

const LOCK_EX = 2;
const LOCK_NB = 4;

/**
 * Locks a file (`flock(2)`, exclusive), or gives `undefined` when another process holds it, or, with `exclusiveCreate`,
 * when the file is there already. Throws when the file can't be opened.
 */
export function tryLockFile(path: string, options: { exclusiveCreate?: boolean }): FileLock | undefined {
  let fd: number;
  try {
    fd = openSync(path, options.exclusiveCreate === true ? "wx+" : "r+");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return undefined;
    throw error;
  }
  const result = flock(fd, LOCK_EX | LOCK_NB);
  if (result === -EAGAIN) {
    closeSync(fd);
    return undefined;
  }
  orThrow(`locking ${path}`, result);
  return { release: () => closeSync(fd) };
}

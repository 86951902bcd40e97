import { CLONE_NEWNET, close, O_RDONLY, open, orThrow, setns } from "./sysnet.ts";

/**
 * Moves the calling thread, and no other, into a network namespace made by `ip netns add`.
 * Sockets that it opens from then on belong there. DNS look-ups don't (they run on pool threads).
 */
export function enterNetworkNamespace(name: string): void {
  const fd = orThrow(`opening network namespace ${name}`, open(`/run/netns/${name}`, O_RDONLY));
  try {
    orThrow(`entering network namespace ${name}`, setns(fd, CLONE_NEWNET));
  } finally {
    close(fd);
  }
}

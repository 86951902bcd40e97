import { readFileSync } from "node:fs";

/** arp_ignore as the kernel applies it on the interface: the greater of its own value and that of `all`; 0 when unreadable. */
export const arpIgnoreOf = (link: string): number => Math.max(read("all"), read(link));

// Read in the calling thread, so it is the thread's own network namespace that answers.
function read(link: string): number {
  try {
    return Number(readFileSync(`/proc/sys/net/ipv4/conf/${link}/arp_ignore`, "utf8")) || 0;
  } catch {
    return 0;
  }
}

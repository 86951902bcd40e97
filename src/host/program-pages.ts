import { readFile } from "node:fs/promises";

/** A span of memory: bytes from an address on. */
export type Span = { readonly address: bigint; readonly length: number };

/** sys/mman.h: of a private mapping of a file that was never written to, the pages come back from the page cache when touched. */
const MADV_DONTNEED = 4;

/**
 * Lets go of the pages of programs and libraries that are mapped into this process. A start touches most of Node once,
 * and the kernel maps sixteen pages around each one that is touched (fault-around): 55 MB resident, of which 15 are
 * used again within the next minutes. Nothing is written or read: the pages stay in the page cache, which all
 * processes of the program share, and each that is touched again costs about a microsecond.
 */
export async function releaseProgramPages(): Promise<void> {
  // A runtime may forbid it; then they stay, which harms nobody.
  const smaps = await readFile("/proc/self/smaps", "utf8").catch(() => "");
  // Native code is loaded only where memory is really given back.
  const { madvise } = await import("./sysnet.ts");
  for (const { address, length } of programSpans(smaps)) madvise(address, length, MADV_DONTNEED);
}

/**
 * The mappings of a `/proc/PID/smaps` (proc(5)) that hold nothing but what stands in their file: private, not writable,
 * and without a page of their own, as the ones have that the loader wrote addresses into before it locked them.
 */
export function programSpans(smaps: string): Span[] {
  const spans: Span[] = [];
  for (const mapping of smaps.split(/\n(?=[0-9a-f]+-[0-9a-f]+ )/)) {
    const [, from, to, inode] =
      /^([0-9a-f]+)-([0-9a-f]+) r-[x-]p [0-9a-f]+ [0-9a-f]+:[0-9a-f]+ ([0-9]+)/.exec(mapping) ?? [];
    if (from === undefined || to === undefined || inode === "0" || !/^Anonymous: +0 kB$/m.test(mapping)) continue;
    const address = BigInt(`0x${from}`);
    spans.push({ address, length: Number(BigInt(`0x${to}`) - address) });
  }
  return spans;
}

/**
 * Hashes that every node computes alike, on every version of Belfry: a change here moves flows in running clusters.
 * 32 bits; FNV-1a over UTF-16 code units, then the finalizer of MurmurHash3 (fmix32), which spreads neighbours apart.
 */
export function hashText(text: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return mix(hash);
}

/** The score of a pair for rendezvous hashing: `seed` is one side's number (a bucket), `hash` the other's `hashText`. */
export function score(hash: number, seed: number): number {
  return mix(hash ^ Math.imul(seed + 1, 0x9e3779b1));
}

function mix(value: number): number {
  let h = value;
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return (h ^ (h >>> 16)) >>> 0;
}

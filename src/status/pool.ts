/** Status of an IPAddressPool: what its text came to, how much of it is in use, and who else has a part of it. */
import type { IPAddressPool, IPAddressPoolStatus } from "../api/ip-address-pool.ts";
import { unlessSame } from "../core/same.ts";
import type { Problem } from "../core/trouble.ts";
import { type ByFamily, FAMILIES, printRanges, type ResolvedPool, rangesOf } from "../ipam/pool.ts";
import { printRange, sizeOfRange } from "../net/range.ts";
import { mergeConditions, trouble, verdict } from "./condition.ts";

const OWNED = ["Accepted", "PartiallyInvalid", "Conflicted", "NodeAddressOverlap"];
const MOST_RANGES = 256;

export type PoolStatusInput = {
  readonly pool: IPAddressPool;
  readonly resolved: ResolvedPool;
  /** Addresses of the pool that are in use, reserved ones that were given out before included. */
  readonly assigned: ByFamily<number>;
  /** Addresses that can still be given out. */
  readonly free: ByFamily<bigint>;
  /** RFC 3339, in seconds and UTC. */
  readonly now: string;
};

/** The status that the pool should have; `pool.status` itself when it has it. */
export function poolStatus({ pool, resolved, assigned, free, now }: PoolStatusInput): IPAddressPoolStatus {
  const ranges = FAMILIES.flatMap((family) => rangesOf(resolved.usable[family], family));
  const isEmpty = FAMILIES.every((family) => resolved.declared[family].size === 0n);
  const invalid = joined(resolved.problems);
  const nothing = isEmpty ? (invalid ?? EMPTY) : undefined;
  const verdicts = [
    verdict("Accepted", nothing, { reason: "Accepted", message: "" }),
    ...trouble("PartiallyInvalid", isEmpty ? undefined : invalid),
    ...trouble("Conflicted", overlap(resolved)),
    ...trouble("NodeAddressOverlap", reserved(resolved)),
  ];
  const writing = { owned: OWNED, generation: pool.metadata.generation, now };
  return unlessSame(pool.status, {
    ...pool.status,
    ranges: ranges.slice(0, MOST_RANGES).map((range) => ({ range: printRange(range), size: `${sizeOfRange(range)}` })),
    assignedIPv4: assigned.IPv4,
    assignedIPv6: assigned.IPv6,
    availableIPv4: saturated(free.IPv4),
    availableIPv6: saturated(free.IPv6),
    conditions: [...mergeConditions(pool.status?.conditions, verdicts, writing)],
  });
}

const EMPTY: Problem = { reason: "NoAddresses", message: "no address is left after excludes and older pools" };

/** JSON numbers are exact up to here, and nobody counts further. */
function saturated(count: bigint): number {
  return Number(count < 0n ? 0n : count > BigInt(Number.MAX_SAFE_INTEGER) ? Number.MAX_SAFE_INTEGER : count);
}

function overlap({ lost }: ResolvedPool): Problem | undefined {
  if (lost.length === 0) return undefined;
  const parts = lost.map(({ pool, ranges }) => `${printRanges(ranges)} belong to pool "${pool}"`);
  return { reason: "Overlap", message: `${parts.join("; ")}, which is older; take them out of one of the pools` };
}

const NOUNS = {
  NodeAddress: "node",
  DefaultGateway: "the default gateway of node",
  ServiceCIDR: "ServiceCIDR",
} as const;

function reserved({ reserved }: ResolvedPool): Problem | undefined {
  if (reserved.length === 0) return undefined;
  const parts = reserved.map(({ why, of, inside }) => `${printRanges(inside)} (${NOUNS[why]} ${of})`).sort();
  const shown = parts.length > 8 ? [...parts.slice(0, 8), `${parts.length - 8} more`] : parts;
  return { reason: "Reserved", message: `never given out: ${shown.join(", ")}` };
}

function joined(problems: readonly Problem[]): Problem | undefined {
  const [first] = problems;
  return first && { reason: first.reason, message: problems.map((problem) => problem.message).join("; ") };
}

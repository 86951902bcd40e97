/** What the controller writes into the status of a VirtualIP: conditions and announcers. The owner is the speaker's. */
import type { VirtualIP, VirtualIPStatus } from "../api/virtual-ip.ts";
import { unlessSame } from "../core/same.ts";
import type { Problem } from "../core/trouble.ts";
import type { Elected } from "../plan/elect.ts";
import { mergeConditions, trouble, type Verdict, verdict } from "./condition.ts";

const OWNED = ["Programmed", "Announced", "Conflict", "Releasing"];

export type VirtualIPStatusInput = {
  readonly vip: VirtualIP;
  /** Who should answer now, by the rules that the speakers follow; undefined while that is not known. */
  readonly elected: Elected | undefined;
  /** Another device that claims the address. */
  readonly conflict: Problem | undefined;
  /** What speakers can't serve as wanted (SpeakerStatus.failing), for this VIP. */
  readonly failing: readonly { readonly node: string; readonly reason: string }[];
  /** RFC 3339, in seconds and UTC. */
  readonly now: string;
};

/**
 * The status that the VirtualIP should have; `vip.status` itself when it has it. For one that is not being deleted: of those
 * `releasingStatus` speaks, and nothing else may write them.
 */
export function virtualIPStatus(input: VirtualIPStatusInput): VirtualIPStatus {
  const { vip, conflict, now } = input;
  const owner = vip.status?.owner;
  const verdicts = [
    verdict("Programmed", notProgrammed(input), {
      reason: "Programmed",
      message: "the owner serves the latest change",
    }),
    announced(input),
    ...trouble("Conflict", conflict ?? foreignClaim(input.failing)),
  ];
  const writing = { owned: OWNED, generation: vip.metadata.generation, now };
  return unlessSame(vip.status, {
    ...vip.status,
    announcers: owner === undefined ? { count: 0, names: [] } : { count: 1, names: [owner.node] },
    conditions: [...mergeConditions(vip.status?.conditions, verdicts, writing)],
  });
}

/** What a speaker begins a report of `failing` with when something else on the network answers for the address too. */
const CLAIMS: Readonly<Record<string, string>> = { "Conflict: ": "AddressClaimed", "KernelAnswers: ": "KernelAnswers" };

function foreignClaim(failing: VirtualIPStatusInput["failing"]): Problem | undefined {
  for (const { node, reason } of failing.toSorted((a, b) => (a.node < b.node ? -1 : 1))) {
    const prefix = Object.keys(CLAIMS).find((each) => reason.startsWith(each));
    if (prefix !== undefined) {
      return {
        reason: CLAIMS[prefix] ?? "AddressClaimed",
        message: `seen by node ${node}: ${reason.slice(prefix.length)}`,
      };
    }
  }
  return undefined;
}

/** Invariant 5: only what the owner wrote for this generation counts. */
function notProgrammed({ vip, elected, failing }: VirtualIPStatusInput): Problem | undefined {
  const owner = vip.status?.owner;
  if (owner === undefined) return nobody(elected);
  if (owner.generation === vip.metadata.generation) return undefined;
  const reports = failing.filter(({ node }) => node === owner.node).map(({ reason }) => reason);
  const why = reports.length === 0 ? "" : `: ${reports.toSorted().join("; ")}`;
  return { reason: "Pending", message: `node ${owner.node} has not programmed the last change yet${why}` };
}

/**
 * The record says who answers. While its node is replaced it stays as it is (the next owner writes itself in within a Lease);
 * it is untrue once nobody at all may answer.
 */
function announced({ vip, elected }: VirtualIPStatusInput): Verdict {
  const owner = vip.status?.owner;
  const problem = owner === undefined || elected?.type === "nobody" ? nobody(elected) : undefined;
  const where =
    owner === undefined ? "" : `node ${owner.node} answers${owner.interface === "" ? "" : ` on ${owner.interface}`}`;
  return verdict("Announced", problem, { reason: "Answering", message: where });
}

function nobody(elected: Elected | undefined): Problem {
  switch (elected?.type) {
    case "nobody":
      return { reason: elected.reason, message: elected.message };
    case "owner":
      return { reason: "Pending", message: `node ${elected.node} is about to answer` };
    case undefined:
      return { reason: "Pending", message: "no node answers yet" };
  }
}

/**
 * The status of a VirtualIP that is being deleted; `vip.status` itself when there is nothing to write. `holding` are nodes with
 * a dead Lease that may still answer: only they are worth a word, since each write would move the goal that live speakers
 * report up to.
 */
export function releasingStatus(vip: VirtualIP, holding: readonly string[], now: string): VirtualIPStatus | undefined {
  if (holding.length === 0) return vip.status;
  const writing = { owned: ["Releasing"], generation: vip.metadata.generation, now };
  const conditions = mergeConditions(vip.status?.conditions, trouble("Releasing", stillHeld(holding)), writing);
  return unlessSame(vip.status, { ...vip.status, conditions: [...conditions] });
}

const stillHeld = (holding: readonly string[]): Problem => ({
  reason: "NodeMayAnswer",
  message: `the address is kept out of use: ${holding.toSorted().join(", ")} may still answer for it and has no living speaker; bring the speaker back, delete the Node, or run belfry release --force`,
});

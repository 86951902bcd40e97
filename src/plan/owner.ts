/**
 * Ownership of one VIP as one node sees it: what the record (`status.owner`) and the election mean for this node.
 *
 * The record decides, and the API server arbitrates it: a take-over is an update with the resourceVersion that the
 * decision was made from, so of two nodes that elect themselves one is refused and follows. A node answers only at a
 * term that the record gave it. (While a term is offered and not yet answered for, the node is silent.)
 *
 *              record names us                     elected, sure, programmed
 *   ┌──────────────────────────────┐            ┌──────────────────────────┐
 *   ▼                              │            │                          ▼
 * answer(term) ── other named ──▶ aside ────────┘                   offer(term + 1)
 *   │   ▲                          ▲                                       │
 *   │   └── record empty: offer the same term again           refused: follow what the record says now
 *   └── no candidate any more (link, subnet, data path, endpoints, deletion) ──▶ silent, record left as it is
 */
import type { Owner } from "../api/virtual-ip.ts";
import type { Elected, Verdict } from "./elect.ts";

export type OwnerRecord = Pick<Owner, "node" | "term" | "generation">;

export type Standpoint = {
  readonly me: string;
  /** status.owner as last read (from the watch, or from the answer to our own write if that is newer). */
  readonly record: OwnerRecord | undefined;
  readonly elected: Elected;
  /** Whether this node may answer, judged by what it sees of itself; its own Lease plays no part (see `sure`). */
  readonly mine: Verdict;
  /** metadata.generation of the object. */
  readonly generation: number;
  /** The generation that this node's plane holds; undefined before it is programmed. */
  readonly programmed: number | undefined;
  /** The term at which this node answers now; undefined when it is silent. */
  readonly answering: number | undefined;
  /** Own renewals succeed and the watches are fresh. Otherwise ownership is frozen: others' Leases say nothing. */
  readonly sure: boolean;
};

export type Stance = {
  /** Answer at this term on these interfaces, or be silent. */
  readonly answer: { readonly term: number; readonly interfaces: readonly string[] } | undefined;
  /** What to write into the record, with the resourceVersion that it was read at. */
  readonly offer: { readonly type: "takeOver" | "generation" | "again"; readonly term: number } | undefined;
};

const SILENT: Stance = { answer: undefined, offer: undefined };

/** What this node does about the VIP now. Asked again after every change of what it is given; the same gives the same. */
export function decideOwnership(standpoint: Standpoint): Stance {
  const { me, record, mine, programmed, generation, answering } = standpoint;
  // Invariant 5: program before announce. Not a candidate: the record is left to whoever can do better.
  if (programmed === undefined || mine.type === "no") return SILENT;
  const { interfaces } = mine;
  if (record === undefined) {
    // A term lives only as long as the record. Whoever answers when it is lost goes on, and records itself again.
    if (answering !== undefined)
      return { answer: { term: answering, interfaces }, offer: { type: "again", term: answering } };
    return mayTakeOver(standpoint) ? { answer: undefined, offer: { type: "takeOver", term: 1 } } : SILENT;
  }
  if (record.node !== me) {
    return mayTakeOver(standpoint) ? { answer: undefined, offer: { type: "takeOver", term: record.term + 1 } } : SILENT;
  }
  const answer = { term: record.term, interfaces };
  // Never for a generation that we have not programmed, and once for each that we have.
  const report = programmed === generation && record.generation !== generation;
  return { answer, offer: report ? { type: "generation", term: record.term } : undefined };
}

function mayTakeOver({ sure, elected, me, programmed, generation }: Standpoint): boolean {
  return sure && elected.type === "owner" && elected.node === me && programmed === generation;
}

/** Changes of many VIPs as one batch: elements are gathered by set, since a message speaks of one set only. */
import { MessageWriter } from "../netlink/message.ts";
import { type Batch, beginBatch, NFNL_SUBSYS_NFTABLES } from "../netlink/nfnetlink.ts";
import { type Element, putChain, putElements, putRule, putSet, putTable, putTableDelete } from "../netlink/nftables.ts";
import type { Changes } from "./compare.ts";
import type { Placed } from "./element.ts";
import { CHAINS, RULES, SETS, TABLE } from "./ruleset.ts";

/** Elements that are gathered for a set before they are written. */
const GATHER = 800;

/** A transaction under construction. */
export class Transaction {
  readonly #writer: MessageWriter;
  readonly #batch: Batch;
  readonly #deletes = new Map<string, Element[]>();
  readonly #adds = new Map<string, Element[]>();
  #added = 0;
  #deleted = 0;

  /** Its messages are numbered from `sequence`. The writer is emptied first, so that its memory serves again. */
  constructor(sequence: number, writer = new MessageWriter()) {
    writer.clear();
    this.#writer = writer;
    this.#batch = beginBatch(writer, NFNL_SUBSYS_NFTABLES, sequence);
  }

  /** Bytes so far, without elements still gathered. */
  get length(): number {
    return this.#writer.length;
  }

  get added(): number {
    return this.#added;
  }

  get deleted(): number {
    return this.#deleted;
  }

  get empty(): boolean {
    return this.#batch.count() === 0 && this.#added === 0 && this.#deleted === 0;
  }

  /** Claims the table, or makes it. */
  claim(flags: number): void {
    putTable(this.#batch, { name: TABLE, flags });
  }

  /** Takes the whole table away, if `exists`, and makes it anew with sets, chains and rules, without elements. */
  rebuild(flags: number, exists: boolean): void {
    if (exists) putTableDelete(this.#batch, TABLE);
    this.claim(flags);
    for (const [i, set] of SETS.entries()) putSet(this.#batch, TABLE, set, i + 1);
    for (const chain of CHAINS) putChain(this.#batch, TABLE, chain);
    for (const rule of RULES) putRule(this.#batch, TABLE, rule);
  }

  change(changes: Changes): void {
    for (const placed of changes.deletes) this.delete(placed);
    for (const placed of changes.adds) this.add(placed);
  }

  delete({ set, element }: Placed): void {
    this.#deleted++;
    // An add of the same key that waits would be written after this delete: it goes first.
    if ((this.#adds.get(set)?.length ?? 0) > 0) this.#flush(set);
    if (gather(this.#deletes, set, element) >= GATHER) this.#flush(set);
  }

  add({ set, element }: Placed): void {
    this.#added++;
    if (gather(this.#adds, set, element) >= GATHER) this.#flush(set);
  }

  /** Elements of one set that are written as they come: each is read before the next one is asked for. */
  addAll(set: string, elements: Iterable<Element>): void {
    const counted = function* (this: void, count: () => void): Iterable<Element> {
      for (const element of elements) {
        count();
        yield element;
      }
    };
    putElements(
      this.#batch,
      "add",
      TABLE,
      set,
      counted(() => this.#added++),
    );
  }

  /** Closes the batch: its bytes (valid until the writer is used again) and the sequence numbers of its replies. */
  end(): { bytes: Uint8Array; first: number; last: number } {
    for (const set of new Set([...this.#deletes.keys(), ...this.#adds.keys()])) this.#flush(set);
    const sequences = this.#batch.end();
    return { bytes: this.#writer.bytes(), ...sequences };
  }

  /** Deletes before adds: a key that is in both is a change of its data. */
  #flush(set: string): void {
    const deletes = this.#deletes.get(set);
    if (deletes !== undefined) putElements(this.#batch, "delete", TABLE, set, deletes.splice(0));
    const adds = this.#adds.get(set);
    if (adds !== undefined) putElements(this.#batch, "add", TABLE, set, adds.splice(0));
  }
}

function gather(bySet: Map<string, Element[]>, set: string, element: Element): number {
  const gathered = bySet.get(set);
  if (gathered !== undefined) return gathered.push(element);
  bySet.set(set, [element]);
  return 1;
}

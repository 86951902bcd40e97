/** What the kernel holds against what this version wants: chains, rules, sets and elements. Pure. */
import {
  type Chain,
  decodeTold,
  type Element,
  forEachElement,
  type NftSet,
  type Rule,
  type Table,
} from "../netlink/nftables.ts";
import type { Placed } from "./element.ts";
import { CHAINS, RULES, SETS, TABLE } from "./ruleset.ts";

/** Our table among those that a dump told, or undefined. */
export function findTable(replies: readonly Uint8Array[]): Table | undefined {
  for (const reply of replies) {
    const told = decodeTold(reply);
    if (told?.type === "table" && told.table.name === TABLE) return told.table;
  }
  return undefined;
}

/** Why the chains, sets and rules of the table are not those of this version; undefined when they are. */
export function findDifference(replies: readonly Uint8Array[]): string | undefined {
  const chains: Chain[] = [];
  const sets: NftSet[] = [];
  const rules: Rule[] = [];
  for (const reply of replies) {
    const told = decodeTold(reply);
    if (told === undefined || told.type === "table" || told.table !== TABLE) continue;
    if (told.type === "chain") chains.push(told.chain);
    else if (told.type === "set") sets.push(told.set);
    else rules.push(told.rule);
  }
  return (
    differenceOf("set", sets.map(plainSet), SETS.map(plainSet)) ??
    differenceOf("chain", chains, CHAINS) ??
    rulesDifference(rules)
  );
}

/** How many elements each set of the table holds, by name; nothing where the kernel does not tell. */
export function countsIn(replies: readonly Uint8Array[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const reply of replies) {
    const told = decodeTold(reply);
    if (told?.type === "set" && told.table === TABLE && told.set.count !== undefined) {
      counts.set(told.set.name, told.set.count);
    }
  }
  return counts;
}

/** The kernel tells the parts of a concatenation only where they are needed; so do we. */
const plainSet = (set: NftSet): NftSet => ({
  name: set.name,
  keyType: set.keyType,
  keyLength: set.keyLength,
  ...(set.interval && { interval: true }),
  ...(set.fields && { fields: set.fields }),
  ...(set.data && { data: set.data }),
});

function differenceOf<T extends { readonly name: string }>(
  kind: string,
  found: readonly T[],
  wanted: readonly T[],
): string | undefined {
  const byName = new Map(found.map((one) => [one.name, one]));
  for (const one of wanted) {
    const other = byName.get(one.name);
    byName.delete(one.name);
    if (other === undefined) return `${kind} ${one.name} is missing`;
    if (!sameValue(one, other)) return `${kind} ${one.name} is another one`;
  }
  const [extra] = byName.keys();
  return extra === undefined ? undefined : `${kind} ${extra} is not ours`;
}

function rulesDifference(found: readonly Rule[]): string | undefined {
  const byChain = (rules: readonly Rule[]) => Map.groupBy(rules, (rule) => rule.chain);
  const [have, want] = [byChain(found), byChain(RULES)];
  for (const chain of new Set([...want.keys(), ...have.keys()])) {
    const a = want.get(chain)?.map((rule) => rule.expressions);
    const b = have.get(chain)?.map((rule) => rule.expressions);
    if (!sameValue(a, b)) return `the rules of chain ${chain} are others`;
  }
  return undefined;
}

/** Equality of plain values, whatever the order of their fields. */
function sameValue(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return false;
  const [x, y] = [Object.entries(a), new Map(Object.entries(b))];
  return x.length === y.size && x.every(([key, value]) => y.has(key) && sameValue(value, y.get(key)));
}

/** Elements that one set holds, compactly: a busy node has hundreds of thousands, and no string for any of them. */
export class HeldElements {
  readonly #set: NftSet;
  readonly #identityBytes: number;
  readonly #stride: number;
  readonly #chains: string[] = [];
  /** Records one after another: key, last key (where the set has them), end flag, data. */
  #records: Uint8Array<ArrayBuffer>;
  /** Number of the record + 1 by hash of its identity, 0 for none; open addressing, at most half full. */
  #slots = new Int32Array(64);
  #taken = new Uint8Array(32);
  #count = 0;
  #strange = false;

  constructor(set: NftSet) {
    this.#set = set;
    this.#identityBytes = set.keyLength * (set.fields !== undefined && set.interval ? 2 : 1) + 1;
    const dataBytes = set.data === undefined ? 0 : "length" in set.data ? set.data.length : 3;
    this.#stride = this.#identityBytes + dataBytes;
    this.#records = new Uint8Array(this.#stride * 32);
  }

  /** Takes in the replies to a dump of the set's elements. */
  read(replies: readonly Uint8Array[]): void {
    for (const reply of replies) {
      const isElements = forEachElement(reply, (element) => this.#insert(element));
      // The last reply says only that the dump is done.
      if (!isElements && reply.length > 24) this.#strange = true;
    }
  }

  get count(): number {
    return this.#count;
  }

  /** True when the set holds something that we can't have written, or can't name to delete it. */
  get strange(): boolean {
    return this.#strange;
  }

  /** Compares a wanted element with what is held, and remembers that it is wanted. */
  take(element: Element): "same" | "otherData" | "absent" {
    const record = new Uint8Array(this.#stride);
    this.#fill(record, 0, element);
    const slot = this.#find(record);
    const number = this.#slots[slot] ?? 0;
    if (number === 0) return "absent";
    this.#taken[number - 1] = 1;
    const at = (number - 1) * this.#stride;
    for (let i = this.#identityBytes; i < this.#stride; i++) {
      if (this.#records[at + i] !== record[i]) return "otherData";
    }
    return "same";
  }

  /** Every element that nobody took. */
  *leftovers(): Iterable<Placed> {
    const { keyLength } = this.#set;
    for (let number = 0; number < this.#count; number++) {
      if (this.#taken[number] === 1) continue;
      const record = this.#records.subarray(number * this.#stride, (number + 1) * this.#stride);
      const hasEnd = this.#identityBytes > keyLength + 1;
      yield {
        set: this.#set.name,
        element: {
          key: record.slice(0, keyLength),
          ...(hasEnd && { keyEnd: record.slice(keyLength, 2 * keyLength) }),
          ...(record[this.#identityBytes - 1] === 1 && { intervalEnd: true }),
        },
      };
    }
  }

  /** Gives the memory back at once; V8 alone would hold it until its next full collection. */
  release(): void {
    for (const { buffer } of [this.#records, this.#slots, this.#taken]) buffer.transfer(0);
  }

  #insert(element: Element): void {
    if (element.key.length !== this.#set.keyLength) {
      this.#strange = true;
      return;
    }
    if ((this.#count + 1) * 2 > this.#slots.length) this.#grow();
    const at = this.#count * this.#stride;
    this.#fill(this.#records, at, element);
    const slot = this.#find(this.#records.subarray(at, at + this.#stride));
    // A dump that runs while elements change may tell one twice.
    if (this.#slots[slot] === 0) this.#slots[slot] = ++this.#count;
    else this.#records.fill(0, at, at + this.#stride);
  }

  #fill(target: Uint8Array, at: number, element: Element): void {
    const { keyLength } = this.#set;
    target.set(element.key, at);
    if (element.keyEnd !== undefined && this.#identityBytes > keyLength + 1) target.set(element.keyEnd, at + keyLength);
    target[at + this.#identityBytes - 1] = element.intervalEnd ? 1 : 0;
    const dataAt = at + this.#identityBytes;
    const { data } = element;
    if (data === undefined || this.#set.data === undefined) return;
    if (data instanceof Uint8Array) {
      target.set(data.subarray(0, this.#stride - this.#identityBytes), dataAt);
    } else {
      target[dataAt] = data.type.charCodeAt(0);
      if ("chain" in data) {
        let number = this.#chains.indexOf(data.chain);
        if (number < 0) number = this.#chains.push(data.chain) - 1;
        target[dataAt + 1] = (number + 1) & 0xff;
        target[dataAt + 2] = (number + 1) >> 8;
      }
    }
  }

  /** The slot that holds this identity, or the empty one where it belongs. */
  #find(record: Uint8Array): number {
    const mask = this.#slots.length - 1;
    for (let slot = hash(record, this.#identityBytes) & mask; ; slot = (slot + 1) & mask) {
      const number = this.#slots[slot] ?? 0;
      if (number === 0) return slot;
      const at = (number - 1) * this.#stride;
      let i = 0;
      while (i < this.#identityBytes && this.#records[at + i] === record[i]) i++;
      if (i === this.#identityBytes) return slot;
    }
  }

  #grow(): void {
    const capacity = this.#slots.length;
    const records = new Uint8Array(this.#stride * capacity);
    records.set(this.#records);
    this.#records.buffer.transfer(0);
    this.#records = records;
    const taken = new Uint8Array(capacity);
    taken.set(this.#taken);
    this.#taken = taken;
    this.#slots.buffer.transfer(0);
    this.#slots = new Int32Array(capacity * 2);
    for (let number = 0; number < this.#count; number++) {
      const at = number * this.#stride;
      this.#slots[this.#find(this.#records.subarray(at, at + this.#stride))] = number + 1;
    }
  }
}

/** FNV-1a over the first bytes, mixed once more so that the low bits are good. */
function hash(bytes: Uint8Array, length: number): number {
  let value = 0x811c9dc5;
  for (let i = 0; i < length; i++) value = Math.imul(value ^ (bytes[i] ?? 0), 0x01000193);
  return (value ^ (value >>> 15)) >>> 0;
}

/**
 * Cuts a List (an object with an array `items`) out of a byte stream into its items, so that the text of ten thousand of
 * them is never in memory at once. It looks at quotes and brackets alone: whether an item is JSON, its reader finds out.
 *
 * `managedFields`, which is half of an object and read by nobody here, is left empty where that costs nothing: not when
 * its key lies across two chunks, or there is space after it.
 */
export class ListCutter {
  readonly #limitBytes: number;
  /** Of what has begun and not ended: an item, or what is around the items. */
  #pieces: Buffer[] = [];
  #gathered = 0;
  #around = "";
  #depth = 0;
  #inItems = false;
  #inString = false;
  #escaped = false;
  #inMetadata = false;
  #inManagedFields = false;
  #broken = false;

  /** An item, or what is around them, may be so long. */
  constructor(limitBytes: number) {
    this.#limitBytes = limitBytes;
  }

  /** Calls back for each item that ended in this chunk, in order. False when this is no list: give up the stream. */
  push(chunk: Buffer, onItem: (text: string) => void): boolean {
    let start = 0;
    // Local: each byte is looked at here.
    let depth = this.#depth;
    for (let i = this.#inString ? this.#endOfString(chunk, 0) + 1 : 0; i < chunk.length; i++) {
      const byte = chunk[i];
      if (byte === QUOTE) {
        this.#broken ||= depth === ITEMS && this.#inItems;
        i = this.#endOfString(chunk, i + 1);
      } else if (byte === BRACE || byte === BRACKET) {
        if (depth === ITEMS && this.#inItems) {
          start = i;
          this.#broken ||= byte === BRACKET;
        }
        depth++;
        if (depth > MANAGED_FIELDS) continue;
        if (depth === METADATA) this.#inMetadata = this.#inItems && isAfter(METADATA_KEY, chunk, i);
        else if (depth === MANAGED_FIELDS && this.#inMetadata && isAfter(MANAGED_FIELDS_KEY, chunk, i)) {
          this.#keep(chunk, start, i + 1);
          this.#inManagedFields = true;
        } else if (depth === ITEMS && byte === BRACKET) {
          this.#around += this.#take(chunk, start, i + 1);
          this.#inItems = BEGINS_ITEMS.test(this.#around);
          start = i + 1;
        }
      } else if (byte === END_BRACE || byte === END_BRACKET) {
        depth--;
        if (depth >= MANAGED_FIELDS) continue;
        if (this.#inManagedFields && depth === MANAGED_FIELDS - 1) {
          this.#inManagedFields = false;
          start = i;
        } else if (this.#inItems && depth === ITEMS) {
          onItem(this.#take(chunk, start, i + 1));
          start = i + 1;
        } else if (this.#inItems && depth < ITEMS) {
          this.#inItems = false;
          start = i;
        }
      } else if (depth === ITEMS && this.#inItems && byte !== COMMA && (byte ?? 0) > SPACE) this.#broken = true;
    }
    this.#depth = depth;
    if (!this.#inManagedFields && !(this.#inItems && depth === ITEMS)) this.#keep(chunk, start, chunk.length);
    return !this.#broken && this.#gathered + this.#around.length <= this.#limitBytes;
  }

  /** Where the string that `from` lies in ends: at its quote, or after the chunk. */
  #endOfString(chunk: Buffer, from: number): number {
    let i = this.#escaped ? from + 1 : from;
    while (i < chunk.length && chunk[i] !== QUOTE) i += chunk[i] === BACKSLASH ? 2 : 1;
    this.#escaped = i > chunk.length;
    this.#inString = i >= chunk.length;
    return i;
  }

  /** The list with its items taken out, once all is read; undefined for half a list. */
  rest(): string | undefined {
    if (this.#depth !== 0 || this.#inString) return undefined;
    return this.#around + this.#take(Buffer.alloc(0), 0, 0);
  }

  #keep(chunk: Buffer, start: number, end: number): void {
    if (start >= end) return;
    this.#pieces.push(chunk.subarray(start, end));
    this.#gathered += end - start;
  }

  #take(chunk: Buffer, start: number, end: number): string {
    if (this.#gathered === 0) return chunk.toString("utf8", start, end);
    this.#keep(chunk, start, end);
    const text = Buffer.concat(this.#pieces).toString("utf8");
    this.#pieces = [];
    this.#gathered = 0;
    return text;
  }
}

/** Brackets that are open between two items (the list's and the array's), in `metadata` of one, and in `managedFields`. */
const [ITEMS, METADATA, MANAGED_FIELDS] = [2, 4, 5];
const METADATA_KEY = Buffer.from('"metadata":');
const MANAGED_FIELDS_KEY = Buffer.from('"managedFields":');
const BEGINS_ITEMS = /"items"\s*:\s*\[$/;
const [SPACE, QUOTE, COMMA, BRACKET, BACKSLASH, END_BRACKET, BRACE, END_BRACE] = [...' ",[\\]{}'].map((character) =>
  character.charCodeAt(0),
) as [number, number, number, number, number, number, number, number];

/** Whether the bytes stand right before the place. */
const isAfter = (bytes: Buffer, chunk: Buffer, at: number): boolean =>
  at >= bytes.length && chunk.compare(bytes, 0, bytes.length, at - bytes.length, at) === 0;

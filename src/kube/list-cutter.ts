/**
 * Cuts a List (an object with an array `items`) out of a byte stream into its items, so that the text of ten thousand of
 * them is never in memory at once. It looks at quotes and brackets alone: whether an item is JSON, its reader finds out.
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
  #broken = false;

  /** An item, or what is around them, may be so long. */
  constructor(limitBytes: number) {
    this.#limitBytes = limitBytes;
  }

  /** Calls back for each item that ended in this chunk, in order. False when this is no list: give up the stream. */
  push(chunk: Buffer, onItem: (text: string) => void): boolean {
    let start = 0;
    for (let i = this.#inString ? this.#endOfString(chunk, 0) + 1 : 0; i < chunk.length; i++) {
      const byte = chunk[i];
      const between = this.#inItems && this.#depth === ITEMS;
      if (byte === QUOTE) {
        this.#broken ||= between;
        i = this.#endOfString(chunk, i + 1);
      } else if (byte === BRACE || byte === BRACKET) {
        if (between) start = i;
        this.#broken ||= between && byte === BRACKET;
        this.#depth++;
        if (this.#depth === ITEMS && byte === BRACKET) {
          this.#around += this.#take(chunk, start, i + 1);
          this.#inItems = BEGINS_ITEMS.test(this.#around);
          start = i + 1;
        }
      } else if (byte === END_BRACE || byte === END_BRACKET) {
        this.#depth--;
        if (between) {
          this.#inItems = false;
          start = i;
        } else if (this.#inItems && this.#depth === ITEMS) {
          onItem(this.#take(chunk, start, i + 1));
          start = i + 1;
        }
      } else this.#broken ||= between && byte !== COMMA && (byte ?? 0) > SPACE;
    }
    if (start < chunk.length && !(this.#inItems && this.#depth === ITEMS)) {
      this.#pieces.push(start === 0 ? chunk : chunk.subarray(start));
      this.#gathered += chunk.length - start;
    }
    return !this.#broken && this.#gathered + this.#around.length <= this.#limitBytes;
  }

  /** Where the string that `from` lies in ends: at its quote, or after the chunk. */
  #endOfString(chunk: Buffer, from: number): number {
    let escaped = this.#escaped;
    let i = from;
    for (; i < chunk.length; i++) {
      const byte = chunk[i];
      if (escaped) escaped = false;
      else if (byte === BACKSLASH) escaped = true;
      else if (byte === QUOTE) break;
    }
    this.#escaped = escaped;
    this.#inString = i === chunk.length;
    return i;
  }

  /** The list with its items taken out, once all is read; undefined for half a list. */
  rest(): string | undefined {
    if (this.#depth !== 0 || this.#inString) return undefined;
    return this.#around + this.#take(Buffer.alloc(0), 0, 0);
  }

  #take(chunk: Buffer, start: number, end: number): string {
    if (this.#gathered === 0) return chunk.toString("utf8", start, end);
    this.#pieces.push(chunk.subarray(start, end));
    const text = Buffer.concat(this.#pieces).toString("utf8");
    this.#pieces = [];
    this.#gathered = 0;
    return text;
  }
}

/** Brackets that are open between two items: the list's and the array's. */
const ITEMS = 2;
const BEGINS_ITEMS = /"items"\s*:\s*\[$/;
const [SPACE, QUOTE, COMMA, BRACKET, BACKSLASH, END_BRACKET, BRACE, END_BRACE] = [...' ",[\\]{}'].map((character) =>
  character.charCodeAt(0),
) as [number, number, number, number, number, number, number, number];

/**
 * Cuts a byte stream into lines. A line that lies within one chunk is decoded straight from it; only lines that cross
 * chunks are gathered.
 */
export class LineCutter {
  readonly #limitBytes: number;
  #pieces: Buffer[] = [];
  #gathered = 0;

  constructor(limitBytes: number) {
    this.#limitBytes = limitBytes;
  }

  /** Calls back for each line that ended in this chunk. False when a line is longer than the limit: give up the stream. */
  push(chunk: Buffer, onLine: (line: string) => void): boolean {
    let start = 0;
    for (let end = chunk.indexOf(NEWLINE, start); end >= 0; end = chunk.indexOf(NEWLINE, start)) {
      if (this.#gathered === 0) {
        if (end > start) onLine(chunk.toString("utf8", start, end));
      } else {
        this.#pieces.push(chunk.subarray(start, end));
        const line = Buffer.concat(this.#pieces).toString("utf8");
        this.#pieces = [];
        this.#gathered = 0;
        onLine(line);
      }
      start = end + 1;
    }
    if (start < chunk.length) {
      this.#pieces.push(start === 0 ? chunk : chunk.subarray(start));
      this.#gathered += chunk.length - start;
    }
    return this.#gathered <= this.#limitBytes;
  }

  /** Bytes of a line that has begun and not ended. */
  get pendingBytes(): number {
    return this.#gathered;
  }
}

const NEWLINE = 0x0a;

/** So many places of taken items are kept before the list is cut. */
const MOST_TAKEN = 4096;

/** A line of strings. Taking one costs the same however many were taken before: the first of a Set costs what was deleted. */
export class Fifo {
  #items: string[] = [];
  #head = 0;

  push(item: string): void {
    this.#items.push(item);
  }

  shift(): string | undefined {
    const item = this.#items[this.#head];
    if (item === undefined) return undefined;
    this.#head++;
    if (this.#head === this.#items.length || this.#head > MOST_TAKEN) {
      this.#items = this.#items.slice(this.#head);
      this.#head = 0;
    }
    return item;
  }
}

import { after, type Instant, instant } from "../core/instant.ts";

/** Virtual time: things happen in the order of their instants, and nothing takes time of itself. */
export class SimClock {
  #now = instant(0);
  #order = 0;
  #queue: { readonly at: Instant; readonly order: number; readonly run: () => void }[] = [];

  now = (): Instant => this.#now;

  /** Runs it at the instant, or now when that has passed. Things of one instant run in the order they were asked for. */
  at(when: Instant, run: () => void): void {
    const at = when < this.#now ? this.#now : when;
    this.#queue.push({ at, order: this.#order++, run });
    this.#queue.sort((a, b) => a.at - b.at || a.order - b.order);
  }

  in(milliseconds: number, run: () => void): void {
    this.at(after(this.#now, milliseconds), run);
  }

  /** Lets everything happen that happens within so many milliseconds. */
  run(milliseconds: number): void {
    const end = after(this.#now, milliseconds);
    for (;;) {
      const next = this.#queue[0];
      if (next === undefined || next.at > end) break;
      this.#queue.shift();
      this.#now = next.at;
      next.run();
    }
    this.#now = end;
  }
}

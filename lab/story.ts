/** Progress for a person who watches: one line per step while it works, and a table of what was seen at the end. */
import { styleText } from "node:util";
import Table from "cli-table3";

export type Seen = { readonly what: string; readonly saw: string; readonly good: boolean };

export class Story {
  readonly #seen: Seen[] = [];
  readonly #startedAt = performance.now();

  /** Runs one step and tells how long it took; a step that throws ends the story. */
  async step<T>(what: string, act: () => Promise<T>): Promise<T> {
    const startedAt = performance.now();
    const unfinished = process.stdout.isTTY ? styleText("dim", `  … ${what}`) : "";
    process.stdout.write(unfinished);
    try {
      const result = await act();
      this.#end(styleText("green", "✓"), what, startedAt);
      return result;
    } catch (error) {
      this.#end(styleText("red", "✗"), what, startedAt);
      throw error;
    }
  }

  #end(mark: string, what: string, startedAt: number): void {
    const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
    process.stdout.write(
      `${process.stdout.isTTY ? "\r\u001b[K" : ""}${mark} ${what} ${styleText("dim", `${seconds} s`)}\n`,
    );
  }

  /** Notes what was seen for the table at the end. */
  see(what: string, saw: string, good: boolean): void {
    this.#seen.push({ what, saw, good });
  }

  get allGood(): boolean {
    return this.#seen.length > 0 && this.#seen.every(({ good }) => good);
  }

  /** The table of everything noted. */
  render(): string {
    const table = new Table({
      head: ["", "what", "seen"],
      style: { head: ["bold"] },
      wordWrap: true,
      colWidths: [3, 46, 66],
    });
    for (const { what, saw, good } of this.#seen) {
      table.push([good ? styleText("green", "✓") : styleText("red", "✗"), what, saw]);
    }
    const seconds = ((performance.now() - this.#startedAt) / 1000).toFixed(0);
    return `${table.toString()}\n${this.allGood ? "All seen" : "NOT ALL was seen"}, in ${seconds} s.`;
  }
}

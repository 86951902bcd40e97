import type { Instant } from "../core/instant.ts";
import type { SimClock } from "./clock.ts";

export type SimFrame = { readonly at: Instant; readonly from: string; readonly frame: Uint8Array };

/** An Ethernet segment in virtual time: what one port sends every other port hears, unless it is cut off or lost. */
export class SimSegment {
  readonly #clock: SimClock;
  readonly #ports = new Map<string, (frame: Uint8Array) => void>();
  readonly #cut = new Set<string>();
  readonly #delayMilliseconds: number;
  /** Every frame that was sent, also those that nobody heard. */
  readonly sent: SimFrame[] = [];
  /** Decides for each frame and hearer whether it gets lost. */
  loses: (frame: SimFrame, to: string) => boolean = () => false;

  constructor(clock: SimClock, delayMilliseconds = 0.1) {
    this.#clock = clock;
    this.#delayMilliseconds = delayMilliseconds;
  }

  attach(port: string, hear: (frame: Uint8Array) => void): void {
    this.#ports.set(port, hear);
  }

  detach(port: string): void {
    this.#ports.delete(port);
  }

  send(from: string, bytes: Uint8Array): void {
    const sent: SimFrame = { at: this.#clock.now(), from, frame: bytes.slice() };
    this.sent.push(sent);
    if (this.#cut.has(from)) return;
    for (const to of this.#ports.keys()) {
      if (to === from || this.#cut.has(to) || this.loses(sent, to)) continue;
      this.#clock.in(this.#delayMilliseconds, () => this.#ports.get(to)?.(sent.frame));
    }
  }

  /** The port neither hears nor is heard until it is healed; frames under way still arrive. */
  cut(port: string): void {
    this.#cut.add(port);
  }

  heal(port: string): void {
    this.#cut.delete(port);
  }
}

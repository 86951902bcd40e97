/** Work since the last release that makes another one worth its pause (some 50 ms of the main thread). */
const WORTH_IT = 1000;
const QUIET_MILLISECONDS = 5000;

/** Decides when memory is given back: after much work, once it has been quiet for a while. The start is much work, too. */
export class MemoryRelease {
  #work = WORTH_IT;
  #lastAt: number | undefined;

  /** One unit is about one object read or one VIP programmed. */
  worked(units: number, now: number): void {
    this.#work += units;
    this.#lastAt = now;
  }

  due(now: number): boolean {
    this.#lastAt ??= now;
    if (this.#work < WORTH_IT || now - this.#lastAt < QUIET_MILLISECONDS) return false;
    this.#work = 0;
    return true;
  }
}

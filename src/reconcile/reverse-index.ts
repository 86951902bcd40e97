/**
 * Which targets depend on which sources: `set(route, [service, gateway])`, then `targets(service)` names the route.
 * Most sources have one target, so a lone target is kept as a bare string: 10k entries cost 10k map slots, not 10k sets.
 */
export class ReverseIndex {
  readonly #targets = new Map<string, string | Set<string>>();
  readonly #sources = new Map<string, string | readonly string[]>();

  /** The target depends on exactly these sources from now on. Returns sources that were added or removed. */
  set(target: string, sources: readonly string[]): readonly string[] {
    const before = this.sources(target);
    const changed: string[] = [];
    for (const source of before) {
      if (!sources.includes(source)) {
        this.#unlink(source, target);
        changed.push(source);
      }
    }
    for (const source of sources) {
      if (!before.includes(source)) {
        this.#link(source, target);
        changed.push(source);
      }
    }
    const [first] = sources;
    if (first === undefined) this.#sources.delete(target);
    else this.#sources.set(target, sources.length === 1 ? first : [...sources]);
    return changed;
  }

  /** The sources that the target was set with. */
  sources(target: string): readonly string[] {
    const known = this.#sources.get(target);
    return known === undefined ? [] : typeof known === "string" ? [known] : known;
  }

  /** The targets that depend on the source. */
  targets(source: string): readonly string[] {
    const known = this.#targets.get(source);
    return known === undefined ? [] : typeof known === "string" ? [known] : [...known];
  }

  /** True when some target depends on the source. */
  has(source: string): boolean {
    return this.#targets.has(source);
  }

  #link(source: string, target: string): void {
    const known = this.#targets.get(source);
    if (known === undefined || known === target) this.#targets.set(source, target);
    else if (typeof known === "string") this.#targets.set(source, new Set([known, target]));
    else known.add(target);
  }

  #unlink(source: string, target: string): void {
    const known = this.#targets.get(source);
    if (known === undefined) return;
    if (typeof known === "string") {
      if (known === target) this.#targets.delete(source);
      return;
    }
    known.delete(target);
    const [last] = known;
    if (known.size === 1 && last !== undefined) this.#targets.set(source, last);
    else if (known.size === 0) this.#targets.delete(source);
  }
}

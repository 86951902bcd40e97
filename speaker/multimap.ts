/** Several values under a key, where most keys have one: that one is kept bare, since a Set weighs more than a VIP. */
export class Multimap<K, V extends object> {
  readonly #entries = new Map<K, V | Set<V>>();

  add(key: K, value: V): void {
    const before = this.#entries.get(key);
    if (before === undefined) this.#entries.set(key, value);
    else if (before instanceof Set) before.add(value);
    else if (before !== value) this.#entries.set(key, new Set([before, value]));
  }

  delete(key: K, value: V): void {
    const before = this.#entries.get(key);
    if (before === value) this.#entries.delete(key);
    else if (before instanceof Set && before.delete(value) && before.size === 0) this.#entries.delete(key);
  }

  of(key: K): Iterable<V> {
    const found = this.#entries.get(key);
    if (found === undefined) return [];
    return found instanceof Set ? found : [found];
  }
}

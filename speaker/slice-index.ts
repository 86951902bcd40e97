import type { Slice } from "../src/plan/endpoint.ts";

/** The EndpointSlices by the Service that they belong to. */
export class SliceIndex {
  readonly #byService = new Map<string, Map<string, Slice>>();
  readonly #serviceOf = new Map<string, string>();

  /** The slices of a Service (`namespace/name`). */
  readonly of = (service: string): Iterable<Slice> => this.#byService.get(service)?.values() ?? [];

  /** Puts a slice, or takes it away; answers the Services whose endpoints may have changed. */
  set(key: string, slice: Slice | undefined): string[] {
    const touched = new Set<string>();
    const before = this.#serviceOf.get(key);
    if (before !== undefined && before !== slice?.service) {
      const slices = this.#byService.get(before);
      slices?.delete(key);
      if (slices?.size === 0) this.#byService.delete(before);
      this.#serviceOf.delete(key);
      touched.add(before);
    }
    if (slice !== undefined) {
      const slices = this.#byService.get(slice.service) ?? new Map<string, Slice>();
      slices.set(key, slice);
      this.#byService.set(slice.service, slices);
      this.#serviceOf.set(key, slice.service);
      touched.add(slice.service);
    }
    return [...touched];
  }
}

import type { Slice } from "../src/plan/endpoint.ts";
import { Multimap } from "./multimap.ts";

/** The EndpointSlices by the Service that they belong to. */
export class SliceIndex {
  readonly #byService = new Multimap<string, Slice>();
  readonly #byKey = new Map<string, Slice>();

  /** The slices of a Service (`namespace/name`). */
  readonly of = (service: string): Iterable<Slice> => this.#byService.of(service);

  /** Puts a slice, or takes it away; answers the Services whose endpoints may have changed. */
  set(key: string, slice: Slice | undefined): string[] {
    const before = this.#byKey.get(key);
    if (before !== undefined) this.#byService.delete(before.service, before);
    if (slice === undefined) this.#byKey.delete(key);
    else {
      this.#byKey.set(key, slice);
      this.#byService.add(slice.service, slice);
    }
    return [...new Set([before?.service, slice?.service])].filter((it) => it !== undefined);
  }
}

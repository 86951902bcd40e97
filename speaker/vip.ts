import type { Instant } from "../src/core/instant.ts";
import type { Address } from "../src/net/address.ts";
import { serviceOf } from "../src/plan/forward.ts";
import type { VipPlan } from "../src/plan/vip-plan.ts";
import type { CachedVip } from "./cache.ts";
import { Multimap } from "./multimap.ts";

/** One VIP as this speaker treats it. Keyed by uid: an object of the same name with another uid is another VIP. */
export type Vip = {
  /** The object as last read, by the watch or by the answer to our own write if that is newer. */
  object: CachedVip;
  /** True when `object` came by our own write or read: older events of the watch must not undo it. */
  ahead: boolean;
  /** `namespace/name` of the Services whose slices its plan reads. */
  services: readonly string[];
  /** What the plane holds. */
  plan: VipPlan | undefined;
  /** metadata.generation that the plane holds. */
  programmed: number | undefined;
  /** The message under which the plane refused it last. */
  refused: string | undefined;
  /** What the wire was told. */
  answering: { readonly term: number; readonly interfaces: readonly string[] } | undefined;
  /** A write of the record is under way or has to wait. */
  writing: boolean;
  /** Why nobody, or not this recorded owner, may answer. */
  silence: string | undefined;
  /** A MAC that is not ours says that it has the address. */
  claim: { readonly text: string; readonly at: Instant } | undefined;
  /** This node's kernel answers for it by itself, and what to do about that. */
  kernelAnswers: string | undefined;
  /** Set while it is taken back; `next` is the object of the same name that follows. */
  retiring: { next: CachedVip | undefined } | undefined;
};

/** All VIPs, and which of them a changed Service, node or election touches. */
export class VipTable {
  readonly #byName = new Map<string, Vip>();
  readonly #byAddress = new Map<Address, Vip>();
  readonly #byService = new Multimap<string, Vip>();
  readonly #byOwner = new Multimap<string, Vip>();
  /** Those whose record does not name whom the election names: any change of any node may settle them. */
  readonly unsettled = new Set<Vip>();

  get size(): number {
    return this.#byName.size;
  }

  get(name: string): Vip | undefined {
    return this.#byName.get(name);
  }

  at(address: Address): Vip | undefined {
    return this.#byAddress.get(address);
  }

  values(): IterableIterator<Vip> {
    return this.#byName.values();
  }

  readingService(service: string): Iterable<Vip> {
    return this.#byService.of(service);
  }

  ownedBy(node: string): Iterable<Vip> {
    return this.#byOwner.of(node);
  }

  add(object: CachedVip): Vip {
    const vip: Vip = {
      object,
      ahead: false,
      services: NONE,
      plan: undefined,
      programmed: undefined,
      refused: undefined,
      answering: undefined,
      writing: false,
      silence: undefined,
      claim: undefined,
      kernelAnswers: undefined,
      retiring: undefined,
    };
    this.#byName.set(object.metadata.name, vip);
    this.#byAddress.set(object.address, vip);
    this.#index(vip);
    return vip;
  }

  /** Puts a newer reading of the object in the place of the old one. */
  replace(vip: Vip, object: CachedVip): void {
    this.#unindex(vip);
    vip.object = object;
    this.#index(vip);
  }

  remove(vip: Vip): void {
    this.#unindex(vip);
    this.unsettled.delete(vip);
    if (this.#byName.get(vip.object.metadata.name) === vip) this.#byName.delete(vip.object.metadata.name);
    if (this.#byAddress.get(vip.object.address) === vip) this.#byAddress.delete(vip.object.address);
  }

  #index(vip: Vip): void {
    const services = new Set<string>();
    for (const forward of vip.object.forwards) for (const backend of forward.backends) services.add(serviceOf(backend));
    vip.services = services.size === 0 ? NONE : [...services];
    for (const service of vip.services) this.#byService.add(service, vip);
    if (vip.object.owner !== undefined) this.#byOwner.add(vip.object.owner.node, vip);
  }

  #unindex(vip: Vip): void {
    for (const service of vip.services) this.#byService.delete(service, vip);
    if (vip.object.owner !== undefined) this.#byOwner.delete(vip.object.owner.node, vip);
  }
}

const NONE: readonly string[] = [];

/** The first so many by name, in order, without sorting the rest. */
export function firstByName(vips: Iterable<Vip>, count: number): Vip[] {
  const first: Vip[] = [];
  for (const vip of vips) {
    const { name } = vip.object.metadata;
    const last = first.at(-1);
    if (first.length === count && last !== undefined && name >= last.object.metadata.name) continue;
    const place = first.findIndex((other) => name < other.object.metadata.name);
    first.splice(place < 0 ? first.length : place, 0, vip);
    if (first.length > count) first.pop();
  }
  return first;
}

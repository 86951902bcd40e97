/** For tests: Leases behind an `ApiClient`, in memory and in one turn, with what may go wrong in between. */
import type { Lease } from "../api/foreign.ts";
import type { KubeObject } from "../api/meta.ts";
import type { Answer, ApiClient, ApiFailure, Key } from "./port.ts";

export class LeaseStore {
  readonly leases = new Map<string, Lease>();
  readonly writes: Lease[] = [];
  version = 0;
  /**
   * What happens to the next request: undefined lets it through; `lost` carries it out and loses the answer, `late` does
   * so just before the next write.
   */
  readonly fates: (ApiFailure | "lost" | "late" | undefined)[] = [];
  readonly #late: (() => unknown)[] = [];
  /** Every request fails as if the server were gone. */
  away = false;
  #uids = 0;

  /** As somebody else writes it. */
  put(lease: Lease): Lease {
    const { name } = lease.metadata;
    const uid = lease.metadata.uid ?? this.leases.get(name)?.metadata.uid ?? `uid-${++this.#uids}`;
    const stored = structuredClone({
      ...lease,
      metadata: { ...lease.metadata, uid, resourceVersion: String(++this.version) },
    });
    this.leases.set(name, stored);
    return stored;
  }

  client(): ApiClient {
    const serve = async <T>(act: () => Answer<Lease>): Promise<Answer<T>> => {
      const fate = this.away ? NO_ANSWER : this.fates.shift();
      if (fate === "late") {
        this.#late.push(act);
        return { ok: false, failure: NO_ANSWER };
      }
      const answer = fate === undefined || fate === "lost" ? act() : { ok: false as const, failure: fate };
      // The callers ask for Leases only.
      return (fate === "lost" ? { ok: false, failure: NO_ANSWER } : structuredClone(answer)) as Answer<T>;
    };
    const write = (lease: Lease): Answer<Lease> => {
      this.writes.push(lease);
      return { ok: true, object: this.put(lease) };
    };
    const unused = () => {
      throw new Error("not used for Leases");
    };
    return {
      get: <T extends KubeObject>(_resource: unknown, { name }: Key) =>
        serve<T>(() => {
          const lease = this.leases.get(name);
          return lease === undefined ? refuse(404, "NotFound") : { ok: true, object: lease };
        }),
      create: <T extends KubeObject>(_resource: unknown, object: T) =>
        serve<T>(() =>
          this.leases.has(object.metadata.name) ? refuse(409, "AlreadyExists") : write(object as unknown as Lease),
        ),
      update: <T extends KubeObject>(_resource: unknown, object: T) =>
        serve<T>(() => {
          for (const act of this.#late.splice(0)) act();
          const known = this.leases.get(object.metadata.name);
          if (known === undefined) return refuse(404, "NotFound");
          const isCurrent = known.metadata.resourceVersion === object.metadata.resourceVersion;
          return isCurrent ? write(object as unknown as Lease) : refuse(409, "Conflict");
        }),
      list: unused,
      mergePatch: unused,
      apply: unused,
      delete: unused,
      close() {},
    };
  }
}

const NO_ANSWER: ApiFailure = { status: 0, reason: "NoAnswer", message: "lost" };
const refuse = (status: number, reason: string): Answer<Lease> => ({
  ok: false,
  failure: { status, reason, message: reason },
});

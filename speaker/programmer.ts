import { after, type Instant } from "../src/core/instant.ts";
import type { Clock } from "../src/host/port.ts";
import type { Address } from "../src/net/address.ts";
import type { NodeSurroundings, VipPlan } from "../src/plan/vip-plan.ts";
import type { PlanePort } from "./port.ts";
import type { Vip } from "./vip.ts";

export type ProgrammerPorts = {
  readonly plane: PlanePort;
  readonly clock: Clock;
  plan(vip: Vip): VipPlan;
  /** The plane holds these as planned; `retired` are gone from it. */
  programmed(vips: readonly Vip[], retired: readonly Vip[]): void;
  /** The plane refused; tried again by itself. */
  failed(vip: Vip | undefined, message: string): void;
  /** A transaction was acknowledged: how many VIPs it changed, and when the bytes of its oldest event were read. */
  transaction(changes: number, receivedAt: Instant | undefined): void;
};

/**
 * Brings changed VIPs into the plane. What becomes dirty in one turn of the event loop, that is, what came in one read,
 * is one transaction; what becomes dirty while one is under way is the next.
 */
export class Programmer {
  readonly #ports: ProgrammerPorts;
  #dirty = new Set<Vip>();
  /** Refused by the plane: they wait for `#retryAt`, while others go on. */
  #refused = new Set<Vip>();
  #surroundings: NodeSurroundings | undefined;
  #oldest: Instant | undefined;
  #scheduled = false;
  #busy = false;
  #open = false;
  #failures = 0;
  #retryAt: Instant | undefined;

  constructor(ports: ProgrammerPorts) {
    this.#ports = ports;
  }

  /** The VIP changed, or is retiring and the wire is silent about it. */
  mark(vip: Vip, receivedAt?: Instant): void {
    this.#dirty.add(vip);
    if (receivedAt !== undefined && (this.#oldest === undefined || receivedAt < this.#oldest))
      this.#oldest = receivedAt;
    this.#schedule();
  }

  markSurroundings(surroundings: NodeSurroundings): void {
    this.#surroundings = surroundings;
    this.#schedule();
  }

  /** From now on changes go to the plane; before, they only gather. */
  open(): void {
    this.#open = true;
    this.#schedule();
  }

  get idle(): boolean {
    return !this.#busy && this.#dirty.size === 0 && this.#refused.size === 0;
  }

  nextDeadline(): Instant | undefined {
    return this.#retryAt;
  }

  tick(now: Instant): void {
    if (this.#retryAt === undefined || now < this.#retryAt) return;
    this.#retryAt = undefined;
    for (const vip of this.#refused) this.#dirty.add(vip);
    this.#refused = new Set();
    this.#schedule();
  }

  #schedule(): void {
    if (this.#scheduled || this.#busy || !this.#open) return;
    this.#scheduled = true;
    queueMicrotask(() => {
      this.#scheduled = false;
      void this.#flush();
    });
  }

  async #flush(): Promise<void> {
    if (this.#busy || (this.#dirty.size === 0 && this.#surroundings === undefined)) return;
    this.#busy = true;
    const vips = [...this.#dirty];
    const oldest = this.#oldest;
    const surroundings = this.#surroundings;
    this.#dirty = new Set();
    this.#oldest = undefined;
    this.#surroundings = undefined;
    const batch = this.#planned(vips);
    const changes = batch.filter(({ vip, plan }) => plan !== vip.plan);
    if (changes.length > 0 || surroundings !== undefined) {
      const wanted = new Map<Address, VipPlan | undefined>();
      for (const { vip, plan } of changes) wanted.set(vip.object.address, plan);
      const outcome = await this.#ports.plane.apply(wanted, surroundings);
      if ("fault" in outcome) {
        this.#surroundings ??= surroundings;
        for (const { vip } of changes) this.#refused.add(vip);
        this.#ports.failed(undefined, outcome.fault.message);
        this.#backOff();
        this.#done(batch.filter(({ vip, plan }) => plan === vip.plan));
      } else {
        this.#ports.transaction(changes.length, oldest);
        this.#done(batch.filter(({ vip }) => !outcome.failed.has(vip.object.address)));
        for (const { vip } of batch) {
          const fault = outcome.failed.get(vip.object.address);
          if (fault === undefined) continue;
          this.#refused.add(vip);
          this.#ports.failed(vip, fault.message);
        }
        if (outcome.failed.size > 0) this.#backOff();
        else this.#failures = 0;
      }
    } else {
      this.#done(batch);
    }
    this.#finish();
  }

  #planned(vips: readonly Vip[]): Planned[] {
    return vips.map((vip) => ({
      vip,
      plan: vip.retiring === undefined ? this.#ports.plan(vip) : undefined,
      generation: vip.object.metadata.generation,
    }));
  }

  #done(batch: readonly Planned[]): void {
    const programmed: Vip[] = [];
    const retired: Vip[] = [];
    for (const { vip, plan, generation } of batch) {
      vip.refused = undefined;
      vip.plan = plan;
      if (plan === undefined) retired.push(vip);
      else {
        vip.programmed = generation;
        programmed.push(vip);
      }
    }
    this.#ports.programmed(programmed, retired);
  }

  #backOff(): void {
    this.#failures++;
    this.#retryAt = after(this.#ports.clock.now(), Math.min(10_000, 100 * 2 ** Math.min(this.#failures, 10)));
  }

  #finish(): void {
    this.#busy = false;
    if (this.#dirty.size > 0 || (this.#surroundings !== undefined && this.#retryAt === undefined)) this.#schedule();
  }
}

type Planned = { readonly vip: Vip; readonly plan: VipPlan | undefined; readonly generation: number | undefined };

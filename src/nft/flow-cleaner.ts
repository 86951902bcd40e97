import { after, type Instant } from "../core/instant.ts";
import type { Fault } from "../core/trouble.ts";
import type { Clock } from "../host/port.ts";
import { type Address, type Family, familyOf } from "../net/address.ts";
import { decodeFlow, type Flow, putFlowDelete, putFlowDump } from "../netlink/conntrack.ts";
import { decodeAcknowledgement, decodeMessage, MessageWriter } from "../netlink/message.ts";
import { endsDump, errnoOf, errnoText } from "../netlink/nfnetlink.ts";
import type { VipPlan } from "../plan/vip-plan.ts";
import { type FlowChanges, IPPROTO_UDP, isStale } from "./conntrack.ts";
import { FAMILIES } from "./ruleset.ts";

export type FlowCleanerOptions = {
  readonly exchange: (bytes: Uint8Array, done: (message: Uint8Array) => boolean) => Promise<Uint8Array[]>;
  readonly takeSequences: (count: number) => number;
  /** What the table holds for the address now. */
  readonly planOf: (address: Address) => VipPlan | undefined;
  readonly onFault: (fault: Fault) => void;
  readonly clock: Clock;
  readonly pause: (milliseconds: number) => Promise<void>;
};

/** More VIPs than this are served by one dump of everything. */
const SINGLE_DUMPS = 8;
/** Entries that are deleted in one send. */
const DELETES = 256;
const ENOENT = 2;

/**
 * A dump walks the whole hash table of the machine, however few entries it finds there: 8 ms for its 262144 buckets.
 * What a burst of changes asks for is gathered meanwhile, so that looking takes a twentieth of the time at most; but no
 * stale entry waits longer than the last of these.
 */
const REST = { least: 100, times: 19, most: 2000 } as const;

/**
 * Deletes stale conntrack entries, later than the change that made them stale and never before it was applied: at once
 * after a time of rest, gathered in a burst.
 */
export class FlowCleaner {
  readonly #options: FlowCleanerOptions;
  readonly #pending = new Map<Address, FlowChanges["type"]>();
  #working: Promise<void> = Promise.resolve();
  #scheduled = false;
  /** Before that nothing is looked at. */
  #notBefore: Instant | undefined;

  constructor(options: FlowCleanerOptions) {
    this.#options = options;
  }

  /** Looks at the flows of a VIP soon. */
  clean(change: FlowChanges): void {
    const known = this.#pending.get(change.address);
    // `all` outlives a VIP that came back at once: its old flows still go.
    if (known !== "all" && (known !== "first" || change.type === "all")) this.#pending.set(change.address, change.type);
    this.#schedule();
  }

  /** Every entry of these VIPs, soon. */
  forget(address: Address): void {
    this.clean({ type: "all", address });
  }

  /** Looks at every flow once (after a restart), and deletes all of `foreign` VIPs, which were still in the table. */
  audit(plans: Iterable<VipPlan>, foreign: readonly Address[]): void {
    for (const plan of plans) if (!this.#pending.has(plan.address)) this.#pending.set(plan.address, "first");
    for (const address of foreign) this.#pending.set(address, "all");
    this.#schedule();
  }

  /** Resolves when everything asked for so far is done. */
  async idle(): Promise<void> {
    while (this.#scheduled) await this.#working;
    await this.#working;
  }

  #schedule(): void {
    if (this.#scheduled || this.#pending.size === 0) return;
    this.#scheduled = true;
    this.#working = this.#working.then(async () => {
      const { clock, pause } = this.#options;
      const wait = this.#notBefore === undefined ? 0 : this.#notBefore - clock.now();
      if (wait > 0) await pause(wait);
      const from = clock.now();
      this.#scheduled = false;
      const work = new Map(this.#pending);
      this.#pending.clear();
      try {
        await this.#work(work);
      } catch (error) {
        // Stale entries stay until they time out or the VIP changes again: worth a word, not worth a stop.
        this.#options.onFault({
          what: "conntrack cleaning",
          message: error instanceof Error ? error.message : String(error),
        });
      }
      const now = clock.now();
      this.#notBefore = after(now, Math.min(REST.most, Math.max(REST.least, REST.times * (now - from))));
    });
  }

  async #work(work: ReadonlyMap<Address, FlowChanges["type"]>): Promise<void> {
    const stale = (flow: Flow): boolean => {
      const type = work.get(flow.original.destination);
      if (type === undefined) return false;
      return type === "all" || isStale(flow, this.#options.planOf(flow.original.destination));
    };
    for (const family of FAMILIES) {
      const ours = [...work].filter(([address]) => familyOf(address) === family);
      // The kernel can't sift by IPv6 address (see putFlowDump): one dump serves all of them.
      if (family === "IPv4" && ours.length <= SINGLE_DUMPS) {
        for (const [destination, type] of ours) {
          await this.#sweep(family, { destination, ...(type === "udp" && { protocol: IPPROTO_UDP }) }, stale);
        }
      } else if (ours.length > 0) {
        const udpOnly = ours.every(([, type]) => type === "udp");
        await this.#sweep(family, udpOnly ? { protocol: IPPROTO_UDP } : {}, stale);
      }
    }
  }

  async #sweep(
    family: Family,
    filter: { destination?: Address; protocol?: number },
    stale: (flow: Flow) => boolean,
  ): Promise<void> {
    const writer = new MessageWriter(256);
    putFlowDump(writer, this.#options.takeSequences(1), family, filter);
    const replies = await this.#options.exchange(writer.bytes(), endsDump);
    const errno = errnoOf(replies);
    if (errno !== 0) throw new Error(`dump of conntrack entries: ${errnoText(errno)}`);
    const gone: Flow[] = [];
    for (const reply of replies) {
      const flow = decodeFlow(reply);
      if (flow !== undefined && stale(flow)) gone.push(flow);
    }
    while (gone.length > 0) await this.#delete(gone.splice(0, DELETES));
  }

  async #delete(flows: readonly Flow[]): Promise<void> {
    const writer = new MessageWriter();
    const first = this.#options.takeSequences(flows.length);
    for (const [i, flow] of flows.entries()) putFlowDelete(writer, first + i, flow);
    const last = first + flows.length - 1;
    const replies = await this.#options.exchange(writer.bytes(), (reply) => {
      const message = decodeMessage(reply);
      return message !== undefined && decodeAcknowledgement(message)?.sequence === last;
    });
    for (const reply of replies) {
      const errno = errnoOf([reply]);
      if (errno !== 0 && errno !== ENOENT) throw new Error(`delete of a conntrack entry: ${errnoText(errno)}`);
    }
  }
}

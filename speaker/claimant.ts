import type { L2AdvertisementSpec } from "../src/api/l2-advertisement.ts";
import { VIRTUALIP } from "../src/api/resource.ts";
import type { VirtualIP } from "../src/api/virtual-ip.ts";
import type { Log } from "../src/core/log.ts";
import { compareVersions } from "../src/core/resource-version.ts";
import type { Answer, ApiClient } from "../src/kube/port.ts";
import {
  type Elected,
  type Election,
  elect,
  judge,
  type NodeView,
  needsDataPath,
  type Verdict,
} from "../src/plan/elect.ts";
import { decideOwnership, type Stance } from "../src/plan/owner.ts";
import { type CachedVip, projectVip } from "./cache.ts";
import type { WirePort } from "./port.ts";
import type { Vip, VipTable } from "./vip.ts";

export type ClaimantPorts = {
  readonly me: string;
  readonly client: ApiClient;
  /**
   * Reads single records, and gives up soon: a renewal waits for them when the Lease has lapsed, and the other nodes wait
   * for the renewal no longer than a Lease and a grace.
   */
  readonly reader: ApiClient;
  readonly wire: WirePort;
  readonly log: Log;
  readonly vips: VipTable;
  readonly nodes: ReadonlyMap<string, NodeView>;
  advertisement(name: string): L2AdvertisementSpec | undefined;
  /** Nodes with a usable endpoint, when only such nodes may answer. */
  homes(vip: Vip): ReadonlySet<string> | undefined;
  /** Own renewals succeed and the watches are fresh. */
  sure(): boolean;
  /** The store changed under us: nothing new is announced. */
  doubted(): boolean;
  /** A consistent read does not have the VIP any more. */
  gone(vip: Vip): void;
  /** A newer reading of the object came by our own write or read. */
  read(vip: Vip, object: CachedVip): void;
  /** A VIP that this node can't serve as wanted, or can again (undefined). */
  changed(vip: Vip): void;
  /** RFC 3339. */
  wallClock(): string;
  pause(milliseconds: number): Promise<void>;
};

/** So many writes of records are under way at once: a take-over of thousands must not queue up in the API server. */
const IN_FLIGHT = 16;

/**
 * Ownership, done: `plan/elect` and `plan/owner` decide, this tells the wire and writes the records.
 */
export class Claimant {
  readonly #ports: ClaimantPorts;
  #dirty = new Set<Vip>();
  #scheduled = false;
  #open = false;
  readonly #waiting = new Set<Vip>();
  #inFlight = 0;
  #withdrawals = new Map<string, (() => void)[]>();

  constructor(ports: ClaimantPorts) {
    this.#ports = ports;
  }

  /** From now on decisions are acted upon. */
  open(): void {
    this.#open = true;
    this.#schedule();
  }

  mark(vip: Vip): void {
    this.#dirty.add(vip);
    this.#schedule();
  }

  markAll(vips: Iterable<Vip>): void {
    for (const vip of vips) this.#dirty.add(vip);
    this.#schedule();
  }

  /** Decides for everything that is marked, now. */
  settle(): void {
    if (!this.#open) return;
    const vips = this.#dirty;
    this.#dirty = new Set();
    for (const vip of vips) this.#decide(vip);
  }

  /** Makes the wire fall silent about the VIP; resolves after its last frame. */
  async withdraw(vip: Vip): Promise<void> {
    if (vip.answering !== undefined) this.#silence(vip);
    const address = vip.object.address;
    const pending = this.#withdrawals.get(address);
    if (pending === undefined) return;
    await new Promise<void>((resolve) => pending.push(resolve));
  }

  /** The wire's word that nothing more is sent for the address. */
  withdrawn(address: string): void {
    const pending = this.#withdrawals.get(address);
    this.#withdrawals.delete(address);
    for (const resolve of pending ?? []) resolve();
  }

  /** Reads the record consistently and follows it. False when the API server did not answer. */
  async confirm(vip: Vip): Promise<boolean> {
    const answer = await this.#ports.reader.get<VirtualIP>(VIRTUALIP, { name: vip.object.metadata.name });
    return this.#take(vip, answer);
  }

  #schedule(): void {
    if (this.#scheduled || !this.#open || this.#dirty.size === 0) return;
    this.#scheduled = true;
    queueMicrotask(() => {
      this.#scheduled = false;
      this.settle();
    });
  }

  #decide(vip: Vip): void {
    if (vip.retiring !== undefined || this.#ports.vips.at(vip.object.address) !== vip) return;
    const { stance, elected } = this.#consider(vip);
    this.#note(vip, elected);
    this.#answer(vip, stance);
    if (stance.offer !== undefined && !vip.writing) this.#offer(vip);
  }

  #election(vip: Vip): Election {
    const { address, advertisements, forwards, owner } = vip.object;
    return {
      address,
      advertisements: advertisements
        .map((name) => this.#ports.advertisement(name))
        .filter((spec): spec is L2AdvertisementSpec => spec !== undefined),
      needsDataPath: needsDataPath(forwards),
      homes: this.#ports.homes(vip),
      recorded: owner?.node,
    };
  }

  #consider(vip: Vip): { stance: Stance; elected: Elected; interfaces: readonly string[] } {
    const { nodes, me } = this.#ports;
    const election = this.#election(vip);
    const elected = elect(election, nodes);
    const view = nodes.get(me);
    const mine: Verdict = view === undefined ? { type: "no", reason: "NoLiveSpeaker" } : judge(election, view);
    const stance = decideOwnership({
      me,
      record: vip.object.owner,
      elected,
      mine,
      generation: vip.object.metadata.generation ?? 0,
      programmed: vip.programmed,
      answering: vip.answering?.term,
      sure: this.#ports.sure(),
    });
    return { stance, elected, interfaces: mine.type === "candidate" ? mine.interfaces : [] };
  }

  /** Remembers whether any change of any node may matter to it, and why it is not answered for. */
  #note(vip: Vip, elected: Elected): void {
    const { vips, me } = this.#ports;
    const recorded = vip.object.owner?.node;
    if (elected.type === "owner" && elected.node === recorded) vips.unsettled.delete(vip);
    else vips.unsettled.add(vip);
    // Told by one node only: the recorded owner, or without one every node, since each is as near to it.
    const mine = recorded === undefined || recorded === me;
    const silence = mine && elected.type === "nobody" ? `${elected.reason}: ${elected.message}` : undefined;
    if (vip.silence === silence) return;
    vip.silence = silence;
    this.#ports.changed(vip);
  }

  #answer(vip: Vip, { answer }: Stance): void {
    const before = vip.answering;
    if (before === undefined && this.#ports.doubted()) return;
    if (answer === undefined) {
      if (before !== undefined) this.#silence(vip);
      return;
    }
    if (before?.term === answer.term && before.interfaces.join() === answer.interfaces.join()) return;
    vip.answering = answer;
    this.#ports.wire.send({
      type: "announce",
      announcement: {
        address: vip.object.address,
        interfaces: answer.interfaces,
        term: answer.term,
        refreshIntervalSeconds: this.#refreshInterval(vip),
      },
    });
    this.#ports.log.info(
      { vip: vip.object.metadata.name, term: answer.term, interfaces: answer.interfaces },
      before === undefined ? "answering for the address" : "answering on other terms",
    );
  }

  #silence(vip: Vip): void {
    vip.answering = undefined;
    vip.claim = undefined;
    if (!this.#withdrawals.has(vip.object.address)) this.#withdrawals.set(vip.object.address, []);
    this.#ports.wire.send({ type: "withdraw", address: vip.object.address });
    this.#ports.log.info({ vip: vip.object.metadata.name, owner: vip.object.owner?.node }, "no longer answering");
  }

  /** The shortest of its advertisements; 0 (off) only where all say so. */
  #refreshInterval(vip: Vip): number {
    const seconds = vip.object.advertisements
      .map((name) => this.#ports.advertisement(name)?.refreshIntervalSeconds ?? (this.#ports.advertisement(name) && 60))
      .filter((it): it is number => it !== undefined && it > 0);
    return seconds.length === 0 ? 0 : Math.min(...seconds);
  }

  #offer(vip: Vip): void {
    vip.writing = true;
    this.#waiting.add(vip);
    this.#pump();
  }

  #pump(): void {
    for (const vip of this.#waiting) {
      if (this.#inFlight >= IN_FLIGHT) return;
      this.#waiting.delete(vip);
      this.#inFlight++;
      void this.#write(vip).finally(() => {
        this.#inFlight--;
        vip.writing = false;
        this.mark(vip);
        this.#pump();
      });
    }
  }

  /** Decided anew from the record as it is now: while it waited in the queue, much may have changed. */
  async #write(vip: Vip): Promise<void> {
    if (vip.retiring !== undefined || this.#ports.vips.at(vip.object.address) !== vip) return;
    const { stance, interfaces } = this.#consider(vip);
    const { offer } = stance;
    if (offer === undefined || vip.programmed === undefined) return;
    const { name, resourceVersion, uid } = vip.object.metadata;
    const owner =
      offer.type === "generation"
        ? { generation: vip.programmed }
        : {
            node: this.#ports.me,
            interface: interfaces[0] ?? "",
            since: this.#ports.wallClock(),
            term: offer.term,
            generation: vip.programmed,
          };
    const answer = await this.#ports.client.mergePatch<VirtualIP>(
      VIRTUALIP,
      { name },
      { metadata: { resourceVersion, uid }, status: { owner } },
      "status",
    );
    if (answer.ok) {
      this.#ports.log.debug({ vip: name, offer: offer.type, term: offer.term }, "recorded as owner");
      this.#take(vip, answer);
      return;
    }
    const { status, reason, message } = answer.failure;
    if (reason === "NotFound") return;
    this.#ports.log.info(
      { vip: name, offer: offer.type, term: offer.term, status, reason },
      "the record was not taken",
    );
    // 409: somebody was first, or changed something else. No answer: it may have been carried out. Either way the
    // record as it is now decides; until it was read this node makes no second offer.
    if (status !== 409) {
      this.#ports.log.warn({ vip: name, status, message }, "writing status.owner failed");
      await this.#ports.pause(1000);
    }
    for (let failures = 0; !(await this.confirm(vip)); failures++) {
      await this.#ports.pause(Math.min(5000, 250 * 2 ** failures));
      if (vip.retiring !== undefined) return;
    }
  }

  /** A reading that is newer than what we have takes its place. True when the server answered. */
  #take(vip: Vip, answer: Answer<VirtualIP>): boolean {
    if (!answer.ok) {
      // A path that is not served is 404 as well, and no proof of anything.
      if (answer.failure.reason !== "NotFound") return false;
      this.#ports.gone(vip);
      return true;
    }
    const object = projectVip(answer.object);
    if (object.metadata.uid !== vip.object.metadata.uid) {
      // Another VIP under the same name; the watch will bring it.
      this.#ports.gone(vip);
      return true;
    }
    const [theirs, ours] = [object.metadata.resourceVersion ?? "", vip.object.metadata.resourceVersion ?? ""];
    if ((compareVersions(theirs, ours) ?? 1) > 0) this.#ports.read(vip, object);
    return true;
  }
}

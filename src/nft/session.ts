import type { Fault } from "../core/trouble.ts";
import type { Clock } from "../host/port.ts";
import { type Address, addressFromBytes, type Family, familyOf } from "../net/address.ts";
import { MessageWriter } from "../netlink/message.ts";
import {
  type Batch,
  beginBatch,
  endsBatch,
  endsDump,
  errnoOf,
  errnoText,
  faultOf,
  NFNL_SUBSYS_NFTABLES,
  type Refusal,
  refusalsOf,
} from "../netlink/nfnetlink.ts";
import { type Element, NFT_TABLE_F_OWNER, NFT_TABLE_F_PERSIST, putDump, tableOf } from "../netlink/nftables.ts";
import type { NodeSurroundings, VipPlan } from "../plan/vip-plan.ts";
import { countsIn, findDifference, findTable, HeldElements } from "./adopt.ts";
import { assureBuckets } from "./assure.ts";
import { Transaction } from "./batch.ts";
import { type Changes, compareElements, compareVips } from "./compare.ts";
import { type FlowChanges, flowChangesOf } from "./conntrack.ts";
import {
  bucketElements,
  elementsOfAddress,
  elementsOfSurroundings,
  leadingElements,
  localElement,
  localEndpointsOf,
  type Placed,
} from "./element.ts";
import { FlowCleaner } from "./flow-cleaner.ts";
import { type DroppingChain, readDroppingChains } from "./forward-chain.ts";
import { encodeProbe, missingFrom, PROBE_MESSAGES, type Probe } from "./probe.ts";
import { FAMILIES, SETS, setName, TABLE } from "./ruleset.ts";

/** A netlink socket of nfnetlink, for the life of the process: the table's ownership is the socket's. */
export type NetfilterPort = {
  exchange(bytes: Uint8Array, done: (message: Uint8Array) => boolean): Promise<Uint8Array[]>;
  readonly portId: number;
};

export type DataPlaneOptions = {
  readonly netlink: NetfilterPort;
  /** A second socket, for conntrack: a dump of hundreds of thousands of entries holds up no change. Default: the same one. */
  readonly conntrack?: Pick<NetfilterPort, "exchange">;
  readonly clock: Clock;
  readonly pause: (milliseconds: number) => Promise<void>;
  /**
   * Opens a second socket that is told every change of nftables; used only without ownership. `onChange` gets each
   * message, `onOverrun` says that some were lost. What `ownPortId` does need not be told: it is ignored.
   */
  readonly watch?: (
    onChange: (message: Uint8Array) => void,
    onOverrun: () => void,
    ownPortId: number,
  ) => { close(): void };
  /** Elements from which on a map is not read as long as its count is right; 8192. */
  readonly largeMap?: number;
  /** Never own the table, even where the kernel can. */
  readonly plain?: boolean;
  /** Called when others changed the table and it was made right again (or could not be). */
  readonly onRepair?: (repaired: Applied | { readonly fault: Fault }) => void;
  /** Called when stale conntrack entries could not be deleted; the next change tries again. */
  readonly onFlowFault?: (fault: Fault) => void;
};

/** `owned`: nobody else can change the table while this process lives. `plain`: anyone can, so changes are watched. */
export type Mode = "owned" | "plain";

export type Started = { readonly ok: true; readonly mode: Mode } | { readonly ok: false; readonly fault: Fault };

export type Applied = {
  /** Elements put in and taken away. Both 0: nothing was sent. */
  readonly added: number;
  readonly deleted: number;
  /** Set when the whole table was made anew, with the reason. */
  readonly rebuilt?: string;
  /** VIPs that the kernel refused, with its reason; the table holds them as they were before. */
  readonly failed: ReadonlyMap<Address, Fault>;
};

const NOTHING: Applied = { added: 0, deleted: 0, failed: new Map() };

/** A batch is copied whole into the send buffer; a change that needs more is cut between VIPs. */
const TRANSACTION_BYTES = 24 * 1024 * 1024;

/** Elements from which on reading a map costs more than writing it anew. */
const LARGE_MAP = 8192;

const EPERM = 1;
const SEQUENCE_LIMIT = 0x7000_0000;

/** What the table holds, or should hold. */
type State = {
  readonly vips: Map<Address, VipPlan>;
  readonly surroundings: NodeSurroundings;
  /** How many VIPs have an endpoint of this address on this node: they share one element. */
  readonly local: Map<Address, number>;
};

/**
 * The nftables plane of this node. `start` claims the table, `adopt` makes it hold exactly the given plans and changes
 * nothing where it does already, `apply` then changes single VIPs. Calls are served one after another, in order.
 */
export class DataPlane {
  readonly #options: DataPlaneOptions;
  readonly #flows: FlowCleaner;
  #sequence = 1;
  readonly #writer = new MessageWriter(64 * 1024);
  #mode: Mode | undefined;
  #state: State | undefined;
  #turn: Promise<unknown> = Promise.resolve();
  #watch: { close(): void } | undefined;
  #repairWaits = false;

  constructor(options: DataPlaneOptions) {
    this.#options = options;
    const { netlink, conntrack = netlink } = options;
    this.#flows = new FlowCleaner({
      exchange: (bytes, done) => conntrack.exchange(bytes, done),
      takeSequences: (count) => this.#takeSequences(count),
      planOf: (address) => this.#state?.vips.get(address),
      onFault: (fault) => options.onFlowFault?.(fault),
      clock: options.clock,
      pause: options.pause,
    });
  }

  /** Undefined before `start`. */
  get mode(): Mode | undefined {
    return this.#mode;
  }

  /** VIPs that the table holds. */
  get size(): number {
    return this.#state?.vips.size ?? 0;
  }

  /**
   * Finds out what the kernel can do and claims the table. A Fault is for the caller to retry: another speaker lives,
   * a capability or a kernel feature is missing (the message names it).
   */
  start(): Promise<Started> {
    return this.#inTurn(async (): Promise<Started> => {
      const probe = await this.#probe();
      if (probe.type === "fault") return { ok: false, fault: probe.fault };
      const mode: Mode = probe.ownership && !this.#options.plain ? "owned" : "plain";
      if (mode === "owned") {
        const fault = await this.#claim();
        if (fault !== undefined) return { ok: false, fault };
      }
      this.#mode = mode;
      if (mode === "plain") {
        const { watch, netlink } = this.#options;
        this.#watch ??= watch?.(this.#onChange, () => this.#scheduleRepair(), netlink.portId);
      }
      return { ok: true, mode };
    }, faultStarted);
  }

  /**
   * Makes the table hold exactly these plans: dumps it, compares it, and mends the difference in one transaction.
   * Nothing is sent when there is no difference.
   */
  adopt(plans: ReadonlyMap<Address, VipPlan>, surroundings: NodeSurroundings): Promise<Applied | { fault: Fault }> {
    return this.#inTurn(async () => {
      const mended = await this.#mend(stateOf(plans, surroundings));
      if (!("fault" in mended)) this.#flows.audit([...plans.values()], mended.foreignVips);
      return mended;
    }, faultAlone);
  }

  /**
   * Makes the named VIPs as they are planned (`undefined`: gone), and the surroundings where given. One transaction for
   * all of them; where the kernel refuses it, each VIP is tried alone, so that one can't hold up another.
   */
  apply(
    changes: ReadonlyMap<Address, VipPlan | undefined>,
    surroundings?: NodeSurroundings,
  ): Promise<Applied | { fault: Fault }> {
    return this.#inTurn(() => this.#apply(changes, surroundings), faultAlone);
  }

  /** Deletes every conntrack entry of the VIP, TCP too: for a VIP that was given to another holder. */
  forgetFlows(address: Address): void {
    this.#flows.forget(address);
  }

  /** Others' chains at the forward hook that drop by policy: pods can't be reached through them. */
  droppingForwardChains(): Promise<DroppingChain[] | { fault: Fault }> {
    const { netlink } = this.#options;
    return this.#inTurn(
      () =>
        readDroppingChains(
          (bytes, done) => netlink.exchange(bytes, done),
          () => this.#takeSequences(1),
        ),
      faultAlone,
    );
  }

  /** Resolves when conntrack cleaning that was asked for so far is done. */
  flowsCleaned(): Promise<void> {
    return this.#flows.idle();
  }

  /** Stops watching. The table stays as it is. */
  close(): void {
    this.#watch?.close();
    this.#watch = undefined;
  }

  // ------------------------------------------------------------ claiming

  async #probe(): Promise<Probe> {
    const sequence = this.#takeSequences(PROBE_MESSAGES);
    const probe = encodeProbe(this.#writer, sequence);
    const replies = await this.#options.netlink.exchange(probe.bytes, (reply) => endsBatch(reply, probe));
    return missingFrom(probe, refusalsOf(replies));
  }

  async #claim(): Promise<Fault | undefined> {
    const table = findTable(await this.#dump("table"));
    // A table that nobody ever owned can't be claimed, only made anew: adopt does it, in its one transaction.
    if (table !== undefined && (table.flags & NFT_TABLE_F_PERSIST) === 0) return undefined;
    if (table?.owner === this.#options.netlink.portId) return undefined;
    const transaction = new Transaction(this.#sequence, this.#writer);
    transaction.claim(this.#flags);
    const refusals = await this.#send(transaction);
    if (refusals.length === 0) return undefined;
    if (refusals.some((refusal) => refusal.errno === EPERM)) {
      return {
        what: "claim of table inet belfry",
        message: "another speaker lives on this node and owns the table; retried until it has ended",
      };
    }
    return faultOf("claim of table inet belfry", refusals);
  }

  get #flags(): number {
    return this.#mode === "plain" ? 0 : NFT_TABLE_F_OWNER | NFT_TABLE_F_PERSIST;
  }

  // ------------------------------------------------------------ adopting

  /** Brings the whole table to the wanted state, from whatever it holds. */
  async #mend(wanted: State): Promise<(Applied & { foreignVips: Address[] }) | { fault: Fault }> {
    const table = findTable(await this.#dump("table"));
    const mustOwn = this.#mode === "owned" && table !== undefined && table.owner !== this.#options.netlink.portId;
    const sets = table === undefined ? [] : await this.#dump("set");
    const reason =
      table === undefined
        ? "it was not there"
        : mustOwn
          ? "it had no owner and can't be given one"
          : findDifference([...sets, ...(await this.#dump("chain")), ...(await this.#dump("rule"))]);
    if (reason !== undefined) return this.#rebuild(wanted, table !== undefined, reason);
    const assured = await this.#assureLarge(wanted, countsIn(sets));
    if ("fault" in assured) return assured;
    const held = new Map<string, HeldElements>();
    for (const set of SETS) {
      if (assured.whole.has(set.name)) continue;
      const elements = new HeldElements(set);
      const replies = await this.#dump("element", set.name);
      elements.read(replies);
      release(replies);
      if (elements.strange) return this.#rebuild(wanted, true, `set ${set.name} holds what is not ours`);
      held.set(set.name, elements);
    }
    const transaction = new Transaction(this.#sequence, this.#writer);
    const missing: Placed[] = [];
    const take = (set: string, element: Element): void => {
      const found = held.get(set)?.take(element) ?? "same";
      if (found === "same") return;
      const placed = { set, element: { ...element, key: element.key.slice() } };
      if (found === "otherData") transaction.delete(placed);
      missing.push(placed);
    };
    for (const { set, element } of leadingOfState(wanted)) take(set, element);
    for (const family of FAMILIES) {
      const map = setName("endpoint", family);
      if (!held.has(map)) continue;
      for (const element of bucketsOfState(wanted, family)) take(map, element);
    }
    const foreignVips: Address[] = [];
    for (const elements of held.values()) {
      for (const placed of elements.leftovers()) {
        transaction.delete(placed);
        if (placed.set === "vip4" || placed.set === "vip6") foreignVips.push(addressFromBytes(placed.element.key));
      }
    }
    for (const placed of missing) transaction.add(placed);
    for (const elements of held.values()) elements.release();
    if (!transaction.empty) {
      const refusals = await this.#send(transaction);
      if (refusals.length > 0) return { fault: faultOf("mending of table inet belfry", refusals) };
    }
    this.#state = wanted;
    const added = assured.added + transaction.added;
    const deleted = assured.deleted + transaction.deleted;
    return { added, deleted, failed: new Map(), foreignVips };
  }

  /**
   * Large maps, where the kernel tells their counts: brings what is wanted in first, so that a bucket is there before
   * anything leads to it. `whole` are those that hold nothing else by then; the others have to be read.
   */
  async #assureLarge(
    wanted: State,
    counts: ReadonlyMap<string, number>,
  ): Promise<{ whole: Set<string>; added: number; deleted: number } | { fault: Fault }> {
    const whole = new Set<string>();
    let [added, deleted] = [0, 0];
    for (const family of FAMILIES) {
      const map = setName("endpoint", family);
      const before = counts.get(map) ?? 0;
      if (before < (this.#options.largeMap ?? LARGE_MAP)) continue;
      const port = {
        transact: (put: (batch: Batch) => void) => this.#transactRaw(put),
        exchange: this.#options.netlink.exchange.bind(this.#options.netlink),
        takeSequences: (many: number) => this.#takeSequences(many),
      };
      const outcome = await assureBuckets(port, family, wanted.vips.values());
      if ("fault" in outcome) return outcome;
      const after = countsIn(await this.#dump("set")).get(map) ?? 0;
      added += after - before + outcome.replaced;
      deleted += outcome.replaced;
      if (after === outcome.wanted) whole.add(map);
    }
    this.#writer.clear();
    return { whole, added, deleted };
  }

  /** One transaction from the old table to the new one: no packet meets a table that is half there. */
  async #rebuild(wanted: State, exists: boolean, reason: string) {
    const transaction = new Transaction(this.#sequence, this.#writer);
    transaction.rebuild(this.#flags, exists);
    for (const family of FAMILIES) transaction.addAll(setName("endpoint", family), bucketsOfState(wanted, family));
    for (const placed of leadingOfState(wanted)) transaction.add(placed);
    const refusals = await this.#send(transaction);
    this.#writer.clear();
    if (refusals.length > 0) return { fault: faultOf("rebuild of table inet belfry", refusals) };
    this.#state = wanted;
    return { added: transaction.added, deleted: 0, rebuilt: reason, failed: new Map(), foreignVips: [] as Address[] };
  }

  // ------------------------------------------------------------ changing

  async #apply(
    changes: ReadonlyMap<Address, VipPlan | undefined>,
    surroundings: NodeSurroundings | undefined,
  ): Promise<Applied | { fault: Fault }> {
    const state = this.#state;
    if (state === undefined) throw new Error("apply before adopt");
    const refusals = await this.#transact(state, changes, surroundings);
    if ("added" in refusals) return refusals;
    // The table is not as we left it, or one VIP can't be had: compare everything, then try one after another.
    const mended = await this.#mend(afterChanges(state, changes, surroundings));
    if (!("fault" in mended)) return this.#cleaned(state, changes, mended);
    const base = await this.#mend(state);
    if ("fault" in base) return base;
    return this.#applyOneByOne(changes, surroundings);
  }

  async #applyOneByOne(
    changes: ReadonlyMap<Address, VipPlan | undefined>,
    surroundings: NodeSurroundings | undefined,
  ): Promise<Applied | { fault: Fault }> {
    const failed = new Map<Address, Fault>();
    let [added, deleted] = [0, 0];
    const count = (outcome: Applied): void => {
      added += outcome.added;
      deleted += outcome.deleted;
    };
    if (surroundings !== undefined) {
      const outcome = await this.#transact(this.#known(), new Map(), surroundings);
      if (!("added" in outcome)) return { fault: faultOf("surroundings of this node", outcome) };
      count(outcome);
    }
    for (const [address, plan] of changes) {
      const outcome = await this.#transact(this.#known(), new Map([[address, plan]]), undefined);
      if ("added" in outcome) count(outcome);
      else failed.set(address, faultOf(`forwarding of ${address}`, outcome));
    }
    return { added, deleted, failed };
  }

  #known(): State {
    if (this.#state === undefined) throw new Error("apply before adopt");
    return this.#state;
  }

  /** Sends the changes as one transaction (or as few as fit); gives what was done, or what the kernel refused. */
  async #transact(
    state: State,
    changes: ReadonlyMap<Address, VipPlan | undefined>,
    surroundings: NodeSurroundings | undefined,
  ): Promise<Applied | readonly Refusal[]> {
    let transaction = new Transaction(this.#sequence, this.#writer);
    const next = {
      vips: state.vips,
      local: new Map<Address, number>(),
      surroundings: surroundings ?? state.surroundings,
    };
    const done: [Address, VipPlan | undefined][] = [];
    let [added, deleted] = [0, 0];
    let flowChanges: FlowChanges[] = [];
    const commit = async (): Promise<readonly Refusal[]> => {
      if (!transaction.empty) {
        const refusals = await this.#send(transaction);
        if (refusals.length > 0) return refusals;
        added += transaction.added;
        deleted += transaction.deleted;
      }
      for (const [address, plan] of done.splice(0)) {
        if (plan === undefined) state.vips.delete(address);
        else state.vips.set(address, plan);
      }
      for (const [address, count] of next.local) {
        if (count === 0) state.local.delete(address);
        else state.local.set(address, count);
      }
      next.local.clear();
      for (const changed of flowChanges) this.#flows.clean(changed);
      flowChanges = [];
      return [];
    };
    if (surroundings !== undefined) {
      transaction.change(
        compareElements(elementsOfSurroundings(state.surroundings), elementsOfSurroundings(surroundings)),
      );
    }
    for (const [address, plan] of changes) {
      const applied = state.vips.get(address);
      transaction.change(compareVips(applied, plan));
      transaction.change(countLocal(state.local, next.local, applied, plan));
      const flow = flowChangesOf(address, applied, plan);
      if (flow !== undefined) flowChanges.push(flow);
      done.push([address, plan]);
      if (transaction.length > TRANSACTION_BYTES) {
        const refusals = await commit();
        if (refusals.length > 0) return refusals;
        transaction = new Transaction(this.#sequence, this.#writer);
      }
    }
    const refusals = await commit();
    this.#writer.clear();
    if (refusals.length > 0) return refusals;
    this.#state = { vips: state.vips, local: state.local, surroundings: next.surroundings };
    return { added, deleted, failed: NOTHING.failed };
  }

  /** After a repair that took the changes in: their flows are cleaned as after a plain change. */
  #cleaned(
    before: State,
    changes: ReadonlyMap<Address, VipPlan | undefined>,
    mended: Applied & { foreignVips: Address[] },
  ): Applied {
    for (const [address, plan] of changes) {
      const flow = flowChangesOf(address, before.vips.get(address), plan);
      if (flow !== undefined) this.#flows.clean(flow);
    }
    return mended;
  }

  // ------------------------------------------------------------ others

  /** Somebody (not this socket) changed nftables; only our own table matters. */
  readonly #onChange = (message: Uint8Array): void => {
    const view = new DataView(message.buffer, message.byteOffset, message.byteLength);
    if (message.length >= 16 && view.getUint32(12, true) === this.#options.netlink.portId) return;
    if (tableOf(message) === TABLE) this.#scheduleRepair();
  };

  /** One repair serves all that was told until it begins. */
  #scheduleRepair(): void {
    if (this.#repairWaits || this.#state === undefined) return;
    this.#repairWaits = true;
    void this.#inTurn(async () => {
      this.#repairWaits = false;
      const state = this.#state;
      return state === undefined ? NOTHING : this.#mend(state);
    }, faultAlone).then((repaired) => {
      if ("fault" in repaired || repaired.added + repaired.deleted > 0 || repaired.rebuilt !== undefined) {
        this.#options.onRepair?.(repaired);
      }
    });
  }

  // ------------------------------------------------------------ the socket

  async #send(transaction: Transaction): Promise<readonly Refusal[]> {
    const { bytes, first, last } = transaction.end();
    // The end of the batch has a number, too.
    this.#sequence = last + 2;
    return refusalsOf(await this.#options.netlink.exchange(bytes, (reply) => endsBatch(reply, { first, last })));
  }

  async #transactRaw(put: (batch: Batch) => void): Promise<{ first: number; refusals: readonly Refusal[] }> {
    this.#writer.clear();
    const batch = beginBatch(this.#writer, NFNL_SUBSYS_NFTABLES, this.#sequence);
    put(batch);
    const { first, last } = batch.end();
    this.#sequence = last + 2;
    const replies = await this.#options.netlink.exchange(this.#writer.bytes(), (reply) =>
      endsBatch(reply, { first, last }),
    );
    return { first, refusals: refusalsOf(replies) };
  }

  async #dump(what: "table" | "chain" | "rule" | "set" | "element", set?: string): Promise<Uint8Array[]> {
    const writer = new MessageWriter(128);
    putDump(writer, this.#takeSequences(1), what, TABLE, set);
    const replies = await this.#options.netlink.exchange(writer.bytes(), endsDump);
    const errno = errnoOf(replies);
    if (errno !== 0) throw new KernelRefusal(`dump of ${set ?? `${what}s`} of table inet belfry`, errno);
    return replies;
  }

  #takeSequences(count: number): number {
    const first = this.#sequence;
    this.#sequence += count;
    return first;
  }

  /** Runs after everything that was asked before. What the socket throws is a Fault: the world is in the way. */
  #inTurn<T, F>(work: () => Promise<T>, onFault: (fault: Fault) => F): Promise<T | F> {
    const result = this.#turn
      .then(() => {
        // Numbers of a batch must not wrap inside it.
        if (this.#sequence > SEQUENCE_LIMIT) this.#sequence = 1;
        return work();
      })
      .catch((error: unknown) => {
        // Only what carries an errno comes from the kernel; anything else is a bug of ours.
        if (!(error instanceof Error) || !("errno" in error)) throw error;
        return onFault({ what: "nftables", message: error.message });
      });
    this.#turn = result.catch(() => undefined);
    return result;
  }
}

class KernelRefusal extends Error {
  readonly errno: number;
  constructor(what: string, errno: number) {
    super(`${what}: ${errnoText(errno)}`);
    this.errno = errno;
  }
}

/** Gives the memory of a large dump back at once; V8 alone would hold it until its next full collection. */
function release(replies: readonly Uint8Array[]): void {
  for (const { buffer } of replies) if (buffer instanceof ArrayBuffer && !buffer.detached) buffer.transfer(0);
}

const faultStarted = (fault: Fault): Started => ({ ok: false, fault });
const faultAlone = (fault: Fault): { fault: Fault } => ({ fault });

function stateOf(plans: ReadonlyMap<Address, VipPlan>, surroundings: NodeSurroundings): State {
  const local = new Map<Address, number>();
  for (const plan of plans.values()) {
    for (const address of localEndpointsOf(plan)) local.set(address, (local.get(address) ?? 0) + 1);
  }
  return { vips: new Map(plans), surroundings, local };
}

function afterChanges(
  state: State,
  changes: ReadonlyMap<Address, VipPlan | undefined>,
  surroundings: NodeSurroundings | undefined,
): State {
  const vips = new Map(state.vips);
  for (const [address, plan] of changes) {
    if (plan === undefined) vips.delete(address);
    else vips.set(address, plan);
  }
  return stateOf(vips, surroundings ?? state.surroundings);
}

/** Everything but the buckets. */
function* leadingOfState(state: State): Iterable<Placed> {
  yield* elementsOfSurroundings(state.surroundings);
  for (const address of state.local.keys()) yield localElement(address);
  for (const plan of state.vips.values()) {
    yield* elementsOfAddress(plan);
    for (const frontend of plan.frontends) yield* leadingElements(plan, frontend);
  }
}

/** The elements of all buckets of a family; each is to be read before the next one is asked for. */
function* bucketsOfState(state: State, family: Family): Iterable<Element> {
  for (const plan of state.vips.values()) {
    if (familyOf(plan.address) !== family) continue;
    for (const frontend of plan.frontends) yield* bucketElements(plan, frontend);
  }
}

/** Counts the VIPs behind each local endpoint's element, into `next`; gives the elements that come and go. */
function countLocal(
  counts: ReadonlyMap<Address, number>,
  next: Map<Address, number>,
  applied: VipPlan | undefined,
  wanted: VipPlan | undefined,
): Changes {
  const before = applied === undefined ? new Set<Address>() : localEndpointsOf(applied);
  const after = wanted === undefined ? new Set<Address>() : localEndpointsOf(wanted);
  const deletes: Placed[] = [];
  const adds: Placed[] = [];
  const countOf = (address: Address): number => next.get(address) ?? counts.get(address) ?? 0;
  for (const address of after) {
    if (before.has(address)) continue;
    const count = countOf(address);
    if (count === 0) adds.push(localElement(address));
    next.set(address, count + 1);
  }
  for (const address of before) {
    if (after.has(address)) continue;
    const count = countOf(address);
    if (count === 1) deletes.push(localElement(address));
    next.set(address, count - 1);
  }
  return { deletes, adds };
}

import type { Lease } from "../src/api/foreign.ts";
import type { KubeObject, OwnerReference } from "../src/api/meta.ts";
import { SERVICE_NAME_LABEL, speakerLeaseName } from "../src/api/names.ts";
import {
  ENDPOINTSLICE,
  L2ADVERTISEMENT,
  LEASE,
  NODE,
  type Resource,
  SPEAKERSTATUS,
  VIRTUALIP,
} from "../src/api/resource.ts";
import type { SpeakerStatus } from "../src/api/speaker-status.ts";
import type { Forward } from "../src/api/virtual-ip.ts";
import { earlier, type Instant } from "../src/core/instant.ts";
import type { Log } from "../src/core/log.ts";
import { isOlder } from "../src/core/resource-version.ts";
import { releaseMemory } from "../src/host/memory.ts";
import type { Clock, LinkObserver } from "../src/host/port.ts";
import type { WatchClient } from "../src/kube/client.ts";
import { startInformer } from "../src/kube/informer.ts";
import { isStill, LEASE_ECHO_MILLISECONDS } from "../src/kube/lease.ts";
import type { KubeMetrics } from "../src/kube/metrics.ts";
import { holdNodeLease } from "../src/kube/node-lease.ts";
import { type Answer, type Informer, type InformerEvent, keyOf } from "../src/kube/port.ts";
import { kernelAnswers } from "../src/l2/kernel-answers.ts";
import type { Readiness } from "../src/plan/data-path-ready.ts";
import { nodesWithEndpoints, planVip } from "../src/plan/forward.ts";
import type { NodeSurroundings, VipPlan } from "../src/plan/vip-plan.ts";
import {
  type CachedAdvertisement,
  type CachedNode,
  type CachedSlice,
  type CachedSpeaker,
  type CachedVip,
  projectAdvertisement,
  projectLease,
  projectNode,
  projectSlice,
  projectSpeaker,
  projectVip,
} from "./cache.ts";
import { Claimant } from "./claimant.ts";
import { heldKey } from "./held-count.ts";
import { reportedLinks } from "./link.ts";
import { MemoryRelease } from "./memory.ts";
import { Peers } from "./peers.ts";
import { anotherSpeakerLives, type PlanePort, type WirePort } from "./port.ts";
import { Programmer } from "./programmer.ts";
import { Reporter } from "./reporter.ts";
import { Roster } from "./roster.ts";
import { SliceIndex } from "./slice-index.ts";
import { firstByName, type Vip, VipTable } from "./vip.ts";
import type { FromWire } from "./wire-protocol.ts";

export type SpeakerOptions = {
  readonly node: string;
  readonly namespace: string;
  readonly podCIDRs: readonly string[];
  readonly ignoreExcludeLabel: boolean;
  readonly client: WatchClient;
  /** A client of its own, so that no list holds up a renewal. */
  readonly leaseClient: WatchClient;
  readonly plane: PlanePort;
  readonly wire: WirePort;
  readonly links: LinkObserver;
  /** What stands in the way of forwarding on this node; read again from time to time. */
  dataPath(podCIDRsKnown: boolean): Readiness;
  /** The effective arp_ignore of an interface. */
  arpIgnore(name: string): number;
  /** Whether bridges of this node hand packets to netfilter; read again from time to time. */
  bridgeNetfilter(): NonNullable<NodeSurroundings["bridgeNetfilter"]>;
  readonly clock: Clock;
  readonly wallClock: () => string;
  readonly log: Log;
  readonly metrics: SpeakerMetrics;
  readonly kubeMetrics: KubeMetrics;
  readonly signal: AbortSignal;
};

export type SpeakerMetrics = {
  transaction(changes: number, seconds: number | undefined): void;
  failed(): void;
};

/**
 * A speaker may renew its Lease only after it has listed (Join), and the others wait one Lease for that when an outage
 * ends: so all are back well within it.
 */
export const BACKOFF = { firstMilliseconds: 100, lastMilliseconds: 2000 } as const;
const TICK_MILLISECONDS = 500;
const DATA_PATH_MILLISECONDS = 10_000;
const CLAIM_REMEMBERED_MILLISECONDS = 60_000;
const FAILING_SHOWN = 64;

/** The speaker: follows the API server, plans each VIP that changed, feeds plane and wire, reports. */
export class Speaker {
  readonly #options: SpeakerOptions;
  readonly #vips = new VipTable();
  readonly #slices = new SliceIndex();
  readonly #roster: Roster;
  readonly #peers: Peers;
  readonly #programmer: Programmer;
  readonly #claimant: Claimant;
  readonly #reporter: Reporter;
  readonly #advertisements = new Map<string, CachedAdvertisement>();
  /** VIPs that are being deleted and are off the wire and the plane here, by uid: the newest version that was seen. */
  readonly #released = new Map<string, string>();
  /** VIPs that are not as they should be here, each with why. */
  readonly #failing = new Map<Vip, string>();
  #answeredByKernel = new Set<Vip>();
  readonly #memory = new MemoryRelease();
  readonly #faults = new Map<string, string>();
  #informers: Informer<KubeObject>[] = [];
  #vipInformer: Informer<CachedVip> | undefined;
  #leaseInformer: Informer<Lease> | undefined;
  #node: OwnerReference | undefined;
  #validUntil: Instant | undefined;
  #wasValid = false;
  #adopted = false;
  /** The lists are in and the table is adopted, or will not be: what is reported now can stand. */
  #reporting = false;
  #wireReady = false;
  #sure = false;
  #relisted = false;
  #restoredAt: Instant | undefined;
  #withdrawnThrough: string | undefined;
  #dataPath: Readiness = { ready: false, reason: "Unknown", message: "not looked at yet" };
  #dataPathAt: Instant | undefined;
  #surroundings = "";
  #retiring = 0;
  #reportWaits = false;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #lastTickAt: Instant | undefined;

  constructor(options: SpeakerOptions) {
    this.#options = options;
    const { node: me, client, leaseClient, wire, log, clock, wallClock } = options;
    this.#roster = new Roster({ me, ignoreExcludeLabel: options.ignoreExcludeLabel, podCIDRs: options.podCIDRs });
    this.#peers = new Peers({
      me,
      isStill: (lease) => isStill(leaseClient, lease),
      changed: (node, live) => {
        if (node !== me && !live) log.info({ node }, "the speaker of the node is gone: its Lease ran out");
        if (this.#roster.setLive(node, live)) this.#electionsOf(node);
      },
    });
    this.#programmer = new Programmer({
      plane: options.plane,
      clock,
      plan: (vip) => this.#plan(vip),
      programmed: (vips, retired) => this.#programmed(vips, retired),
      failed: (vip, message) => this.#refused(vip, message),
      transaction: (changes, receivedAt) =>
        options.metrics.transaction(changes, receivedAt && (clock.now() - receivedAt) / 1000),
    });
    this.#claimant = new Claimant({
      me,
      client,
      reader: leaseClient,
      wire,
      log,
      vips: this.#vips,
      nodes: this.#roster.views,
      advertisement: (name) => this.#advertisements.get(name)?.spec,
      homes: (vip) => nodesWithEndpoints(vip.object, this.#slices.of),
      sure: () => this.#sure,
      doubted: () => this.#restoredAt !== undefined,
      gone: (vip) => this.#retire(vip, undefined),
      read: (vip, object) => {
        vip.ahead = true;
        this.#replace(vip, object, undefined);
      },
      changed: (vip) => this.#noteFailing(vip),
      wallClock,
      pause: (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds)),
    });
    this.#reporter = new Reporter({ node: me, client, clock, log, wallClock, owner: () => this.#node });
  }

  /**
   * Join (docs/life-of-a-vip.md): the Lease first, then consistent lists, then the plane, then the wire. Before all that the
   * speaker that was here must have ended: two that renew one Lease would each take the other for a restored store.
   */
  async start(): Promise<void> {
    const { wire, links, signal } = this.#options;
    wire.onMessage((message) => this.#heard(message));
    const unfollow = links.onChange(() => this.#linksChanged());
    signal.addEventListener("abort", () => {
      unfollow();
      clearTimeout(this.#timer);
    });
    this.#lookAtDataPath();
    await this.#outlive();
    if (signal.aborted) return;
    await this.#hold();
    if (signal.aborted) return;
    await this.#follow();
    if (signal.aborted) return;
    await this.#adopt();
    if (signal.aborted) return;
    this.#claimant.open();
    this.#programmer.open();
    this.#report();
    this.#tick();
  }

  /** What stands in the way of being ready, in words. */
  unready(): string[] {
    const complaints = this.#informers
      .filter((informer) => !informer.fresh)
      .map((informer) => `the watch of ${informer.resource.plural} is not fresh`);
    if (this.#informers.length === 0) complaints.push("waiting for the Lease of this node");
    if (!this.#adopted) complaints.push("the nftables table is not adopted yet");
    if (!this.#wireReady) complaints.push("the wire worker is not ready");
    return complaints;
  }

  /** When the loop last went round, for liveness. */
  get lastTickAt(): Instant | undefined {
    return this.#lastTickAt;
  }

  gauges(): { owned: number; programmed: number; known: number; failing: number; leaseSeconds: number } {
    let [owned, programmed] = [0, 0];
    for (const vip of this.#vips.values()) {
      if (vip.answering !== undefined) owned++;
      if (vip.plan !== undefined) programmed++;
    }
    const left = this.#validUntil === undefined ? 0 : (this.#validUntil - this.#options.clock.now()) / 1000;
    return { owned, programmed, known: this.#vips.size, failing: this.#failing.size, leaseSeconds: Math.max(0, left) };
  }

  // Start, step by step

  /** Waits while another speaker lives on this node. What else the plane lacks is said later, in a condition. */
  async #outlive(): Promise<void> {
    const { plane, log, signal } = this.#options;
    for (let tries = 0; !signal.aborted; tries++) {
      const started = await plane.start();
      if (started.ok) return;
      if (!anotherSpeakerLives(started.fault)) {
        const { what, message } = started.fault;
        this.#faults.set("nftables", message);
        log.error({ what, message }, "this node can't forward for VIPs; it goes on trying");
        return;
      }
      if (tries === 0)
        log.warn({ message: started.fault.message }, "waiting for the other speaker of this node to end");
      await new Promise((resolve) => setTimeout(resolve, 250));
    }
  }

  #hold(): Promise<void> {
    const { node, namespace, leaseClient, clock, log, signal, wire } = this.#options;
    return new Promise((resolve) => {
      signal.addEventListener("abort", () => resolve());
      holdNodeLease({
        client: leaseClient,
        key: { namespace, name: speakerLeaseName(node) },
        identity: node,
        clock,
        log,
        signal,
        owner: () => this.#readNode(),
        beforeRenew: () => this.#mayRenew(),
        onRenewed: (validUntil) => {
          this.#validUntil = validUntil;
          this.#wasValid = true;
          wire.send({ type: "lease", validUntil });
          void this.#confirmYielded();
          resolve();
          this.#authority();
        },
        onStoreChanged: () => {
          // The other client's connections may not have broken yet.
          for (const informer of this.#informers) informer.doubt("the Lease of this node is not as it was written");
          this.#restored("the Lease of this node is not as it was written");
        },
      });
    });
  }

  /** This node's Node: Lease and SpeakerStatus go with it. One name is listed, since that needs no right of its own. */
  async #readNode(): Promise<Answer<OwnerReference>> {
    const { leaseClient, node } = this.#options;
    const answer = await leaseClient.list(NODE, { fieldSelector: `metadata.name=${node}` });
    if (!answer.ok) return answer;
    const object = answer.object.items.map(referenceTo)[0];
    if (object !== undefined) return { ok: true, object };
    const message = `there is no Node ${node}: is --node-name right?`;
    return { ok: false, failure: { status: 404, reason: "NotFound", message, retryAfterSeconds: 1 } };
  }

  async #follow(): Promise<void> {
    const { namespace } = this.#options;
    const synced: Promise<void>[] = [];
    const follow = <T extends KubeObject>(
      resource: Resource,
      project: (object: KubeObject) => T,
      onEvent: (event: Exclude<InformerEvent<T>, { type: "synced" }>, receivedAt: Instant) => void,
      more: { namespace?: string; labelSelector?: string } = {},
    ): Informer<T> => {
      const { client, clock, log, signal, kubeMetrics } = this.#options;
      const gate = Promise.withResolvers<void>();
      synced.push(gate.promise);
      signal.addEventListener("abort", () => gate.resolve());
      const informer = startInformer<T>({
        client,
        resource,
        project,
        clock,
        log,
        signal,
        metrics: kubeMetrics,
        limits: { backoff: BACKOFF },
        ...more,
        onEvent: (event, receivedAt) => {
          if (event.type === "synced") return gate.resolve();
          // Leases are renewed for ever, and are no work to speak of.
          if (resource !== LEASE) this.#memory.worked(1, receivedAt);
          onEvent(event, receivedAt);
        },
        onFresh: (fresh) => this.#freshness(resource, fresh),
        onStoreChanged: (change) => this.#restored(`${resource.plural}: ${change.what}`),
      });
      this.#informers.push(informer as unknown as Informer<KubeObject>);
      return informer;
    };
    this.#vipInformer = follow<CachedVip>(VIRTUALIP, projectVip, (event, at) => this.#onVip(event, at));
    follow<CachedSlice>(ENDPOINTSLICE, projectSlice, (event, at) => this.#onSlice(event, at), {
      labelSelector: SERVICE_NAME_LABEL,
    });
    follow<CachedNode>(NODE, projectNode, (event) => this.#onNode(event));
    this.#leaseInformer = follow<Lease>(LEASE, projectLease, (event, at) => this.#onLease(event, at), { namespace });
    follow<CachedSpeaker>(
      SPEAKERSTATUS,
      (object) => this.#projectSpeaker(object),
      (event) => this.#onSpeaker(event),
    );
    follow<CachedAdvertisement>(L2ADVERTISEMENT, projectAdvertisement, (event) => this.#onAdvertisement(event));
    await Promise.all(synced);
  }

  /** What the kernel holds from an earlier life is compared with what is wanted now; only the difference is written. */
  async #adopt(): Promise<void> {
    const { log, signal } = this.#options;
    this.#linksChanged();
    for (let failures = 0; !signal.aborted; failures++) {
      const trouble = await this.#takeOver();
      if (trouble === undefined) {
        this.#adopted = true;
        this.#reporting = true;
        this.#faults.delete("nftables");
        this.#surroundingsChanged();
        return;
      }
      if (this.#faults.get("nftables") !== trouble) {
        log.warn({ message: trouble }, "the nftables table can't be taken over yet, trying again");
      }
      this.#faults.set("nftables", trouble);
      // A restart within its Lease changes nothing, so the first word waits a little for the table.
      this.#reporting ||= failures >= 5;
      this.#report();
      await new Promise((resolve) => setTimeout(resolve, Math.min(5000, 250 * 2 ** failures)));
    }
  }

  /** Answers what went wrong; nothing did when it is undefined. */
  async #takeOver(): Promise<string | undefined> {
    const { node, plane, log } = this.#options;
    const started = await plane.start();
    if (!started.ok) return started.fault.message;
    const counts = await plane.heldCounts();
    const planned = new Map<Vip, VipPlan>();
    const generations = new Map<Vip, number | undefined>();
    for (const vip of this.#vips.values()) {
      if (vip.retiring !== undefined) continue;
      const { address } = vip.object;
      const held = (forward: Forward) => counts.get(heldKey(address, forward.protocol, forward.port));
      planned.set(vip, planVip(vip.object, this.#slices.of, node, undefined, held));
      generations.set(vip, vip.object.metadata.generation);
    }
    const surroundings = this.#roster.surroundings();
    const adopted = await plane.adopt(new Map([...planned].map(([vip, it]) => [vip.object.address, it])), surroundings);
    if ("fault" in adopted) return adopted.fault.message;
    this.#surroundings = JSON.stringify(surroundings);
    for (const [vip, plan] of planned) {
      vip.plan = plan;
      vip.programmed = generations.get(vip);
      // What changed meanwhile is planned again; the rest comes out the same and costs nothing more.
      this.#programmer.mark(vip);
      this.#claimant.mark(vip);
    }
    const { added, deleted, rebuilt } = adopted;
    log.info({ vips: planned.size, added, deleted, rebuilt, mode: started.mode }, "adopted the nftables table");
    return undefined;
  }

  // Events of the API server

  #onVip(event: Exclude<InformerEvent<CachedVip>, { type: "synced" }>, receivedAt: Instant): void {
    const { object } = event;
    if ((object.address as string) === "") {
      if (event.type === "upsert") this.#options.log.error({ vip: object.metadata.name }, "its address is not one");
      return;
    }
    const known = this.#vips.get(object.metadata.name);
    const same = known !== undefined && known.object.metadata.uid === object.metadata.uid;
    if (event.type === "delete") {
      this.#released.delete(object.metadata.uid ?? "");
      if (same) {
        // A list no longer has it, though nobody asked us to let go: the store is another one.
        if (known.retiring === undefined && this.#vipInformer?.fresh !== true)
          this.#restored(`${object.metadata.name} is gone without a confirmed deletion`);
        this.#retire(known, undefined);
      }
      return;
    }
    if (object.metadata.deletionTimestamp !== undefined) {
      if (same) this.#retire(known, undefined);
      this.#noteReleased(object);
      return;
    }
    if (known === undefined) {
      this.#mark(this.#vips.add(object), receivedAt);
      return;
    }
    if (!same || known.retiring !== undefined) {
      this.#retire(known, object);
      return;
    }
    if (known.ahead && isOlder(object.metadata.resourceVersion ?? "", known.object.metadata.resourceVersion ?? ""))
      return;
    known.ahead = false;
    this.#replace(known, object, receivedAt);
  }

  #replace(vip: Vip, object: CachedVip, receivedAt: Instant | undefined): void {
    if (object.metadata.deletionTimestamp !== undefined) {
      this.#retire(vip, undefined);
      return;
    }
    const { holders, metadata } = vip.object;
    const generation = metadata.generation;
    if (holders !== object.holders && vip.plan !== undefined) this.#options.plane.forgetFlows(object.address);
    this.#vips.replace(vip, object);
    if (generation !== object.metadata.generation) this.#mark(vip, receivedAt);
    this.#claimant.mark(vip);
  }

  /** While the store is doubted, nothing new is programmed; it is marked again when the doubt ends. */
  #mark(vip: Vip, receivedAt?: Instant): void {
    if (this.#restoredAt === undefined || vip.plan !== undefined) this.#programmer.mark(vip, receivedAt);
  }

  #onSlice({ type, object }: Exclude<InformerEvent<CachedSlice>, { type: "synced" }>, receivedAt: Instant): void {
    const key = keyOf(object);
    const services = this.#slices.set(key, type === "delete" ? undefined : object.slice);
    for (const service of services) {
      for (const vip of this.#vips.readingService(service)) {
        this.#mark(vip, receivedAt);
        if (vip.object.forwards.some(({ nodes }) => nodes === "LocalOnly")) this.#claimant.mark(vip);
      }
    }
  }

  #onNode({ type, object }: Exclude<InformerEvent<CachedNode>, { type: "synced" }>): void {
    const { name } = object.metadata;
    if (name === this.#options.node) this.#node = type === "delete" ? undefined : referenceTo(object);
    if (this.#roster.setNode(name, type === "delete" ? undefined : object)) this.#electionsOf(name);
    this.#surroundingsChanged();
  }

  #onLease({ type, object }: Exclude<InformerEvent<Lease>, { type: "synced" }>, receivedAt: Instant): void {
    if (type === "delete") this.#peers.forget(object);
    else this.#peers.observe(object, receivedAt);
    this.#stillRestored();
  }

  #projectSpeaker(object: KubeObject): CachedSpeaker {
    if (object.metadata.name !== this.#options.node) return projectSpeaker(object);
    const own = object as SpeakerStatus;
    this.#reporter.adopt(own.status);
    if (!this.#adopted) this.#withdrawnThrough ??= own.status?.withdrawnThrough;
    return { ...projectSpeaker(object), own };
  }

  #onSpeaker({ type, object }: Exclude<InformerEvent<CachedSpeaker>, { type: "synced" }>): void {
    const { name } = object.metadata;
    if (name === this.#options.node && this.#reporting) this.#reporter.seen(type === "delete" ? undefined : object.own);
    if (this.#roster.setSpeaker(name, type === "delete" ? undefined : object)) this.#electionsOf(name);
  }

  #onAdvertisement({ type, object }: Exclude<InformerEvent<CachedAdvertisement>, { type: "synced" }>): void {
    const { name } = object.metadata;
    if (type === "delete") this.#advertisements.delete(name);
    else this.#advertisements.set(name, object);
    for (const vip of this.#vips.values()) if (vip.object.advertisements.includes(name)) this.#claimant.mark(vip);
  }

  /** A node changed: it matters to the VIPs that it owns, and to those that wait for an owner. */
  #electionsOf(node: string): void {
    this.#claimant.markAll(this.#vips.ownedBy(node));
    this.#claimant.markAll(this.#vips.unsettled);
  }

  #surroundingsChanged(): void {
    if (!this.#adopted) return;
    const surroundings = this.#roster.surroundings();
    const text = JSON.stringify(surroundings);
    if (text === this.#surroundings) return;
    this.#surroundings = text;
    this.#programmer.markSurroundings(surroundings);
  }

  // Planning and programming

  #plan(vip: Vip): VipPlan {
    return planVip(vip.object, this.#slices.of, this.#options.node, vip.plan);
  }

  #programmed(vips: readonly Vip[], retired: readonly Vip[]): void {
    for (const vip of vips) {
      this.#noteFailing(vip);
      this.#claimant.mark(vip);
    }
    for (const vip of retired) {
      const next = vip.retiring?.next;
      this.#vips.remove(vip);
      this.#noteFailing(vip);
      this.#retiring--;
      if (next !== undefined) this.#mark(this.#vips.add(next));
    }
    if (retired.length > 0) this.#reportWithdrawn();
    this.#claimant.settle();
  }

  #refused(vip: Vip | undefined, message: string): void {
    this.#options.metrics.failed();
    if (vip === undefined) {
      this.#options.log.warn({ message }, "nftables refused a change, trying again");
      return;
    }
    if (vip.refused !== message) {
      this.#options.log.warn({ vip: vip.object.metadata.name, message }, "nftables refused the VIP, trying again");
    }
    vip.refused = message;
    this.#noteFailing(vip);
  }

  // Letting go

  /** Withdraw, then unprogram (invariant 5). `next` follows under the same name. */
  #retire(vip: Vip, next: CachedVip | undefined): void {
    if (vip.retiring !== undefined) {
      vip.retiring.next = next;
      return;
    }
    vip.retiring = { next };
    this.#retiring++;
    void this.#claimant.withdraw(vip).then(() => this.#programmer.mark(vip));
  }

  #noteReleased(object: CachedVip): void {
    this.#released.set(object.metadata.uid ?? "", object.metadata.resourceVersion ?? "");
    this.#reportWithdrawn();
  }

  /** Only while deletions are pending, and only when every one that was seen is done. */
  #reportWithdrawn(): void {
    if (!this.#adopted || this.#retiring > 0) return;
    const through = this.#withdrawnThrough;
    const pending = [...this.#released.values()].some((version) => through === undefined || isOlder(through, version));
    const version = this.#vipInformer?.lastEventVersion;
    if (!pending || version === undefined) return;
    this.#withdrawnThrough = version;
    this.#report();
  }

  // Authority

  /** Whether this node may call another dead: its own Lease holds, its watches are fresh, the store is the one it knew. */
  #authority(): void {
    const now = this.#options.clock.now();
    const valid = this.#validUntil !== undefined && now < this.#validUntil;
    if (!valid && this.#wasValid) {
      this.#wasValid = false;
      this.#options.log.warn({}, "the Lease of this node is not provably valid; ownership is frozen");
    }
    const heardAt = this.#leaseInformer?.lastHeardAt;
    const echoed = heardAt !== undefined && now - heardAt < LEASE_ECHO_MILLISECONDS;
    const sure =
      valid &&
      echoed &&
      this.#adopted &&
      this.#restoredAt === undefined &&
      this.#informers.every((informer) => informer.fresh);
    const gained = sure && !this.#sure;
    this.#sure = sure;
    this.#peers.tick(sure, now);
    if (gained) this.#claimant.markAll(this.#vips.unsettled);
  }

  /** A renewed Lease says that this node holds nothing but what the last consistent list has. */
  async #mayRenew(): Promise<boolean> {
    if (this.#vipInformer === undefined) return true;
    if (!this.#vipInformer.fresh) return false;
    if (this.#relisted) {
      this.#claimant.settle();
      if (this.#retiring > 0) return false;
      this.#relisted = false;
    }
    const valid = this.#validUntil !== undefined && this.#options.clock.now() < this.#validUntil;
    // It lapsed: others may have taken over meanwhile. Follow the records as they are, then be provably valid again.
    return valid || this.#confirmAll([...this.#vips.values()].filter((vip) => vip.answering !== undefined));
  }

  #freshness(resource: Resource, fresh: boolean): void {
    if (resource === VIRTUALIP) {
      this.#relisted = true;
      if (fresh) this.#followList();
    }
    this.#authority();
  }

  /** After a list the watch is the truth again, whatever we wrote before. */
  #followList(): void {
    for (const vip of this.#vips.values()) {
      vip.ahead = false;
      if (this.#restoredAt === undefined || vip.retiring !== undefined) continue;
      // Our last write went with the old store, and the watch, which had not told of it yet, has nothing new to tell.
      const listed = this.#vipInformer?.get(vip.object.metadata.name);
      if (listed === undefined || listed.metadata.uid !== vip.object.metadata.uid) continue;
      if (listed.metadata.resourceVersion !== vip.object.metadata.resourceVersion)
        this.#replace(vip, listed, undefined);
    }
    this.#reportWithdrawn();
  }

  async #confirmAll(vips: readonly Vip[]): Promise<boolean> {
    const queue = [...vips];
    let answered = true;
    const worker = async () => {
      for (let vip = queue.pop(); vip !== undefined && answered; vip = queue.pop()) {
        if (!(await this.#claimant.confirm(vip))) answered = false;
      }
    };
    await Promise.all(Array.from({ length: 8 }, worker));
    this.#claimant.settle();
    return answered;
  }

  /** Nothing new is programmed or announced until each other speaker was seen to live with the store as it is now. */
  #restored(why: string): void {
    if (!this.#adopted) return;
    this.#options.log.warn({ why }, "the store changed under us; waiting for every speaker to renew its Lease");
    this.#restoredAt = this.#options.clock.now();
    // It spoke of deletions in a store that is no more.
    this.#withdrawnThrough = undefined;
    this.#reporter.forgetVersion();
    this.#report();
    this.#authority();
  }

  #stillRestored(): void {
    const since = this.#restoredAt;
    if (since === undefined) return;
    for (const node of this.#peers.nodes()) {
      if (this.#roster.views.has(node) && !this.#peers.renewedSince(node, since)) return;
    }
    this.#restoredAt = undefined;
    this.#options.log.info({}, "every speaker was seen since the store changed");
    for (const vip of this.#vips.values()) this.#programmer.mark(vip);
    this.#authority();
  }

  // The wire

  #heard(message: FromWire): void {
    const { log } = this.#options;
    switch (message.type) {
      case "ready":
        this.#wireReady = true;
        return;
      case "withdrawn":
        this.#claimant.withdrawn(message.address);
        return;
      case "fault": {
        const key = `${message.interface}/${message.family}`;
        if (!this.#faults.has(key)) {
          log.warn({ interface: message.interface, family: message.family, message: message.message }, "can't answer");
        }
        this.#faults.set(key, message.message);
        this.#report();
        return;
      }
      case "cleared":
        if (this.#faults.delete(`${message.interface}/${message.family}`)) this.#report();
        return;
      case "claim":
        this.#claimed(message);
        return;
      case "resumed":
        log.info({ address: message.address }, "nobody else answered: answering again");
        return;
      case "stalled":
        void this.#stalled(message.stall, message.milliseconds);
        return;
      case "announced":
        log.debug({ ...message }, "announced");
        return;
      case "counters":
        return;
    }
  }

  #claimed({ address, mac, interface: name, yielded }: Extract<FromWire, { type: "claim" }>): void {
    const vip = this.#vips.at(address);
    if (vip === undefined) return;
    const node = this.#roster.nodeWithMac(mac);
    if (yielded) this.#yielded.add(vip);
    if (node !== undefined) {
      this.#options.log.info({ vip: vip.object.metadata.name, node, yielded }, "another speaker claims the address");
      void this.#claimant.confirm(vip);
      return;
    }
    const text = `Conflict: ${mac} on ${name} claims ${address}; find that device and give it another address`;
    if (vip.claim?.text !== text) {
      this.#options.log.warn(
        { vip: vip.object.metadata.name, mac, interface: name, yielded },
        "a stranger claims the address",
      );
    }
    vip.claim = { text, at: this.#options.clock.now() };
    this.#noteFailing(vip);
  }

  /** VIPs that the wire fell silent for: after the next renewal, the record says whether it may speak again. */
  readonly #yielded = new Set<Vip>();
  #lastStall = 0;

  async #confirmYielded(): Promise<void> {
    const vips = [...this.#yielded];
    this.#yielded.clear();
    if (vips.length === 0) return;
    if (!(await this.#confirmAll(vips))) {
      for (const vip of vips) this.#yielded.add(vip);
      return;
    }
    this.#confirm(this.#lastStall);
  }

  /** These the record still names this node for. */
  #confirm(stall: number): void {
    const owned = [...this.#vips.values()].filter((vip) => vip.answering !== undefined);
    this.#options.wire.send({ type: "confirmed", stall, addresses: owned.map((vip) => vip.object.address) });
  }

  async #stalled(stall: number, milliseconds: number): Promise<void> {
    const { log, wire } = this.#options;
    const owned = [...this.#vips.values()].filter((vip) => vip.answering !== undefined);
    log.warn({ milliseconds: Math.round(milliseconds), vips: owned.length }, "the process stood still");
    this.#lastStall = stall;
    this.#authority();
    const answered = await this.#confirmAll(owned);
    if (answered) this.#confirm(stall);
    else wire.send({ type: "unconfirmed", stall });
  }

  // This node

  #linksChanged(): void {
    const hostLinks = this.#options.links.links();
    this.#lookAtDataPath();
    this.#lookAtKernelAnswers();
    const self = {
      links: reportedLinks(hostLinks),
      dataPathReady: this.#dataPath.ready,
      hostLinks,
      bridgeNetfilter: this.#options.bridgeNetfilter(),
    };
    if (this.#roster.setSelf(self)) this.#electionsOf(this.#options.node);
    this.#surroundingsChanged();
    this.#report();
  }

  #lookAtDataPath(): void {
    const before = this.#dataPath;
    this.#dataPath = this.#options.dataPath(this.#roster.ownPodsKnown);
    this.#dataPathAt = this.#options.clock.now();
    if (before.ready === this.#dataPath.ready && before.message === this.#dataPath.message) return;
    const { ready, reason, message } = this.#dataPath;
    if (ready) this.#options.log.info({ reason }, "the data path is ready");
    else this.#options.log.warn({ reason, message }, "the data path is not ready: this node announces no VIP of it");
  }

  /** AR-06: an address that is also assigned to an interface here is answered for by the kernel, whoever owns it. */
  #lookAtKernelAnswers(): void {
    const links = this.#options.links.links();
    const assigned = links.flatMap((link) => link.addresses.map(({ address }) => address));
    const vips = new Set(assigned.filter((address) => this.#vips.at(address) !== undefined));
    const found = new Map<Vip, string>();
    for (const { address, message } of vips.size === 0 ? [] : kernelAnswers(vips, links, this.#options.arpIgnore)) {
      const vip = this.#vips.at(address);
      if (vip !== undefined) found.set(vip, `KernelAnswers: ${message}`);
    }
    for (const vip of new Set([...found.keys(), ...this.#answeredByKernel])) {
      const text = found.get(vip);
      if (vip.kernelAnswers === text) continue;
      vip.kernelAnswers = text;
      if (text !== undefined)
        this.#options.log.warn({ vip: vip.object.metadata.name, message: text }, "the kernel answers");
      this.#noteFailing(vip);
    }
    this.#answeredByKernel = new Set(found.keys());
  }

  #noteFailing(vip: Vip): void {
    const alive = this.#vips.at(vip.object.address) === vip;
    const reason = alive ? whyFailing(vip) : undefined;
    if (this.#failing.get(vip) === reason) return;
    if (reason === undefined) this.#failing.delete(vip);
    else this.#failing.set(vip, reason);
    this.#report();
  }

  /** What changes in one turn of the event loop is one report: thousands of VIPs may begin to fail at once. */
  #report(): void {
    if (!this.#reporting || this.#reportWaits) return;
    this.#reportWaits = true;
    queueMicrotask(() => {
      this.#reportWaits = false;
      this.#reportNow();
    });
  }

  #reportNow(): void {
    const failing = firstByName(this.#failing.keys(), FAILING_SHOWN).map((vip) => ({
      vip: vip.object.metadata.name,
      reason: (this.#failing.get(vip) ?? "").slice(0, 1024),
    }));
    const faults = [...this.#faults].map(([where, message]) => `${where}: ${message}`).sort();
    this.#reporter.want({
      links: reportedLinks(this.#options.links.links()),
      conditions: [
        {
          type: "DataPathReady",
          status: this.#dataPath.ready && this.#adopted ? "True" : "False",
          reason: this.#adopted || !this.#dataPath.ready ? this.#dataPath.reason : "TableNotAdopted",
          message: this.#dataPath.message,
        },
        {
          type: "KernelSilent",
          status: this.#answeredByKernel.size === 0 ? "True" : "False",
          reason: this.#answeredByKernel.size === 0 ? "NothingAssigned" : "KernelAnswers",
          message: [...this.#answeredByKernel]
            .slice(0, 8)
            .map((vip) => vip.kernelAnswers ?? "")
            .join("; "),
        },
        {
          type: "WireReady",
          status: faults.length === 0 ? "True" : "False",
          reason: faults.length === 0 ? "Answering" : "InterfaceFault",
          message: faults.join("; "),
        },
      ],
      failing,
      failingCount: this.#failing.size,
      withdrawnThrough: this.#withdrawnThrough,
    });
  }

  // Time

  #tick(): void {
    const { clock, signal } = this.#options;
    if (signal.aborted) return;
    const now = clock.now();
    this.#lastTickAt = now;
    if (this.#dataPathAt === undefined || now - this.#dataPathAt >= DATA_PATH_MILLISECONDS) this.#linksChanged();
    for (const vip of this.#failing.keys()) {
      if (vip.claim !== undefined && now - vip.claim.at > CLAIM_REMEMBERED_MILLISECONDS) {
        vip.claim = undefined;
        this.#noteFailing(vip);
      }
    }
    this.#authority();
    if (this.#memory.due(now)) void releaseMemory();
    this.#programmer.tick(now);
    this.#reporter.tick(now);
    const next = earlier(
      earlier(this.#peers.nextDeadline(now), this.#programmer.nextDeadline()),
      this.#reporter.nextDeadline(),
    );
    const wait = next === undefined ? TICK_MILLISECONDS : Math.min(TICK_MILLISECONDS, Math.max(1, next - now + 1));
    this.#timer = setTimeout(() => this.#tick(), wait);
  }
}

const referenceTo = ({ metadata: { name, uid = "" } }: KubeObject): OwnerReference => ({
  apiVersion: "v1",
  kind: "Node",
  name,
  uid,
});

function whyFailing(vip: Vip): string | undefined {
  const reasons = [
    vip.refused === undefined ? undefined : `NotProgrammed: ${vip.refused}`,
    vip.claim?.text,
    vip.kernelAnswers,
    vip.silence,
  ].filter((it) => it !== undefined);
  return reasons.length === 0 ? undefined : reasons.join("; ");
}

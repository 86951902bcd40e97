/** What the speakers say of themselves: by cache for a first look, by consistent reads before an address is given on. */
import type { Lease, Node } from "../src/api/foreign.ts";
import type { KubeObject } from "../src/api/meta.ts";
import { LEASE, NODE, SPEAKERSTATUS, VIRTUALIP } from "../src/api/resource.ts";
import type { SpeakerStatus } from "../src/api/speaker-status.ts";
import type { Instant } from "../src/core/instant.ts";
import { isOlder } from "../src/core/resource-version.ts";
import type { SpeakerView } from "../src/ipam/life.ts";
import type { LeaseSight } from "../src/ipam/settle.ts";
import type { LeaseWatcher } from "../src/kube/lease-watcher.ts";
import type { ApiClient } from "../src/kube/port.ts";
import { granted } from "./desk.ts";
import type { World } from "./world.ts";

const LEASE_PREFIX = "belfry-speaker-";

/** The node whose speaker has this Lease; undefined for other Leases. */
export const nodeOfLease = (name: string): string | undefined =>
  name.startsWith(LEASE_PREFIX) ? name.slice(LEASE_PREFIX.length) : undefined;

export const leaseOfNode = (node: string): string => LEASE_PREFIX + node;

/** What the Leases say, by node. */
export const sightOf = (leases: LeaseWatcher): LeaseSight => ({
  renewedSince: (node, since) => leases.renewedSince(leaseOfNode(node), since),
  expired: (node, at) => leases.get(leaseOfNode(node)) === undefined || leases.expired(leaseOfNode(node), at),
});

/** Everything that a release is decided from. */
export type Hearing = { readonly speakers: readonly SpeakerView[]; readonly listVersion: string };

export class Speakers {
  readonly #client: ApiClient;
  readonly #world: World;
  readonly #leases: LeaseWatcher;
  readonly #namespace: string;
  readonly #now: () => Instant;
  #next: Promise<Hearing> | undefined;
  #running: Promise<unknown> = Promise.resolve();

  constructor(options: {
    client: ApiClient;
    world: World;
    leases: LeaseWatcher;
    namespace: string;
    now: () => Instant;
  }) {
    this.#client = options.client;
    this.#world = options.world;
    this.#leases = options.leases;
    this.#namespace = options.namespace;
    this.#now = options.now;
  }

  /** False only for a Lease that is not there or was seen to stand still for its duration. */
  isLive(node: string): boolean {
    const name = leaseOfNode(node);
    return this.#leases.get(name) !== undefined && !this.#leases.expired(name, this.#now());
  }

  /** Nodes that have a speaker's Lease. */
  *nodes(): Iterable<string> {
    for (const name of this.#leases.names()) {
      const node = nodeOfLease(name);
      if (node !== undefined) yield node;
    }
  }

  liveCount(): number {
    let count = 0;
    for (const node of this.nodes()) if (this.isLive(node)) count++;
    return count;
  }

  /** A first look, from the caches: not proof of anything. */
  cached(owner: string | undefined): readonly SpeakerView[] {
    return this.#views(this.#world.cache("SpeakerStatus").values(), owner, (node) => this.#world.get("Node", node));
  }

  /**
   * A consistent read of Leases and SpeakerStatus that begins after this call, then of the VirtualIPs' version. Calls that
   * come while one is under way share the next: deleting a thousand VIPs costs a handful of reads.
   */
  hear(): Promise<Hearing> {
    this.#next ??= this.#queue();
    return this.#next;
  }

  #queue(): Promise<Hearing> {
    const hearing = this.#running.then(
      () => this.#read(),
      () => this.#read(),
    );
    this.#running = hearing;
    return hearing;
  }

  async #read(): Promise<Hearing> {
    this.#next = undefined;
    const [leases, statuses] = await Promise.all([
      this.#client.list<Lease>(LEASE, { namespace: this.#namespace }),
      this.#client.list<SpeakerStatus>(SPEAKERSTATUS),
    ]);
    for (const lease of granted("read Leases", leases).items) {
      const known = this.#leases.get(lease.metadata.name)?.metadata.resourceVersion;
      // The informer may have shown a later one while this answer was on its way.
      const isStale = isOlder(lease.metadata.resourceVersion, known);
      if (nodeOfLease(lease.metadata.name) !== undefined && !isStale) this.#leases.observe(lease, this.#now());
    }
    const speakers = granted("read SpeakerStatus", statuses).items;
    // Only the version is wanted. One name keeps the answer small, and it is the version of the whole resource.
    const vips = await this.#client.list<KubeObject>(VIRTUALIP, { fieldSelector: "metadata.name=0.0.0.0" });
    const { resourceVersion } = granted("read VirtualIPs", vips);
    return {
      speakers: await this.#certain(this.#views(speakers, undefined, (node) => this.#world.get("Node", node))),
      listVersion: resourceVersion,
    };
  }

  /** That a Node is deleted, or not Ready, frees what its dead speaker held: it is read, not remembered. */
  async #certain(views: readonly SpeakerView[]): Promise<readonly SpeakerView[]> {
    return Promise.all(
      views.map(async (view) => {
        if (view.live || view.nodeState === "Ready") return view;
        const answer = await this.#client.get<Node>(NODE, { name: view.node });
        if (!answer.ok && answer.failure.reason === "NotFound") return { ...view, nodeState: "Deleted" as const };
        return { ...view, nodeState: stateOf(granted(`read Node ${view.node}`, answer)) };
      }),
    );
  }

  #views(
    statuses: Iterable<SpeakerStatus>,
    owner: string | undefined,
    node: (name: string) => Node | undefined,
  ): SpeakerView[] {
    const withdrawn = new Map<string, string | undefined>();
    for (const name of this.nodes()) withdrawn.set(name, undefined);
    for (const { metadata, status } of statuses) withdrawn.set(metadata.name, status?.withdrawnThrough);
    if (owner !== undefined && !withdrawn.has(owner)) withdrawn.set(owner, undefined);
    return [...withdrawn].map(([name, withdrawnThrough]) => ({
      node: name,
      live: this.isLive(name),
      withdrawnThrough,
      nodeState: stateOf(node(name)),
    }));
  }
}

function stateOf(node: Node | undefined): SpeakerView["nodeState"] {
  if (node === undefined) return "Deleted";
  return node.status?.conditions?.some(({ type, status }) => type === "Ready" && status === "True") === true
    ? "Ready"
    : "NotReady";
}

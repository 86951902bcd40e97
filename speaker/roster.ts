import { EXCLUDE_NODE_LABEL } from "../src/api/names.ts";
import type { Link } from "../src/api/speaker-status.ts";
import type { HostLink } from "../src/host/port.ts";
import { type Address, parseAddress } from "../src/net/address.ts";
import { type Prefix, parsePrefix } from "../src/net/prefix.ts";
import type { NodeView } from "../src/plan/elect.ts";
import type { NodeSurroundings } from "../src/plan/vip-plan.ts";
import type { CachedNode, CachedSpeaker } from "./cache.ts";
import { echoTargets } from "./echo-target.ts";

/** What a speaker says of its node. */
type Told = { readonly links: readonly Link[]; readonly dataPathReady: boolean };

/** What this node knows of itself, without the API server. */
export type Self = Told & {
  readonly hostLinks: readonly HostLink[];
  readonly bridgeNetfilter: NonNullable<NodeSurroundings["bridgeNetfilter"]>;
};

/**
 * The nodes as elections see them: Node, SpeakerStatus and Lease of each in one value. Of this node only the labels
 * come from the API server: its links and data path it sees itself, and it lives, since it asks.
 */
export class Roster {
  readonly views = new Map<string, NodeView>();
  readonly #nodes = new Map<string, CachedNode>();
  readonly #speakers = new Map<string, CachedSpeaker>();
  /** Nodes whose speaker has a Lease that is not known to be expired. */
  readonly #live = new Set<string>();
  readonly #me: string;
  readonly #ignoreExcludeLabel: boolean;
  readonly #podCIDRs: readonly string[];
  #self: Self = { ...NOTHING, hostLinks: [], bridgeNetfilter: { IPv4: false, IPv6: false } };

  constructor(options: { me: string; ignoreExcludeLabel: boolean; podCIDRs: readonly string[] }) {
    this.#me = options.me;
    this.#ignoreExcludeLabel = options.ignoreExcludeLabel;
    this.#podCIDRs = options.podCIDRs;
  }

  /** Each setter answers whether an election could come out differently now. */
  setNode(name: string, node: CachedNode | undefined): boolean {
    if (node === undefined) this.#nodes.delete(name);
    else this.#nodes.set(name, node);
    return this.#renew(name);
  }

  setSpeaker(name: string, speaker: CachedSpeaker | undefined): boolean {
    if (speaker === undefined) this.#speakers.delete(name);
    else this.#speakers.set(name, speaker);
    return this.#renew(name);
  }

  setLive(name: string, live: boolean): boolean {
    if (live) this.#live.add(name);
    else this.#live.delete(name);
    return this.#renew(name);
  }

  setSelf(self: Self): boolean {
    this.#self = self;
    return this.#renew(this.#me);
  }

  /** Is it the MAC of a link of one of our nodes? Then a claim is a matter between speakers, not a stranger's. */
  nodeWithMac(mac: string): string | undefined {
    for (const [name, { links }] of this.#speakers) if (links.some((link) => link.mac === mac)) return name;
    return undefined;
  }

  /** Whether anybody says which pods are this node's. */
  get ownPodsKnown(): boolean {
    return this.#ownPods().length > 0;
  }

  surroundings(): NodeSurroundings {
    const own = this.#ownPods();
    const cluster = [...own, ...[...this.#nodes.values()].flatMap((node) => node.podCIDRs)];
    const addresses = [...this.#nodes.values()].flatMap((node) => node.addresses);
    return {
      ownPods: prefixes(own),
      clusterPods: prefixes(cluster),
      nodeAddresses: [...new Set(addresses.map(parseAddress).filter((it): it is Address => it !== undefined))].sort(),
      bridgeNetfilter: this.#self.bridgeNetfilter,
      echoTargets: echoTargets(this.#self.hostLinks, new Set(this.#nodes.get(this.#me)?.addresses)),
    };
  }

  #ownPods(): readonly string[] {
    return this.#podCIDRs.length > 0 ? this.#podCIDRs : (this.#nodes.get(this.#me)?.podCIDRs ?? []);
  }

  #renew(name: string): boolean {
    const before = this.views.get(name);
    const view = this.#view(name);
    if (view === undefined) {
      this.views.delete(name);
      return before !== undefined;
    }
    if (before !== undefined && JSON.stringify(before) === JSON.stringify(view)) return false;
    this.views.set(name, view);
    return true;
  }

  #view(name: string): NodeView | undefined {
    const node = this.#nodes.get(name);
    if (node === undefined) return undefined;
    const isMe = name === this.#me;
    const { links, dataPathReady } = isMe ? this.#self : (this.#speakers.get(name) ?? NOTHING);
    const labels = node.metadata.labels ?? {};
    return {
      name,
      labels,
      live: isMe || this.#live.has(name),
      excluded: !this.#ignoreExcludeLabel && Object.hasOwn(labels, EXCLUDE_NODE_LABEL),
      dataPathReady,
      links,
    };
  }
}

const NOTHING: Told = { links: [], dataPathReady: false };

function prefixes(texts: readonly string[]): Prefix[] {
  const found = new Set<Prefix>();
  for (const text of texts) {
    const parsed = parsePrefix(text);
    if (parsed.ok) found.add(parsed.prefix);
    else if (parsed.refusal.type === "hostBits") found.add(parsed.refusal.masked);
  }
  return [...found].sort();
}

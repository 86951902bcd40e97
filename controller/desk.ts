/** What every reconcile function needs: the world as cached, the way to write, and where to leave word. */
import type { KubeObject } from "../src/api/meta.ts";
import type { Resource } from "../src/api/resource.ts";
import type { DataPath } from "../src/api/virtual-ip.ts";
import type { Instant } from "../src/core/instant.ts";
import type { Log } from "../src/core/log.ts";
import type { AddressBook } from "../src/ipam/address-book.ts";
import type { Claims } from "../src/ipam/claims.ts";
import type { Answer, ApiClient, ApiFailure } from "../src/kube/port.ts";
import type { Family } from "../src/net/address.ts";
import type { NodeView } from "../src/plan/elect.ts";
import type { Speakers } from "./speakers.ts";
import type { KindName, WorkKey, World } from "./world.ts";

export type Desk = {
  readonly client: ApiClient;
  readonly world: World;
  readonly book: AddressBook;
  readonly log: Log;
  /** GatewayClass.spec.controllerName and Service.spec.loadBalancerClass that are ours. */
  readonly controllerName: string;
  /** True: Services of type LoadBalancer without a class are ours too. */
  readonly claimClassless: boolean;
  /** Who forwards what comes in for Services. */
  readonly serviceDataPath: DataPath;
  /** Namespace of the speakers' Leases. */
  readonly namespace: string;
  now(): Instant;
  /** RFC 3339 in UTC, whole seconds: for conditions. */
  timestamp(): string;
  /** The key wrote an object: it rests until the informer shows this. */
  wrote(key: WorkKey, kind: KindName, object: KubeObject): void;
  /** The key has something to tell after so long, if nothing happens before. */
  again(key: WorkKey, milliseconds: number): void;
  mark(key: WorkKey): void;
  /** Why nothing may be allocated now, or undefined. */
  unsettled(): { readonly message: string; readonly since: Instant } | undefined;
  /** Speakers with a Lease that is not known to be dead. */
  liveSpeakers(): number;
  /** The nodes as candidates for an owner. */
  nodeViews(): ReadonlyMap<string, NodeView>;
  readonly speakers: Speakers;
  /** What the holder waits for; replaces what it waited for before. */
  waits(key: WorkKey, waiter: Waiter | undefined): void;
  readonly claims: Claims;
  /** uids of VirtualIPs whose deletion we confirmed: their going is no surprise. */
  readonly confirmed: Set<string>;
  /** Event for the people who look at the object: something is not as they want it. */
  warn(object: KubeObject, kind: KindName, reason: string, message: string): void;
  /** Event for the people who look at the object: what was done for it. */
  tell(object: KubeObject, kind: KindName, reason: string, message: string): void;
};

/** A holder that lacks an address. */
export type Waiter = {
  /** metadata.creationTimestamp: who waits longest is served first. */
  readonly createdAt: string;
  /** Families in which a released address would help; none when only pools or their rules would. */
  readonly families: readonly Family[];
};

/** The API server said no, or nothing: the key is tried again later. */
export class RequestFailed extends Error {
  readonly failure: ApiFailure;

  constructor(what: string, failure: ApiFailure) {
    super(`${what}: ${failure.status} ${failure.reason}: ${failure.message}`);
    this.failure = failure;
  }
}

/** The object of a good answer; a bad one ends the work on this key for now. */
export function granted<T>(what: string, answer: Answer<T>): T {
  if (answer.ok) return answer.object;
  throw new RequestFailed(what, answer.failure);
}

/**
 * A consistent read of one object that tells "there is none" from "nobody serves this kind": only an answered list
 * without the object is proof that it is gone.
 */
export async function readForProof<T extends KubeObject>(
  client: ApiClient,
  resource: Resource,
  key: { readonly namespace: string; readonly name: string },
): Promise<T | undefined> {
  const answer = await client.list<T>(resource, {
    namespace: key.namespace,
    fieldSelector: `metadata.name=${key.name}`,
  });
  const list = granted(`read ${resource.kind} ${key.namespace}/${key.name}`, answer);
  return list.items.find(({ metadata }) => metadata.name === key.name && metadata.namespace === key.namespace);
}

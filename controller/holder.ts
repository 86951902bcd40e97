/** One Gateway or Service: its VirtualIPs, what they forward, and its status. The life of a VIP as its holder drives it. */
import type { KubeObject } from "../src/api/meta.ts";
import { API_VERSION, WITHDRAW_FINALIZER } from "../src/api/names.ts";
import { type Resource, VIRTUALIP } from "../src/api/resource.ts";
import type { Forward, VirtualIP } from "../src/api/virtual-ip.ts";
import { virtualIPName } from "../src/api/virtual-ip-name.ts";
import { same } from "../src/core/same.ts";
import type { Problem } from "../src/core/trouble.ts";
import { isBoundElsewhere, type Match, matchHoldings, type Slot } from "../src/ipam/adopt.ts";
import { advertisementsOf } from "../src/ipam/advertise.ts";
import { type Draw, draw } from "../src/ipam/allocate.ts";
import type { AddressRequest } from "../src/ipam/request.ts";
import { type Address, type Family, familyOf } from "../src/net/address.ts";
import { mergePatchTo } from "../src/reconcile/merge-patch.ts";
import type { AllocationOutcome, FamilyOutcome, Refusal } from "../src/status/allocation.ts";
import { pendingSince } from "../src/status/pending.ts";
import { type Desk, granted, RequestFailed, readForProof } from "./desk.ts";
import { holderKey, type WorkKey } from "./world.ts";

/** What resolution says of a holder that is ours. */
export type Resolved = {
  /** Undefined: give nothing new and leave what it has. */
  readonly request: AddressRequest | undefined;
  readonly forwards: readonly Forward[];
};

type Status = Readonly<Record<string, unknown>>;

/** What is particular to Gateways or to Services. */
export type HolderKind<T extends KubeObject, R extends Resolved> = {
  readonly kind: "Gateway" | "Service";
  readonly resource: Resource;
  readonly project: (object: KubeObject) => T;
  /** "unknown" while its class is missing: nothing is given, nothing is released. */
  standing(object: T): "ours" | "notOurs" | "unknown";
  resolve(object: T): R;
  /** Addresses that its status shows. */
  shown(object: T): Address[];
  /** The status that it should have; the present one itself when it has it. */
  status(
    object: T,
    resolved: R,
    outcome: AllocationOutcome | undefined,
    vips: readonly VirtualIP[],
  ): Status | undefined;
  /** A status without these addresses, for an object that is not ours any more. */
  without(object: T, addresses: readonly Address[]): Status | undefined;
  /** The present status. */
  present(object: T): Status | undefined;
  /** Why nothing that it asks for can be given, whatever the pools hold. */
  refused(resolved: R): Problem | undefined;
};

/** Until the caches and the speakers are known, a newcomer waits quietly: it is a matter of seconds. */
const QUIET_MILLISECONDS = 10_000;

/** Brings one holder's VirtualIPs and status to what they should be. Throws RequestFailed to be tried again. */
export async function reconcileHolder<T extends KubeObject, R extends Resolved>(
  desk: Desk,
  holder: HolderKind<T, R>,
  key: string,
): Promise<void> {
  const cached = desk.world.cache(holder.kind).get(key) as T | undefined;
  const verdict = await serve(desk, holder, key, cached, false);
  if (verdict === "proofNeeded") {
    const slash = key.indexOf("/");
    const name = { namespace: key.slice(0, slash), name: key.slice(slash + 1) };
    const read = await readForProof<KubeObject>(desk.client, holder.resource, name);
    await serve(desk, holder, key, read === undefined ? undefined : holder.project(read), true);
  }
}

/** `proven`: the object was read consistently just now, so that what it says may cost an address. */
async function serve<T extends KubeObject, R extends Resolved>(
  desk: Desk,
  holder: HolderKind<T, R>,
  key: string,
  object: T | undefined,
  proven: boolean,
): Promise<"done" | "proofNeeded"> {
  const self: WorkKey = `${holder.kind}/${key}`;
  const vips = desk.world.vipsOf(self);
  const live = vips.filter(({ metadata }) => metadata.deletionTimestamp === undefined);
  if (object === undefined || holder.standing(object) === "notOurs") {
    desk.waits(self, undefined);
    if (live.length > 0 && !proven) return "proofNeeded";
    for (const vip of live)
      await release(desk, self, vip, object === undefined ? "its holder is gone" : "not ours now");
    for (const address of desk.claims.of(self)) desk.claims.drop(self, address);
    if (object !== undefined) await hide(desk, holder, self, object, vips);
    return "done";
  }
  if (holder.standing(object) === "unknown") return "done";

  const resolved = holder.resolve(object);
  const { request } = resolved;
  if (request === undefined) {
    desk.waits(self, undefined);
    const kept = await Promise.all(live.map((vip) => update(desk, self, vip, resolved.forwards, undefined)));
    await show(desk, holder, self, object, resolved, undefined, kept, new Set());
    return "done";
  }

  const match = matchHoldings(request, live);
  const losers = losersOf(match, request);
  const rebinds = match.slots.some(({ vip }) => vip !== undefined && isBoundElsewhere(request, vip));
  if ((losers.length > 0 || rebinds) && !proven) return "proofNeeded";
  for (const vip of losers) await release(desk, self, vip, "its holder does not ask for it any more");

  const filled = await fill(desk, self, request, match, resolved.forwards);
  const lingering = match.extras.flatMap(({ vip }) => (losers.includes(vip) ? [] : [vip]));
  const kept = await Promise.all(lingering.map((vip) => update(desk, self, vip, resolved.forwards, request)));
  desk.waits(self, waiterOf(request, filled));
  const unsettled = filled.unsettledSince;
  if (unsettled !== undefined) {
    const left = unsettled + QUIET_MILLISECONDS - desk.now();
    if (left > 0) {
      desk.again(self, left);
      return "done";
    }
  }
  // A VIP that no slot wants stays in the status while it is there and shown, and is never shown anew.
  const stillShown = kept.filter((vip) => request.shown.includes(vip.spec.address as Address));
  await show(desk, holder, self, object, resolved, filled.outcome, [...filled.vips, ...stillShown], filled.certain);
  return "done";
}

/**
 * VIPs of the holder that must go now: of a family that it does not ask for, bound to an older uid and not taken over, or
 * replaced by another that the status already shows.
 */
function losersOf(match: Match, request: AddressRequest): VirtualIP[] {
  return match.extras.flatMap(({ vip, familyWanted }) => {
    if (!familyWanted || isBoundElsewhere(request, vip)) return [vip];
    const family = familyOf(vip.spec.address as Address);
    const replaced = match.slots
      .filter(({ slot }) => slot.families.includes(family))
      .every(({ vip: winner }) => winner !== undefined && request.shown.includes(winner.spec.address as Address));
    return replaced ? [vip] : [];
  });
}

type Filled = {
  readonly outcome: AllocationOutcome;
  readonly vips: VirtualIP[];
  /** uids of VIPs that were created, updated or read just now, so that their addresses may be shown. */
  readonly certain: Set<string>;
  readonly unsettledSince: number | undefined;
};

/** Gives each slot a VIP where that is possible: the one it has, brought up to date, or a new one. */
async function fill(
  desk: Desk,
  self: WorkKey,
  request: AddressRequest,
  match: Match,
  forwards: readonly Forward[],
): Promise<Filled> {
  const certain = new Set<string>();
  const empty = match.slots.filter(({ vip }) => vip === undefined).map(({ slot }) => slot);
  const unsettled = empty.length > 0 ? desk.unsettled() : undefined;
  const draws = unsettled === undefined ? drawAll(desk, self, request, empty) : new Map<Slot, SlotDraw>();

  const results = await Promise.all(
    match.slots.map(async ({ slot, vip }): Promise<{ entries: FamilyOutcome[]; vip: VirtualIP | undefined }> => {
      if (vip !== undefined) {
        const updated = await update(desk, self, vip, forwards, request, certain);
        return { entries: [assigned(updated)], vip: updated };
      }
      if (unsettled !== undefined) {
        const problem = { reason: "Waiting", message: unsettled.message } as const;
        return { entries: refusedEntries(slot, problem), vip: undefined };
      }
      const first = draws.get(slot);
      if (first === undefined) throw new Error("a slot without a VIP was not drawn for");
      if (first.type === "cancelled") return { entries: cancelledEntries(slot, first.problem), vip: undefined };
      const result = await create(desk, self, request, slot, first, forwards);
      if (result.type === "refused") {
        const quiet = slot.need === "Preferred" && result.problem.reason === "NoPoolForFamily";
        return { entries: quiet ? [] : refusedEntries(slot, result.problem), vip: undefined };
      }
      certain.add(result.vip.metadata.uid ?? "");
      return { entries: [assigned(result.vip)], vip: result.vip };
    }),
  );
  return {
    outcome: results.flatMap(({ entries }) => entries),
    vips: results.flatMap(({ vip }) => vip ?? []),
    certain,
    unsettledSince: unsettled?.since,
  };
}

/** `cancelled`: another slot that is needed can't be filled, for this reason. */
type SlotDraw = Draw | { readonly type: "cancelled"; readonly problem: Refusal };

/**
 * Chooses candidates for all empty slots at once, before anything is awaited: each is occupied as it is chosen. Where
 * a slot that is needed can't be filled, none is.
 */
function drawAll(desk: Desk, self: WorkKey, request: AddressRequest, empty: readonly Slot[]): Map<Slot, SlotDraw> {
  // Created by an earlier attempt, perhaps: an answer that never came. They are tried first, and let go if not needed.
  const leftovers = [...desk.claims.of(self)];
  const draws = new Map<Slot, SlotDraw>();
  for (const slot of empty) {
    const i = leftovers.findIndex((address) => fits(address, slot, request, desk));
    const [leftover] = i < 0 ? [] : leftovers.splice(i, 1);
    const again: Draw | undefined =
      leftover === undefined
        ? undefined
        : { type: "try", address: leftover, pool: desk.book.poolOf(leftover)?.name ?? "" };
    draws.set(slot, again ?? drawNext(desk, self, request, slot));
  }
  const lacking = empty.map((slot) => (slot.need === "Required" ? draws.get(slot) : undefined));
  const failed = lacking.find((drawn) => drawn?.type === "refused");
  for (const [slot, drawn] of draws) {
    if (failed === undefined || drawn.type !== "try") continue;
    // Nothing is consumed in vain.
    draws.set(slot, { type: "cancelled", problem: failed.problem });
    leftovers.push(drawn.address);
  }
  for (const address of leftovers) desk.claims.drop(self, address);
  return draws;
}

const fits = (address: Address, slot: Slot, request: AddressRequest, desk: Desk): boolean =>
  (slot.requested === undefined ? slot.families.includes(familyOf(address)) : slot.requested === address) &&
  (request.pool === undefined || desk.book.poolOf(address)?.name === request.pool);

function drawNext(desk: Desk, self: WorkKey, request: AddressRequest, slot: Slot): Draw {
  const drawn = draw(request, slot, desk.book, {
    namespaceLabels: (namespace) => desk.world.get("Namespace", namespace)?.metadata.labels,
    releasing: (address) =>
      desk.world.get("VirtualIP", virtualIPName(address))?.metadata.deletionTimestamp !== undefined,
  });
  if (drawn.type === "try") desk.claims.make(self, drawn.address, print(request.holder));
  return drawn;
}

type Created = { readonly type: "created"; readonly vip: VirtualIP } | Extract<Draw, { type: "refused" }>;

/** Creates the VIP; where another has the name, the next candidate is tried. The name is the lock. */
async function create(
  desk: Desk,
  self: WorkKey,
  request: AddressRequest,
  slot: Slot,
  first: Draw,
  forwards: readonly Forward[],
): Promise<Created> {
  let candidate = first;
  while (candidate.type === "try") {
    const { address, pool } = candidate;
    const wanted = newVirtualIP(desk, request, address, pool, forwards);
    const answer = await desk.client.create(VIRTUALIP, wanted);
    if (answer.ok) {
      desk.wrote(self, "VirtualIP", answer.object);
      desk.log.info({ vip: answer.object.metadata.name, holder: self, pool }, "address assigned");
      return { type: "created", vip: answer.object };
    }
    // The claim stays: the object may have been created, and this holder comes back to it first.
    if (answer.failure.reason !== "AlreadyExists") {
      throw new RequestFailed(`create VirtualIP ${wanted.metadata.name}`, answer.failure);
    }
    const found = await desk.client.get<VirtualIP>(VIRTUALIP, { name: wanted.metadata.name });
    if (!found.ok && found.failure.reason === "NotFound") continue;
    const other = granted(`read VirtualIP ${wanted.metadata.name}`, found);
    if (other.metadata.deletionTimestamp === undefined && !isBoundElsewhere(request, other)) {
      desk.wrote(self, "VirtualIP", other);
      return { type: "created", vip: other };
    }
    const [rival] = other.spec.holders;
    desk.claims.lose(self, address, rival === undefined ? `VirtualIP ${other.metadata.name}` : print(rival));
    candidate = drawNext(desk, self, request, slot);
  }
  return candidate;
}

function newVirtualIP(
  desk: Desk,
  request: AddressRequest,
  address: Address,
  pool: string,
  forwards: readonly Forward[],
): VirtualIP {
  return {
    apiVersion: API_VERSION,
    kind: "VirtualIP",
    metadata: { name: virtualIPName(address), finalizers: [WITHDRAW_FINALIZER] },
    spec: {
      address,
      scope: "External",
      pool,
      holders: [request.holder],
      advertisements: { l2: advertisements(desk, pool, request.labels) },
      forwards: forwards.map((forward) => ({ ...forward, holder: 0 })),
    },
  };
}

function advertisements(desk: Desk, pool: string, labels: Readonly<Record<string, string>>): string[] {
  return advertisementsOf(
    { name: pool, labels: desk.book.pools.get(pool)?.labels },
    labels,
    desk.world.cache("L2Advertisement").values(),
  );
}

/** Brings the VIP's spec to what its holder wants; writes only a difference, and only on the version that was read. */
async function update(
  desk: Desk,
  self: WorkKey,
  vip: VirtualIP,
  forwards: readonly Forward[],
  request: AddressRequest | undefined,
  certain?: Set<string>,
): Promise<VirtualIP> {
  const index = vip.spec.holders.findIndex((each) => holderKey(each) === self);
  const holders = vip.spec.holders.map((each, i) => (i === index && request !== undefined ? request.holder : each));
  const others = vip.spec.forwards.filter(({ holder }) => holder !== index);
  const wanted = {
    holders,
    advertisements:
      request === undefined ? vip.spec.advertisements : { l2: advertisements(desk, vip.spec.pool, request.labels) },
    forwards: [...others, ...forwards.map((forward) => ({ ...forward, holder: index }))],
  };
  const { holders: h, advertisements: a, forwards: f } = vip.spec;
  if (same(wanted, { holders: h, advertisements: a, forwards: f })) return vip;
  const { name, resourceVersion } = vip.metadata;
  const patch = { metadata: { resourceVersion }, spec: wanted };
  const updated = granted(
    `update VirtualIP ${name}`,
    await desk.client.mergePatch<VirtualIP>(VIRTUALIP, { name }, patch),
  );
  desk.wrote(self, "VirtualIP", updated);
  certain?.add(updated.metadata.uid ?? "");
  return updated;
}

async function release(desk: Desk, self: WorkKey, vip: VirtualIP, why: string): Promise<void> {
  const { name, uid, resourceVersion } = vip.metadata;
  const preconditions = {
    ...(uid === undefined ? {} : { uid }),
    ...(resourceVersion === undefined ? {} : { resourceVersion }),
  };
  const answer = await desk.client.delete(VIRTUALIP, { name }, preconditions);
  if (!answer.ok && answer.failure.reason === "NotFound") return;
  const object = granted(`delete VirtualIP ${name}`, answer);
  desk.log.info({ vip: name, holder: self, why }, "address released");
  // Without a finalizer the object is gone with the answer, which may be a bare Status: there is nothing to wait for.
  if ((object.metadata?.finalizers ?? []).length > 0) desk.wrote(self, "VirtualIP", object);
}

/** For so long the words of what is Pending may be behind: a burst of a thousand Gateways is through by then. */
const WORDS_MILLISECONDS = 30_000;

/** Writes the holder's status if it differs. An address is shown anew only for a VIP that is certainly there. */
async function show<T extends KubeObject, R extends Resolved>(
  desk: Desk,
  holder: HolderKind<T, R>,
  self: WorkKey,
  object: T,
  resolved: R,
  outcome: AllocationOutcome | undefined,
  vips: readonly VirtualIP[],
  certain: ReadonlySet<string>,
): Promise<void> {
  const wanted = holder.status(object, resolved, outcome, vips);
  if (wanted === undefined || wanted === holder.present(object)) return;
  const since = pendingSince(holder.present(object), wanted);
  if (since !== undefined) {
    const left = Date.parse(since) + WORDS_MILLISECONDS - Date.parse(desk.timestamp());
    // A transition in the future was another clock's: nothing is put off because of it.
    if (left > 0 && left <= WORDS_MILLISECONDS) return desk.again(self, left);
  }
  const shown = holder.shown(object);
  for (const vip of vips) {
    if (certain.has(vip.metadata.uid ?? "") || shown.includes(vip.spec.address as Address)) continue;
    const read = granted(
      `read VirtualIP ${vip.metadata.name}`,
      await desk.client.get<VirtualIP>(VIRTUALIP, { name: vip.metadata.name }),
    );
    if (read.metadata.uid !== vip.metadata.uid || read.metadata.deletionTimestamp !== undefined) {
      // The cache is behind; its event brings this key back.
      throw new RequestFailed(`show ${vip.spec.address}`, { status: 409, reason: "Conflict", message: "it changed" });
    }
  }
  await writeStatus(desk, holder, self, object, wanted);
  tell(desk, holder, object, holder.shown({ ...object, status: wanted }), vips);
  const refused = holder.refused(resolved);
  if (refused !== undefined) desk.warn(object, holder.kind, refused.reason, refused.message);
  for (const entry of outcome ?? []) {
    if (entry.type === "assigned" || entry.problem.reason === "Waiting") continue;
    desk.warn(object, holder.kind, entry.problem.reason, entry.problem.message);
  }
}

/** Events for addresses that its status shows since now, or does not show any more. */
function tell<T extends KubeObject, R extends Resolved>(
  desk: Desk,
  holder: HolderKind<T, R>,
  object: T,
  after: readonly Address[],
  vips: readonly VirtualIP[],
): void {
  const before = holder.shown(object);
  for (const address of after) {
    if (before.includes(address)) continue;
    const pool = vips.find(({ spec }) => spec.address === address)?.spec.pool ?? "";
    desk.tell(object, holder.kind, "AddressAssigned", `${address} from pool "${pool}"`);
  }
  for (const address of before) {
    if (!after.includes(address))
      desk.tell(object, holder.kind, "AddressReleased", `${address} is not its address now`);
  }
}

async function hide<T extends KubeObject, R extends Resolved>(
  desk: Desk,
  holder: HolderKind<T, R>,
  self: WorkKey,
  object: T,
  vips: readonly VirtualIP[],
): Promise<void> {
  const wanted = holder.without(
    object,
    vips.map((vip) => vip.spec.address as Address),
  );
  if (wanted === undefined || wanted === holder.present(object)) return;
  await writeStatus(desk, holder, self, object, wanted);
  tell(desk, holder, object, holder.shown({ ...object, status: wanted }), vips);
}

async function writeStatus<T extends KubeObject, R extends Resolved>(
  desk: Desk,
  holder: HolderKind<T, R>,
  self: WorkKey,
  object: T,
  status: Status,
): Promise<void> {
  const { namespace = "", name, resourceVersion } = object.metadata;
  const difference = mergePatchTo(holder.present(object), status);
  const patch = { metadata: { resourceVersion }, status: difference };
  const answer = await desk.client.mergePatch<KubeObject>(holder.resource, { namespace, name }, patch, "status");
  desk.wrote(self, holder.kind, granted(`status of ${self}`, answer));
}

function waiterOf(request: AddressRequest, filled: Filled) {
  const refused = filled.outcome.filter((entry) => entry.type === "refused");
  const missing = request.families.some(
    ({ family }) => !filled.outcome.some((entry) => entry.type === "assigned" && entry.family === family),
  );
  if (refused.length === 0 && !missing) return undefined;
  const families: Family[] = refused
    .filter(({ problem }) => RELEASE_HELPS.has(problem.reason))
    .map(({ family }) => family);
  return { createdAt: request.createdAt, families };
}

const RELEASE_HELPS = new Set(["PoolExhausted", "AddressInUse", "AddressReleasing"]);

const assigned = (vip: VirtualIP): FamilyOutcome => {
  const address = vip.spec.address as Address;
  return { type: "assigned", family: familyOf(address), address, pool: vip.spec.pool };
};

const refusedEntries = ({ families, requested }: Slot, problem: Refusal): FamilyOutcome[] =>
  families.map((family) => ({
    type: "refused",
    family,
    ...(requested === undefined ? {} : { requested }),
    problem,
  }));

/** Entries that say what the other slot lacks: nothing is wrong with an address that was asked for here. */
const cancelledEntries = (slot: Slot, problem: Refusal): FamilyOutcome[] =>
  refusedEntries({ ...slot, requested: undefined }, problem);

/** `Gateway demo/web`. */
const print = ({ kind, namespace, name }: { kind: string; namespace: string; name: string }): string =>
  `${kind} ${namespace}/${name}`;

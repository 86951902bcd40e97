/** Whether the addresses of a Gateway or Service are there and served: one judgement for both. */
import type { Forward, VirtualIP } from "../api/virtual-ip.ts";
import { same } from "../core/same.ts";
import type { AddressRequest } from "../ipam/request.ts";
import { type Address, compareAddresses, type Family, familyOf } from "../net/address.ts";
import type { AllocationOutcome, FamilyOutcome, Refusal } from "./allocation.ts";

export type ReadinessInput = {
  /** metadata.uid of the Gateway or Service. */
  readonly uid: string | undefined;
  readonly request: AddressRequest | undefined;
  /** What its VirtualIPs have to forward. */
  readonly forwards: readonly Forward[];
  /** Answer of the pools; undefined while there is none. */
  readonly outcome: AllocationOutcome | undefined;
  /** VirtualIPs that this controller has just created, updated or read, and that name the object as a holder. */
  readonly vips: readonly VirtualIP[];
  /** Speakers with a Lease that is not known to be dead. */
  readonly liveSpeakers: number;
};

export type Readiness =
  /** Every VirtualIP's owner has programmed what is wanted now. */
  | { readonly type: "programmed" }
  /** An address that was asked for by name can't be had. */
  | { readonly type: "unusable"; readonly refusal: Refusal }
  /** A family that is needed, or all of them, can't be had. */
  | { readonly type: "unassigned"; readonly refusal: Refusal }
  /** Nobody serves it, since no speaker lives. */
  | { readonly type: "noSpeaker"; readonly message: string }
  | { readonly type: "pending"; readonly message: string };

/**
 * Addresses that the holder's status shows: those of its VirtualIPs that are not being deleted, in the order of the request:
 * addresses by name, then by family.
 */
export function shownAddresses({ uid, request, vips }: Pick<ReadinessInput, "uid" | "request" | "vips">): Address[] {
  const place = (address: Address): number => {
    const named = request?.addresses.indexOf(address) ?? -1;
    const family = request?.families.findIndex((each) => each.family === familyOf(address)) ?? -1;
    return (family < 0 ? 2 : family) * 1000 + (named < 0 ? 999 : named);
  };
  return vips
    .filter((vip) => isHeldBy(vip, uid))
    .map((vip) => vip.spec.address as Address)
    .sort((a, b) => place(a) - place(b) || compareAddresses(a, b));
}

/** Judges in the order of what has to be mended first: the request, the pools, the speakers. */
export function readiness(input: ReadinessInput): Readiness {
  const { outcome, request } = input;
  if (outcome === undefined || request === undefined) return { type: "pending", message: "no address is decided yet" };
  const undecided = refusals(outcome).find((entry) => entry.problem.reason === "Waiting");
  if (undecided !== undefined) return { type: "pending", message: undecided.problem.message };
  const byName = refusals(outcome).find((entry) => entry.requested !== undefined);
  if (byName !== undefined) return { type: "unusable", refusal: byName.problem };
  const needed = unassigned(request, outcome);
  if (needed !== undefined) return { type: "unassigned", refusal: needed };
  return served(input, outcome);
}

/** Families that were wanted where a pool offers them, and that are not there although another one is. */
export function missingFamilies(
  request: AddressRequest | undefined,
  outcome: AllocationOutcome | undefined,
): { readonly family: Family; readonly refusal: Refusal }[] {
  if (request === undefined || outcome === undefined || request.atMost !== undefined) return [];
  if (!outcome.some((entry) => entry.type === "assigned")) return [];
  return request.families
    .filter(({ family, need }) => need === "Preferred" && !hasFamily(outcome, family))
    .map(({ family }) => ({ family, refusal: refusalOf(outcome, family) ?? noPool(family) }))
    .filter(({ refusal }) => refusal.reason !== "Waiting");
}

function unassigned(request: AddressRequest, outcome: AllocationOutcome): Refusal | undefined {
  const required = request.families.find(({ family, need }) => need === "Required" && !hasFamily(outcome, family));
  if (required !== undefined) return refusalOf(outcome, required.family) ?? noPool(required.family);
  if (outcome.some((entry) => entry.type === "assigned")) return undefined;
  const all = refusals(outcome).map((entry) => entry.problem);
  const [first] = all;
  if (first === undefined) return noPool(request.families.map(({ family }) => family).join(" or "));
  return { reason: first.reason, message: [...new Set(all.map((problem) => problem.message))].join("; ") };
}

const hasFamily = (outcome: AllocationOutcome, family: Family): boolean =>
  outcome.some((entry) => entry.type === "assigned" && entry.family === family);

const refusals = (outcome: AllocationOutcome): Extract<FamilyOutcome, { type: "refused" }>[] =>
  outcome.filter((entry) => entry.type === "refused");

const refusalOf = (outcome: AllocationOutcome, family: Family): Refusal | undefined =>
  refusals(outcome).find((entry) => entry.family === family)?.problem;

const noPool = (families: string): Refusal => ({
  reason: "NoPoolForFamily",
  message: `no pool that this object may draw from has ${families} addresses; create an IPAddressPool or widen one`,
});

function served({ uid, forwards, vips, liveSpeakers }: ReadinessInput, outcome: AllocationOutcome): Readiness {
  const waiting = outcome.flatMap((entry) => {
    if (entry.type === "refused") return [];
    const vip = vips.find((each) => each.spec.address === entry.address && isHeldBy(each, uid));
    const why = vip === undefined ? "its VirtualIP is being made" : whyNotServed(vip, uid, forwards);
    return why === undefined ? [] : [`${entry.address}: ${why}`];
  });
  if (waiting.length === 0) return { type: "programmed" };
  const message = waiting.join("; ");
  return liveSpeakers > 0
    ? { type: "pending", message }
    : { type: "noSpeaker", message: `no speaker is running, so nobody can answer; ${message}` };
}

/** Invariant 5: programmed is what the owner wrote for this very generation, never what we intend. */
function whyNotServed(vip: VirtualIP, uid: string | undefined, wanted: readonly Forward[]): string | undefined {
  const holder = vip.spec.holders.findIndex((each) => each.uid === uid);
  const has = vip.spec.forwards.filter((forward) => forward.holder === holder);
  if (!same(has.map(withoutHolder), wanted.map(withoutHolder))) return "its VirtualIP is being updated";
  const owner = vip.status?.owner;
  if (owner === undefined) {
    const announced = vip.status?.conditions?.find((condition) => condition.type === "Announced");
    return announced?.status === "False" ? announced.message : "no node answers for it yet";
  }
  if (owner.generation !== vip.metadata.generation) return `node ${owner.node} has not programmed the last change yet`;
  return undefined;
}

const withoutHolder = (forward: Forward): Omit<Forward, "holder"> => {
  const { holder: _, ...rest } = forward;
  return rest;
};

const isHeldBy = (vip: VirtualIP, uid: string | undefined): boolean =>
  vip.metadata.deletionTimestamp === undefined && vip.spec.holders.some((holder) => holder.uid === uid);

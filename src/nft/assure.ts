/**
 * Makes a large map hold the wanted elements without reading it. A dump of a hash map begins anew for each of its messages,
 * so it costs the square of the size; adding what is there already costs a lookup each and changes nothing.
 *
 * An element that is there with other data is refused (EEXIST), and with it the batch. Only the elements of refused
 * messages are then looked up one by one, and those that differ are taken away in front of the adds. What else the map
 * may hold is not seen here: the kernel's count of its elements tells.
 */
import type { Fault } from "../core/trouble.ts";
import { type Family, familyOf } from "../net/address.ts";
import { MessageWriter } from "../netlink/message.ts";
import { type Batch, faultOf, type Refusal } from "../netlink/nfnetlink.ts";
import { type Element, forEachElement, putElementQuery, putElements } from "../netlink/nftables.ts";
import type { FrontendPlan, VipPlan } from "../plan/vip-plan.ts";
import { bucketElementCount, bucketElements } from "./element.ts";
import { setName, TABLE } from "./ruleset.ts";

/** Elements that are looked up one by one where one of them is refused, and those of one batch: so many at least. */
const GROUP_ELEMENTS = 400;
const BATCH_ELEMENTS = 16_000;

const EEXIST = 17;

export type AssurePort = {
  /** Sends what is put as one transaction; `first` is the sequence number of its begin. */
  transact(put: (batch: Batch) => void): Promise<{ first: number; refusals: readonly Refusal[] }>;
  exchange(bytes: Uint8Array, done: (message: Uint8Array) => boolean): Promise<Uint8Array[]>;
  takeSequences(count: number): number;
};

/** Frontends whose buckets are put in one after another, in messages of their own. */
type Group = readonly (readonly [VipPlan, FrontendPlan])[];

/** Brings in the buckets of all frontends of a family. Gives how many elements that makes, and how many had other data. */
export async function assureBuckets(
  port: AssurePort,
  family: Family,
  plans: Iterable<VipPlan>,
): Promise<{ wanted: number; replaced: number } | { fault: Fault }> {
  const map = setName("endpoint", family);
  let [wanted, replaced] = [0, 0];
  for (const { groups, elements } of inBatches(family, plans)) {
    const outcome = await assureBatch(port, map, groups);
    if ("fault" in outcome) return outcome;
    wanted += elements;
    replaced += outcome.replaced;
  }
  return { wanted, replaced };
}

async function assureBatch(
  port: AssurePort,
  map: string,
  groups: readonly Group[],
): Promise<{ replaced: number } | { fault: Fault }> {
  const stale: Element[] = [];
  for (let tries = 0; ; tries++) {
    /** Messages of the batch before the end of each group. */
    const ends: number[] = [];
    const { first, refusals } = await port.transact((batch) => {
      putElements(batch, "delete", TABLE, map, stale);
      for (const group of groups) {
        putElements(batch, "add", TABLE, map, elementsOf(group));
        ends.push(batch.count());
      }
    });
    if (refusals.length === 0) return { replaced: stale.length };
    if (tries > 0 || refusals.some(({ errno }) => errno !== EEXIST)) return { fault: faultOf(`map ${map}`, refusals) };
    // The begin of the batch has the first number.
    const suspects = new Set(refusals.map(({ sequence }) => ends.findIndex((end) => sequence - first <= end)));
    for (const group of suspects) stale.push(...(await withOtherData(port, map, groups[group] ?? [])));
  }
}

function* elementsOf(group: Group): Iterable<Element> {
  for (const [plan, frontend] of group) yield* bucketElements(plan, frontend);
}

/** Those elements of the group that the map holds with other data. */
async function withOtherData(port: AssurePort, map: string, group: Group): Promise<Element[]> {
  const elements = Array.from(elementsOf(group), ({ key, data }) => ({ key: key.slice(), ...(data && { data }) }));
  const first = port.takeSequences(elements.length);
  const last = first + elements.length - 1;
  const writer = new MessageWriter(elements.length * 128);
  // One message for each: the answer to one with several ends at the first that is not there.
  for (const [i, { key }] of elements.entries()) putElementQuery(writer, first + i, TABLE, map, key);
  const replies = await port.exchange(writer.bytes(), (reply) => sequenceOf(reply) === last);
  const differing: Element[] = [];
  for (const reply of replies) {
    const wanted = elements[sequenceOf(reply) - first];
    forEachElement(reply, ({ data }) => {
      if (wanted !== undefined && !sameBytes(wanted.data, data)) differing.push(wanted);
    });
  }
  return differing;
}

/** Frontends as groups that fill one message or more, and groups as batches. */
function* inBatches(family: Family, plans: Iterable<VipPlan>): Iterable<{ groups: Group[]; elements: number }> {
  let [groups, group, elements, inGroup]: [Group[], [VipPlan, FrontendPlan][], number, number] = [[], [], 0, 0];
  for (const plan of plans) {
    if (familyOf(plan.address) !== family) continue;
    for (const frontend of plan.frontends) {
      group.push([plan, frontend]);
      const count = bucketElementCount(frontend);
      inGroup += count;
      elements += count;
      if (inGroup < GROUP_ELEMENTS) continue;
      groups.push(group);
      [group, inGroup] = [[], 0];
      if (elements < BATCH_ELEMENTS) continue;
      yield { groups, elements };
      [groups, elements] = [[], 0];
    }
  }
  if (inGroup > 0) groups.push(group);
  if (groups.length > 0) yield { groups, elements };
}

const sequenceOf = (message: Uint8Array): number =>
  new DataView(message.buffer, message.byteOffset, message.byteLength).getUint32(8, true);

const sameBytes = (a: Element["data"], b: Element["data"]): boolean =>
  a instanceof Uint8Array && b instanceof Uint8Array && a.length === b.length && a.every((byte, i) => byte === b[i]);

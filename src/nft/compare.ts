/** Two plans of one VIP → the elements that differ. Pure; cost follows the frontends that changed. */
import type { Element } from "../netlink/nftables.ts";
import type { Buckets, FrontendPlan, VipPlan } from "../plan/vip-plan.ts";
import { elementsOfAddress, elementsOfFrontend, type Placed } from "./element.ts";

/** Elements to take away and to put in. The kernel needs them in this order where a key is in both. */
export type Changes = { readonly deletes: readonly Placed[]; readonly adds: readonly Placed[] };

/** What to change so that the table holds `wanted` where it held `applied`. */
export function compareVips(applied: VipPlan | undefined, wanted: VipPlan | undefined): Changes {
  if (applied === wanted) return { deletes: [], adds: [] };
  const before = new Map(applied?.frontends.map((frontend) => [keyOf(frontend), frontend]));
  const old: Placed[] = applied === undefined ? [] : elementsOfAddress(applied);
  const now: Placed[] = wanted === undefined ? [] : elementsOfAddress(wanted);
  for (const frontend of wanted?.frontends ?? []) {
    const previous = before.get(keyOf(frontend));
    before.delete(keyOf(frontend));
    if (previous !== undefined && applied?.scope === wanted?.scope && sameFrontend(previous, frontend)) continue;
    if (applied !== undefined && previous !== undefined) old.push(...elementsOfFrontend(applied, previous));
    if (wanted !== undefined) now.push(...elementsOfFrontend(wanted, frontend));
  }
  if (applied !== undefined) {
    for (const gone of before.values()) old.push(...elementsOfFrontend(applied, gone));
  }
  return compareElements(old, now);
}

const keyOf = (frontend: FrontendPlan): string => `${frontend.protocol}/${frontend.port}`;

/** What to change so that the sets hold `wanted` where they held `applied`. */
export function compareElements(applied: readonly Placed[], wanted: readonly Placed[]): Changes {
  const deletes: Placed[] = [];
  const adds: Placed[] = [];
  const before = new Map(applied.map((placed) => [identityOf(placed), placed]));
  for (const placed of wanted) {
    const identity = identityOf(placed);
    const previous = before.get(identity);
    before.delete(identity);
    if (previous === undefined) adds.push(placed);
    else if (!sameData(previous.element.data, placed.element.data)) {
      // Adding over an element with other data gives EEXIST.
      deletes.push(previous);
      adds.push(placed);
    }
  }
  deletes.push(...before.values());
  return { deletes, adds };
}

const text = (bytes: Uint8Array): string => String.fromCharCode(...bytes);

function identityOf({ set, element }: Placed): string {
  const end = element.keyEnd === undefined ? "" : text(element.keyEnd);
  return `${set} ${element.intervalEnd ? "]" : "["}${text(element.key)}${end}`;
}

function sameData(a: Element["data"], b: Element["data"]): boolean {
  if (a === b) return true;
  if (a === undefined || b === undefined) return false;
  if (a instanceof Uint8Array) return b instanceof Uint8Array && text(a) === text(b);
  if (b instanceof Uint8Array || a.type !== b.type) return false;
  return !("chain" in a) || ("chain" in b && a.chain === b.chain);
}

function sameFrontend(a: FrontendPlan, b: FrontendPlan): boolean {
  if (a === b) return true;
  if (
    a.sourceRanges.length !== b.sourceRanges.length ||
    a.sourceRanges.some((range, i) => range !== b.sourceRanges[i])
  ) {
    return false;
  }
  const [x, y] = [a.action, b.action];
  if (x.type !== "balance" || y.type !== "balance") return x.type === y.type;
  return x.affinity === y.affinity && sameBuckets(x.buckets, y.buckets) && sameOutside(x.outside, y.outside);
}

function sameOutside(a: Buckets | "drop" | undefined, b: Buckets | "drop" | undefined): boolean {
  if (a === undefined || b === undefined || a === "drop" || b === "drop") return a === b;
  return sameBuckets(a, b);
}

/** Where an endpoint runs is not compared: it makes no difference to these elements. */
function sameBuckets(a: Buckets, b: Buckets): boolean {
  if (a === b) return true;
  return (
    a.length === b.length &&
    a.every((endpoint, i) => {
      const other = b[i];
      return endpoint === other || (endpoint?.address === other?.address && endpoint?.port === other?.port);
    })
  );
}

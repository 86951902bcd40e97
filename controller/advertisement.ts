/** One L2Advertisement: its conditions. */
import type { L2Advertisement } from "../src/api/l2-advertisement.ts";
import { selects } from "../src/api/label-selector.ts";
import { L2ADVERTISEMENT } from "../src/api/resource.ts";
import { unlessSame } from "../src/core/same.ts";
import type { Problem } from "../src/core/trouble.ts";
import { mergePatchTo } from "../src/reconcile/merge-patch.ts";
import { mergeConditions, trouble, verdict } from "../src/status/condition.ts";
import { type Desk, granted } from "./desk.ts";

const OWNED = ["Accepted", "PartiallyInvalid"];

export async function reconcileL2Advertisement(desk: Desk, name: string): Promise<void> {
  const advertisement = desk.world.get("L2Advertisement", name);
  if (advertisement === undefined) return;
  const verdicts = [
    verdict("Accepted", invalid(advertisement), { reason: "Accepted", message: "" }),
    ...trouble("PartiallyInvalid", dangling(advertisement, desk)),
  ];
  const writing = { owned: OWNED, generation: advertisement.metadata.generation, now: desk.timestamp() };
  const conditions = [...mergeConditions(advertisement.status?.conditions, verdicts, writing)];
  const status = unlessSame(advertisement.status, { ...advertisement.status, conditions });
  if (status === advertisement.status) return;
  const { resourceVersion } = advertisement.metadata;
  const patch = { metadata: { resourceVersion }, status: mergePatchTo(advertisement.status, status) };
  const answer = await desk.client.mergePatch<L2Advertisement>(L2ADVERTISEMENT, { name }, patch, "status");
  if (!answer.ok && answer.failure.reason === "NotFound") return;
  desk.wrote(`L2Advertisement/${name}`, "L2Advertisement", granted(`status of L2Advertisement/${name}`, answer));
}

/** An interface pattern that is no regular expression selects nothing, which nobody meant. */
function invalid({ spec }: L2Advertisement): Problem | undefined {
  const patterns = [...(spec.interfaces ?? []), ...(spec.excludeInterfaces ?? [])];
  const bad = patterns.filter(
    (text) => text.length > 1 && text.startsWith("/") && text.endsWith("/") && !compiles(text),
  );
  if (bad.length === 0) return undefined;
  return { reason: "InvalidInterface", message: `${bad.join(", ")} is not a regular expression` };
}

function compiles(text: string): boolean {
  try {
    new RegExp(text.slice(1, -1));
    return true;
  } catch {
    return false;
  }
}

/** What it names and is not there: told on the object that names it. */
function dangling({ spec }: L2Advertisement, desk: Desk): Problem | undefined {
  const missing = (spec.ipAddressPools ?? []).filter((name) => !desk.book.pools.has(name));
  if (missing.length > 0) {
    const names = missing.map((name) => `"${name}"`).join(", ");
    return { reason: "PoolNotFound", message: `there is no IPAddressPool ${names}` };
  }
  const selectors = spec.nodeSelectors ?? [];
  const nodes = [...desk.world.cache("Node").values()];
  if (selectors.length === 0 || nodes.length === 0) return undefined;
  const chosen = nodes.some(({ metadata }) => selectors.some((selector) => selects(selector, metadata.labels)));
  return chosen ? undefined : { reason: "NoNodeSelected", message: "nodeSelectors select no node that exists" };
}

/** One L2Advertisement: its status. */
import type { L2Advertisement } from "../src/api/l2-advertisement.ts";
import { L2ADVERTISEMENT } from "../src/api/resource.ts";
import { mergePatchTo } from "../src/reconcile/merge-patch.ts";
import { l2AdvertisementStatus } from "../src/status/l2-advertisement.ts";
import { type Desk, granted } from "./desk.ts";

export async function reconcileL2Advertisement(desk: Desk, name: string): Promise<void> {
  const advertisement = desk.world.get("L2Advertisement", name);
  if (advertisement === undefined) return;
  const nodes = [...desk.world.cache("Node").values()];
  const status = l2AdvertisementStatus({
    advertisement,
    pools: desk.book.pools,
    nodes: nodes.map(({ metadata }) => ({ name: metadata.name, labels: metadata.labels ?? {} })),
    now: desk.timestamp(),
  });
  if (status === advertisement.status) return;
  const { resourceVersion } = advertisement.metadata;
  const patch = { metadata: { resourceVersion }, status: mergePatchTo(advertisement.status, status) };
  const answer = await desk.client.mergePatch<L2Advertisement>(L2ADVERTISEMENT, { name }, patch, "status");
  if (!answer.ok && answer.failure.reason === "NotFound") return;
  desk.wrote(`L2Advertisement/${name}`, "L2Advertisement", granted(`status of L2Advertisement/${name}`, answer));
}

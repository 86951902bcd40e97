/** One IPAddressPool: its status. */
import type { IPAddressPool } from "../src/api/ip-address-pool.ts";
import { IPADDRESSPOOL } from "../src/api/resource.ts";
import { mergePatchTo } from "../src/reconcile/merge-patch.ts";
import { poolStatus } from "../src/status/pool.ts";
import { type Desk, granted } from "./desk.ts";

export async function reconcilePool(desk: Desk, name: string): Promise<void> {
  const pool = desk.world.get("IPAddressPool", name);
  const resolved = desk.book.pools.get(name);
  if (pool === undefined || resolved === undefined) return;
  const { book } = desk;
  const status = poolStatus({
    pool,
    resolved,
    assigned: { IPv4: book.assigned(name, "IPv4"), IPv6: book.assigned(name, "IPv6") },
    free: { IPv4: book.free(name, "IPv4"), IPv6: book.free(name, "IPv6") },
    now: desk.timestamp(),
  });
  if (status === pool.status) return;
  const { resourceVersion } = pool.metadata;
  const patch = { metadata: { resourceVersion }, status: mergePatchTo(pool.status, status) };
  const answer = await desk.client.mergePatch<IPAddressPool>(IPADDRESSPOOL, { name }, patch, "status");
  if (!answer.ok && answer.failure.reason === "NotFound") return;
  desk.wrote(`IPAddressPool/${name}`, "IPAddressPool", granted(`status of IPAddressPool/${name}`, answer));
}

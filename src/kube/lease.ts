import type { Lease } from "../api/foreign.ts";
import { LEASE } from "../api/resource.ts";
import type { ApiClient, Key } from "./port.ts";

/** All Leases of ours: as long, and renewed as often. */
export const LEASE_DURATION_SECONDS = 6;
export const LEASE_RENEW_MILLISECONDS = 2_000;
/** The longest silence of a watch of Leases, in which our own renewals echo, that still counts as fresh. */
export const LEASE_ECHO_MILLISECONDS = 5_000;

/** metav1.MicroTime. For people only: no deadline of ours is computed from a wall clock. */
export const microTime = (wall: Date): string => wall.toISOString().replace("Z", "000Z");

/** What its holder promised: for so long after a change nobody else may act. A Lease without one promises nothing. */
export const durationMillisecondsOf = (lease: Lease): number => (lease.spec?.leaseDurationSeconds ?? 0) * 1000;

/** Undefined when nobody holds it, as after it was given back. */
export const holderOf = (lease: Lease): string | undefined => lease.spec?.holderIdentity || undefined;

/** Two readings of a Lease with the same identity: nobody wrote it in between. */
export const leaseIdentity = (lease: Lease): string => `${lease.metadata.uid}/${lease.metadata.resourceVersion}`;

/**
 * Reads consistently whether a Lease is still as it was last seen. A watch may lag, also behind a process that stood
 * still: before a node acts on the expiry of another, this is the proof. Undefined when the server does not answer.
 */
export async function isStill(client: ApiClient, seen: Lease): Promise<boolean | undefined> {
  const { namespace, name } = seen.metadata;
  const key: Key = namespace === undefined ? { name } : { namespace, name };
  const answer = await client.get<Lease>(LEASE, key);
  if (answer.ok) return leaseIdentity(answer.object) === leaseIdentity(seen);
  // Gone is changed: whoever deleted it knows more than we do.
  return answer.failure.status === 404 ? false : undefined;
}

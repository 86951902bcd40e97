/** One VirtualIP: its finalizer, its conditions, and when its address is free again. */
import type { KubeObject } from "../src/api/meta.ts";
import { WITHDRAW_FINALIZER } from "../src/api/names.ts";
import { VIRTUALIP } from "../src/api/resource.ts";
import type { VirtualIP, VirtualIPStatus } from "../src/api/virtual-ip.ts";
import { decideRelease, type ReleaseDecision } from "../src/ipam/life.ts";
import type { Address } from "../src/net/address.ts";
import { type Elected, elect, needsDataPath } from "../src/plan/elect.ts";
import { mergePatchTo } from "../src/reconcile/merge-patch.ts";
import { releasingStatus, virtualIPStatus } from "../src/status/virtual-ip.ts";
import { type Desk, granted, RequestFailed, readForProof } from "./desk.ts";
import { gatewayHolder } from "./gateway.ts";
import type { HolderKind, Resolved } from "./holder.ts";
import { overlapOf } from "./overlap.ts";
import { serviceHolder } from "./service.ts";
import type { WorkKey } from "./world.ts";

/** How long a new VIP may be without owner before its conditions say so: usually one is there in milliseconds. */
const GRACE_MILLISECONDS = 3_000;

const HEAR_AGAIN_MILLISECONDS = 5_000;

export async function reconcileVirtualIP(desk: Desk, name: string): Promise<void> {
  const vip = desk.world.get("VirtualIP", name);
  if (vip === undefined) return;
  const self: WorkKey = `VirtualIP/${name}`;
  if (vip.metadata.deletionTimestamp !== undefined) return release(desk, self, vip);
  if (vip.metadata.finalizers?.includes(WITHDRAW_FINALIZER) !== true) return guard(desk, self, vip);
  await report(desk, self, vip);
}

/** One that was made by hand: without the finalizer its deletion would free the address while nodes still answer. */
async function guard(desk: Desk, self: WorkKey, vip: VirtualIP): Promise<void> {
  const finalizers = [...(vip.metadata.finalizers ?? []), WITHDRAW_FINALIZER];
  await patchMetadata(desk, self, vip, { finalizers });
}

async function report(desk: Desk, self: WorkKey, vip: VirtualIP): Promise<void> {
  const elected = whoShouldAnswer(desk, vip);
  if (vip.status?.owner === undefined && !(elected?.type === "nobody" && elected.reason === "NoAdvertisement")) {
    const left = Date.parse(vip.metadata.creationTimestamp ?? "") + GRACE_MILLISECONDS - Date.parse(desk.timestamp());
    if (left > 0 && left <= GRACE_MILLISECONDS) return desk.again(self, left);
  }
  const failing = [...desk.world.cache("SpeakerStatus").values()].flatMap(({ metadata, status }) =>
    (status?.failing ?? [])
      .filter((each) => each.vip === vip.metadata.name)
      .map(({ reason }) => ({ node: metadata.name, reason })),
  );
  const status = virtualIPStatus({ vip, elected, conflict: overlapOf(desk.book, vip), failing, now: desk.timestamp() });
  if (status !== vip.status) await writeStatus(desk, self, vip, status);
}

/** By the rules that the speakers follow. With LocalOnly frontends the endpoints decide, which we do not watch. */
function whoShouldAnswer(desk: Desk, vip: VirtualIP): Elected | undefined {
  const { forwards, advertisements, address } = vip.spec;
  if (advertisements.l2.length > 0 && forwards.some(({ nodes }) => nodes === "LocalOnly")) return undefined;
  return elect(
    {
      address: address as Address,
      advertisements: advertisements.l2.flatMap((name) => desk.world.get("L2Advertisement", name)?.spec ?? []),
      needsDataPath: needsDataPath(forwards),
      homes: undefined,
      recorded: vip.status?.owner?.node,
    },
    desk.nodeViews(),
  );
}

async function release(desk: Desk, self: WorkKey, vip: VirtualIP): Promise<void> {
  if (vip.metadata.finalizers?.includes(WITHDRAW_FINALIZER) !== true) return;
  const owner = vip.status?.owner?.node;
  const first = decide(vip, desk.speakers.cached(owner), NO_LIMIT, shownByCache(desk, vip));
  if (first.type === "wait" && first.holding.length === 0) return;
  const hearing = await desk.speakers.hear();
  const shown = shownByCache(desk, vip) || (await shownNow(desk, vip));
  const decision = decide(vip, hearing.speakers, hearing.listVersion, shown);
  if (decision.type === "removeFinalizer") {
    const finalizers = (vip.metadata.finalizers ?? []).filter((each) => each !== WITHDRAW_FINALIZER);
    desk.confirmed.add(vip.metadata.uid ?? "");
    await patchMetadata(desk, self, vip, { finalizers });
    desk.log.info({ vip: vip.metadata.name }, "address free again");
    return;
  }
  // Events bring this key back; the clock does where an event can't tell (a store that was put back).
  desk.again(self, HEAR_AGAIN_MILLISECONDS);
  const status = releasingStatus(vip, decision.holding, desk.timestamp());
  if (status !== vip.status && status !== undefined) await writeStatus(desk, self, vip, status);
}

/** Above every resourceVersion: for a first look, which is followed by a real one. */
const NO_LIMIT = "9".repeat(40);

const decide = (
  vip: VirtualIP,
  speakers: Parameters<typeof decideRelease>[0]["speakers"],
  listVersion: string,
  shownByHolder: boolean,
): ReleaseDecision => decideRelease({ vip, speakers, listVersion, shownByHolder });

/** The holder's status shows the address, as far as the cache knows. */
function shownByCache(desk: Desk, vip: VirtualIP): boolean {
  return vip.spec.holders.some(({ kind, namespace, name }) => {
    const object = desk.world.get(kind, `${namespace}/${name}`);
    return object !== undefined && shows(desk, kind, object, vip);
  });
}

async function shownNow(desk: Desk, vip: VirtualIP): Promise<boolean> {
  for (const { kind, namespace, name } of vip.spec.holders) {
    if (desk.world.get(kind, `${namespace}/${name}`) === undefined) continue;
    const { resource } = holderOf(desk, kind);
    const object = await readForProof<KubeObject>(desk.client, resource, { namespace, name });
    if (object !== undefined && shows(desk, kind, object, vip)) return true;
  }
  return false;
}

const shows = (desk: Desk, kind: "Gateway" | "Service", object: KubeObject, vip: VirtualIP): boolean =>
  holderOf(desk, kind)
    .shown(object)
    .some((address) => address === vip.spec.address);

/** By kind; the caller hands in objects of that kind. */
const holderOf = (desk: Desk, kind: "Gateway" | "Service") =>
  (kind === "Gateway" ? gatewayHolder(desk) : serviceHolder(desk)) as unknown as HolderKind<KubeObject, Resolved>;

async function patchMetadata(desk: Desk, self: WorkKey, vip: VirtualIP, metadata: object): Promise<void> {
  const { name, resourceVersion } = vip.metadata;
  const answer = await desk.client.mergePatch<VirtualIP>(
    VIRTUALIP,
    { name },
    { metadata: { resourceVersion, ...metadata } },
  );
  if (!answer.ok && answer.failure.reason === "NotFound") return;
  const object = granted(`update VirtualIP ${name}`, answer);
  const gone = vip.metadata.deletionTimestamp !== undefined && (object.metadata.finalizers ?? []).length === 0;
  if (!gone) desk.wrote(self, "VirtualIP", object);
}

async function writeStatus(desk: Desk, self: WorkKey, vip: VirtualIP, status: VirtualIPStatus): Promise<void> {
  const { name, resourceVersion } = vip.metadata;
  // Only what differs: the owner is the speaker's to write.
  const patch = { metadata: { resourceVersion }, status: mergePatchTo(vip.status, status) };
  const answer = await desk.client.mergePatch<VirtualIP>(VIRTUALIP, { name }, patch, "status");
  if (!answer.ok && answer.failure.reason === "NotFound") return;
  if (!answer.ok) throw new RequestFailed(`status of VirtualIP ${name}`, answer.failure);
  desk.wrote(self, "VirtualIP", answer.object);
}

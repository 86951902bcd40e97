/** `belfry release --force VIP`: takes the finalizer off an address that a dead node keeps out of use. */
import { WITHDRAW_FINALIZER } from "../api/names.ts";
import { VIRTUALIP } from "../api/resource.ts";
import type { VirtualIP } from "../api/virtual-ip.ts";
import { addressOfName, virtualIPName } from "../api/virtual-ip-name.ts";
import { decideRelease, type ReleaseDecision, type SpeakerView } from "../ipam/life.ts";
import { parseAddress } from "../net/address.ts";
import { printHolder, type ReadModel } from "../status/read-model.ts";
import { giveUpNode } from "./command-give-up.ts";
import { type Gathering, gather } from "./gather.ts";
import { type ClusterFlags, withCluster } from "./session.ts";
import { CommandFailed, type World } from "./world.ts";

export type ReleaseFlags = ClusterFlags & { readonly force?: boolean; readonly yes?: boolean; readonly node?: string };

/** Gives the exit code: 0 released, 1 not; throws CommandFailed for what may not be. */
export async function runRelease(world: World, text: string | undefined, flags: ReleaseFlags): Promise<number> {
  if ((text === undefined) === (flags.node === undefined)) {
    throw new CommandFailed("name one: the VirtualIP to release, or with --node the node that is off");
  }
  if (text !== undefined) return releaseAddress(world, text, flags);
  if (flags.force !== true) throw new CommandFailed("--force is needed: it says that you know the node to be off");
  return giveUpNode(world, flags.node ?? "", flags, async (question) => flags.yes === true || agrees(world, question));
}

async function releaseAddress(world: World, text: string, flags: ReleaseFlags): Promise<number> {
  const address = parseAddress(text) ?? addressOfName(text);
  if (address === undefined) throw new CommandFailed(`"${text}" is neither an address nor the name of a VirtualIP`);
  if (flags.force !== true) {
    throw new CommandFailed(
      "an address is released by deleting its Gateway or Service; --force is for one that a dead node keeps out of use",
    );
  }
  return withCluster(world, flags, async (gathering) => {
    const name = virtualIPName(address);
    const model = await gather(gathering, ["vips", "speakers", "leases", "nodes", "gateways", "services"]);
    const vip = model.vip(name);
    const refusal = whyNot(model, vip, name);
    if (refusal !== undefined || vip === undefined) throw new CommandFailed(refusal ?? "", 1);
    const warning = riskOf(model, vip, await listVersionOf(gathering));
    world.stderr.write(`${warning}\n`);
    if (flags.yes !== true && !(await agrees(world, `Release ${name}?`))) return 1;
    await takeFinalizerOff(gathering, vip);
    world.stdout.write(`virtualip ${name} released\n`);
    return 0;
  });
}

/** Only one that is being deleted: anything else has a holder, and its controller would make it anew. */
function whyNot(model: ReadModel, vip: VirtualIP | undefined, name: string): string | undefined {
  if (vip === undefined) return model.whyUnread("vips") ?? `there is no VirtualIP ${name}`;
  const { deletionTimestamp, finalizers = [] } = vip.metadata;
  if (deletionTimestamp === undefined) {
    const holders = vip.spec.holders.map(printHolder).join(", ") || "nobody";
    return `VirtualIP ${name} is not being deleted; it is held by ${holders}: delete that, or the VirtualIP`;
  }
  if (finalizers.includes(WITHDRAW_FINALIZER)) return undefined;
  return `VirtualIP ${name} is not held by Belfry any more, but by ${finalizers.join(", ")}`;
}

/** A consistent list's version, asked for after the speakers were read (decideRelease). One name keeps the answer small. */
async function listVersionOf({ client }: Gathering): Promise<string> {
  const answer = await client.list(VIRTUALIP, { fieldSelector: "metadata.name=0.0.0.0" });
  return answer.ok ? answer.object.resourceVersion : "0";
}

/** What the person takes on. */
export function riskOf(model: ReadModel, vip: VirtualIP, listVersion: string): string {
  const { address, holders } = vip.spec;
  const shownBy = holders.filter((holder) => shownAddresses(model, holder).includes(address));
  const decision = decideRelease({
    vip,
    speakers: speakerViews(model, vip),
    listVersion,
    shownByHolder: shownBy.length > 0,
  });
  const unknown = model.whyUnread("nodes") ?? model.whyUnread("speakers") ?? model.whyUnread("leases");
  const lines = unknown === undefined ? risks(decision) : [`who may still answer is not known: ${unknown}`];
  for (const holder of shownBy) lines.push(`${printHolder(holder)} still shows ${address} in its status`);
  if (lines.length === 0) {
    return `Nobody holds ${address} back any more; a living controller would release it by itself. Releasing it now risks nothing that is known.`;
  }
  return [
    `Releasing ${address} by force:`,
    ...lines.map((line) => `  - ${line}`),
    "When the address is given to another, two devices may answer for it, and connections go to the wrong one.",
    "Do it only when these nodes are off, cut from the network, or reinstalled.",
  ].join("\n");
}

function risks(decision: ReleaseDecision): string[] {
  if (decision.type === "removeFinalizer") return [];
  return [
    ...decision.holding.map(
      (node) => `node ${node} has no living speaker and may still answer for it, or forward its packets`,
    ),
    ...decision.reporting.map((node) => `the speaker of ${node} lives and has not yet said that it let go`),
  ];
}

/** As the controller sees them; the recorded owner counts although nothing may be left of it. */
function speakerViews(model: ReadModel, { status }: VirtualIP): SpeakerView[] {
  const names = new Set(model.objects.speakers.map(({ metadata }) => metadata.name));
  for (const { name, live } of model.nodeViews().values()) if (live) names.add(name);
  if (status?.owner !== undefined) names.add(status.owner.node);
  return [...names].map((node) => {
    const found = model.objects.nodes.find(({ metadata }) => metadata.name === node);
    const isReady =
      found?.status?.conditions?.some(({ type, status }) => type === "Ready" && status === "True") === true;
    return {
      node,
      live: model.isSpeakerLive(node),
      withdrawnThrough: model.speaker(node)?.status?.withdrawnThrough,
      nodeState: found === undefined ? "Deleted" : isReady ? "Ready" : "NotReady",
    };
  });
}

function shownAddresses(model: ReadModel, { kind, namespace, name }: VirtualIP["spec"]["holders"][number]): string[] {
  return kind === "Gateway"
    ? (model.gateway(namespace, name)?.status?.addresses ?? []).map(({ value }) => value)
    : (model.service(namespace, name)?.status?.loadBalancer?.ingress ?? []).flatMap(({ ip }) => ip ?? []);
}

async function agrees(world: World, question: string): Promise<boolean> {
  const answer = await world.ask(`${question} Type yes to go on: `);
  if (answer === undefined) throw new CommandFailed("nobody is there to be asked: add --yes if you are sure");
  if (answer.trim().toLowerCase() === "yes") return true;
  world.stderr.write("Nothing was changed.\n");
  return false;
}

/** On the version that was shown, and no other. */
async function takeFinalizerOff({ client }: Gathering, { metadata }: VirtualIP): Promise<void> {
  const { name, uid, resourceVersion, finalizers = [] } = metadata;
  const left = finalizers.filter((each) => each !== WITHDRAW_FINALIZER);
  const patch = { metadata: { uid, resourceVersion, finalizers: left } };
  const answer = await client.mergePatch(VIRTUALIP, { name }, patch);
  if (answer.ok || answer.failure.reason === "NotFound") return;
  const { status, reason, message } = answer.failure;
  throw new CommandFailed(
    status === 409 ? `VirtualIP ${name} changed meanwhile; look again and repeat` : `${reason}: ${message}`,
    1,
  );
}

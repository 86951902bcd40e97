/** `belfry release --force --node`: says of a node that it is off, so that after a restore nobody waits for its speaker. */
import type { Lease } from "../api/foreign.ts";
import { GIVEN_UP_ANNOTATION, speakerLeaseName } from "../api/names.ts";
import { LEASE } from "../api/resource.ts";
import { gather } from "./gather.ts";
import { type ClusterFlags, withCluster } from "./session.ts";
import { CommandFailed, type World } from "./world.ts";

/**
 * Writes the node's Lease, which is what everybody waits for ("Restore", docs/life-of-a-vip.md): any change of it after
 * the store changed ends the wait. Gives the exit code: 0 done, 1 not; throws CommandFailed for what may not be.
 */
export async function giveUpNode(
  world: World,
  node: string,
  flags: ClusterFlags,
  agrees: (question: string) => Promise<boolean>,
): Promise<number> {
  return withCluster(world, flags, async (gathering) => {
    const { client, systemNamespace } = gathering;
    const model = await gather(gathering, ["leases", "nodes"]);
    const unread = model.whyUnread("leases");
    if (unread !== undefined) throw new CommandFailed(unread, 1);
    if (model.isSpeakerLive(node)) {
      throw new CommandFailed(`the speaker of ${node} renews its Lease: nobody has to wait for it`, 1);
    }
    const key = { namespace: systemNamespace, name: speakerLeaseName(node) };
    const read = await client.get<Lease>(LEASE, key);
    if (!read.ok) {
      const { reason, message } = read.failure;
      throw new CommandFailed(
        reason === "NotFound" ? `node ${node} has no speaker's Lease: nobody waits for it` : message,
        1,
      );
    }
    world.stderr.write(`${riskOf(node)}\n`);
    if (!(await agrees(`Give up ${node}?`))) return 1;
    const { uid, resourceVersion } = read.object.metadata;
    const annotations = { [GIVEN_UP_ANNOTATION]: read.object.spec?.renewTime ?? "never renewed" };
    const answer = await client.mergePatch(LEASE, key, { metadata: { uid, resourceVersion, annotations } });
    if (!answer.ok) {
      const { status, message } = answer.failure;
      throw new CommandFailed(status === 409 ? `the Lease of ${node} changed meanwhile; look again` : message, 1);
    }
    world.stdout.write(`node ${node} given up\n`);
    return 0;
  });
}

const riskOf = (node: string): string =>
  [
    `After the API server's store was put back, or where nothing is remembered, nothing is given out until ${node} was heard:`,
    "  - it may still answer for addresses that the store does not know any more.",
    "When such an address is given to another, two devices may answer for it.",
    "Do it only when the node is off, cut from the network, or reinstalled.",
  ].join("\n");

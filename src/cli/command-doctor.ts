import type { ReadModel } from "../status/read-model.ts";
import { judgeCluster } from "./cluster-checkup.ts";
import { bad, countBad, type Finding, remark, renderSections, type Section } from "./finding.ts";
import { judgeForeign, readForeign } from "./foreign-balancer.ts";
import { EVERYTHING, gather } from "./gather.ts";
import { judgeNode } from "./node-checkup.ts";
import { paintFor, parseFormat, renderValue } from "./output.ts";
import { type ClusterFlags, withCluster } from "./session.ts";
import { CommandFailed, type World } from "./world.ts";

export type DoctorFlags = ClusterFlags & {
  readonly output: string;
  readonly clusterOnly?: boolean;
  readonly nodeOnly?: boolean;
};

/** `belfry doctor`: 0 when nothing is wrong, 1 when something is. */
export async function runDoctor(world: World, flags: DoctorFlags): Promise<number> {
  if (flags.clusterOnly === true && flags.nodeOnly === true) {
    throw new CommandFailed("--cluster-only and --node-only: give one of them");
  }
  const format = parseFormat(flags.output);
  const cluster = flags.nodeOnly === true ? undefined : await lookAtCluster(world, flags);
  const node =
    flags.clusterOnly === true ? undefined : await lookAtNode(world, cluster?.model, flags.nodeOnly === true);
  const sections: Section[] = [
    ...(cluster === undefined ? [] : [{ title: "Cluster", findings: cluster.findings }]),
    ...(node === undefined ? [] : [node]),
  ];
  world.stdout.write(renderValue(format, { sections }) ?? renderSections(sections, paintFor(world)));
  return countBad(sections) === 0 ? 0 : 1;
}

type Seen = { readonly findings: readonly Finding[]; readonly model: ReadModel | undefined };

/** A cluster that can't be asked is a finding: the node may still tell why. */
async function lookAtCluster(world: World, flags: DoctorFlags): Promise<Seen> {
  try {
    return await withCluster(world, flags, async (gathering) => {
      const [model, foreign] = await Promise.all([gather(gathering, EVERYTHING), readForeign(gathering.client)]);
      return { model, findings: [...judgeCluster(model), ...judgeForeign(model, foreign)] };
    });
  } catch (error) {
    if (!(error instanceof CommandFailed)) throw error;
    return { model: undefined, findings: [bad("API server", error.message)] };
  }
}

/** Only where it says something: as root, and on a node of the cluster or when it is asked for. */
async function lookAtNode(world: World, model: ReadModel | undefined, wanted: boolean): Promise<Section> {
  const title = "This node";
  const skipped = (why: string) => ({
    title,
    findings: [remark("skipped", why, `as root on a node: ${world.programName} doctor --node-only`)],
  });
  if (!world.isRoot) return skipped("you are not root");
  // Loaded here: it opens the C library, which the other commands do without.
  const { lookAtThisNode } = await import("./this-node.ts");
  const nodeOf = (addresses: readonly string[]) =>
    model?.objects.nodes.find(({ status }) =>
      (status?.addresses ?? []).some(({ address }) => addresses.includes(address)),
    );
  const { sight, addresses } = await lookAtThisNode(await world.speakerEyes(), (own) => {
    const node = nodeOf(own);
    return node === undefined || (node.spec?.podCIDRs ?? []).length > 0 || node.spec?.podCIDR !== undefined;
  });
  const node = nodeOf(addresses);
  if (node === undefined && !wanted && model !== undefined) return skipped("this machine is no node of the cluster");
  return { title: node === undefined ? title : `${title}: ${node.metadata.name}`, findings: judgeNode(sight) };
}

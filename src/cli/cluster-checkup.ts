/** `belfry doctor`, the cluster's part: what the read model shows of health. Pure. */
import type { Condition } from "../api/meta.ts";
import type { Address } from "../net/address.ts";
import { type ClusterObjects, conditionOf, type ReadModel } from "../status/read-model.ts";
import { bad, type Finding, fine, remark } from "./finding.ts";

export function judgeCluster(model: ReadModel): Finding[] {
  return [
    ...unreadable(model),
    ...controller(model),
    ...speakers(model),
    ...pools(model),
    ...advertisements(model),
    ...addresses(model),
  ];
}

/** Without these Belfry is not installed at all. */
const OURS: ReadonlySet<keyof ClusterObjects> = new Set(["vips", "pools", "advertisements", "routes", "speakers"]);

function unreadable(model: ReadModel): Finding[] {
  const lists = Object.keys(model.objects) as (keyof ClusterObjects)[];
  return lists.flatMap((list) => {
    const why = model.whyUnread(list);
    if (why === undefined) return [];
    return why.startsWith("the cluster serves no") && OURS.has(list)
      ? [bad("installation", why, "apply Belfry's CRDs: kubectl apply -k config/default")]
      : [remark("your rights", `${why}: what depends on them is not judged`)];
  });
}

function controller(model: ReadModel): Finding[] {
  if (model.whyUnread("leases") !== undefined) return [];
  return model.isControllerLive
    ? [fine("controller", "one leads")]
    : [
        bad(
          "controller",
          "none leads: no address is given out or taken back",
          "kubectl -n belfry-system get pods,lease",
        ),
      ];
}

function speakers(model: ReadModel): Finding[] {
  if (["nodes", "speakers", "leases"].some((list) => model.whyUnread(list as keyof ClusterObjects) !== undefined))
    return [];
  const views = model.speakerViews();
  const findings = views.flatMap(({ node, live, whyNot, failing }): Finding[] => {
    const about = `node ${node}`;
    if (whyNot?.reason === "NodeGone") {
      return [remark(about, "it has a SpeakerStatus and no Node", `kubectl delete speakerstatus ${node}`)];
    }
    if (!live) return [bad(about, whyNot?.message ?? "it has no speaker", "kubectl -n belfry-system get pods -o wide")];
    const dataPath = conditionOf(model.speaker(node)?.status, "DataPathReady");
    if (dataPath?.status === "False") {
      return [
        bad(about, `DataPathReady=False (${dataPath.reason}): ${dataPath.message}`, "mend it on the node, as it says"),
      ];
    }
    const first = model.speaker(node)?.status?.failing?.[0];
    const failures =
      first === undefined
        ? []
        : [
            bad(
              about,
              `${failing} VirtualIPs fail, such as ${first.vip}: ${first.reason}`,
              `belfry explain vip ${first.vip}`,
            ),
          ];
    const words = dataPath?.message ?? "";
    return words === "" ? failures : [...failures, remark(about, words)];
  });
  const live = views.filter((each) => each.live).length;
  if (views.length === 0) return [bad("speakers", "there is no Node")];
  return [fine("speakers", `${live} of ${views.length} nodes have one`), ...findings];
}

function pools(model: ReadModel): Finding[] {
  if (model.whyUnread("pools") !== undefined) return [];
  if (model.objects.pools.length === 0) {
    return [remark("pools", "there is none, so nothing can be given out", "create an IPAddressPool")];
  }
  return model.objects.pools.flatMap(({ metadata, spec, status }) => {
    const about = `pool ${metadata.name}`;
    const found = [
      ...complaint(about, conditionOf(status, "Accepted"), "False", bad),
      ...complaint(about, conditionOf(status, "PartiallyInvalid"), "True", bad),
      ...complaint(about, conditionOf(status, "Conflicted"), "True", bad),
      ...complaint(about, conditionOf(status, "NodeAddressOverlap"), "True", remark),
    ];
    const full = (["IPv4", "IPv6"] as const).filter((family) => {
      const [used, free] = [status?.[`assigned${family}`] ?? 0, status?.[`available${family}`] ?? 0];
      return used > 0 && free === 0;
    });
    if (full.length > 0) found.push(remark(about, `no ${full.join(" and no ")} address is left`, "add addresses"));
    if (spec.disabled === true) found.push(remark(about, "it is drained (spec.disabled) and gives out nothing new"));
    return found.length === 0 ? [fine(about, spec.addresses.join(", "))] : found;
  });
}

function advertisements(model: ReadModel): Finding[] {
  if (model.whyUnread("advertisements") !== undefined) return [];
  if (model.objects.advertisements.length === 0) {
    return [remark("advertisements", "there is none, so no node answers for an address", "create an L2Advertisement")];
  }
  return model.objects.advertisements.flatMap(({ metadata, status }) => {
    const about = `advertisement ${metadata.name}`;
    const found = ["Accepted", "ResolvedRefs", "NodesSelected"].flatMap((type) =>
      complaint(about, conditionOf(status, type), "False", bad),
    );
    return found.length === 0 ? [fine(about, "what it names is there")] : found;
  });
}

function complaint(
  about: string,
  condition: Condition | undefined,
  when: Condition["status"],
  make: (about: string, says: string) => Finding,
): Finding[] {
  return condition?.status === when ? [make(about, condition.message || condition.reason)] : [];
}

/** Ten are enough to act on; the rest is a number. */
const MOST_SHOWN = 10;

function addresses(model: ReadModel): Finding[] {
  if (model.whyUnread("vips") !== undefined) return [];
  const troubled = model
    .vipViews()
    .flatMap(({ address, whyNot }) => (whyNot === undefined ? [] : [{ address, whyNot }]))
    .map(({ address, whyNot }: { address: Address; whyNot: { reason: string; message: string } }) =>
      bad(`vip ${address}`, `${whyNot.reason}: ${whyNot.message}`, `belfry explain vip ${address}`),
    );
  const count = model.objects.vips.length;
  if (troubled.length === 0) return [fine("addresses", `${count} given out, all served`)];
  const more = troubled.length - MOST_SHOWN;
  return [
    ...troubled.slice(0, MOST_SHOWN),
    ...(more > 0 ? [bad("addresses", `${more} more of ${count} are not served`, "belfry get vips")] : []),
  ];
}

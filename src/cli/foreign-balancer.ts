/** Other load balancers in the cluster, and where they and Belfry would both answer for an address. */
import type { KubeObject } from "../api/meta.ts";
import type { Resource } from "../api/resource.ts";
import type { ApiClient } from "../kube/port.ts";
import { parseAddress } from "../net/address.ts";
import type { IntervalSet } from "../net/interval-set.ts";
import { parsePrefix } from "../net/prefix.ts";
import { parseRange, printRange, type Range, rangeOfPrefix } from "../net/range.ts";
import type { ReadModel } from "../status/read-model.ts";
import { bad, type Finding, fine, remark } from "./finding.ts";

const resource = (group: string, version: string, kind: string, plural: string, namespaced = false): Resource => ({
  group,
  version,
  kind,
  plural,
  namespaced,
});

const METALLB_POOL = resource("metallb.io", "v1beta1", "IPAddressPool", "ipaddresspools", true);
const CILIUM_POOL = resource("cilium.io", "v2", "CiliumLoadBalancerIPPool", "ciliumloadbalancerippools");
const OLDER_CILIUM_POOL = { ...CILIUM_POOL, version: "v2alpha1" };
const CONFIGMAP = resource("", "v1", "ConfigMap", "configmaps", true);
const DAEMONSET = resource("apps", "v1", "DaemonSet", "daemonsets", true);
const POD = resource("", "v1", "Pod", "pods", true);

const SYSTEM = "kube-system";

/** What was found of others. Raw objects: each is read for a field or two. */
export type ForeignObjects = {
  /** Undefined where the kind is not installed. */
  readonly metallbPools: readonly KubeObject[] | undefined;
  readonly ciliumPools: readonly KubeObject[] | undefined;
  /** The kube-vip cloud provider's ranges: ConfigMap kube-system/kubevip. */
  readonly kubeVipConfig: KubeObject | undefined;
  /** DaemonSets everywhere and pods of kube-system: kube-vip often runs as a static pod. */
  readonly workloads: readonly KubeObject[];
};

/** Reads them. What is not installed or forbidden is left out: a clash that can't be seen can't be told. */
export async function readForeign(client: ApiClient): Promise<ForeignObjects> {
  const list = async (what: Resource, namespace?: string): Promise<KubeObject[] | undefined> => {
    const answer = await client.list<KubeObject>(what, namespace === undefined ? {} : { namespace });
    return answer.ok ? answer.object.items : undefined;
  };
  const [[metallbPools, ciliumPools, olderCiliumPools, daemonSets, pods], config] = await Promise.all([
    Promise.all([list(METALLB_POOL), list(CILIUM_POOL), list(OLDER_CILIUM_POOL), list(DAEMONSET), list(POD, SYSTEM)]),
    client.get<KubeObject>(CONFIGMAP, { namespace: SYSTEM, name: "kubevip" }),
  ]);
  return {
    metallbPools,
    ciliumPools: ciliumPools ?? olderCiliumPools,
    kubeVipConfig: config.ok ? config.object : undefined,
    workloads: [...(daemonSets ?? []), ...(pods ?? [])],
  };
}

/** Where another would give out or show an address of our pools, and who else is there. */
export function judgeForeign(model: ReadModel, foreign: ForeignObjects): Finding[] {
  const findings = [...sharedRanges(model, foreign), ...strangersAddresses(model)];
  const others = presentOthers(foreign);
  if (findings.length === 0) {
    const says = others.length === 0 ? "none seen" : `${others.join(", ")}; no address in common with Belfry's pools`;
    return [fine("other balancers", says)];
  }
  return others.length === 0 ? findings : [...findings, remark("other balancers", others.join(", "))];
}

// --- ranges -------------------------------------------------------------------------------------------------------------

function sharedRanges(model: ReadModel, foreign: ForeignObjects): Finding[] {
  const pools = [...model.book().pools.values()];
  return foreignRanges(foreign).flatMap(({ owner, texts }) =>
    texts
      .flatMap(lenientRange)
      .flatMap((theirs) =>
        pools.flatMap(({ name, declared }) =>
          overlaps(declared[theirs.family], theirs)
            ? [
                bad(
                  `pool ${name}`,
                  `it shares addresses with ${owner}: ${printRange(theirs)}`,
                  "take them out of one of the two: both would give them out, and both would answer",
                ),
              ]
            : [],
        ),
      ),
  );
}

const overlaps = (ours: IntervalSet, theirs: Range): boolean => ours.countIn(theirs) > 0n;

function foreignRanges({
  metallbPools,
  ciliumPools,
  kubeVipConfig,
}: ForeignObjects): { owner: string; texts: string[] }[] {
  const found: { owner: string; texts: string[] }[] = [];
  for (const pool of metallbPools ?? []) {
    const { addresses } = specOf<{ addresses?: unknown }>(pool);
    found.push({ owner: `MetalLB's pool ${pool.metadata.namespace}/${pool.metadata.name}`, texts: textsOf(addresses) });
  }
  for (const pool of ciliumPools ?? []) {
    const { blocks, cidrs } = specOf<{ blocks?: CiliumBlock[]; cidrs?: CiliumBlock[] }>(pool);
    const texts = [...(blocks ?? []), ...(cidrs ?? [])].flatMap(({ cidr, start, stop }) =>
      cidr !== undefined ? [cidr] : start === undefined ? [] : [`${start}-${stop ?? start}`],
    );
    found.push({ owner: `Cilium's pool ${pool.metadata.name}`, texts });
  }
  // Keys: cidr-global, range-global, cidr-NAMESPACE, range-NAMESPACE; values: a comma-separated list.
  const data = (kubeVipConfig as { data?: Record<string, unknown> } | undefined)?.data ?? {};
  for (const [key, value] of Object.entries(data)) {
    if (!/^(cidr|range)-/.test(key) || typeof value !== "string") continue;
    found.push({ owner: `kube-vip's ${key}`, texts: value.split(",").map((text) => text.trim()) });
  }
  return found;
}

type CiliumBlock = { cidr?: string; start?: string; stop?: string };

/** Read as its owner reads it: host bits mean the prefix around them, an address means itself. */
function lenientRange(text: string): Range[] {
  const parsed = parseRange(text);
  if (parsed.ok) return [parsed.range];
  const prefix = parsePrefix(text.includes("/") ? text : `${text}/${text.includes(":") ? 128 : 32}`);
  if (prefix.ok) return [rangeOfPrefix(prefix.prefix)];
  return prefix.refusal.type === "hostBits" ? [rangeOfPrefix(prefix.refusal.masked)] : [];
}

// --- addresses ----------------------------------------------------------------------------------------------------------

/** Services and Gateways that show an address of our pools without having it of us. */
function strangersAddresses(model: ReadModel): Finding[] {
  const { services, gateways } = model.objects;
  const shown = [
    ...services.map(({ metadata, spec, status }) => ({
      kind: "Service" as const,
      metadata,
      by:
        spec.loadBalancerClass ??
        (spec.type === "LoadBalancer" ? "no loadBalancerClass" : `type ${spec.type ?? "ClusterIP"}`),
      addresses: [
        ...(status?.loadBalancer?.ingress ?? []).flatMap(({ ip }) => ip ?? []),
        ...textsOf((spec as { externalIPs?: unknown }).externalIPs),
      ],
    })),
    ...gateways.map(({ metadata, spec, status }) => ({
      kind: "Gateway" as const,
      metadata,
      by: `class ${spec.gatewayClassName}`,
      addresses: (status?.addresses ?? []).map(({ value }) => value),
    })),
  ];
  return shown.flatMap(({ kind, metadata: { namespace = "", name }, by, addresses }) => {
    const has = new Set(model.vipsOf({ kind, namespace, name }).map(({ spec }) => spec.address));
    return [...new Set(addresses)].flatMap((text) => {
      const address = parseAddress(text);
      const pool = address === undefined || has.has(address) ? undefined : model.book().poolOf(address);
      return pool === undefined
        ? []
        : [
            bad(
              `pool ${pool.name}`,
              `${kind} ${namespace}/${name} (${by}) shows ${text}, and has it not from Belfry`,
              `exclude ${text} from the pool, or give the ${kind} an address of the other balancer`,
            ),
          ];
    });
  });
}

// --- who is there -------------------------------------------------------------------------------------------------------

/** By the images that they run. */
const IMAGES: readonly (readonly [RegExp, string])[] = [
  [/(^|\/)metallb\/(speaker|controller)\b|metallb-(speaker|controller)\b/, "MetalLB"],
  [/(^|\/)kube-vip\b/, "kube-vip"],
  [/(^|\/)purelb\b/, "PureLB"],
  [/(^|\/)klipper-lb\b/, "K3s ServiceLB (takes Services without a loadBalancerClass)"],
];

function presentOthers({ metallbPools, ciliumPools, kubeVipConfig, workloads }: ForeignObjects): string[] {
  const images = workloads.flatMap(imagesOf);
  const byImage = IMAGES.flatMap(([pattern, name]) => (images.some((image) => pattern.test(image)) ? [name] : []));
  return [
    ...new Set([
      ...((metallbPools ?? []).length > 0 ? ["MetalLB"] : []),
      ...((ciliumPools ?? []).length > 0 ? ["Cilium LB IPAM"] : []),
      ...(kubeVipConfig === undefined ? [] : ["kube-vip"]),
      ...byImage,
    ]),
  ];
}

type PodSpec = { containers?: { image?: string }[] };

function imagesOf(workload: KubeObject): string[] {
  const spec = specOf<PodSpec & { template?: { spec?: PodSpec } }>(workload);
  return [...(spec.containers ?? []), ...(spec.template?.spec?.containers ?? [])].flatMap(({ image }) => image ?? []);
}

/** Objects of others: every field may be missing. */
const specOf = <T>(object: KubeObject): Partial<T> => (object as { spec?: Partial<T> }).spec ?? {};

const textsOf = (value: unknown): string[] =>
  Array.isArray(value) ? value.filter((each): each is string => typeof each === "string") : [];

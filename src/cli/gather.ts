/** Reads what a command is about from the API server. */
import type { Lease } from "../api/foreign.ts";
import type { KubeObject } from "../api/meta.ts";
import { SERVICE_NAME_LABEL } from "../api/names.ts";
import {
  ENDPOINTSLICE,
  GATEWAY,
  GATEWAYCLASS,
  IPADDRESSPOOL,
  L2ADVERTISEMENT,
  LEASE,
  NAMESPACES,
  NODE,
  type Resource,
  SERVICE,
  SERVICECIDR,
  SERVICEROUTE,
  SPEAKERSTATUS,
  VIRTUALIP,
} from "../api/resource.ts";
import type { ApiClient, ApiFailure, ListOptions } from "../kube/port.ts";
import { type ClusterObjects, NO_OBJECTS, ReadModel } from "../status/read-model.ts";
import { CommandFailed, type World } from "./world.ts";

type ListName = keyof ClusterObjects;

const RESOURCES: Readonly<Record<ListName, Resource>> = {
  gatewayClasses: GATEWAYCLASS,
  gateways: GATEWAY,
  routes: SERVICEROUTE,
  services: SERVICE,
  vips: VIRTUALIP,
  pools: IPADDRESSPOOL,
  advertisements: L2ADVERTISEMENT,
  nodes: NODE,
  namespaces: NAMESPACES,
  serviceCIDRs: SERVICECIDR,
  speakers: SPEAKERSTATUS,
  leases: LEASE,
  slices: ENDPOINTSLICE,
};

/** Kinds that a cluster may do without: then there are no such objects. */
const OPTIONAL: ReadonlySet<ListName> = new Set(["gatewayClasses", "gateways", "serviceCIDRs"]);

export type Gathering = {
  readonly client: ApiClient;
  /** Where a list over all namespaces is forbidden, this one is read. */
  readonly namespace: string;
  /** Of Belfry's Leases. */
  readonly systemNamespace: string;
  readonly controllerName: string;
  readonly world: Pick<World, "secondsSince" | "pause">;
};

/** Everything that `explain` and `doctor` look at, but for EndpointSlices, which are many. */
export const EVERYTHING: readonly ListName[] = (Object.keys(RESOURCES) as ListName[]).filter(
  (name) => name !== "slices",
);

/**
 * The read model of these lists, and of the EndpointSlices of these Services (`namespace/name`). What is forbidden or
 * not installed is noted in the model. Throws CommandFailed when the API server can't be asked at all.
 */
export async function gather(
  gathering: Gathering,
  lists: readonly ListName[],
  servicesWithSlices: (model: ReadModel) => Iterable<string> = () => [],
): Promise<ReadModel> {
  const unread = new Map<ListName, string>();
  const objects: Record<string, readonly KubeObject[]> = { ...NO_OBJECTS };
  let liveLeases: ReadonlySet<string> = new Set();
  await Promise.all(
    lists.map(async (name) => {
      objects[name] = await read(gathering, name, unread);
      if (name === "leases") liveLeases = await livingOf(gathering, objects[name] as readonly Lease[]);
    }),
  );
  const { controllerName } = gathering;
  // Each list was read from the resource of its name.
  const model = () => new ReadModel(objects as unknown as ClusterObjects, { liveLeases, controllerName, unread });
  const services = [...new Set(servicesWithSlices(model()))];
  if (services.length > 0) objects["slices"] = await slicesOf(gathering, services, unread);
  return model();
}

async function read(
  gathering: Gathering,
  name: ListName,
  unread: Map<ListName, string>,
): Promise<readonly KubeObject[]> {
  const { client, namespace, systemNamespace } = gathering;
  const resource = RESOURCES[name];
  const options: ListOptions = name === "leases" ? { namespace: systemNamespace } : {};
  const answer = await client.list<KubeObject>(resource, options);
  if (answer.ok) return answer.object.items;
  const { failure } = answer;
  if (failure.status === 404 && OPTIONAL.has(name)) return [];
  const why = whyNotRead(resource, failure);
  unread.set(name, why);
  if (failure.status !== 403 || !resource.namespaced || name === "leases") return [];
  const own = await client.list<KubeObject>(resource, { namespace });
  return own.ok ? own.object.items : [];
}

async function slicesOf(gathering: Gathering, services: readonly string[], unread: Map<ListName, string>) {
  const lists = await Promise.all(
    services.map(async (key) => {
      const slash = key.indexOf("/");
      const answer = await gathering.client.list<KubeObject>(ENDPOINTSLICE, {
        namespace: key.slice(0, slash),
        labelSelector: `${SERVICE_NAME_LABEL}=${key.slice(slash + 1)}`,
      });
      if (answer.ok) return answer.object.items;
      unread.set("slices", whyNotRead(ENDPOINTSLICE, answer.failure));
      return [];
    }),
  );
  return lists.flat();
}

/** In words, for what can be gone without; what makes every read fail ends the command. */
function whyNotRead(resource: Resource, failure: ApiFailure): string {
  switch (failure.status) {
    case 403:
      return `you may not list ${resource.plural}`;
    case 404:
      return `the cluster serves no ${resource.plural}${resource.group === "" ? "" : ` of ${resource.group}`}`;
    case 401:
      throw new CommandFailed("the API server does not know you (401): log in anew, or look at the kubeconfig's user");
    case 0:
      throw new CommandFailed(`the API server does not answer: ${failure.message}`);
    default:
      return `${resource.plural}: ${failure.status} ${failure.reason}: ${failure.message}`;
  }
}

/** Speakers and controllers renew every 2 s. */
const RENEWED_WITHIN_MILLISECONDS = 3_000;

/**
 * Names of the Leases that live. Their times were written by other clocks than ours, so a Lease that looks dead, or is
 * from the future, is read once more: whoever lives has renewed it by then.
 */
async function livingOf(gathering: Gathering, leases: readonly Lease[]): Promise<ReadonlySet<string>> {
  const { client, world, systemNamespace } = gathering;
  const held = leases.filter(({ spec }) => Boolean(spec?.holderIdentity));
  const looksAlive = ({ spec }: Lease): boolean => {
    const age = world.secondsSince(spec?.renewTime ?? "");
    return age !== undefined && age >= -1 && age < (spec?.leaseDurationSeconds ?? 0);
  };
  const living = new Set(held.filter(looksAlive).map(({ metadata }) => metadata.name));
  const doubtful = held.filter((lease) => !looksAlive(lease));
  if (doubtful.length === 0) return living;
  await world.pause(RENEWED_WITHIN_MILLISECONDS);
  const again = await client.list<Lease>(LEASE, { namespace: systemNamespace });
  for (const { metadata, spec } of again.ok ? again.object.items : []) {
    const before = doubtful.find((lease) => lease.metadata.name === metadata.name);
    const renewed = before !== undefined && before.metadata.resourceVersion !== metadata.resourceVersion;
    if (renewed && spec?.holderIdentity) living.add(metadata.name);
  }
  return living;
}

/**
 * `belfry explain`: the way of an address as a person would trace it, and the first thing that stands in it. Pure: the
 * same functions decide here that decide in the controller and in the speakers.
 *
 *   request ─ routes ─ pool ─┬─ address ─ advertisement ─ node ─ interface ─ endpoints
 *     (of a Gateway)         └─ … once for each address
 */
import type { Gateway, Service } from "../api/foreign.ts";
import type { Forward, VirtualIP } from "../api/virtual-ip.ts";
import { virtualIPName } from "../api/virtual-ip-name.ts";
import { same } from "../core/same.ts";
import type { Problem } from "../core/trouble.ts";
import { isOurClass, judgeClass } from "../gateway/class.ts";
import { type GatewayResolution, resolveGateway } from "../gateway/resolve.ts";
import { isBoundElsewhere, matchHoldings } from "../ipam/adopt.ts";
import { draw } from "../ipam/allocate.ts";
import { poolHas, reservationOf } from "../ipam/pool.ts";
import type { AddressRequest } from "../ipam/request.ts";
import { type Address, familyOf, numberOf } from "../net/address.ts";
import { type Election, elect, judge, type NobodyReason, needsDataPath } from "../plan/elect.ts";
import { usableEndpoints } from "../plan/endpoint.ts";
import { nodesWithEndpoints, serviceOf } from "../plan/forward.ts";
import { resolveService } from "../service/resolve.ts";
import { type ClusterObjects, conditionOf, printHolder, type ReadModel } from "../status/read-model.ts";

export type Place =
  | "request"
  | "controller"
  | "routes"
  | "pool"
  | "address"
  | "advertisement"
  | "node"
  | "interface"
  | "endpoints";

export type Step = {
  readonly place: Place;
  /** `stop`: it stands in the way · `note`: worth knowing · `unreached`: nothing to look at before a stop is mended. */
  readonly mark: "ok" | "note" | "stop" | "unreached";
  readonly says: string;
  /** What to do about a stop. */
  readonly todo?: string;
  /** One line each. */
  readonly details: readonly string[];
};

export type Trace = {
  /** `Gateway demo/web`, `VirtualIP 192.0.2.1`. */
  readonly subject: string;
  /** What all addresses have in common. */
  readonly head: readonly Step[];
  readonly paths: readonly { readonly address: Address; readonly steps: readonly Step[] }[];
};

/** The first thing that stands in the way; undefined when all of it works. */
export const firstObstacle = ({ head, paths }: Trace): Step | undefined =>
  [...head, ...paths.flatMap(({ steps }) => steps)].find(({ mark }) => mark === "stop");

/** Lists that a trace of this model misses, with the reason: what it says may be wrong for it. */
export function blindSpots(model: ReadModel): string[] {
  const lists = Object.keys(model.objects) as (keyof ClusterObjects)[];
  return lists.flatMap((list) => model.whyUnread(list) ?? []);
}

const ok = (place: Place, says: string, details: readonly string[] = []): Step => ({
  place,
  mark: "ok",
  says,
  details,
});
const note = (place: Place, says: string, details: readonly string[] = []): Step => ({
  place,
  mark: "note",
  says,
  details,
});
const stop = (place: Place, says: string, todo: string, details: readonly string[] = []): Step => ({
  place,
  mark: "stop",
  says,
  todo,
  details,
});
const unreached = (place: Place): Step => ({ place, mark: "unreached", says: "", details: [] });

const stops = (steps: readonly Step[]): boolean => steps.some(({ mark }) => mark === "stop");

// --- a Gateway ----------------------------------------------------------------------------------------------------------

export function traceGateway(model: ReadModel, namespace: string, name: string): Trace {
  const subject = `Gateway ${namespace}/${name}`;
  const gateway = model.gateway(namespace, name);
  if (gateway === undefined) return absent(model, "gateways", { kind: "Gateway", namespace, name });
  const ownership = gatewayStanding(model, gateway);
  if (ownership !== undefined) return { subject, head: [ownership], paths: [] };
  const resolution = resolutionOf(model, gateway);
  const request = gatewayRequest(gateway, resolution);
  const routes = routesStep(gateway, resolution);
  return holderTrace(model, {
    subject,
    opening: [request, routes],
    request: resolution.request,
    forwards: resolution.forwards,
    shown: (gateway.status?.addresses ?? []).map(({ value }) => value),
    says: conditionOf(gateway.status, "Programmed"),
    holder: { kind: "Gateway", namespace, name },
  });
}

function gatewayStanding(model: ReadModel, { metadata, spec }: Gateway): Step | undefined {
  const className = spec.gatewayClassName;
  if (metadata.deletionTimestamp !== undefined) {
    return stop("request", "it is being deleted", `look who has not let go: ${finalizers(metadata.finalizers)}`);
  }
  const gatewayClass = model.objects.gatewayClasses.find((each) => each.metadata.name === className);
  if (gatewayClass === undefined) {
    const why = model.whyUnread("gatewayClasses");
    if (why !== undefined) return undefined;
    return stop(
      "request",
      `there is no GatewayClass "${className}"`,
      `create it with spec.controllerName ${model.controllerName}, or name another in spec.gatewayClassName`,
    );
  }
  if (!isOurClass(gatewayClass, model.controllerName)) {
    return stop(
      "request",
      `GatewayClass "${className}" belongs to ${gatewayClass.spec.controllerName}, not to Belfry`,
      `set spec.gatewayClassName to a class with controllerName ${model.controllerName}`,
    );
  }
  const problem = judgeClass(gatewayClass);
  return (
    problem && stop("request", `GatewayClass "${className}" is not accepted: ${problem.message}`, "mend the class")
  );
}

const finalizers = (names: readonly string[] = []): string => names.join(", ") || "no finalizer is left";

const resolutionOf = (model: ReadModel, gateway: Gateway): GatewayResolution =>
  resolveGateway({
    gateway,
    classProblem: undefined,
    routes: model.objects.routes,
    service: model.service,
    namespaceLabels: model.namespaceLabels,
  });

function gatewayRequest({ spec }: Gateway, { accepted, addresses, someListenersInvalid }: GatewayResolution): Step {
  const problem = accepted ?? addresses;
  if (problem !== undefined) return stop("request", problem.message, "mend the Gateway's spec");
  const listeners = spec.listeners.map(({ name, protocol, port }) => `${name} ${protocol} ${port}`).join(", ");
  const says = `class ${spec.gatewayClassName}; ${listeners}`;
  return someListenersInvalid === undefined
    ? ok("request", says)
    : note("request", says, [someListenersInvalid.message]);
}

/** Which listener leads where. Without a single one that leads anywhere, the address would answer nobody. */
function routesStep({ metadata }: Gateway, { accepted, forwards, listeners, routes }: GatewayResolution): Step {
  if (accepted !== undefined) return unreached("routes");
  const problems = routes.flatMap(({ route, accepted, resolvedRefs, portsBound, superseded, dropped }) => {
    const name = `ServiceRoute ${route.metadata.namespace}/${route.metadata.name}`;
    return [accepted, resolvedRefs, portsBound, superseded ?? dropped].flatMap((problem) =>
      problem === undefined ? [] : [`${name}: ${problem.message}`],
    );
  });
  const once = [...new Set(problems)];
  const [first] = once;
  if (forwards.length === 0) {
    return first === undefined
      ? stop("routes", "no ServiceRoute names this Gateway, so no port leads anywhere", routeAdvice(metadata.name))
      : stop("routes", first, "mend the route", once.slice(1));
  }
  const unresolved = forwards.filter(({ backends }) => backends.length === 0);
  if (unresolved.length > 0) {
    const ports = unresolved.map(printPort).join(", ");
    return stop(
      "routes",
      `${ports} leads nowhere: ${first ?? "its backend is missing"}`,
      "mend the route",
      once.slice(1),
    );
  }
  const idle = listeners.filter(
    ({ accepted, port, protocol }) =>
      accepted === undefined && !forwards.some((each) => each.port === port && each.protocol === protocol),
  );
  const remarks = [...idle.map(({ name }) => `listener "${name}": no ServiceRoute serves it`), ...once];
  const says = forwards.map((each) => `${printPort(each)} → ${backendsOf(each)}`).join(", ");
  return remarks.length === 0 ? ok("routes", says) : note("routes", says, remarks);
}

const routeAdvice = (gateway: string): string =>
  `create a ServiceRoute with parentRefs [{name: ${gateway}}], the port of a listener and a backendRef`;

// --- a Service ----------------------------------------------------------------------------------------------------------

export function traceService(model: ReadModel, namespace: string, name: string): Trace {
  const subject = `Service ${namespace}/${name}`;
  const service = model.service(namespace, name);
  const holder = { kind: "Service", namespace, name } as const;
  if (service === undefined) return absent(model, "services", holder);
  // Whether the controller claims Services without a class only its flags say; one that was served is claimed.
  const claimClassless = model.vipsOf(holder).length > 0;
  const resolution = resolveService(service, {
    loadBalancerClass: model.controllerName,
    claimClassless,
    // Another flag of the controller. Nothing that is asked of the Service here depends on it.
    dataPath: "ServiceProxy",
  });
  if (service.metadata.deletionTimestamp !== undefined) {
    const todo = `look who has not let go: ${finalizers(service.metadata.finalizers)}`;
    return { subject, head: [stop("request", "it is being deleted", todo)], paths: [] };
  }
  if (!resolution.ours) return { subject, head: [notOurs(model, service)], paths: [] };
  const remarks = [...resolution.problems, ...resolution.warnings].map(({ message }) => message);
  const ports = resolution.forwards.map(printPort).join(", ");
  const says = `class ${service.spec.loadBalancerClass ?? "<none>"}; ${ports}`;
  const request =
    resolution.refused !== undefined
      ? stop("request", resolution.refused.message, "mend the Service", remarks)
      : remarks.length > 0
        ? note("request", says, remarks)
        : ok("request", says);
  return holderTrace(model, {
    subject,
    opening: [request],
    request: resolution.request,
    forwards: resolution.forwards,
    shown: (service.status?.loadBalancer?.ingress ?? []).flatMap(({ ip }) => ip ?? []),
    says: conditionOf(service.status, "belfry.dev/Programmed"),
    holder,
  });
}

function notOurs(model: ReadModel, { spec }: Service): Step {
  if (spec.type !== "LoadBalancer") {
    return stop(
      "request",
      `it is of type ${spec.type ?? "ClusterIP"}, which gets no address`,
      "set spec.type: LoadBalancer",
    );
  }
  return spec.loadBalancerClass === undefined
    ? stop(
        "request",
        "it has no loadBalancerClass, so Belfry leaves it to others",
        `create it anew with loadBalancerClass: ${model.controllerName}, or run the controller with --claim-classless-services`,
      )
    : stop(
        "request",
        `its loadBalancerClass ${spec.loadBalancerClass} is not Belfry's`,
        `create it anew with loadBalancerClass: ${model.controllerName} (the field is immutable)`,
      );
}

// --- what both have -----------------------------------------------------------------------------------------------------

type HolderTrace = {
  readonly subject: string;
  readonly opening: readonly Step[];
  readonly request: AddressRequest | undefined;
  readonly forwards: readonly Forward[];
  /** Addresses in its status. */
  readonly shown: readonly string[];
  /** The condition that the controller wrote last. */
  readonly says: Problem | undefined;
  readonly holder: { readonly kind: "Gateway" | "Service"; readonly namespace: string; readonly name: string };
};

function holderTrace(model: ReadModel, it: HolderTrace): Trace {
  const { subject, opening, request } = it;
  const vips = model.vipsOf(it.holder);
  const head = [...opening, ...(request === undefined ? [unreached("pool")] : poolSteps(model, it, request))];
  const paths = vips.map((vip) => ({
    address: vip.spec.address as Address,
    steps: [holderAddress(model, vip, it), ...wayOf(model, vip)],
  }));
  return { subject, head, paths };
}

/** What the pools answer, and whether the controller has acted on it. */
function poolSteps(model: ReadModel, it: HolderTrace, request: AddressRequest): Step[] {
  const blind = model.whyUnread("vips") ?? model.whyUnread("pools");
  if (blind !== undefined) return [fromCondition(it, blind)];
  const live = model.vipsOf(it.holder).filter(({ metadata }) => metadata.deletionTimestamp === undefined);
  const { slots } = matchHoldings(request, live);
  const has = slots.flatMap(({ vip }) => (vip === undefined ? [] : [`${vip.spec.address} of pool ${vip.spec.pool}`]));
  const refusals: { readonly problem: Problem; readonly needed: boolean }[] = [];
  const candidates: string[] = [];
  for (const { slot, vip } of slots) {
    if (vip !== undefined) continue;
    const drawn = draw(request, slot, model.book(), {
      namespaceLabels: model.namespaceLabels,
      releasing: (address) => model.vip(virtualIPName(address))?.metadata.deletionTimestamp !== undefined,
    });
    if (drawn.type === "try") candidates.push(`${drawn.address} of pool ${drawn.pool}`);
    else refusals.push({ problem: drawn.problem, needed: slot.need === "Required" });
  }
  const needed =
    refusals.find((each) => each.needed) ?? (has.length + candidates.length === 0 ? refusals[0] : undefined);
  const remarks = refusals
    .filter(({ problem }) => problem !== needed?.problem && problem.reason !== "NoPoolForFamily")
    .map(({ problem }) => problem.message);
  if (needed !== undefined) {
    return [stop("pool", needed.problem.message, POOL_ADVICE[needed.problem.reason] ?? "look at the pools", remarks)];
  }
  const says = [...has, ...candidates].join(", ");
  const pool = remarks.length > 0 ? note("pool", says, remarks) : ok("pool", says);
  return candidates.length === 0 ? [pool] : [pool, controllerStep(model, candidates, it.says)];
}

const POOL_ADVICE: Readonly<Record<string, string>> = {
  PoolExhausted: "add addresses to the pool, or delete what is not needed: belfry get vips",
  NoPoolForFamily: "create an IPAddressPool with addresses of this family, or open one: belfry get pools",
  PoolNotFound: "create the pool, or ask for another one",
  PoolNotAllowed: "widen the pool's serviceAllocation, or ask for another pool",
  PoolDisabled: "set spec.disabled: false, or ask for another pool",
  AddressNotInPool: "ask for an address of a pool (belfry get pools), or add it to one",
  AddressExcluded: "ask for another address",
  AddressInUse: "ask for another address, or delete its holder",
  AddressReleasing: "wait; belfry explain vip ADDRESS says who has not let go",
};

/** Without a look at pools and VirtualIPs, the controller's own words. */
function fromCondition({ says }: HolderTrace, blind: string): Step {
  const details = [`${blind}, so this is the controller's word alone`];
  if (says === undefined) return stop("pool", "no controller has looked at it yet", START_CONTROLLER, details);
  const served = says.reason === "Programmed";
  return served ? ok("pool", says.message, details) : stop("pool", says.message, "ask who may see the pools", details);
}

const START_CONTROLLER = "look at the controller: kubectl -n belfry-system get pods,lease";

function controllerStep(model: ReadModel, candidates: readonly string[], says: Problem | undefined): Step {
  const waits = `${candidates.join(", ")} could be given, and there is no VirtualIP`;
  if (!model.isControllerLive && model.whyUnread("leases") === undefined) {
    return stop("controller", `no controller is alive: ${waits}`, START_CONTROLLER);
  }
  const words = says === undefined || says.reason === "Programmed" ? [] : [`it says: ${says.message}`];
  return stop(
    "controller",
    `the controller has not acted yet: ${waits}`,
    "ask again in some seconds, then look at its log",
    words,
  );
}

/** The VirtualIP as its Gateway or Service needs it. */
function holderAddress(model: ReadModel, vip: VirtualIP, it: HolderTrace): Step {
  const step = addressStep(model, vip);
  if (step.mark === "stop") return step;
  const { request } = it;
  if (request !== undefined && isBoundElsewhere(request, vip)) {
    return stop("address", `it is bound to an earlier ${it.subject}`, START_CONTROLLER);
  }
  const index = vip.spec.holders.findIndex(({ uid }) => uid === request?.holder.uid);
  const has = vip.spec.forwards.filter(({ holder }) => holder === index);
  if (request !== undefined && !same(has.map(asked), it.forwards.map(asked))) {
    return stop(
      "address",
      `VirtualIP ${vip.metadata.name} does not forward yet what is asked for now`,
      `ask again in some seconds, then: ${START_CONTROLLER}`,
    );
  }
  return it.shown.includes(vip.spec.address)
    ? step
    : { ...step, mark: "note", details: [...step.details, "the status does not show it (yet)"] };
}

/** What the holder decides of a forward: which of its data paths serves Services only the controller's flags say. */
const asked = ({ holder: _, dataPath: __, ...rest }: Forward): Omit<Forward, "holder" | "dataPath"> => rest;

/** Nothing of that name; addresses that it had may still be on their way back. */
function absent(model: ReadModel, list: "gateways" | "services", holder: HolderTrace["holder"]): Trace {
  const subject = printHolder(holder);
  const why = model.whyUnread(list);
  const todo =
    why === undefined
      ? "look at name and namespace (-n)"
      : `${why}: give the namespace with -n, or ask for the right to see it`;
  const left = model.vipsOf(holder);
  return {
    subject,
    head: [stop("request", `there is no ${subject}`, todo)],
    paths: left.map((vip) => ({
      address: vip.spec.address as Address,
      steps: [addressStep(model, vip), ...wayOf(model, vip)],
    })),
  };
}

// --- a VirtualIP --------------------------------------------------------------------------------------------------------

/** `name` is the object's name; `address` what it is made of. */
export function traceVip(model: ReadModel, address: Address): Trace {
  const name = virtualIPName(address);
  const subject = `VirtualIP ${name}`;
  const vip = model.vip(name);
  if (vip === undefined) return { subject, head: [unheld(model, address)], paths: [] };
  return {
    subject,
    head: [holdersStep(model, vip), poolOfVip(model, vip)],
    paths: [{ address, steps: [addressStep(model, vip), ...wayOf(model, vip)] }],
  };
}

/** Nobody has the address: whose is it then? */
function unheld(model: ReadModel, address: Address): Step {
  const why = model.whyUnread("vips");
  if (why !== undefined)
    return stop("address", `it can't be looked at: ${why}`, "ask for the right to list virtualips");
  const pool = model.book().poolOf(address);
  if (pool === undefined || !poolHas(pool, address)) {
    return stop(
      "pool",
      `nobody holds ${address}, and no IPAddressPool has it`,
      "belfry get pools shows which addresses there are",
    );
  }
  const reserved = reservationOf(pool, address);
  if (reserved !== undefined) {
    return stop("pool", `${address} is ${reserved}, so pool "${pool.name}" never gives it out`, "use another address");
  }
  return stop(
    "request",
    `nobody holds ${address}: it is free in pool "${pool.name}"`,
    "ask for it: Gateway spec.addresses, or the Service annotation belfry.dev/loadBalancerIPs",
  );
}

function holdersStep(model: ReadModel, { metadata, spec }: VirtualIP): Step {
  const { holders } = spec;
  if (holders.length === 0) return note("request", "no holder: it was made by hand");
  const says = `given to ${holders.map(printHolder).join(", ")}`;
  if (metadata.deletionTimestamp !== undefined) return ok("request", says);
  const remarks: string[] = [];
  for (const holder of holders) {
    const { kind, namespace, name, uid } = holder;
    const list = kind === "Gateway" ? "gateways" : "services";
    const why = model.whyUnread(list);
    const object = kind === "Gateway" ? model.gateway(namespace, name) : model.service(namespace, name);
    if (object === undefined && why !== undefined) remarks.push(`${printHolder(holder)}: ${why}`);
    else if (object === undefined) {
      return stop("request", `${printHolder(holder)} is gone; the controller takes the address back`, START_CONTROLLER);
    } else if (object.metadata.uid !== undefined && object.metadata.uid !== uid) {
      return stop(
        "request",
        `${printHolder(holder)} was made anew, and the address is still bound to the old one`,
        START_CONTROLLER,
      );
    }
  }
  return remarks.length === 0 ? ok("request", says) : note("request", says, remarks);
}

function poolOfVip(model: ReadModel, { spec: { pool: name, address } }: VirtualIP): Step {
  const why = model.whyUnread("pools");
  if (why !== undefined) return note("pool", name, [why]);
  const pool = model.book().pools.get(name);
  if (name === "") return note("pool", "of no pool");
  if (pool === undefined)
    return note("pool", `IPAddressPool "${name}" is gone; the address stays as long as its holder`);
  if (!pool.declared[familyOf(address as Address)].has(numberOf(address as Address))) {
    return note("pool", `IPAddressPool "${name}" does not have it any more; it stays as long as its holder`);
  }
  return ok("pool", `IPAddressPool ${name}${pool.spec.disabled === true ? " (drained: gives out nothing new)" : ""}`);
}

function addressStep(model: ReadModel, vip: VirtualIP): Step {
  const { metadata, spec, status } = vip;
  if (metadata.deletionTimestamp !== undefined) return releasingStep(model, vip);
  const conflict = conditionOf(status, "Conflict");
  if (conflict?.status === "True") {
    return stop("address", conflict.message, "take the address off the other device, or out of the pool");
  }
  return ok("address", `VirtualIP ${metadata.name}; ${spec.forwards.map(printPort).join(", ") || "no port"}`);
}

function releasingStep(model: ReadModel, { metadata, status }: VirtualIP): Step {
  const releasing = conditionOf(status, "Releasing");
  if (releasing?.status === "True") {
    return stop(
      "address",
      releasing.message,
      `bring the speaker back or delete the Node; if the node is certainly off: belfry release ${metadata.name} --force`,
    );
  }
  const todo = model.isControllerLive ? "wait: speakers let go within moments" : START_CONTROLLER;
  return stop("address", "it is being given back", todo);
}

// --- from the address to the endpoints ----------------------------------------------------------------------------------

/** Where on the way each cause stands. */
const PLACE_OF: Readonly<Record<NobodyReason, Place>> = {
  NoAdvertisement: "advertisement",
  NoNodeSelected: "node",
  NoLiveSpeaker: "node",
  NodesExcluded: "node",
  DataPathNotReady: "node",
  NoInterface: "interface",
  LinkDown: "interface",
  NotInSubnet: "interface",
  NoLocalEndpoints: "endpoints",
};

const NOBODY_ADVICE: Readonly<Record<NobodyReason, string>> = {
  NoAdvertisement: "create an L2Advertisement that selects the pool",
  NoNodeSelected: "change nodeSelectors of the L2Advertisement, or label a node",
  NoLiveSpeaker: "look at the speakers: belfry get speakers",
  NodesExcluded:
    "take the label off a node: kubectl label node NODE node.kubernetes.io/exclude-from-external-load-balancers-",
  DataPathNotReady: "run belfry doctor on the node: it says what to change",
  NoInterface:
    "change interfaces or excludeInterfaces of the L2Advertisement: belfry get speakers -o wide shows the links",
  LinkDown: "plug it in, or allow another interface",
  NotInSubnet: "give the nodes an address of that subnet, use a pool of their LAN, or set requireSubnet: false",
  NoLocalEndpoints: "start a pod on a node that can answer, or set externalTrafficPolicy (traffic.nodes) to Cluster",
};

const ORDER: readonly Place[] = ["advertisement", "node", "interface", "endpoints"];

function wayOf(model: ReadModel, vip: VirtualIP): Step[] {
  const endpoints = endpointsStep(model, vip);
  if (vip.metadata.deletionTimestamp !== undefined) {
    return [unreached("advertisement"), unreached("node"), unreached("interface"), endpoints];
  }
  const election = electionOf(model, vip);
  const elected = elect(election, model.nodeViews());
  const blind = model.whyUnread("nodes") ?? model.whyUnread("speakers") ?? model.whyUnread("leases");
  if (blind !== undefined)
    return [advertisementStep(model, vip), fromRecord(vip, blind), unreached("interface"), endpoints];
  if (elected.type === "nobody") {
    const at = PLACE_OF[elected.reason];
    const wrong = stop(at, elected.message, NOBODY_ADVICE[elected.reason], whyEachNode(model, election));
    return ORDER.map((place) => {
      if (place === at) return wrong;
      if (place === "endpoints") return endpoints;
      if (ORDER.indexOf(place) > ORDER.indexOf(at)) return unreached(place);
      return place === "advertisement" ? advertisementStep(model, vip) : ok(place, passed(place));
    });
  }
  const node = nodeStep(model, vip, elected.node, election);
  const link = stops([node]) ? unreached("interface") : interfaceStep(model, vip);
  return [advertisementStep(model, vip), node, link, endpoints];
}

const passed = (place: Place): string =>
  place === "node" ? "nodes are selected and alive" : "nodes have an interface for it";

function electionOf(model: ReadModel, { spec, status }: VirtualIP): Election {
  const { address, forwards, advertisements } = spec;
  const named = advertisements.l2;
  return {
    address: address as Address,
    advertisements: model.objects.advertisements
      .filter(({ metadata }) => named.includes(metadata.name))
      .map((advertisement) => advertisement.spec),
    needsDataPath: needsDataPath(forwards),
    homes: model.whyUnread("slices") === undefined ? nodesWithEndpoints(spec, model.slicesOf) : undefined,
    recorded: status?.owner?.node,
  };
}

/** `node-1: NotInSubnet`, for the nodes that can't. */
const whyEachNode = (model: ReadModel, election: Election): string[] =>
  election.advertisements.length === 0
    ? []
    : [...model.nodeViews().values()].flatMap((node) => {
        const verdict = judge(election, node);
        return verdict.type === "no" ? [`${node.name}: ${verdict.reason}`] : [];
      });

function advertisementStep(model: ReadModel, { spec }: VirtualIP): Step {
  const named = spec.advertisements.l2;
  const why = model.whyUnread("advertisements");
  if (why !== undefined) return note("advertisement", named.join(", "), [why]);
  const known = new Set(model.objects.advertisements.map(({ metadata }) => metadata.name));
  const gone = named.filter((name) => !known.has(name));
  const says = `L2Advertisement ${named.filter((name) => known.has(name)).join(", ")}`;
  return gone.length === 0
    ? ok("advertisement", says)
    : note("advertisement", says, [`${gone.join(", ")}: named by the VirtualIP and not there any more`]);
}

/** Without a look at nodes and speakers, what the record says. */
function fromRecord({ metadata, status }: VirtualIP, blind: string): Step {
  const details = [`${blind}, so this is the record's word alone`];
  const owner = status?.owner;
  if (owner === undefined) {
    const announced = conditionOf(status, "Announced");
    return stop("node", announced?.message ?? "no node answers for it", "ask who may see the speakers", details);
  }
  return owner.generation === metadata.generation
    ? ok("node", `node ${owner.node} answers`, details)
    : stop("node", `node ${owner.node} has not programmed the last change yet`, "ask again in some seconds", details);
}

function nodeStep(model: ReadModel, { metadata, status }: VirtualIP, elected: string, election: Election): Step {
  const owner = status?.owner;
  const reports = (node: string): string[] =>
    (model.speaker(node)?.status?.failing ?? [])
      .filter(({ vip }) => vip === metadata.name)
      .map(({ reason }) => `node ${node} says: ${reason}`);
  const log = (node: string) => `look at the speaker of ${node}: kubectl -n belfry-system logs, or belfry doctor there`;
  if (owner === undefined) {
    return stop("node", `node ${elected} is to answer and has not begun`, log(elected), reports(elected));
  }
  if (owner.node !== elected) {
    const view = model.nodeViews().get(owner.node);
    const verdict = view === undefined ? undefined : judge(election, view);
    const why = verdict?.type === "no" ? verdict.reason : "it has no Node";
    return stop(
      "node",
      `node ${owner.node} is recorded and can't answer (${why}); node ${elected} is to take over`,
      `ask again in some seconds, then: ${log(elected)}`,
      [...reports(owner.node), ...reports(elected)],
    );
  }
  if (owner.generation !== metadata.generation) {
    return stop(
      "node",
      `node ${owner.node} has not programmed the last change yet`,
      log(owner.node),
      reports(owner.node),
    );
  }
  const failing = reports(owner.node);
  const says = `node ${owner.node} answers, since ${owner.since} (term ${owner.term})`;
  return failing.length === 0 ? ok("node", says) : note("node", says, failing);
}

function interfaceStep(model: ReadModel, { spec, status }: VirtualIP): Step {
  const owner = status?.owner;
  const link = model.speaker(owner?.node ?? "")?.status?.links?.find(({ name }) => name === owner?.interface);
  if (link === undefined)
    return note("interface", `${owner?.interface || "unknown"}, which the speaker does not report`);
  const family = familyOf(spec.address as Address);
  const subnets = link.subnets.filter((subnet) => subnet.includes(":") === (family === "IPv6"));
  return ok("interface", [link.name, link.mac, ...subnets].filter((text) => text !== "").join(" "));
}

// --- endpoints ----------------------------------------------------------------------------------------------------------

function endpointsStep(model: ReadModel, vip: VirtualIP): Step {
  const { forwards } = vip.spec;
  const why = model.whyUnread("slices");
  if (why !== undefined) return note("endpoints", "can't be looked at", [why]);
  if (forwards.length === 0) {
    return stop("endpoints", "it forwards no port", "give the holder a port that leads somewhere");
  }
  const judged = forwards.map((forward) => judgeForward(model, vip, forward));
  const lines = judged.map(({ line }) => line);
  const bad = judged.filter((each) => each.todo !== undefined);
  const [first] = bad;
  if (first?.todo !== undefined) {
    return stop(
      "endpoints",
      first.line,
      first.todo,
      lines.filter((line) => line !== first.line),
    );
  }
  const [only] = lines;
  return lines.length === 1 && only !== undefined
    ? ok("endpoints", only)
    : ok("endpoints", `${lines.length} ports`, lines);
}

type JudgedForward = { readonly line: string; readonly todo?: string };

function judgeForward(model: ReadModel, { spec, status }: VirtualIP, forward: Forward): JudgedForward {
  const head = `${printPort(forward)} → ${backendsOf(forward)}`;
  if (forward.dataPath === "ServiceProxy") return { line: `${head}: left to the cluster's service proxy` };
  if (forward.backends.length === 0) {
    return { line: `${printPort(forward)} is refused: its backend could not be resolved`, todo: "mend the route" };
  }
  const family = familyOf(spec.address as Address);
  let usable = 0;
  let here = 0;
  for (const { namespace, name, portName } of forward.backends) {
    const slices = model.slicesOf(`${namespace}/${name}`);
    const found = usableEndpoints(slices, family, portName, forward.protocol);
    usable += found.anywhere.length;
    here += found.on(status?.owner?.node ?? "").length;
  }
  if (usable === 0) return noEndpoint(model, forward, head, family);
  const ranges = forward.sourceRanges.length === 0 ? "" : `, for ${forward.sourceRanges.join(", ")} only`;
  const local = forward.nodes === "LocalOnly" ? `, ${here} on the owner (local only)` : "";
  return { line: `${head}: ${usable} usable${local}${ranges}` };
}

function noEndpoint(model: ReadModel, forward: Forward, head: string, family: string): JudgedForward {
  const services = forward.backends.map(serviceOf);
  const missing = services.filter((service) => {
    const [namespace = "", name = ""] = service.split("/");
    return model.whyUnread("services") === undefined && model.service(namespace, name) === undefined;
  });
  if (missing.length > 0) {
    return { line: `${head}: there is no Service ${missing.join(", ")}`, todo: "create it, or mend the route" };
  }
  const slices = services.flatMap((service) => model.slicesOf(service));
  const ofFamily = slices.filter((slice) => slice.family === family);
  if (slices.length === 0) {
    return {
      line: `${head}: no endpoint at all`,
      todo: `do pods match its selector? kubectl get endpointslices -A -l kubernetes.io/service-name`,
    };
  }
  if (ofFamily.length === 0) {
    return {
      line: `${head}: no ${family} endpoint`,
      todo: `give the Service ${family} in ipFamilies, or ask for no ${family} address`,
    };
  }
  const names = new Set(forward.backends.map(({ portName }) => portName));
  const withPort = ofFamily.filter(({ ports }) =>
    ports.some(({ name, protocol }) => names.has(name) && protocol === forward.protocol),
  );
  if (withPort.length === 0) {
    const ports = [...names].map((name) => (name === "" ? "without a name" : `"${name}"`)).join(", ");
    return {
      line: `${head}: its endpoints have no ${forward.protocol} port ${ports}`,
      todo: "compare the Service's ports with the pods'",
    };
  }
  const all = withPort.reduce((sum, { endpoints }) => sum + endpoints.length, 0);
  return { line: `${head}: none of ${all} endpoints is ready`, todo: "look at the pods and their readiness probes" };
}

/** `namespace/name` of the Services whose EndpointSlices a trace of these VirtualIPs reads. */
export const servicesOf = (vips: Iterable<VirtualIP>): string[] =>
  [...vips].flatMap(({ spec }) => spec.forwards.flatMap(({ backends }) => backends.map(serviceOf)));

const printPort = ({ protocol, port }: { protocol: string; port: number }): string => `${protocol} ${port}`;

const backendsOf = ({ backends }: Forward): string =>
  backends.map((backend) => `Service ${serviceOf(backend)}`).join(", ") || "nowhere";

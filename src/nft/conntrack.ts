/** Which conntrack entries a change of plan makes stale. Pure. */
import type { Address } from "../net/address.ts";
import type { Flow } from "../netlink/conntrack.ts";
import type { FrontendPlan, VipPlan } from "../plan/vip-plan.ts";

export const IPPROTO_TCP = 6;
export const IPPROTO_UDP = 17;

/** What to look at after a change of one VIP. */
export type FlowChanges =
  /** The VIP is gone or has another holder: every entry goes. */
  | { readonly type: "all"; readonly address: Address }
  /** The VIP is new: flows that began before it was programmed were never translated. */
  | { readonly type: "first"; readonly address: Address }
  /** UDP frontends are new, gone, or lost an endpoint. */
  | { readonly type: "udp"; readonly address: Address };

/** What a change of plan makes worth looking at; undefined for most changes. */
export function flowChangesOf(
  address: Address,
  applied: VipPlan | undefined,
  wanted: VipPlan | undefined,
): FlowChanges | undefined {
  if (wanted === undefined) return applied === undefined ? undefined : { type: "all", address };
  if (applied === undefined) return { type: "first", address };
  if (applied === wanted) return undefined;
  for (const port of new Set([...udpPorts(applied), ...udpPorts(wanted)])) {
    const before = udpFrontend(applied, port);
    const after = udpFrontend(wanted, port);
    if (before?.action === after?.action) continue;
    // What another data path serves is not ours to clean, neither before nor after.
    if (after?.action.type === "pass") continue;
    const kept = endpointsOf(after);
    if (before?.action.type !== "balance" || [...endpointsOf(before)].some((endpoint) => !kept.has(endpoint))) {
      return { type: "udp", address };
    }
  }
  return undefined;
}

/**
 * True when the entry must go, for `plan` is what the table holds for its original destination now.
 * - UDP: its endpoint (the source of replies) is not one of the frontend's.
 * - Everything else: it was never translated, although it would be if it began now.
 * TCP flows to an endpoint that left stay: it may be draining.
 */
export function isStale(flow: Flow, plan: VipPlan | undefined): boolean {
  const { protocol, destination, destinationPort } = flow.original;
  if (plan === undefined || destination !== plan.address) return false;
  const untranslated = flow.reply.source === destination;
  if (protocol !== IPPROTO_TCP && protocol !== IPPROTO_UDP) return untranslated && plan.scope !== "Node";
  const frontend = plan.frontends.find(
    (one) => one.port === destinationPort && (one.protocol === "UDP") === (protocol === IPPROTO_UDP),
  );
  if (frontend === undefined) return plan.scope !== "Node" && (protocol === IPPROTO_UDP || untranslated);
  if (frontend.action.type === "pass") return false;
  if (protocol === IPPROTO_TCP) return untranslated;
  return !endpointsOf(frontend).has(`${flow.reply.source} ${flow.reply.sourcePort}`);
}

const udpPorts = (plan: VipPlan): number[] =>
  plan.frontends.filter((frontend) => frontend.protocol === "UDP").map((frontend) => frontend.port);

const udpFrontend = (plan: VipPlan, port: number): FrontendPlan | undefined =>
  plan.frontends.find((frontend) => frontend.protocol === "UDP" && frontend.port === port);

/** Address and port of every endpoint that the frontend may choose. */
function endpointsOf(frontend: FrontendPlan | undefined): Set<string> {
  const endpoints = new Set<string>();
  if (frontend?.action.type !== "balance") return endpoints;
  const { buckets, outside } = frontend.action;
  for (const endpoint of [...buckets, ...(outside === undefined || outside === "drop" ? [] : outside)]) {
    if (endpoint !== undefined) endpoints.add(`${endpoint.address} ${endpoint.port}`);
  }
  return endpoints;
}

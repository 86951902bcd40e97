/** Which families, addresses and pool a Service asks for. */
import type { Service } from "../api/foreign.ts";
import { Annotation } from "../api/names.ts";
import type { Problem } from "../core/trouble.ts";
import type { AddressRequest } from "../ipam/request.ts";
import { type Address, type Family, familyOf, parseAddress } from "../net/address.ts";

export type ServiceRequest =
  | { readonly ok: true; readonly request: AddressRequest }
  /** ConflictingRequest, InvalidAddress, DuplicateFamily or FamilyNotRequested. */
  | { readonly ok: false; readonly problem: Problem };

const BOTH: readonly Family[] = ["IPv4", "IPv6"];

export function resolveRequest(service: Service): ServiceRequest {
  const named = namedAddresses(service);
  if (!named.ok) return named;
  const { addresses } = named;
  const families = familiesOf(service, addresses);
  const stranger = addresses.find((address) => !families.includes(familyOf(address)));
  if (stranger !== undefined) return familyNotRequested(service, stranger, families);
  const isRequired = (family: Family) =>
    service.spec.ipFamilyPolicy !== "PreferDualStack" || addresses.some((address) => familyOf(address) === family);
  const { namespace = "", name, uid = "", labels = {}, creationTimestamp = "" } = service.metadata;
  return {
    ok: true,
    request: {
      holder: { kind: "Service", namespace, name, uid },
      labels,
      gatewayClass: undefined,
      families: families.map((family) => ({ family, need: isRequired(family) ? "Required" : "Preferred" })),
      addresses,
      pool: annotation(service, Annotation.addressPool),
      shown: (service.status?.loadBalancer?.ingress ?? []).flatMap(({ ip }) => parseAddress(ip ?? "") ?? []),
      createdAt: creationTimestamp,
    },
  };
}

/** The families that the Service asks for, the first first: spec.ipFamilies, which the API server fills in. */
function familiesOf(service: Service, addresses: readonly Address[]): readonly Family[] {
  const { ipFamilies, clusterIPs = [], ipFamilyPolicy } = service.spec;
  const stated = (ipFamilies ?? clusterIPs.map(familyOfText)).filter((each): each is Family => isFamily(each));
  const [first] = [...stated, ...addresses.map(familyOf), "IPv4" as const];
  switch (ipFamilyPolicy) {
    case "RequireDualStack":
      return both(first);
    case "PreferDualStack":
      // A cluster of one family fills in one; only where nobody filled in anything are both meant.
      return stated.length === 0 ? both(first) : [...new Set(stated)];
    default:
      return [first];
  }
}

const both = (first: Family): Family[] => [first, ...BOTH.filter((family) => family !== first)];
const isFamily = (text: string | undefined): text is Family => text === "IPv4" || text === "IPv6";

function familyOfText(text: string): Family | undefined {
  const address = parseAddress(text);
  return address === undefined ? undefined : familyOf(address);
}

type Named = { readonly ok: true; readonly addresses: readonly Address[] } | Extract<ServiceRequest, { ok: false }>;

function namedAddresses(service: Service): Named {
  const list = annotation(service, Annotation.loadBalancerIPs);
  const field = service.spec.loadBalancerIP?.trim() || undefined;
  if (list !== undefined && field !== undefined) {
    return refuse(
      "ConflictingRequest",
      `both annotation ${Annotation.loadBalancerIPs} and spec.loadBalancerIP are set; keep the annotation`,
    );
  }
  const source = list === undefined ? "spec.loadBalancerIP" : `annotation ${Annotation.loadBalancerIPs}`;
  const addresses: Address[] = [];
  for (const text of (list ?? field ?? "").split(",").map((part) => part.trim())) {
    if (text === "") continue;
    const address = parseAddress(text);
    if (address === undefined) return refuse("InvalidAddress", `${source}: "${text}" is not an IP address`);
    const rival = addresses.find((other) => familyOf(other) === familyOf(address));
    if (rival !== undefined && rival !== address) {
      return refuse("DuplicateFamily", `${source}: ${rival} and ${address} are both ${familyOf(address)}; keep one`);
    }
    if (rival === undefined) addresses.push(address);
  }
  return { ok: true, addresses };
}

function familyNotRequested(service: Service, address: Address, families: readonly Family[]): ServiceRequest {
  const { ipFamilyPolicy = "SingleStack" } = service.spec;
  const family = familyOf(address);
  return refuse(
    "FamilyNotRequested",
    `${address} is ${family}, and the Service has only ${families.join(", ")} (ipFamilyPolicy ${ipFamilyPolicy}); add ${family} to spec.ipFamilies or drop the address`,
  );
}

function annotation(service: Service, key: string): string | undefined {
  return service.metadata.annotations?.[key]?.trim() || undefined;
}

const refuse = (reason: string, message: string): Extract<ServiceRequest, { ok: false }> => ({
  ok: false,
  problem: { reason, message },
});

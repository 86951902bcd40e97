/** What a Gateway asks of the pools: Gateway.spec.addresses on top of one address of each family. */
import type { Gateway } from "../api/foreign.ts";
import type { Problem } from "../core/trouble.ts";
import type { AddressRequest } from "../ipam/request.ts";
import { type Address, type Family, familyOf, parseAddress } from "../net/address.ts";

export type WantedAddresses = Pick<AddressRequest, "families" | "addresses" | "atMost">;

export type AddressesResolution =
  | { readonly type: "wanted"; readonly wanted: WantedAddresses }
  /** A type that we don't serve: the Gateway is not accepted. */
  | { readonly type: "unsupported"; readonly problem: Problem }
  /** Accepted, but no pool could ever fulfil it. */
  | { readonly type: "unusable"; readonly problem: Problem };

const BOTH = ["IPv4", "IPv6"] as const;

/**
 * | spec.addresses | wanted |
 * |---|---|
 * | none | one address of each family that the pools offer |
 * | values | exactly these |
 * | one entry without value | any one address |
 * | entries without value beside others | one of each family that no value names, as many as there are such entries |
 */
export function resolveAddresses(gateway: Gateway): AddressesResolution {
  const entries = gateway.spec.addresses ?? [];
  const foreign = entries.find((entry) => (entry.type ?? "IPAddress") !== "IPAddress");
  if (foreign !== undefined) {
    return {
      type: "unsupported",
      problem: {
        reason: "UnsupportedAddress",
        message: `spec.addresses: type ${foreign.type} is not supported; use type IPAddress`,
      },
    };
  }
  const values = [...new Set(entries.map((entry) => entry.value ?? "").filter((value) => value !== ""))];
  const addresses: Address[] = [];
  for (const value of values) {
    const address = parseAddress(value);
    if (address === undefined) return unusable("AddressNotUsable", `"${value}" is not an IP address`);
    if (!addresses.includes(address)) addresses.push(address);
  }
  const free = entries.filter((entry) => (entry.value ?? "") === "").length;
  const named = BOTH.filter((family) => addresses.some((address) => familyOf(address) === family));
  return wish(addresses, named, free);
}

function wish(addresses: readonly Address[], named: readonly Family[], free: number): AddressesResolution {
  if (addresses.length === 0 && free <= 1) {
    const families = BOTH.map((family) => ({ family, need: "Preferred" as const }));
    return { type: "wanted", wanted: free === 0 ? { families, addresses } : { families, addresses, atMost: 1 } };
  }
  const unnamed = BOTH.filter((family) => !named.includes(family));
  if (free > unnamed.length) {
    return unusable(
      "AddressNotAssigned",
      "without a value there is one address of each family; give further ones of a family by value",
    );
  }
  const families = BOTH.filter((family) => named.includes(family) || free > 0);
  return {
    type: "wanted",
    wanted: { families: families.map((family) => ({ family, need: "Required" })), addresses },
  };
}

const unusable = (reason: string, message: string): AddressesResolution => ({
  type: "unusable",
  problem: { reason, message: `spec.addresses: ${message}` },
});

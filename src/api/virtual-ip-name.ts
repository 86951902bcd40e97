import { type Address, parseAddress } from "../net/address.ts";

/** metadata.name of the VirtualIP of the address: `:` becomes `-`, with a `0` where the name would begin or end with `-`. */
export function virtualIPName(address: Address): string {
  const dashed = address.replaceAll(":", "-");
  return `${dashed.startsWith("-") ? "0" : ""}${dashed}${dashed.endsWith("-") ? "0" : ""}`;
}

/** The address that the VirtualIP of this name has; `undefined` when no VirtualIP can have the name. */
export function addressOfName(name: string): Address | undefined {
  const address = parseAddress(name.replaceAll("-", ":"));
  return address !== undefined && virtualIPName(address) === name ? address : undefined;
}

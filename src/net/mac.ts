/** A 48-bit MAC address in lower case with colons, such as `02:00:00:00:00:0a`. */
export type Mac = string & { readonly __mac: never };

/** The MAC that the text means, canonical, or `undefined`. */
export function parseMac(text: string): Mac | undefined {
  return /^[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}$/.test(text) ? (text.toLowerCase() as Mac) : undefined;
}

/** The six bytes of the address. */
export const macBytes = (mac: Mac): Uint8Array => Uint8Array.from(mac.split(":"), (part) => Number.parseInt(part, 16));

/** The address in six bytes. */
export const macFromBytes = (bytes: Uint8Array): Mac =>
  Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join(":") as Mac;

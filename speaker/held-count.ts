import { type Address, addressFromBytes, type Family } from "../src/net/address.ts";
import { MessageWriter } from "../src/netlink/message.ts";
import { endsDump } from "../src/netlink/nfnetlink.ts";
import { forEachElement, putDump } from "../src/netlink/nftables.ts";
import { BUCKET_COUNTS, FAMILIES, setName, TABLE } from "../src/nft/ruleset.ts";
import type { HeldCount } from "../src/plan/forward.ts";
import type { BucketCount } from "../src/plan/vip-plan.ts";

type Exchange = (bytes: Uint8Array, done: (message: Uint8Array) => boolean) => Promise<Uint8Array[]>;

/** Bucket counts by frontend; the key is `heldKey`. */
export type HeldCounts = ReadonlyMap<string, HeldCount>;

export const heldKey = (address: Address, protocol: "TCP" | "UDP", port: number): string =>
  `${address}|${protocol}|${port}`;

const COUNT = /^choose[46]-(?:flow|source)-([0-9]+)(-outside)?$/;
const PROTOCOLS: Readonly<Record<number, "TCP" | "UDP">> = { 6: "TCP", 17: "UDP" };

/**
 * The bucket counts that an earlier life left in the table. A count shrinks only below a quarter of its step, so a restart
 * must know what was in force, or it would move flows that nobody touched. A table that is not there holds none.
 */
export async function readHeldCounts(exchange: Exchange): Promise<HeldCounts> {
  const held = new Map<string, { inside?: BucketCount; outside?: BucketCount }>();
  for (const family of FAMILIES) {
    for (const kind of ["frontend", "ranged", "inside", "outside"] as const) {
      const writer = new MessageWriter(128);
      putDump(writer, 1, "element", TABLE, setName(kind, family));
      for (const reply of await exchange(writer.bytes(), endsDump)) {
        forEachElement(reply, ({ key, data }) => {
          if (data === undefined || data instanceof Uint8Array || !("chain" in data)) return;
          const match = COUNT.exec(data.chain);
          const count = BUCKET_COUNTS.find((it) => it === Number(match?.[1]));
          const frontend = frontendOf(key, family);
          if (count === undefined || frontend === undefined) return;
          const known = held.get(frontend) ?? {};
          held.set(frontend, match?.[2] === undefined ? { ...known, inside: count } : { ...known, outside: count });
        });
      }
    }
  }
  return held;
}

/** The key is address . protocol . port, each part padded to four bytes. */
function frontendOf(key: Uint8Array, family: Family): string | undefined {
  const length = family === "IPv4" ? 4 : 16;
  const protocol = PROTOCOLS[key[length] ?? 0];
  if (protocol === undefined || key.length < length + 8) return undefined;
  const port = ((key[length + 4] ?? 0) << 8) | (key[length + 5] ?? 0);
  return heldKey(addressFromBytes(key.slice(0, length)), protocol, port);
}

/**
 * Base chains of others at the forward hook that drop by policy: packets for pods have to pass them, and no table of
 * ours can overrule a drop. Chains of iptables-nft are seen, those of iptables-legacy are not.
 */
import { be32Of, decodeAttributes, decodeMessage, MessageWriter, textOf } from "../netlink/message.ts";
import {
  endsDump,
  GENERIC_BYTES,
  NFNL_SUBSYS_NFTABLES,
  NFPROTO_INET,
  NFPROTO_IPV4,
  NFPROTO_IPV6,
  NFPROTO_UNSPEC,
} from "../netlink/nfnetlink.ts";
import { decodeTold, NFT_MSG, putDump } from "../netlink/nftables.ts";

export type DroppingChain = {
  /** Family, table and chain as the nft program writes them: `ip filter FORWARD`. */
  readonly chain: string;
  /** Some rule of its table accepts something: whether that is enough can't be told from here. */
  readonly accepts: boolean;
};

type Exchange = (bytes: Uint8Array, done: (message: Uint8Array) => boolean) => Promise<Uint8Array[]>;

const FAMILY_NAMES: Readonly<Record<number, string>> = {
  [NFPROTO_INET]: "inet",
  [NFPROTO_IPV4]: "ip",
  [NFPROTO_IPV6]: "ip6",
};
const NF_INET_FORWARD = 2;
const NF_DROP = 0;

/** The chains, in the kernel's order. `takeSequence` gives a fresh sequence number. */
export async function readDroppingChains(exchange: Exchange, takeSequence: () => number): Promise<DroppingChain[]> {
  const writer = new MessageWriter(128);
  putDump(writer, takeSequence(), "chain", "", undefined, NFPROTO_UNSPEC);
  const dropping: DroppingChain[] = [];
  for (const { family, table, chain } of (await exchange(writer.bytes(), endsDump)).flatMap(decodeDropping)) {
    writer.clear();
    putDump(writer, takeSequence(), "rule", table, undefined, family);
    const accepts = (await exchange(writer.bytes(), endsDump)).some(acceptsSomething);
    dropping.push({ chain: `${FAMILY_NAMES[family]} ${table} ${chain}`, accepts });
  }
  return dropping;
}

function decodeDropping(bytes: Uint8Array): { family: number; table: string; chain: string }[] {
  const message = decodeMessage(bytes);
  if (message?.type !== ((NFNL_SUBSYS_NFTABLES << 8) | NFT_MSG.newChain)) return [];
  const family = message.payload[0] ?? NFPROTO_UNSPEC;
  const attributes = decodeAttributes(message.payload.subarray(GENERIC_BYTES));
  const [table, chain] = [textOf(attributes?.get(1)), textOf(attributes?.get(3))];
  const hook = be32Of(decodeAttributes(attributes?.get(4) ?? new Uint8Array())?.get(1));
  const drops = be32Of(attributes?.get(5)) === NF_DROP;
  if (!(family in FAMILY_NAMES) || table === undefined || chain === undefined) return [];
  return hook === NF_INET_FORWARD && drops ? [{ family, table, chain }] : [];
}

function acceptsSomething(bytes: Uint8Array): boolean {
  const told = decodeTold(bytes);
  if (told?.type !== "rule") return false;
  return told.rule.expressions.some((one) => one.type === "verdict" && one.verdict.type === "accept");
}

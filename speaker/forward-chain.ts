import {
  be32Of,
  decodeAttributes,
  decodeMessage,
  MessageWriter,
  NLM_F_DUMP,
  NLM_F_REQUEST,
  textOf,
} from "../src/netlink/message.ts";
import {
  endsDump,
  GENERIC_BYTES,
  genericHeader,
  messageType,
  NFNL_SUBSYS_NFTABLES,
  NFPROTO_UNSPEC,
} from "../src/netlink/nfnetlink.ts";
import { decodeTold, NFT_MSG } from "../src/netlink/nftables.ts";
import type { NodeObservation } from "../src/plan/data-path-ready.ts";

type Exchange = (bytes: Uint8Array, done: (message: Uint8Array) => boolean) => Promise<Uint8Array[]>;

/** linux/netfilter.h, nf_tables.h (nft_chain_attributes, nft_hook_attributes). */
const NF_INET_FORWARD = 2;
const NF_DROP = 0;
const CHAIN = { table: 1, name: 3, hook: 4, policy: 5 } as const;
const HOOK_NUMBER = 1;
const FAMILIES: Readonly<Record<number, string>> = { 1: "inet", 2: "ip", 10: "ip6" };

type Dropping = { readonly family: number; readonly table: string; readonly name: string };

/**
 * Base chains at the forward hook whose policy is drop, of any table and of iptables-nft. Whether packets for pods get
 * through them is their rules' matter; a table without any rule that accepts surely lets none through.
 */
export async function findDroppingForwardChains(exchange: Exchange): Promise<NodeObservation["droppingForwardChains"]> {
  const found: { chain: string; accepts: boolean }[] = [];
  const chains = await exchange(dump(NFT_MSG.getChain, NFPROTO_UNSPEC), endsDump);
  for (const { family, table, name } of chains.map(readDropping).filter((it) => it !== undefined)) {
    const rules = await exchange(dump(NFT_MSG.getRule, family, table), endsDump);
    found.push({ chain: `${FAMILIES[family]} ${table} ${name}`, accepts: rules.some(accepts) });
  }
  return found;
}

/** The chain that the message tells of, if it drops by policy what is forwarded. Total. */
export function readDropping(bytes: Uint8Array): Dropping | undefined {
  const message = decodeMessage(bytes);
  if (message?.type !== messageType(NFNL_SUBSYS_NFTABLES, NFT_MSG.newChain)) return undefined;
  const attributes = decodeAttributes(message.payload.subarray(GENERIC_BYTES));
  const hook = attributes?.get(CHAIN.hook);
  const hookNumber = hook === undefined ? undefined : be32Of(decodeAttributes(hook)?.get(HOOK_NUMBER));
  const [table, name] = [textOf(attributes?.get(CHAIN.table)), textOf(attributes?.get(CHAIN.name))];
  const family = message.payload[0] ?? 0;
  const drops = hookNumber === NF_INET_FORWARD && be32Of(attributes?.get(CHAIN.policy)) === NF_DROP;
  return drops && table !== undefined && name !== undefined && FAMILIES[family] !== undefined
    ? { family, table, name }
    : undefined;
}

function accepts(bytes: Uint8Array): boolean {
  const told = decodeTold(bytes);
  return (
    told?.type === "rule" && told.rule.expressions.some((it) => it.type === "verdict" && it.verdict.type === "accept")
  );
}

function dump(what: number, family: number, table?: string): Uint8Array {
  const writer = new MessageWriter(128);
  const at = writer.beginMessage(messageType(NFNL_SUBSYS_NFTABLES, what), NLM_F_REQUEST | NLM_F_DUMP, 1);
  writer.raw(genericHeader(family));
  if (table !== undefined) writer.text(1, table);
  writer.endMessage(at);
  return writer.bytes();
}

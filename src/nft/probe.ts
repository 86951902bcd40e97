/**
 * What this kernel can do, asked without changing anything: a batch that makes a scratch table with every expression
 * we need and that ends in a message which must fail, so the kernel looks at each message and then applies none.
 */
import type { Fault } from "../core/trouble.ts";
import type { MessageWriter } from "../netlink/message.ts";
import { beginBatch, errnoText, NFNL_SUBSYS_NFTABLES, type Refusal } from "../netlink/nfnetlink.ts";
import {
  type Expression,
  NFT_TABLE_F_OWNER,
  NFT_TABLE_F_PERSIST,
  putChain,
  putRule,
  putSet,
  putTable,
  putTableDelete,
} from "../netlink/nftables.ts";
import { CHAINS, RULES, SETS } from "./ruleset.ts";

const SCRATCH = "belfry-probe";
const OWNERSHIP = "ownership";
const MUST_FAIL = "must fail";

/** What each expression of ours is called in a kernel's configuration. */
const KERNEL_OPTION: Readonly<Record<Expression["type"], string>> = {
  payload: "NF_TABLES",
  meta: "NF_TABLES",
  compare: "NF_TABLES",
  mask: "NF_TABLES",
  lookup: "NF_TABLES",
  verdict: "NF_TABLES",
  ct: "NFT_CT",
  fibSourceType: "NFT_FIB_INET",
  hash: "NFT_HASH",
  dnat: "NFT_NAT",
  masquerade: "NFT_MASQ",
  redirect: "NFT_REDIR",
  reject: "NFT_REJECT_INET",
  unknown: "NF_TABLES",
};

export type EncodedProbe = {
  readonly bytes: Uint8Array;
  readonly first: number;
  readonly last: number;
  /** What each message asks for, by its sequence number. */
  readonly asks: ReadonlyMap<number, string>;
};

export type Probe =
  /** Everything is there; `ownership`: a table can be owned and persist (Linux 6.9). */
  { readonly type: "able"; readonly ownership: boolean } | { readonly type: "fault"; readonly fault: Fault };

/** Messages of a probe at most; so many sequence numbers it takes. */
export const PROBE_MESSAGES = 128;

/** The batch that asks, at the beginning of the writer. */
export function encodeProbe(writer: MessageWriter, sequence: number): EncodedProbe {
  writer.clear();
  const batch = beginBatch(writer, NFNL_SUBSYS_NFTABLES, sequence);
  const asks = new Map<number, string>();
  const ask = (what: string): void => void asks.set(sequence + batch.count(), what);
  putTable(batch, { name: SCRATCH, flags: 0 });
  ask("tables of family inet (NF_TABLES_INET)");
  for (const [i, set] of SETS.entries()) {
    putSet(batch, SCRATCH, set, i + 1);
    ask(set.fields === undefined ? "sets and maps (NF_TABLES)" : "intervals over concatenations (Linux 5.6)");
  }
  for (const chain of CHAINS) {
    if (chain.base === undefined) continue;
    putChain(batch, SCRATCH, chain);
    ask(chain.base.type === "nat" ? "nat chains (NFT_NAT)" : "filter chains (NF_TABLES)");
  }
  for (const { chain, type, expressions } of examples()) {
    putRule(batch, SCRATCH, { chain, expressions });
    ask(`${type} (${KERNEL_OPTION[type]})`);
  }
  putTable(batch, { name: `${SCRATCH}-owned`, flags: NFT_TABLE_F_OWNER | NFT_TABLE_F_PERSIST });
  ask(OWNERSHIP);
  putTableDelete(batch, `${SCRATCH}-none`);
  ask(MUST_FAIL);
  const sequences = batch.end();
  return { bytes: writer.bytes(), ...sequences, asks };
}

/** One rule for each kind of expression, as it stands in the ruleset, in a chain where it may stand. */
function examples(): { chain: string; type: Expression["type"]; expressions: Expression[] }[] {
  const byType = new Map<string, { chain: string; type: Expression["type"]; expressions: Expression[] }>();
  for (const rule of RULES) {
    for (const expression of rule.expressions) {
      const { type } = expression;
      // These name another chain, or must follow what fills their registers: the kernel checks neither alone here.
      if (type === "verdict" || type === "compare" || type === "mask" || type === "lookup") continue;
      const key = `${type} ${"key" in expression ? expression.key : ""}`;
      if (byType.has(key)) continue;
      const chain =
        type === "masquerade" ? "nat-postrouting" : type === "reject" ? "guard-prerouting" : "nat-prerouting";
      const source: Expression = { type: "payload", base: "network", offset: 12, length: 16, into: 0 };
      const port: Expression = { type: "payload", base: "network", offset: 12, length: 16, into: 4 };
      const needs: Expression[] =
        type === "dnat" || type === "hash" ? [source, port, { ...source, into: 8 }, { ...port, into: 12 }] : [];
      byType.set(key, { chain, type, expressions: [...needs, expression] });
    }
  }
  return [...byType.values()];
}

/** What the refusals of a probe say about this kernel. */
export function missingFrom(probe: EncodedProbe, refusals: readonly Refusal[]): Probe {
  const what = "nftables on this node";
  const whole = refusals.find((refusal) => refusal.sequence === probe.first);
  if (whole !== undefined) {
    const message =
      whole.errno === 1
        ? "not permitted: the speaker needs the capability NET_ADMIN"
        : `the kernel can't take a batch: ${errnoText(whole.errno)}; it needs nf_tables (NF_TABLES)`;
    return { type: "fault", fault: { what, message } };
  }
  const missing = new Set<string>();
  let ownership = true;
  for (const refusal of refusals) {
    const asked = probe.asks.get(refusal.sequence);
    if (asked === OWNERSHIP) ownership = false;
    else if (asked !== MUST_FAIL && asked !== undefined) {
      missing.add(`${asked}: ${errnoText(refusal.errno)}`);
      // Without a table, a set or a chain everything after it is refused, too; the first one is the cause.
      if (asked.startsWith("tables")) break;
    }
  }
  if (missing.size === 0) return { type: "able", ownership };
  return {
    type: "fault",
    fault: { what, message: `this kernel lacks ${[...missing].join(", ")}; Belfry needs Linux 5.9 with these options` },
  };
}

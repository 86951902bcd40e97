/** Service.spec.loadBalancerSourceRanges → Forward.sourceRanges. */
import type { Problem } from "../core/trouble.ts";
import type { Address } from "../net/address.ts";
import { type Prefix, parsePrefix, partsOf, prefixHolds } from "../net/prefix.ts";

/** Forward.sourceRanges holds no more. */
const MOST = 64;

/** The unspecified address is never a source on the wire: where no range can be read, a list of none would mean anybody. */
const NOBODY = "0.0.0.0/32" as Prefix;

export type SourceRanges = { readonly ranges: readonly Prefix[]; readonly problems: readonly Problem[] };

/**
 * The ranges in order, without those that another one holds. Host bits are masked off, as kube-proxy does. Closed when in
 * doubt: what can't be read lets nobody in.
 */
export function resolveSourceRanges(texts: readonly string[]): SourceRanges {
  const problems: Problem[] = [];
  const read = new Set<Prefix>();
  for (const text of texts) {
    const parsed = parsePrefix(text.trim());
    if (parsed.ok) read.add(parsed.prefix);
    else if (parsed.refusal.type === "hostBits") read.add(parsed.refusal.masked);
    else problems.push(invalidRange(text));
  }
  const widest = [...read].filter((range) => ![...read].some((other) => other !== range && holds(other, range))).sort();
  if (widest.length > MOST) problems.push(tooMany(widest.length));
  if (widest.length === 0 && texts.length > 0) return { ranges: [NOBODY], problems };
  return { ranges: widest.slice(0, MOST), problems };
}

const holds = (outer: Prefix, inner: Prefix): boolean =>
  partsOf(outer).length <= partsOf(inner).length && prefixHolds(outer, inner.slice(0, inner.indexOf("/")) as Address);

const invalidRange = (text: string): Problem => ({
  reason: "InvalidSourceRange",
  message: `loadBalancerSourceRanges: "${text}" is not a prefix such as 192.0.2.0/24 or 2001:db8::/32; it lets nobody in`,
});

const tooMany = (count: number): Problem => ({
  reason: "TooManySourceRanges",
  message: `loadBalancerSourceRanges: ${count} ranges, of which only ${MOST} are let in, in the order of their text; join ranges`,
});

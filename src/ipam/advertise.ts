import type { L2Advertisement } from "../api/l2-advertisement.ts";
import { selects } from "../api/label-selector.ts";

type Labels = Readonly<Record<string, string>>;

/**
 * Names of the L2Advertisements that announce an address of the pool for a holder with these labels, in order.
 * `poolLabels` is undefined when the pool is gone: advertisements that name it still do, selectors match nothing.
 */
export function advertisementsOf(
  pool: { readonly name: string; readonly labels: Labels | undefined },
  holderLabels: Labels,
  advertisements: Iterable<L2Advertisement>,
): string[] {
  const names: string[] = [];
  for (const { metadata, spec } of advertisements) {
    const { ipAddressPools = [], ipAddressPoolSelectors = [], serviceSelectors = [] } = spec;
    const anyPool = ipAddressPools.length === 0 && ipAddressPoolSelectors.length === 0;
    const byName = ipAddressPools.includes(pool.name);
    const { labels } = pool;
    const byLabel = labels !== undefined && ipAddressPoolSelectors.some((selector) => selects(selector, labels));
    if (!anyPool && !byName && !byLabel) continue;
    if (serviceSelectors.length > 0 && !serviceSelectors.some((selector) => selects(selector, holderLabels))) continue;
    names.push(metadata.name);
  }
  return names.sort();
}

import { after, type Instant } from "../core/instant.ts";

/**
 * When to announce one VIP on one interface: five times at take-over, then a refresh before switches and routers forget
 * (metallb#2910: forwarding tables age at 300 s, a silent VIP is flooded or lost). Says when; sends nothing.
 */
export type Herald = {
  /** Announcements of the opening burst that are still to come. */
  readonly burstLeft: number;
  /** When to announce next; undefined when never again by itself. */
  readonly dueAt: Instant | undefined;
};

export const BURST_COUNT = 5;
/** Linux takes no second update of a neighbour within `locktime`, 1 s (net/ipv4/arp.c), so the burst goes beyond it. */
export const BURST_GAP_MILLISECONDS = 1100;
const JITTER = 1 / 6;

/** A take-over, carrier back, another MAC, a new interface: announce now and four times more. */
export const startHerald = (now: Instant): Herald => ({ burstLeft: BURST_COUNT, dueAt: now });

/**
 * The herald after an announcement at `now`. `random` in [0, 1) spreads the refreshes of many VIPs
 * over `refreshIntervalSeconds` ± a sixth; an interval of 0 means no refresh.
 */
export function announced(herald: Herald, refreshIntervalSeconds: number, random: number, now: Instant): Herald {
  const burstLeft = Math.max(herald.burstLeft - 1, 0);
  if (burstLeft > 0) return { burstLeft, dueAt: after(now, BURST_GAP_MILLISECONDS) };
  return { burstLeft: 0, dueAt: refreshAt(refreshIntervalSeconds, random, now) };
}

/** The herald when the refresh interval was changed: a burst under way goes on, the next refresh is drawn anew. */
export function refreshEvery(herald: Herald, refreshIntervalSeconds: number, random: number, now: Instant): Herald {
  return herald.burstLeft > 0 ? herald : { burstLeft: 0, dueAt: refreshAt(refreshIntervalSeconds, random, now) };
}

function refreshAt(refreshIntervalSeconds: number, random: number, now: Instant): Instant | undefined {
  if (refreshIntervalSeconds <= 0) return undefined;
  return after(now, refreshIntervalSeconds * 1000 * (1 - JITTER + 2 * JITTER * random));
}

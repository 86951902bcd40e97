import type { Metrics } from "../src/observe/metrics.ts";
import type { Speaker, SpeakerMetrics } from "./loop.ts";
import type { WirePort } from "./port.ts";
import type { WireCounters } from "./wire-protocol.ts";

/** From 100 µs: one change of one endpoint is about half a millisecond. */
const LATENCY_BUCKETS_SECONDS = [
  0.0001, 0.0002, 0.0003, 0.0005, 0.0007, 0.001, 0.0015, 0.002, 0.003, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5,
];

/** The speaker's own metrics. `gauges` is asked at each scrape. */
export function describeSpeaker(metrics: Metrics, gauges: () => ReturnType<Speaker["gauges"]>): SpeakerMetrics {
  const gauge = (name: string, help: string, value: (of: ReturnType<Speaker["gauges"]>) => number) =>
    metrics.gauge(name, help, [], () => [{ labels: {}, value: value(gauges()) }]);
  gauge("belfry_speaker_vips_known", "VirtualIPs that exist.", ({ known }) => known);
  gauge("belfry_speaker_vips_programmed", "VirtualIPs in the nftables table of this node.", (it) => it.programmed);
  gauge("belfry_speaker_vips_owned", "VirtualIPs that this node answers for.", ({ owned }) => owned);
  gauge("belfry_speaker_vips_failing", "VirtualIPs that this node can't serve as wanted.", ({ failing }) => failing);
  gauge(
    "belfry_speaker_lease_valid_seconds",
    "For how long the node's Lease is provably valid.",
    (it) => it.leaseSeconds,
  );
  const transactions = metrics.counter("belfry_nft_transactions_total", "Transactions that nftables acknowledged.");
  const changes = metrics.counter("belfry_nft_vip_changes_total", "VirtualIPs that those transactions changed.");
  const failures = metrics.counter("belfry_nft_failures_total", "Changes that nftables refused; each is tried again.");
  const latency = metrics.histogram(
    "belfry_speaker_change_seconds",
    "From the last byte of a watch event to the acknowledgement of nftables.",
    LATENCY_BUCKETS_SECONDS,
  );
  return {
    transaction(count, seconds) {
      transactions();
      changes(count);
      if (seconds !== undefined) latency(seconds);
    },
    failed: () => failures(),
  };
}

/** What the wire worker counts: frames answered, ignored by reason, announced. */
export function followWire(metrics: Metrics, wire: WirePort): void {
  let counters: WireCounters = {};
  wire.onMessage((message) => {
    if (message.type === "counters") counters = message.counters;
  });
  metrics.total("belfry_wire_events_total", "What the wire worker counted, by event.", ["event"], () =>
    Object.entries(counters).map(([event, value]) => ({ labels: { event }, value })),
  );
}

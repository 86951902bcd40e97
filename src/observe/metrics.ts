// The package as a whole also loads an HTTP client, process clusters and tracing: 15 MB resident that nobody here needs.
import Counter from "prom-client/lib/counter.js";
import Gauge from "prom-client/lib/gauge.js";
import Histogram from "prom-client/lib/histogram.js";
import Registry from "prom-client/lib/registry.js";

export type Labels = Readonly<Record<string, string>>;

/** Gauges whose value is asked for when they are scraped: a number, or one value per label set. */
export type Sample = { readonly labels: Labels; readonly value: number };

/**
 * The metrics of one process, all with the prefix `belfry_`. A metric is declared where it is used, by its first call;
 * labels are few and bounded, and names end in their unit.
 */
export type Metrics = {
  /** A counter; returns the function that adds to it. */
  counter(name: string, help: string, labels?: readonly string[]): (amount?: number, labels?: Labels) => void;
  /** A gauge whose samples are computed at each scrape. */
  gauge(name: string, help: string, labels: readonly string[], samples: () => Iterable<Sample>): void;
  /** A counter that is kept elsewhere and asked for at each scrape. */
  total(name: string, help: string, labels: readonly string[], samples: () => Iterable<Sample>): void;
  /** A histogram in seconds; returns the function that observes one value. */
  histogram(name: string, help: string, buckets: readonly number[]): (seconds: number) => void;
  /** The text that Prometheus scrapes. */
  render(): Promise<string>;
};

export function createMetrics(): Metrics {
  const registry = new Registry();
  const registers = [registry];
  return {
    counter(name, help, labelNames = []) {
      const counter = new Counter({ name, help, labelNames: [...labelNames], registers });
      return (amount = 1, labels = {}) => counter.inc(labels, amount);
    },
    gauge(name, help, labelNames, samples) {
      new Gauge({
        name,
        help,
        labelNames: [...labelNames],
        registers,
        collect() {
          this.reset();
          for (const sample of samples()) this.set(sample.labels, sample.value);
        },
      });
    },
    total(name, help, labelNames, samples) {
      new Counter({
        name,
        help,
        labelNames: [...labelNames],
        registers,
        collect() {
          this.reset();
          for (const sample of samples()) this.inc(sample.labels, sample.value);
        },
      });
    },
    histogram(name, help, buckets) {
      const histogram = new Histogram({ name, help, buckets: [...buckets], registers });
      return (seconds) => histogram.observe(seconds);
    },
    render: () => registry.metrics(),
  };
}

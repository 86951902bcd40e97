import type { Instant } from "../core/instant.ts";

type Labels = Readonly<Record<string, string>>;

/** What we need of a metrics registry; `observe/metrics.ts` has it. */
export type MetricsPort = {
  counter(name: string, help: string, labels?: readonly string[]): (amount?: number, labels?: Labels) => void;
  gauge(
    name: string,
    help: string,
    labels: readonly string[],
    samples: () => Iterable<{ readonly labels: Labels; readonly value: number }>,
  ): void;
};

/** Counters of this door. Made once per process and shared by its clients and informers. */
export type KubeMetrics = {
  /** `code` is the HTTP status, or 0 for no answer. */
  request(verb: string, resource: string, code: number): void;
  connected(): void;
  watchEnded(resource: string, why: string): void;
  follow(informer: Followed): void;
};

type Followed = {
  readonly name: string;
  readonly size: number;
  readonly fresh: boolean;
  readonly lastHeardAt: Instant | undefined;
  now(): Instant;
};

export function createKubeMetrics(port: MetricsPort): KubeMetrics {
  const requests = port.counter("belfry_kube_requests_total", "Requests to the API server; code 0: no answer.", [
    "verb",
    "resource",
    "code",
  ]);
  const connections = port.counter("belfry_kube_connections_total", "Connections made to the API server.");
  const ends = port.counter("belfry_kube_watch_ends_total", "Watches that ended, by cause.", ["resource", "why"]);
  const followed: Followed[] = [];
  const gauge = (name: string, help: string, value: (informer: Followed) => number | undefined) =>
    port.gauge(name, help, ["resource"], function* () {
      for (const informer of followed) {
        const sample = value(informer);
        if (sample !== undefined) yield { labels: { resource: informer.name }, value: sample };
      }
    });
  gauge("belfry_kube_watch_silence_seconds", "Since the last list, event or bookmark.", (informer) =>
    informer.lastHeardAt === undefined ? undefined : (informer.now() - informer.lastHeardAt) / 1000,
  );
  gauge("belfry_kube_watch_fresh", "1 while the cache follows the API server.", ({ fresh }) => (fresh ? 1 : 0));
  gauge("belfry_kube_cached_objects", "Objects in the cache.", ({ size }) => size);
  return {
    request: (verb, resource, code) => requests(1, { verb, resource, code: String(code) }),
    connected: () => connections(1),
    watchEnded: (resource, why) => ends(1, { resource, why }),
    follow: (informer) => void followed.push(informer),
  };
}

export const NO_METRICS: KubeMetrics = { request() {}, connected() {}, watchEnded() {}, follow() {} };

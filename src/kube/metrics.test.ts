import { expect, test } from "vitest";
import { instant } from "../core/instant.ts";
import { createMetrics } from "../observe/metrics.ts";
import { createKubeMetrics } from "./metrics.ts";

test("the silence of each watch, what it caches, and every request are exposed", async () => {
  const registry = createMetrics();
  const metrics = createKubeMetrics(registry);
  metrics.follow({ name: "nodes", size: 3, fresh: true, lastHeardAt: instant(1_000), now: () => instant(8_500) });
  metrics.follow({ name: "services", size: 0, fresh: false, lastHeardAt: undefined, now: () => instant(8_500) });
  metrics.request("list", "nodes", 200);
  metrics.request("list", "nodes", 0);
  metrics.watchEnded("nodes", "silent");
  metrics.connected();
  const text = await registry.render();
  for (const line of [
    'belfry_kube_watch_silence_seconds{resource="nodes"} 7.5',
    'belfry_kube_watch_fresh{resource="nodes"} 1',
    'belfry_kube_watch_fresh{resource="services"} 0',
    'belfry_kube_cached_objects{resource="nodes"} 3',
    'belfry_kube_requests_total{verb="list",resource="nodes",code="200"} 1',
    'belfry_kube_requests_total{verb="list",resource="nodes",code="0"} 1',
    'belfry_kube_watch_ends_total{resource="nodes",why="silent"} 1',
    "belfry_kube_connections_total 1",
  ]) {
    expect(text).toContain(line);
  }
  expect(text).not.toContain('silence_seconds{resource="services"}');
});

import { describe, expect, test } from "vitest";
import { parseBind, serveHealth } from "./health.ts";
import { createMetrics } from "./metrics.ts";
import { refuseNodeVersion } from "./node-version.js";

describe("parseBind", () => {
  test.each([
    ["127.0.0.1:9120", { host: "127.0.0.1", port: 9120 }],
    ["[::1]:0", { host: "::1", port: 0 }],
    ["localhost:80", { host: "localhost", port: 80 }],
    ["127.0.0.1", undefined],
    ["::1:80", undefined],
    ["127.0.0.1:70000", undefined],
  ])("%s", (text, bind) => expect(parseBind(text)).toEqual(bind));
});

test("metrics are counted, asked for at the scrape, and served beside health", async () => {
  const metrics = createMetrics();
  const count = metrics.counter("belfry_test_total", "Test.", ["kind"]);
  let value = 1;
  metrics.total("belfry_elsewhere_total", "Test.", ["event"], () => [{ labels: { event: "a" }, value }]);
  metrics.gauge("belfry_test_count", "Test.", ["pool"], () => [{ labels: { pool: "a" }, value }]);
  count(2, { kind: "x" });
  value = 7;
  let complaints: string[] = [];
  const server = await serveHealth({
    bind: { host: "127.0.0.1", port: 0 },
    metrics,
    live: () => [],
    ready: () => complaints,
  });
  const get = async (path: string) => {
    const response = await fetch(`http://${server.address}${path}`);
    return { code: response.status, body: await response.text() };
  };
  const scrape = await get("/metrics");
  expect(scrape.body).toContain('belfry_test_total{kind="x"} 2');
  expect(scrape.body).toContain('belfry_test_count{pool="a"} 7');
  expect(scrape.body).toContain("# TYPE belfry_elsewhere_total counter");
  expect(scrape.body).toContain('belfry_elsewhere_total{event="a"} 7');
  expect((await get("/metrics")).body).toContain('belfry_elsewhere_total{event="a"} 7');
  expect(await get("/readyz")).toEqual({ code: 200, body: "ok\n" });
  complaints = ["watch of virtualips is stale for 40 s"];
  expect(await get("/readyz")).toEqual({ code: 503, body: "watch of virtualips is stale for 40 s\n" });
  expect((await get("/livez")).code).toBe(200);
  expect((await get("/")).code).toBe(404);
  await server.close();
});

test("another Node is refused in one line that says what to do", () => {
  expect(refuseNodeVersion("v24.21.0")).toBeUndefined();
  expect(refuseNodeVersion("v26.1.0")).toBeUndefined();
  expect(refuseNodeVersion("v20.20.2")).toMatch(/^belfry needs Node 24 .* v20\.20\.2: run it through npm/);
});

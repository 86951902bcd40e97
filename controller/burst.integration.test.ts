/** Many at once: the order of what the controller writes. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { IPADDRESSPOOL, SERVICE } from "../src/api/resource.ts";
import { type Cluster, eventually, loadBalancer, pool, type RunningController, startCluster } from "./fixture.ts";

let cluster: Cluster;
let controller: RunningController;

beforeEach(async () => {
  cluster = await startCluster();
});
afterEach(() => cluster.close());

const COUNT = 200;

test("in a burst addresses go before reports: the last holder has its address while most conditions are unwritten", async () => {
  await cluster.speaker("n1");
  await cluster.create(IPADDRESSPOOL, pool("one", "198.51.100.0/24"));
  controller = await cluster.controller();
  await cluster.create(SERVICE, loadBalancer("first"));
  const hasAddress = (name: string) => (cluster.service(name)?.status?.loadBalancer?.ingress ?? []).length > 0;
  await eventually("the first has an address", () => hasAddress("first"));
  controller.forgetAudit();

  const names = Array.from({ length: COUNT }, (_, i) => `svc-${i}`);
  await Promise.all(names.map((name) => cluster.create(SERVICE, loadBalancer(name))));
  const isReport = (line: { verb: string; resource: string; subresource?: string | undefined }) =>
    line.resource === "virtualips" && line.subresource === "status";
  await eventually("all have their conditions", () => controller.audit().filter(isReport).length >= COUNT, 30_000);

  const lines = controller.audit();
  const lastCreated = lines.findLastIndex(({ verb, resource }) => verb === "create" && resource === "virtualips");
  expect(lines.slice(0, lastCreated).filter(isReport).length).toBeLessThan(COUNT / 2);
});

import { afterEach, expect, test } from "vitest";
import { GATEWAY, GATEWAYCLASS, IPADDRESSPOOL, L2ADVERTISEMENT, SERVICE, SERVICEROUTE } from "../src/api/resource.ts";
import { backend, type Cluster, eventually, gateway, gatewayClass, l2, pool, route, startCluster } from "./fixture.ts";

let cluster: Cluster;
afterEach(() => cluster.close());

test("a Gateway with a ServiceRoute gets an address, a forward and a status, and gives the address back", async () => {
  cluster = await startCluster();
  await cluster.speaker("n1");
  await cluster.create(IPADDRESSPOOL, pool("one", "192.0.2.192/28"));
  await cluster.create(L2ADVERTISEMENT, l2());
  await cluster.create(GATEWAYCLASS, gatewayClass());
  await cluster.create(SERVICE, backend("web"));
  await cluster.controller();
  await cluster.create(SERVICEROUTE, route("web", "web", "web") as never);
  await cluster.create(GATEWAY, gateway("web"));
  const address = await eventually("an address", () => cluster.gateway("web")?.status?.addresses?.[0]?.value);
  await eventually("programmed", () =>
    cluster.gateway("web")?.status?.conditions?.some(({ type, status }) => type === "Programmed" && status === "True"),
  );
  const [vip] = cluster.vips();
  expect(vip?.spec.address).toBe(address);
  expect(vip?.spec.forwards).toHaveLength(1);
  await cluster.remove(GATEWAY, "web", "default");
  await eventually("the VIP is gone", () => cluster.vips().length === 0);
});

/** The watch of Leases hangs, while every other request is served: what a leader makes of the silence. */
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, expect, test } from "vitest";
import { IPADDRESSPOOL, L2ADVERTISEMENT, SERVICE } from "../src/api/resource.ts";
import { LEASE_DURATION_SECONDS } from "../src/kube/lease.ts";
import { type Cluster, eventually, l2, loadBalancer, pool, type RunningController, startCluster } from "./fixture.ts";

let cluster: Cluster;
let controller: RunningController;

beforeEach(async () => {
  cluster = await startCluster();
  await cluster.create(L2ADVERTISEMENT, l2());
});
afterEach(() => cluster.close());

const watchOfLeases = () => cluster.api.faults.watches({ user: controller.user, resource: "leases" });
const writes = () =>
  controller.audit().filter(({ verb, resource }) => !["get", "list", "watch"].includes(verb) && resource !== "leases");
const programmed = (name: string) =>
  cluster
    .service(name)
    ?.status?.conditions?.some(({ type, status }) => type === "belfry.dev/Programmed" && status === "True") === true;

test("nobody is taken for dead while it lasts, nor right after; who dies later is", async () => {
  const speaker = await cluster.speaker("n1", { leaseSeconds: LEASE_DURATION_SECONDS });
  await cluster.create(IPADDRESSPOOL, pool("one", "192.0.2.0/28"));
  controller = await cluster.controller();
  await cluster.create(SERVICE, loadBalancer("a"));
  await eventually("a is programmed", () => programmed("a"));
  await sleep(500);
  controller.forgetAudit();

  const [watch] = watchOfLeases();
  watch?.freeze();
  await sleep(LEASE_DURATION_SECONDS * 1000 + 3_000);
  expect(writes()).toEqual([]);
  watch?.thaw();
  await sleep(1_000);
  expect(writes()).toEqual([]);

  speaker.stopRenewing();
  const announced = () => cluster.vips()[0]?.status?.conditions?.find(({ type }) => type === "Announced")?.status;
  await eventually("nobody announces a", () => announced() === "False", 25_000);
});

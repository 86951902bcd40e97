/** Random histories on the embedded API: invariants 1 to 3 hold at every write, and everybody is served in the end. */
import { setTimeout as sleep } from "node:timers/promises";
import fc from "fast-check";
import { expect, test } from "vitest";
import type { Gateway, Service } from "../src/api/foreign.ts";
import type { KubeObject } from "../src/api/meta.ts";
import {
  GATEWAY,
  GATEWAYCLASS,
  IPADDRESSPOOL,
  L2ADVERTISEMENT,
  type Resource,
  SERVICE,
  VIRTUALIP,
} from "../src/api/resource.ts";
import type { VirtualIP } from "../src/api/virtual-ip.ts";
import { collectionOf } from "../src/embedded/kind.ts";
import {
  type Cluster,
  eventually,
  gateway,
  gatewayClass,
  l2,
  loadBalancer,
  pool,
  type RunningController,
  startCluster,
} from "./fixture.ts";

const NAMES = ["a", "b", "c"] as const;
const FOREVER = { times: Number.POSITIVE_INFINITY };

type Command =
  | { readonly type: "create" | "delete" | "recreate"; readonly kind: "Service" | "Gateway"; readonly name: string }
  | { readonly type: "grow" | "shrink" | "replacePool" }
  | { readonly type: "restart" | "kill" | "cutWatches" | "shuffle" | "stale" }
  | { readonly type: "fault"; readonly code: 409 | 429 | 500; readonly times: number }
  | { readonly type: "unheard"; readonly times: number }
  | { readonly type: "wait"; readonly milliseconds: number };

const kind = fc.constantFrom("Service" as const, "Gateway" as const);
const name = fc.constantFrom(...NAMES);
const lag = fc.constantFrom(0, 50, 300);
const command: fc.Arbitrary<Command> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ type: fc.constant("create" as const), kind, name }) },
  {
    weight: 5,
    arbitrary: fc.record({
      type: fc.constantFrom("delete" as const, "recreate" as const, "recreate" as const),
      kind,
      name,
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ type: fc.constantFrom("grow" as const, "shrink" as const, "replacePool" as const) }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      type: fc.constantFrom(
        "restart" as const,
        "kill" as const,
        "cutWatches" as const,
        "shuffle" as const,
        "stale" as const,
      ),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      type: fc.constant("fault" as const),
      code: fc.constantFrom(409 as const, 429 as const, 500 as const),
      times: fc.integer({ min: 1, max: 4 }),
    }),
  },
  { weight: 3, arbitrary: fc.record({ type: fc.constant("unheard" as const), times: fc.integer({ min: 1, max: 3 }) }) },
  {
    weight: 3,
    arbitrary: fc.record({ type: fc.constant("wait" as const), milliseconds: fc.integer({ min: 1, max: 200 }) }),
  },
);

test("no address has two holders, none moves without its holder's act, and everybody is served in the end", async () => {
  await fc.assert(
    fc.asyncProperty(lag, fc.array(command, { minLength: 8, maxLength: 24 }), async (lagMilliseconds, commands) => {
      const run = await start(lagMilliseconds);
      try {
        for (const each of commands) await run.carryOut(each);
        await run.heal();
        expect(run.violations).toEqual([]);
      } finally {
        await run.cluster.close();
      }
    }),
    { numRuns: Number(process.env["BELFRY_RUNS"] ?? 15), endOnFailure: true },
  );
}, 240_000);

async function start(lagMilliseconds: number) {
  const cluster = await startCluster();
  const violations = watchInvariants(cluster);
  await cluster.speaker("n1");
  await cluster.create(L2ADVERTISEMENT, l2());
  await cluster.create(GATEWAYCLASS, gatewayClass());
  await cluster.create(IPADDRESSPOOL, pool("one", "192.0.2.32-192.0.2.41"));
  let leader: RunningController = await cluster.controller();
  // On a Lease of its own, so that both believe to lead; it hears of everything later than the other.
  const { faults } = cluster.api;
  const lagging = { user: "rival", verb: "watch" } as const;
  faults.inject(lagging, { type: "delay", milliseconds: lagMilliseconds }, FOREVER);
  const rival = await cluster.controller({ identity: "rival", leaseName: "rival" });
  await eventually("both work", () =>
    [leader, rival].every(({ loop }) => loop?.settling.type === "settled" && loop.idle),
  );

  async function carryOut(command: Command): Promise<void> {
    switch (command.type) {
      case "create":
        await cluster.client.create<KubeObject>(resourceOf(command.kind), holder(command.kind, command.name));
        return;
      case "delete":
      case "recreate":
        await cluster.client.delete(resourceOf(command.kind), { namespace: "default", name: command.name });
        if (command.type === "recreate") await carryOut({ ...command, type: "create" });
        return;
      case "grow":
        await setPool(cluster, "192.0.2.32-192.0.2.47");
        return;
      case "shrink":
        await setPool(cluster, "192.0.2.32-192.0.2.35");
        return;
      case "replacePool":
        await cluster.client.delete(IPADDRESSPOOL, { name: "one" });
        await cluster.create(IPADDRESSPOOL, pool("one", "192.0.2.36-192.0.2.47"));
        return;
      case "restart":
        await leader.stop();
        leader = await cluster.controller({ leaseName: "one" });
        return;
      case "kill":
        leader.kill();
        leader = await cluster.controller({ leaseName: `after-${Date.now()}` });
        return;
      case "cutWatches":
        for (const watch of faults.watches()) watch.reset();
        return;
      case "shuffle":
        faults.inject({ verb: "list" }, { type: "shuffle" }, FOREVER);
        return;
      case "stale":
        faults.inject(
          { verb: "list", resource: "virtualips" },
          { type: "stale", snapshot: cluster.api.snapshot() },
          { skip: 1 },
        );
        return;
      case "fault":
        for (const { user } of [leader, rival]) {
          faults.inject(
            { user, verb: ["create", "patch", "delete"] },
            { type: "status", code: command.code, retryAfterSeconds: 1 },
            { times: command.times },
          );
        }
        return;
      case "unheard":
        faults.inject(
          { user: leader.user, verb: ["create", "patch", "delete"] },
          { type: "drop", when: "after" },
          { times: command.times },
        );
        return;
      case "wait":
        await sleep(command.milliseconds);
    }
  }

  /** Faults end, room is made, and everybody must have exactly one address, shown and programmed. */
  async function heal(): Promise<void> {
    cluster.api.faults.clear();
    rival.kill();
    leader.kill();
    await setPool(cluster, "192.0.2.32-192.0.2.63");
    cluster.api.faults.clear();
    leader = await cluster.controller({ leaseName: "last" });
    const wrong = () => {
      const holders = holdersOf(cluster);
      const vips = cluster.vips();
      return [
        ...holders.filter(({ shown, key, uid }) => {
          const own = vips.filter(({ spec }) => keyOf(spec.holders[0]) === key && spec.holders[0]?.uid === uid);
          return shown.length !== 1 || own.length !== 1 || own[0]?.spec.address !== shown[0];
        }),
        ...vips.filter(({ spec }) => !holders.some(({ key }) => key === keyOf(spec.holders[0]))),
      ];
    };
    await eventually("everybody is served, and no VIP is left over", () => wrong().length === 0, 20_000).catch(
      (error) => {
        throw new Error(`${error.message}: ${JSON.stringify(wrong(), null, 1)}`);
      },
    );
  }

  return { cluster, violations, carryOut, heal };
}

const resourceOf = (kind: "Service" | "Gateway"): Resource => (kind === "Service" ? SERVICE : GATEWAY);

const holder = (kind: "Service" | "Gateway", name: string): KubeObject =>
  kind === "Service"
    ? { apiVersion: "v1", kind, ...loadBalancer(name) }
    : { apiVersion: "gateway.networking.k8s.io/v1", kind, ...gateway(name) };

const setPool = (cluster: Cluster, range: string) =>
  cluster.client.mergePatch(IPADDRESSPOOL, { name: "one" }, { spec: { addresses: [range] } });

const keyOf = (each: { kind: string; namespace: string; name: string } | undefined): string =>
  each === undefined ? "" : `${each.kind}/${each.namespace}/${each.name}`;

function holdersOf(cluster: Cluster) {
  const list = <T extends KubeObject>(resource: Resource) =>
    cluster.api.store.list(collectionOf(resource)).map(({ object }) => object as T);
  return [
    ...list<Service>(SERVICE).map((service) => ({
      kind: "Service",
      object: service,
      shown: shownBy("Service", service),
    })),
    ...list<Gateway>(GATEWAY).map((each) => ({ kind: "Gateway", object: each, shown: shownBy("Gateway", each) })),
  ]
    .filter(({ kind, object }) => kind === "Gateway" || (object as Service).spec.type === "LoadBalancer")
    .map(({ kind, object, shown }) => ({
      key: `${kind}/default/${object.metadata.name}`,
      uid: object.metadata.uid,
      shown,
    }));
}

function shownBy(kind: string, object: KubeObject): string[] {
  return kind === "Service"
    ? ((object as Service).status?.loadBalancer?.ingress ?? []).flatMap(({ ip }) => ip ?? [])
    : ((object as Gateway).status?.addresses ?? []).map(({ value }) => value);
}

/** Looks at each write as it happens. */
function watchInvariants(cluster: Cluster): string[] {
  const violations: string[] = [];
  const { store } = cluster.api;
  const vipAt = (address: string) => store.get(collectionOf(VIRTUALIP), address)?.object as VirtualIP | undefined;
  store.subscribe(collectionOf(VIRTUALIP), ({ type, entry, previous }) => {
    const [vip, before] = [entry.object as VirtualIP, previous?.object as VirtualIP | undefined];
    if (type !== "MODIFIED" || before === undefined) return;
    if (
      vip.spec.address !== before.spec.address ||
      vip.spec.holders.map(keyOf).join() !== before.spec.holders.map(keyOf).join()
    ) {
      violations.push(`VirtualIP ${vip.metadata.name} changed its holder`);
    }
  });
  const holderOf = ({ spec }: VirtualIP) => {
    const [holder] = spec.holders;
    if (holder === undefined) return undefined;
    const object = store.get(collectionOf(resourceOf(holder.kind)), `${holder.namespace}/${holder.name}`)?.object;
    return object?.metadata.uid === holder.uid ? object : undefined;
  };
  store.subscribe(collectionOf(VIRTUALIP), ({ entry, previous }) => {
    const [vip, before] = [entry.object as VirtualIP, previous?.object as VirtualIP | undefined];
    if (vip.metadata.deletionTimestamp === undefined || before?.metadata.deletionTimestamp !== undefined) return;
    const holder = holderOf(vip);
    if (holder !== undefined && shownBy(vip.spec.holders[0]?.kind ?? "", holder).includes(vip.spec.address)) {
      violations.push(`VirtualIP ${vip.metadata.name} is deleted, and its holder is there and shows it`);
    }
  });
  for (const kind of ["Service", "Gateway"] as const) {
    store.subscribe(collectionOf(resourceOf(kind)), ({ type, entry, previous }) => {
      if (type !== "MODIFIED") return;
      const self = `${kind}/default/${entry.object.metadata.name}`;
      const [shown, before] = [
        shownBy(kind, entry.object),
        previous === undefined ? [] : shownBy(kind, previous.object),
      ];
      for (const address of shown.filter((each) => !before.includes(each))) {
        const vip = vipAt(address);
        if (keyOf(vip?.spec.holders[0]) !== self) violations.push(`${self} shows ${address}, which it does not hold`);
      }
      for (const address of before.filter((each) => !shown.includes(each))) {
        const vip = vipAt(address);
        const holds = vip !== undefined && vip.spec.holders[0]?.uid === entry.object.metadata.uid;
        if (holds && vip.metadata.deletionTimestamp === undefined)
          violations.push(`${self} lost ${address}, which it holds`);
      }
    });
  }
  return violations;
}

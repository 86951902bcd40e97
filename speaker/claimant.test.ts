import { describe, expect, test } from "vitest";
import type { L2AdvertisementSpec } from "../src/api/l2-advertisement.ts";
import type { VirtualIP } from "../src/api/virtual-ip.ts";
import { silentLog } from "../src/core/log.ts";
import type { Answer, ApiClient, ApiFailure } from "../src/kube/port.ts";
import type { NodeView } from "../src/plan/elect.ts";
import { hashText } from "../src/plan/hash.ts";
import { projectVip } from "./cache.ts";
import { Claimant } from "./claimant.ts";
import { type Vip, VipTable } from "./vip.ts";

const failure = (status: number): ApiFailure => ({
  status,
  reason: status === 409 ? "Conflict" : "NoAnswer",
  message: "",
});

/** The API server's side of one VIP: it arbitrates by resourceVersion. */
class Store {
  object: VirtualIP;
  readonly writes: object[] = [];
  /** Writes that were sent, whatever became of them. */
  asked = 0;
  /** Answers that replace the next ones; `lost` carries the write out and gives no answer. */
  faults: ("lost" | "down")[] = [];

  constructor(object: VirtualIP) {
    this.object = object;
  }

  write(owner: object): void {
    const version = `${Number(this.object.metadata.resourceVersion) + 1}`;
    const status = { ...this.object.status, owner: { ...this.object.status?.owner, ...owner } };
    this.object = {
      ...this.object,
      metadata: { ...this.object.metadata, resourceVersion: version },
      status: status as NonNullable<VirtualIP["status"]>,
    };
  }

  client(): ApiClient {
    const answer = <T>(object: unknown): Answer<T> => ({ ok: true, object: object as T });
    const calls = {
      get: async () => {
        const fault = this.faults.shift();
        return fault === undefined ? answer(this.object) : { ok: false, failure: failure(0) };
      },
      mergePatch: async (_: unknown, __: unknown, patch: unknown) => {
        const { metadata, status } = patch as { metadata: { resourceVersion: string }; status: { owner: object } };
        this.asked++;
        const fault = this.faults.shift();
        if (fault === "down") return { ok: false, failure: failure(0) };
        if (metadata.resourceVersion !== this.object.metadata.resourceVersion)
          return { ok: false, failure: failure(409) };
        this.writes.push(status.owner);
        this.write(status.owner);
        return fault === "lost" ? { ok: false, failure: failure(0) } : answer(this.object);
      },
    };
    return calls as unknown as ApiClient;
  }
}

const view = (name: string, more: Partial<NodeView> = {}): NodeView => ({
  name,
  labels: {},
  live: true,
  excluded: false,
  dataPathReady: true,
  links: [{ name: "eth0", mac: "02:00:00:00:00:0a", up: true, subnets: ["192.0.2.11/24"], defaultGateways: [] }],
  ...more,
});

function claiming(owner?: { node: string; term: number; generation: number }) {
  const store = new Store({
    metadata: { name: "192.0.2.5", uid: "u1", resourceVersion: "10", generation: 1 },
    spec: { address: "192.0.2.5", scope: "External", advertisements: { l2: ["lan"] }, forwards: [] },
    ...(owner === undefined ? {} : { status: { owner } }),
  } as unknown as VirtualIP);
  const vips = new VipTable();
  const vip = vips.add(projectVip(store.object));
  vip.programmed = 1;
  const nodes = new Map([["a", view("a")]]);
  const sent: string[] = [];
  const world = { sure: true, doubted: false, advertised: true };
  const claimant: Claimant = new Claimant({
    me: "a",
    // Reads go to the reader: a renewal that waits for them must not wait for this client's patience.
    client: { ...store.client(), get: () => new Promise<never>(() => {}) },
    reader: store.client(),
    wire: {
      send: (message) =>
        sent.push(
          message.type === "announce"
            ? `announce ${message.announcement.interfaces.join("+")} at ${message.announcement.term}`
            : message.type,
        ),
      onMessage() {},
    },
    log: silentLog,
    vips,
    nodes,
    advertisement: () => (world.advertised ? ({ refreshIntervalSeconds: 60 } as L2AdvertisementSpec) : undefined),
    homes: () => undefined,
    sure: () => world.sure,
    doubted: () => world.doubted,
    gone: (it) => {
      it.retiring = { next: undefined };
      void claimant.withdraw(it);
    },
    read: (it, object) => {
      vips.replace(it, object);
      claimant.mark(it);
    },
    changed() {},
    wallClock: () => "2026-01-01T00:00:00Z",
    pause: async () => {},
  });
  claimant.open();
  const settle = async (it: Vip = vip) => {
    claimant.mark(it);
    for (let i = 0; i < 20; i++) await new Promise((resolve) => setImmediate(resolve));
  };
  return { store, vips, vip, nodes, sent, world, claimant, settle };
}

/** A node that comes after `a` in the rendezvous for the VIP. */
const LATER =
  ["b", "c", "d", "e", "f"].find((name) => hashText(`${name}|192.0.2.5`) < hashText("a|192.0.2.5")) ?? "none";

describe("taking over", () => {
  test("the record first, then the announcement: one write, at the next term", async () => {
    const { store, sent, settle } = claiming();
    await settle();
    expect(store.writes).toEqual([
      { node: "a", interface: "eth0", since: "2026-01-01T00:00:00Z", term: 1, generation: 1 },
    ]);
    expect(sent).toEqual(["announce eth0 at 1"]);
    await settle();
    expect(store.writes).toHaveLength(1);
    expect(sent).toHaveLength(1);
  });

  test("someone was first: 409, read, follow; no frame was sent", async () => {
    const { store, vip, nodes, sent, settle } = claiming({ node: "dead", term: 4, generation: 1 });
    // Both live; by rendezvous hash this node would be the one.
    nodes.set(LATER, view(LATER));
    store.write({ node: LATER, term: 5 });
    await settle();
    expect(store.writes).toEqual([]);
    expect(sent).toEqual([]);
    expect(vip.object.owner).toMatchObject({ node: LATER, term: 5 });
  });

  test("409 because something else changed: offered again from the new version, once", async () => {
    const { store, sent, settle } = claiming({ node: "dead", term: 4, generation: 1 });
    store.write({});
    await settle();
    expect(store.writes).toMatchObject([{ node: "a", term: 5 }]);
    expect(sent).toEqual(["announce eth0 at 5"]);
  });

  test("the answer is lost though it was carried out: the record is read, not written twice", async () => {
    const { store, sent, settle } = claiming();
    store.faults = ["lost", "down", "down"];
    await settle();
    expect(store.writes).toHaveLength(1);
    expect(sent).toEqual(["announce eth0 at 1"]);
  });

  test("decided again and again while the offer is under way, it is offered once", async () => {
    const { store, vip, claimant, settle } = claiming();
    for (let i = 0; i < 3; i++) {
      claimant.mark(vip);
      claimant.settle();
    }
    expect(store.asked).toBe(1);
    await settle();
    expect(store.asked).toBe(1);
  });

  test("not while frozen, and not while the store is doubted", async () => {
    const frozen = claiming({ node: "dead", term: 4, generation: 1 });
    frozen.world.sure = false;
    await frozen.settle();
    expect([frozen.store.writes, frozen.sent]).toEqual([[], []]);
    const doubting = claiming({ node: "a", term: 4, generation: 1 });
    doubting.world.doubted = true;
    await doubting.settle();
    expect(doubting.sent).toEqual([]);
    doubting.world.doubted = false;
    await doubting.settle();
    expect(doubting.sent).toEqual(["announce eth0 at 4"]);
  });
});

describe("holding on and letting go", () => {
  test("each programmed generation is written once, and no frame is sent for it", async () => {
    const { store, vip, vips, sent, settle } = claiming({ node: "a", term: 2, generation: 1 });
    await settle();
    expect(store.writes).toEqual([]);
    store.object = { ...store.object, metadata: { ...store.object.metadata, generation: 2, resourceVersion: "20" } };
    vips.replace(vip, projectVip(store.object));
    await settle();
    expect(store.writes).toEqual([]);
    vip.programmed = 2;
    await settle();
    expect(store.writes).toEqual([{ generation: 2 }]);
    expect(sent).toEqual(["announce eth0 at 2"]);
  });

  test("the record names another: withdrawn; it names this node again at a higher term: announced anew", async () => {
    const { store, vip, vips, nodes, sent, settle } = claiming({ node: "a", term: 2, generation: 1 });
    nodes.set("b", view("b"));
    await settle();
    store.write({ node: "b", term: 3 });
    vips.replace(vip, projectVip(store.object));
    await settle();
    store.write({ node: "a", term: 4 });
    vips.replace(vip, projectVip(store.object));
    await settle();
    expect(sent).toEqual(["announce eth0 at 2", "withdraw", "announce eth0 at 4"]);
  });

  test("an advertisement that is gone, a link that fails, a label: silent, without a write", async () => {
    const { store, nodes, world, sent, settle } = claiming({ node: "a", term: 2, generation: 1 });
    await settle();
    world.advertised = false;
    await settle();
    world.advertised = true;
    await settle();
    nodes.set("a", view("a", { links: [] }));
    await settle();
    nodes.set("a", view("a", { excluded: true }));
    await settle();
    expect(sent).toEqual(["announce eth0 at 2", "withdraw", "announce eth0 at 2", "withdraw"]);
    expect(store.writes).toEqual([]);
  });

  test("withdraw resolves only after the wire's last frame, and at once where nothing was announced", async () => {
    const { vip, claimant, settle } = claiming({ node: "a", term: 2, generation: 1 });
    await settle();
    let done = false;
    const gone = claimant.withdraw(vip).then(() => {
      done = true;
    });
    await new Promise((resolve) => setImmediate(resolve));
    expect(done).toBe(false);
    claimant.withdrawn("192.0.2.5");
    await gone;
    await claimant.withdraw(vip);
  });

  test("a consistent read that does not have the VIP any more, or has another one under its name, ends it", async () => {
    const { store, vip, claimant, sent, settle } = claiming({ node: "a", term: 2, generation: 1 });
    await settle();
    store.object = { ...store.object, metadata: { ...store.object.metadata, uid: "u2" } };
    expect(await claimant.confirm(vip)).toBe(true);
    expect(sent).toEqual(["announce eth0 at 2", "withdraw"]);
    expect(vip.retiring).toBeDefined();
  });
});

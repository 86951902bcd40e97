import { describe, expect, test, vi } from "vitest";
import { toHex } from "../core/bytes.ts";
import { instant } from "../core/instant.ts";
import type { Address } from "../net/address.ts";
import { decodeMessage, decodeMessages, MessageWriter } from "../netlink/message.ts";
import { beginBatch, NFNL_SUBSYS_NFTABLES } from "../netlink/nfnetlink.ts";
import {
  type Chain,
  decodeTold,
  type Element,
  forEachElement,
  NFT_MSG,
  type NftSet,
  putChain,
  putElements,
  putRule,
  putSet,
  putTable,
  type Rule,
  tableOf,
} from "../netlink/nftables.ts";
import type { Endpoint, NodeSurroundings, VipPlan } from "../plan/vip-plan.ts";
import { TABLE } from "./ruleset.ts";
import { DataPlane, type DataPlaneOptions, type NetfilterPort } from "./session.ts";

/** A kernel that holds tables and elements, applies a batch whole or not at all, and owns tables by port id. */
class FakeKernel {
  table: { flags: number; owner: number; sets: NftSet[]; chains: Chain[]; rules: Rule[] } | undefined;
  elements = new Map<string, Map<string, Element>>();
  /** Batches that were applied, and the elements that each changed. */
  transactions: number[] = [];
  ownership = true;
  conntrackDumps = 0;
  /** What was dumped: kinds of messages, with the set where it was elements. */
  dumps: string[] = [];
  /** Kernels before NFTA_SET_COUNT tell no counts. */
  tellsCounts = true;
  #nextPort = 1;

  open(): NetfilterPort & { close(): void } {
    const portId = this.#nextPort++;
    return {
      portId,
      exchange: async (bytes, done) => {
        const replies: Uint8Array[] = [];
        for (const reply of this.#answer(bytes, portId)) {
          replies.push(reply);
          if (done(reply)) break;
        }
        return replies;
      },
      close: () => {
        if (this.table?.owner === portId) this.table.owner = 0;
      },
    };
  }

  #answer(bytes: Uint8Array, port: number): Uint8Array[] {
    const [first] = decodeMessages(bytes);
    if (first === undefined) throw new Error("no message");
    if (first.type === 0x10) return this.#batch(bytes, port);
    if (first.type >> 8 === 1) this.conntrackDumps++;
    if ((first.type & 0xff) === NFT_MSG.getSetElem && (first.flags & 0x300) === 0) return this.#query(bytes);
    this.dumps.push(`${first.type & 0xff} ${(first.type & 0xff) === NFT_MSG.getSetElem ? setOf(bytes) : ""}`.trim());
    const needsTable = [NFT_MSG.getSet, NFT_MSG.getSetElem, NFT_MSG.getRule].some((it) => it === (first.type & 0xff));
    if (first.type >> 8 === NFNL_SUBSYS_NFTABLES && needsTable && this.table === undefined) {
      return [error(first.sequence, 2)];
    }
    return [...this.#dump(first.type, bytes), message(3, first.sequence, new Uint8Array(4))];
  }

  #dump(type: number, bytes: Uint8Array): Uint8Array[] {
    const { table } = this;
    if (table === undefined || type >> 8 !== NFNL_SUBSYS_NFTABLES) return [];
    return written((batch) => {
      const kind = type & 0xff;
      if (kind === NFT_MSG.getTable) {
        putTable(batch, { name: TABLE, flags: table.flags });
        if (table.owner !== 0) {
          // NFTA_TABLE_OWNER in a second message of the same table, as the fake's shorthand
          const at = batch.begin(NFNL_SUBSYS_NFTABLES, NFT_MSG.newTable, 0, 1);
          batch.writer.text(1, TABLE);
          batch.writer.be32(2, table.flags);
          batch.writer.be32(7, table.owner);
          batch.writer.endMessage(at);
        }
      }
      if (kind === NFT_MSG.getSet) for (const [i, set] of table.sets.entries()) putSet(batch, TABLE, set, i);
      if (kind === NFT_MSG.getChain) for (const chain of table.chains) putChain(batch, TABLE, chain);
      if (kind === NFT_MSG.getRule) for (const rule of table.rules) putRule(batch, TABLE, rule);
      if (kind === NFT_MSG.getSetElem) putElements(batch, "add", TABLE, setOf(bytes), this.#set(setOf(bytes)).values());
    })
      .slice(kindHasOwner(type) && table.owner !== 0 ? 1 : 0)
      .map((told, i) =>
        (type & 0xff) === NFT_MSG.getSet && this.tellsCounts
          ? withCount(told, this.#set(table.sets[i]?.name ?? "").size)
          : told,
      );
  }

  /** One message for each element that is asked for. */
  #query(bytes: Uint8Array): Uint8Array[] {
    return split(bytes).flatMap((one) => {
      const sequence = decodeMessage(one)?.sequence ?? 0;
      const found: Element[] = [];
      forEachElement(asTold(one), (element) => {
        const held = this.#set(setOf(one)).get(identityOf(element));
        if (held !== undefined) found.push(held);
      });
      if (found.length === 0) return [error(sequence, 2)];
      return written((batch) => putElements(batch, "add", TABLE, setOf(one), found)).map((reply) => {
        new DataView(reply.buffer).setUint32(8, sequence, true);
        return reply;
      });
    });
  }

  #set(name: string): Map<string, Element> {
    const known = this.elements.get(name) ?? new Map<string, Element>();
    this.elements.set(name, known);
    return known;
  }

  #batch(bytes: Uint8Array, port: number): Uint8Array[] {
    const before = structuredClone({ table: this.table, elements: this.elements });
    const replies: Uint8Array[] = [];
    let [refused, changed, last, made] = [false, 0, 0, false];
    for (const one of split(bytes).slice(1, -1)) {
      const { type, sequence } = decodeMessage(one) ?? { type: 0, sequence: 0 };
      last = sequence;
      if ((type & 0xff) !== NFT_MSG.newSetElem && (type & 0xff) !== NFT_MSG.delSetElem) made = true;
      const errno = this.#apply(type & 0xff, one, port, (count) => (changed += count));
      if (errno !== 0) {
        refused = true;
        replies.push(error(sequence, errno));
      }
    }
    if (refused) Object.assign(this, before);
    // A batch that changes nothing is no transaction: nobody is told of it.
    else if (made || changed > 0) this.transactions.push(changed);
    return [
      ...replies,
      ...(replies.length > 0 && decodeMessage(replies.at(-1) as Uint8Array)?.sequence === last ? [] : [error(last, 0)]),
    ];
  }

  #apply(kind: number, one: Uint8Array, port: number, changed: (count: number) => void): number {
    if (tableOf(one) !== TABLE) {
      // The probe's scratch table: able to do all, and the last message must fail.
      if (kind === NFT_MSG.newTable) return tableOf(one)?.endsWith("owned") && !this.ownership ? 95 : 0;
      return kind === NFT_MSG.delTable ? 2 : 0;
    }
    if (this.table !== undefined && this.table.owner !== 0 && this.table.owner !== port) return 1;
    const told = decodeTold(one);
    if (kind === NFT_MSG.delTable) {
      this.table = undefined;
      this.elements = new Map();
    } else if (told?.type === "table") {
      this.table ??= { flags: told.table.flags, owner: 0, sets: [], chains: [], rules: [] };
      if ((told.table.flags & 2) !== 0) this.table.owner = port;
    } else if (told?.type === "set") this.table?.sets.push(told.set);
    else if (told?.type === "chain") this.table?.chains.push(told.chain);
    else if (told?.type === "rule") this.table?.rules.push(told.rule);
    else return this.#change(kind, one, changed);
    return 0;
  }

  #change(kind: number, one: Uint8Array, changed: (count: number) => void): number {
    const set = this.#set(setOf(one));
    let errno = 0;
    forEachElement(one, (element) => {
      const key = identityOf(element);
      const data = JSON.stringify(element.data);
      if (kind !== NFT_MSG.delSetElem && JSON.stringify(set.get(key)?.data) === data && set.has(key)) return;
      changed(1);
      if (kind === NFT_MSG.delSetElem) errno ||= set.delete(key) ? 0 : 2;
      else if (set.has(key)) errno ||= 17;
      else set.set(key, structuredClone(element));
    });
    return errno;
  }
}

const identityOf = (element: Element): string =>
  `${toHex(element.key)}${element.keyEnd && toHex(element.keyEnd)}${element.intervalEnd}`;

/** A request for elements in the form of the answer, which is the same but for its type. */
function asTold(one: Uint8Array): Uint8Array {
  const told = one.slice();
  told[4] = NFT_MSG.newSetElem;
  return told;
}

/** The message with NFTA_SET_COUNT behind its other attributes. */
function withCount(told: Uint8Array, count: number): Uint8Array {
  const bytes = new Uint8Array(told.length + 8);
  bytes.set(told);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, bytes.length, true);
  view.setUint16(told.length, 8, true);
  view.setUint16(told.length + 2, 20, true);
  view.setUint32(told.length + 4, count, false);
  return bytes;
}

const kindHasOwner = (type: number): boolean => (type & 0xff) === NFT_MSG.getTable;

function written(put: (batch: ReturnType<typeof beginBatch>) => void): Uint8Array[] {
  const writer = new MessageWriter();
  put(beginBatch(writer, NFNL_SUBSYS_NFTABLES, 1));
  return split(writer.bytes().slice()).slice(1);
}

function split(bytes: Uint8Array): Uint8Array[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const messages: Uint8Array[] = [];
  for (let at = 0; at < bytes.length; at += (view.getUint32(at, true) + 3) & ~3) {
    messages.push(bytes.slice(at, at + view.getUint32(at, true)));
  }
  return messages;
}

/** NFTA_SET_ELEM_LIST_SET: the second attribute, after the table's. */
function setOf(one: Uint8Array): string {
  const view = new DataView(one.buffer, one.byteOffset, one.byteLength);
  const at = 20 + ((view.getUint16(20, true) + 3) & ~3);
  return new TextDecoder().decode(one.subarray(at + 4, at + view.getUint16(at, true) - 1));
}

function message(type: number, sequence: number, payload: Uint8Array, flags = 0): Uint8Array {
  const bytes = new Uint8Array(16 + payload.length);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, bytes.length, true);
  view.setUint16(4, type, true);
  view.setUint16(6, flags, true);
  view.setUint32(8, sequence, true);
  bytes.set(payload, 16);
  return bytes;
}

function error(sequence: number, errno: number): Uint8Array {
  const payload = new Uint8Array(20);
  new DataView(payload.buffer).setInt32(0, -errno, true);
  return message(2, sequence, payload, 0x100);
}

const around: NodeSurroundings = { ownPods: [], clusterPods: [], nodeAddresses: ["192.0.2.11" as Address] };
const at = (last: number, local = false): Endpoint => ({ address: `198.18.1.${last}` as Address, port: 80, local });
const vip = (last: number, ...buckets: Endpoint[]): VipPlan => ({
  address: `203.0.113.${last}` as Address,
  scope: "External",
  frontends: [{ protocol: "TCP", port: 80, sourceRanges: [], action: { type: "balance", affinity: "None", buckets } }],
});
const map = (...plans: VipPlan[]) => new Map(plans.map((plan) => [plan.address, plan]));

async function open(kernel: FakeKernel, options: Partial<DataPlaneOptions> = {}) {
  const netlink = kernel.open();
  const told: { onChange?: (message: Uint8Array) => void } = {};
  const repairs: unknown[] = [];
  const plane = new DataPlane({
    netlink,
    clock: { now: () => instant(0) },
    pause: async () => undefined,
    ...options,
    watch: (onChange) => {
      told.onChange = onChange;
      return { close: () => undefined };
    },
    onRepair: (repaired) => repairs.push(repaired),
  });
  return { plane, netlink, told, repairs, started: await plane.start() };
}

const keys = (kernel: FakeKernel, set: string): string[] =>
  [...(kernel.elements.get(set)?.values() ?? [])].map((element) => toHex(element.key)).sort();

describe("the data plane on a kernel", () => {
  test("the first start makes the table in two transactions: the claim and everything else", async () => {
    const kernel = new FakeKernel();
    const { plane, started } = await open(kernel);
    expect(started).toEqual({ ok: true, mode: "owned" });
    expect(await plane.adopt(map(vip(1, at(2))), around)).toMatchObject({ rebuilt: expect.any(String), added: 7 });
    expect(kernel.transactions).toHaveLength(2);
    expect(keys(kernel, "vip4")).toEqual(["cb007101"]);
  });

  test("a restart with nothing changed claims and writes nothing else", async () => {
    const kernel = new FakeKernel();
    const first = await open(kernel);
    await first.plane.adopt(map(vip(1, at(2)), vip(2, at(3, true))), around);
    first.netlink.close();
    kernel.transactions = [];
    const { plane } = await open(kernel);
    expect(await plane.adopt(map(vip(1, at(2)), vip(2, at(3, true))), around)).toMatchObject({ added: 0, deleted: 0 });
    expect(kernel.transactions).toEqual([0]);
  });

  describe("a large map", () => {
    const plans = map(...Array.from({ length: 60 }, (_, i) => vip(i, ...Array.from({ length: 16 }, () => at(2)))));
    const small = map(vip(250, at(2)));
    const restarted = async (change: (held: Map<string, Element>) => void, tellsCounts = true) => {
      const kernel = new FakeKernel();
      const first = await open(kernel);
      await first.plane.adopt(plans, around);
      first.netlink.close();
      const held = kernel.elements.get("endpoint4") ?? new Map();
      const before = structuredClone(held);
      change(held);
      Object.assign(kernel, { transactions: [], dumps: [], tellsCounts });
      const { plane } = await open(kernel, { largeMap: 500 });
      const adopted = await plane.adopt(plans, around);
      expect(new Map([...(kernel.elements.get("endpoint4") ?? [])].sort())).toEqual(new Map([...before].sort()));
      return { kernel, adopted, readWhole: kernel.dumps.includes(`${NFT_MSG.getSetElem} endpoint4`) };
    };
    const nth = (held: Map<string, Element>, n: number): string => [...held.keys()][n] ?? "";
    const other: Element = { key: new Uint8Array(16).fill(9), data: new Uint8Array(8) };

    test("that is as it was left is neither read nor written", async () => {
      const { kernel, adopted, readWhole } = await restarted(() => {});
      expect(adopted).toMatchObject({ added: 0, deleted: 0 });
      expect([readWhole, kernel.transactions]).toEqual([false, [0]]);
    });

    test("gets what it lacks, and other data is replaced, without being read; nothing else of it is touched", async () => {
      const { kernel, adopted, readWhole } = await restarted((held) => {
        for (const n of [3, 500, 959]) held.set(nth(held, n), { ...other, key: held.get(nth(held, n))?.key as never });
        held.delete(nth(held, 800));
      });
      expect(adopted).toMatchObject({ added: 4, deleted: 3 });
      expect([readWhole, kernel.transactions]).toEqual([false, [0, 7]]);
    });

    test("is read where it holds more than is wanted, and the rest goes", async () => {
      const { adopted, readWhole } = await restarted((held) => held.set(`${"09".repeat(16)}undefinedundefined`, other));
      expect([readWhole, adopted]).toMatchObject([true, { added: 0, deleted: 1 }]);
    });

    test("is read on a kernel that does not tell how much a set holds", async () => {
      const { adopted, readWhole } = await restarted((held) => held.delete(nth(held, 5)), false);
      expect([readWhole, adopted]).toMatchObject([true, { added: 1, deleted: 0 }]);
    });

    test("shrinks to what is wanted now", async () => {
      const kernel = new FakeKernel();
      const first = await open(kernel);
      await first.plane.adopt(plans, around);
      first.netlink.close();
      const { plane } = await open(kernel, { largeMap: 500 });
      await plane.adopt(small, around);
      expect(keys(kernel, "endpoint4")).toHaveLength(1);
    });
  });

  test("while one owns the table another's start is a Fault, and nothing of it changes", async () => {
    const kernel = new FakeKernel();
    const { plane } = await open(kernel);
    await plane.adopt(map(vip(1, at(2))), around);
    const second = await open(kernel);
    expect(second.started).toMatchObject({ ok: false, fault: { message: expect.stringContaining("another speaker") } });
    expect(kernel.transactions).toHaveLength(2);
  });

  test("several VIPs changed at once are one transaction; the same again is none", async () => {
    const kernel = new FakeKernel();
    const { plane } = await open(kernel);
    await plane.adopt(map(vip(1, at(2))), around);
    kernel.transactions = [];
    const changes = new Map([...map(vip(1, at(3)), vip(2, at(2)), vip(3, at(4)))]);
    await plane.apply(changes);
    expect(await plane.apply(changes)).toMatchObject({ added: 0, deleted: 0 });
    expect(kernel.transactions).toHaveLength(1);
    await plane.apply(new Map([...changes.keys()].map((address) => [address, undefined])));
    for (const set of ["vip4", "frontend4", "endpoint4"]) expect(keys(kernel, set)).toEqual([]);
    expect(plane.size).toBe(0);
  });

  test("VIPs that share a local endpoint share its element, until the last of them leaves it", async () => {
    const kernel = new FakeKernel();
    const { plane } = await open(kernel);
    await plane.adopt(map(vip(1, at(9, true))), around);
    const element = ["c6120109c6120109"];
    await plane.apply(map(vip(2, at(9, true)), vip(3, at(9, true))));
    await plane.apply(
      new Map([
        ["203.0.113.1" as Address, undefined],
        ["203.0.113.2" as Address, vip(2, at(9, false))],
      ]),
    );
    expect(keys(kernel, "local4")).toEqual(element);
    await plane.apply(new Map([["203.0.113.3" as Address, undefined]]));
    expect(keys(kernel, "local4")).toEqual([]);
  });

  test("a VIP that the kernel refuses is named; the others and its own last state are held", async () => {
    const kernel = new FakeKernel();
    const { plane } = await open(kernel);
    await plane.adopt(map(vip(1, at(2))), around);
    const twice = { ...vip(1, at(3)), frontends: [...vip(1, at(3)).frontends, ...vip(1, at(4)).frontends] };
    const applied = await plane.apply(map(twice, vip(2, at(5))));
    expect(applied).toMatchObject({
      failed: new Map([[twice.address, { what: expect.any(String), message: expect.stringContaining("EEXIST") }]]),
    });
    expect(keys(kernel, "vip4")).toEqual(["cb007101", "cb007102"]);
    expect(keys(kernel, "endpoint4")).toHaveLength(2);
    expect(await plane.apply(map(vip(1, at(3))))).toMatchObject({ added: 1, deleted: 1, failed: new Map() });
  });

  test("a kernel that can't give ownership, or a flag, means plain mode", async () => {
    const kernel = new FakeKernel();
    kernel.ownership = false;
    expect((await open(kernel)).started).toEqual({ ok: true, mode: "plain" });
    expect((await open(new FakeKernel(), { plain: true })).started).toEqual({ ok: true, mode: "plain" });
  });

  test("plain mode: what others change is mended, what we change ourselves is not looked at again", async () => {
    const kernel = new FakeKernel();
    const { plane, told, repairs, netlink } = await open(kernel, { plain: true });
    await plane.adopt(map(vip(1, at(2))), around);
    const [change] = written((batch) => putTable(batch, { name: TABLE, flags: 0 })) as [Uint8Array];
    const from = (port: number): Uint8Array => {
      const bytes = change.slice();
      new DataView(bytes.buffer).setUint32(12, port, true);
      return bytes;
    };
    kernel.elements.get("vip4")?.clear();
    told.onChange?.(from(netlink.portId));
    await plane.apply(new Map());
    expect([repairs, keys(kernel, "vip4")]).toEqual([[], []]);
    told.onChange?.(from(77));
    told.onChange?.(from(77));
    await plane.apply(new Map());
    expect(repairs).toMatchObject([{ added: 1, deleted: 0 }]);
    expect(keys(kernel, "vip4")).toEqual(["cb007101"]);
    kernel.table = undefined;
    kernel.elements = new Map();
    told.onChange?.(from(77));
    await plane.apply(new Map());
    expect(repairs).toHaveLength(2);
    expect(keys(kernel, "vip4")).toEqual(["cb007101"]);
  });

  test("conntrack is looked at after a VIP is new or gone, and not for a change of TCP endpoints", async () => {
    const kernel = new FakeKernel();
    const { plane } = await open(kernel);
    await plane.adopt(map(vip(1, at(2))), around);
    await plane.flowsCleaned();
    kernel.conntrackDumps = 0;
    await plane.apply(map(vip(1, at(3))));
    await plane.flowsCleaned();
    expect(kernel.conntrackDumps).toBe(0);
    await plane.apply(
      new Map([
        ["203.0.113.1" as Address, undefined],
        ["203.0.113.2" as Address, vip(2, at(2))],
      ]),
    );
    await plane.flowsCleaned();
    expect(kernel.conntrackDumps).toBe(2);
  });

  test("a dump of conntrack that takes long holds up no change", async () => {
    const kernel = new FakeKernel();
    const never = new Promise<Uint8Array[]>(() => {});
    const asked: Uint8Array[] = [];
    const conntrack = {
      exchange: (bytes: Uint8Array) => {
        asked.push(bytes);
        return never;
      },
    };
    const { plane } = await open(kernel, { conntrack });
    await plane.adopt(map(vip(1, at(2))), around);
    await vi.waitFor(() => expect(asked).toHaveLength(1));
    expect(await plane.apply(map(vip(2, at(3))))).toMatchObject({ added: expect.any(Number), failed: new Map() });
    expect(keys(kernel, "vip4")).toEqual(["cb007101", "cb007102"]);
  });

  test("apply before adopt is a bug and throws", async () => {
    const { plane } = await open(new FakeKernel());
    await expect(plane.apply(new Map())).rejects.toThrow("apply before adopt");
  });

  test("what the socket refuses is a Fault, and the plane goes on afterwards", async () => {
    const kernel = new FakeKernel();
    const { plane, netlink } = await open(kernel);
    await plane.adopt(map(vip(1, at(2))), around);
    const { exchange } = netlink;
    netlink.exchange = () => Promise.reject(Object.assign(new Error("netlink send: ENOBUFS"), { errno: 105 }));
    expect(await plane.apply(map(vip(2, at(2))))).toEqual({
      fault: { what: "nftables", message: "netlink send: ENOBUFS" },
    });
    netlink.exchange = exchange;
    expect(await plane.apply(map(vip(2, at(2))))).toMatchObject({ added: 3, failed: new Map() });
  });
});

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { decideOwnership, type OwnerRecord, type Stance, type Standpoint } from "./owner.ts";

const record = (node: string, term: number, generation = 1): OwnerRecord => ({ node, term, generation });
const candidate = { type: "candidate", preference: 0, interfaces: ["eth0"] } as const;
const electing = (node: string) => ({ type: "owner", node }) as const;

const standpoint = (more: Partial<Standpoint> = {}): Standpoint => ({
  me: "a",
  record: undefined,
  elected: electing("a"),
  mine: candidate,
  generation: 1,
  programmed: 1,
  answering: undefined,
  sure: true,
  ...more,
});

const brief = ({ answer, offer }: Stance): string =>
  `${answer === undefined ? "silent" : `answer ${answer.term}`}${offer === undefined ? "" : `, ${offer.type} ${offer.term}`}`;

describe("what a node does about a VIP", () => {
  const rows: [string, Partial<Standpoint>, string][] = [
    ["elected, nobody recorded: offers itself, silent until the record says so", {}, "silent, takeOver 1"],
    ["elected, a dead owner recorded: the next term", { record: record("b", 4) }, "silent, takeOver 5"],
    ["another is elected", { elected: electing("b") }, "silent"],
    ["nobody can be", { elected: { type: "nobody", reason: "NoInterface", message: "" } }, "silent"],
    ["recorded: answers at the record's term", { record: record("a", 3) }, "answer 3"],
    [
      "recorded, and programmed a newer generation: reports it once",
      { record: record("a", 3), generation: 2, programmed: 2 },
      "answer 3, generation 3",
    ],
    ["recorded, but behind: reports nothing from intent", { record: record("a", 3), generation: 2 }, "answer 3"],
    [
      "recorded, not programmed at all: program before announce",
      { record: record("a", 3), programmed: undefined },
      "silent",
    ],
    ["elected, not programmed at all", { programmed: undefined }, "silent"],
    ["elected, programmed an older generation: not yet", { generation: 2 }, "silent"],
    [
      "recorded, but no candidate any more: falls silent and leaves the record",
      { record: record("a", 3), mine: { type: "no", reason: "LinkDown" }, answering: 3 },
      "silent",
    ],
    [
      "another is recorded at a higher term: follows",
      { record: record("b", 4), elected: electing("b"), answering: 3 },
      "silent",
    ],
    [
      "another is recorded at the same term: follows",
      { record: record("b", 3), elected: electing("b"), answering: 3 },
      "silent",
    ],
    [
      "another is recorded at a lower term, as after a restore: follows",
      { record: record("b", 2), elected: electing("b"), answering: 3 },
      "silent",
    ],
    [
      "the record was lost while it answers: goes on and records itself again",
      { answering: 3, elected: electing("b") },
      "answer 3, again 3",
    ],
    ["frozen: takes nothing over", { record: record("b", 4), sure: false }, "silent"],
    ["frozen, nobody recorded: takes nothing", { sure: false }, "silent"],
    ["frozen, recorded: goes on answering", { record: record("a", 3), answering: 3, sure: false }, "answer 3"],
    ["frozen and recorded after a restart: answers", { record: record("a", 3), sure: false }, "answer 3"],
  ];
  test.each(rows)("%s", (_, more, expected) => expect(brief(decideOwnership(standpoint(more)))).toBe(expected));
});

/**
 * Two to three speakers, one VIP and an API server in virtual time. What is real here is `decideOwnership`; around it
 * stand the least of Leases, watches and wires that the rules of section 6 need.
 */
const LEASE = 6000;
const RENEW = 2000;

type Server = {
  up: boolean;
  version: number;
  owner: OwnerRecord | undefined;
  /** When each node's Lease was renewed. */
  readonly leases: Map<string, number>;
};

class Node {
  readonly name: string;
  /** The process runs (SIGSTOP stops it), the node reaches the API server, the LAN. */
  running = true;
  reaches = true;
  lan = true;
  alive = true;
  /** Watch: the record and the Leases as last heard, and when a Lease was last seen to change. */
  seen: { version: number; owner: OwnerRecord | undefined } = { version: 0, owner: undefined };
  readonly heard = new Map<string, { renewedAt: number; seenAt: number }>();
  validUntil = -1;
  renewAt = 0;
  answering: number | undefined;
  yielded = false;
  wasSure = false;
  lastStepAt = 0;

  constructor(name: string) {
    this.name = name;
  }
}

class World {
  now = 0;
  readonly server: Server = { up: true, version: 1, owner: undefined, leases: new Map() };
  readonly nodes: Node[];
  readonly moves: string[] = [];
  readonly lag: number;
  /** Instants at which two nodes that could prove their Lease answered on the same LAN. */
  readonly doubles: string[] = [];
  silentSince: number | undefined;
  longestSilence = 0;

  constructor(names: readonly string[], lag = 30) {
    this.nodes = names.map((name) => new Node(name));
    this.lag = lag;
  }

  node(name: string): Node {
    const found = this.nodes.find((it) => it.name === name);
    if (found === undefined) throw new Error(name);
    return found;
  }

  run(milliseconds: number): void {
    for (const end = this.now + milliseconds; this.now < end; this.now += 10) {
      for (const node of this.nodes) if (node.alive && node.running) this.#step(node);
      this.#look();
    }
  }

  kill(name: string): void {
    const node = this.node(name);
    node.alive = false;
    node.answering = undefined;
  }

  /** A new process: it knows nothing, and joins by Lease and list. */
  start(name: string): void {
    const fresh = new Node(name);
    fresh.renewAt = this.now;
    this.nodes[this.nodes.findIndex((it) => it.name === name)] = fresh;
  }

  #step(node: Node): void {
    const { server } = this;
    const reaches = node.reaches && server.up;
    // A stall: before anything is sent, a consistent read, or else a probe that someone answers.
    if (this.now - node.lastStepAt > 1000 && node.answering !== undefined) {
      if (reaches) this.#read(node);
      else if (this.#others(node).some((it) => it.answering !== undefined)) node.yielded = true;
    }
    node.lastStepAt = this.now;
    if (reaches && this.now >= node.renewAt) {
      // Design, Join: after a lapse the records are read and followed before the Lease is renewed.
      if (this.now >= node.validUntil) {
        this.#read(node);
        this.#decide(node);
      }
      server.leases.set(node.name, this.now);
      server.version++;
      node.validUntil = this.now + LEASE;
      node.renewAt = this.now + RENEW;
      if (node.yielded && server.owner?.node === node.name) node.yielded = false;
    }
    if (reaches && this.now % this.lag === 0) this.#watch(node);
    this.#decide(node);
  }

  #watch(node: Node): void {
    this.#read(node);
    for (const [name, renewedAt] of this.server.leases) {
      if (node.heard.get(name)?.renewedAt !== renewedAt) node.heard.set(name, { renewedAt, seenAt: this.now });
    }
  }

  #read(node: Node): void {
    node.seen = { version: this.server.version, owner: this.server.owner };
  }

  #decide(node: Node): void {
    const { server } = this;
    const sure = node.reaches && server.up && this.now < node.validUntil;
    // Back from an outage: the others may be about to renew, so each gets its whole duration anew.
    if (sure && !node.wasSure) for (const lease of node.heard.values()) lease.seenAt = this.now;
    node.wasSure = sure;
    const stance = decideOwnership({
      me: node.name,
      record: node.seen.owner,
      elected: electing(this.#elect(node)),
      mine: node.lan ? candidate : { type: "no", reason: "LinkDown" },
      generation: 1,
      programmed: 1,
      answering: node.answering,
      sure,
    });
    this.#answer(node, stance.answer?.term);
    if (stance.offer === undefined || !(node.reaches && server.up)) return;
    // The consistent read of the dead node's Lease, and the resourceVersion of the record as precondition.
    const dead = node.seen.owner?.node;
    if (dead !== undefined && dead !== node.name && server.leases.get(dead) !== node.heard.get(dead)?.renewedAt) return;
    if (JSON.stringify(server.owner) !== JSON.stringify(node.seen.owner)) return;
    if (server.owner?.node !== node.name) this.moves.push(node.name);
    server.owner = record(node.name, stance.offer.term);
    server.version++;
    this.#read(node);
    this.#decide(node);
  }

  #elect(node: Node): string {
    const recorded = node.seen.owner?.node;
    const lives = (name: string): boolean => {
      if (name === node.name) return true;
      const lease = node.heard.get(name);
      return lease !== undefined && this.now - lease.seenAt < LEASE;
    };
    if (recorded !== undefined && lives(recorded)) return recorded;
    return this.nodes.map(({ name }) => name).find(lives) ?? node.name;
  }

  #answer(node: Node, term: number | undefined): void {
    if (term === undefined) node.yielded = false;
    const before = node.answering;
    node.answering = term;
    if (term === undefined || before !== undefined || !node.lan) return;
    // The announcement: whoever else answers on this LAN and can't prove its Lease falls silent at once.
    for (const other of this.#others(node)) {
      if (other.answering !== undefined && other.running && this.now >= other.validUntil) other.yielded = true;
    }
  }

  #others(node: Node): Node[] {
    return this.nodes.filter((it) => it !== node && it.alive && it.lan && node.lan);
  }

  speakers(): string[] {
    return this.nodes
      .filter((it) => it.alive && it.running && it.lan && it.answering !== undefined && !it.yielded)
      .map(({ name }) => name);
  }

  #look(): void {
    const proving = this.nodes.filter(
      (it) => it.alive && it.running && it.answering !== undefined && !it.yielded && this.now < it.validUntil,
    );
    if (proving.length > 1) this.doubles.push(`${this.now}: ${proving.map(({ name }) => name).join()}`);
    if (this.speakers().length > 0) this.silentSince = undefined;
    else {
      this.silentSince ??= this.now;
      this.longestSilence = Math.max(this.longestSilence, this.now - this.silentSince);
    }
  }
}

describe("timelines", () => {
  const settled = (...names: string[]): World => {
    const world = new World(names);
    world.run(3000);
    expect(world.moves).toEqual([names[0]]);
    return world;
  };

  test("FO-06: a node that joins or returns moves nothing", () => {
    const world = settled("a", "b");
    world.nodes.push(new Node("0-first-by-any-order"));
    world.run(20_000);
    world.kill("b");
    world.run(20_000);
    world.start("b");
    world.run(20_000);
    expect(world.moves).toEqual(["a"]);
    expect(world.speakers()).toEqual(["a"]);
    expect(world.doubles).toEqual([]);
  });

  test("the owner dies: one of the others takes over once, after its Lease and not before", () => {
    const world = settled("a", "b", "c");
    world.kill("a");
    world.longestSilence = 0;
    world.run(20_000);
    expect(world.moves).toEqual(["a", "b"]);
    expect(world.server.owner).toEqual(record("b", 2));
    expect(world.longestSilence).toBeGreaterThanOrEqual(LEASE - RENEW);
    expect(world.longestSilence).toBeLessThan(LEASE + 500);
    world.start("a");
    world.run(20_000);
    expect(world.moves).toEqual(["a", "b"]);
  });

  test("a restart within the Lease moves nothing and keeps the term", () => {
    const world = settled("a", "b");
    world.kill("a");
    world.run(2000);
    world.start("a");
    world.run(20_000);
    expect(world.moves).toEqual(["a"]);
    expect(world.node("a").answering).toBe(1);
  });

  test("an API outage of a minute moves nothing, and the owner goes on answering", () => {
    const world = settled("a", "b", "c");
    world.server.up = false;
    world.run(60_000);
    expect(world.speakers()).toEqual(["a"]);
    world.server.up = true;
    world.longestSilence = 0;
    world.run(20_000);
    expect(world.moves).toEqual(["a"]);
    expect(world.longestSilence).toBe(0);
  });

  test("the owner cut from the API: it yields to the successor's announcement, and follows the record when it is back", () => {
    const world = settled("a", "b");
    world.node("a").reaches = false;
    world.run(60_000);
    expect(world.moves).toEqual(["a", "b"]);
    expect(world.speakers()).toEqual(["b"]);
    world.node("a").reaches = true;
    world.run(20_000);
    expect(world.moves).toEqual(["a", "b"]);
    expect(world.speakers()).toEqual(["b"]);
    expect(world.doubles).toEqual([]);
  });

  test("a node that is not the owner, cut from the API, does nothing at all", () => {
    const world = settled("a", "b");
    world.node("b").reaches = false;
    world.run(60_000);
    world.node("b").reaches = true;
    world.run(10_000);
    expect(world.moves).toEqual(["a"]);
    expect(world.doubles).toEqual([]);
  });

  test("SIGSTOP of the owner for 30 s: its first act is to follow the record", () => {
    const world = settled("a", "b");
    world.node("a").running = false;
    world.run(30_000);
    expect(world.speakers()).toEqual(["b"]);
    world.node("a").running = true;
    world.run(10);
    expect(world.node("a").answering).toBeUndefined();
    world.run(20_000);
    expect(world.moves).toEqual(["a", "b"]);
    expect(world.doubles).toEqual([]);
  });

  test("SIGSTOP for 30 s, and no API server when it goes on: the probe is answered, it stays silent", () => {
    const world = settled("a", "b");
    world.node("a").running = false;
    world.run(30_000);
    world.node("a").reaches = false;
    world.node("a").running = true;
    world.run(5000);
    expect(world.speakers()).toEqual(["b"]);
  });

  test("the record is lost while its owner answers: recorded again, nobody moves", () => {
    const world = settled("a", "b");
    world.server.owner = undefined;
    world.run(5000);
    expect(world.server.owner).toEqual(record("a", 1));
    expect(world.speakers()).toEqual(["a"]);
  });

  test("a record that goes back, as after a restore, is followed", () => {
    const world = settled("a", "b");
    world.kill("a");
    world.run(10_000);
    expect(world.server.owner).toEqual(record("b", 2));
    world.start("a");
    world.run(3000);
    world.server.owner = record("a", 1);
    world.run(3000);
    expect(world.speakers()).toEqual(["a"]);
    expect(world.doubles).toEqual([]);
  });

  type Act = { readonly after: number; readonly what: number; readonly who: number };

  test("property: whatever is cut, stopped, killed and started, never two provably valid owners, and no move without a loss", () => {
    const acts = fc.array(fc.record({ after: fc.integer({ min: 1, max: 900 }), what: fc.nat(7), who: fc.nat(2) }), {
      minLength: 1,
      maxLength: 14,
    });
    const act = (world: World, { what, who }: Act): void => {
      const node = world.nodes[who];
      if (node === undefined) return;
      if (what === 0) node.reaches = false;
      else if (what === 1) node.reaches = true;
      else if (what === 2) node.running = false;
      else if (what === 3) node.running = true;
      else if (what === 4) world.kill(node.name);
      else if (what === 5) world.start(node.name);
      else if (what === 6) world.server.up = false;
      else world.server.up = true;
    };
    fc.assert(
      fc.property(acts, fc.constantFrom(10, 30, 200), (history, lag) => {
        const world = new World(["a", "b", "c"], lag);
        world.run(3000);
        for (const it of history) {
          act(world, it);
          world.run(it.after * 10);
        }
        // All is well again: within two Leases exactly one node answers, and it is the recorded one.
        world.server.up = true;
        for (const node of world.nodes) {
          if (!node.alive) world.start(node.name);
          node.running = true;
          node.reaches = true;
        }
        world.run(3 * LEASE);
        // A watch may lag behind the record by `lag`; what is longer would be a second owner.
        expect(world.doubles.length * 10).toBeLessThanOrEqual(lag * world.moves.length);
        expect(world.speakers()).toEqual([world.server.owner?.node]);
        expect(world.moves.length).toBeLessThanOrEqual(1 + history.length);
      }),
      { numRuns: 150 },
    );
  });
});

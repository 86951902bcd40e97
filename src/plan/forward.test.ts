import { describe, expect, test } from "vitest";
import type { Forward } from "../api/virtual-ip.ts";
import type { Address } from "../net/address.ts";
import type { Slice, SliceEndpoint } from "./endpoint.ts";
import { type Forwarding, nodesWithEndpoints, planVip } from "./forward.ts";

const forward = (more: Partial<Forward> = {}): Forward => ({
  protocol: "TCP",
  port: 80,
  holder: 0,
  dataPath: "Belfry",
  backends: [{ kind: "Service", namespace: "t", name: "web", portName: "", weight: 1 }],
  sessionAffinity: "None",
  nodes: "Cluster",
  sourceIP: "MayMasquerade",
  sourceRanges: [],
  refuseWeight: 0,
  ...more,
});

const vip = (...forwards: Forward[]): Forwarding => ({ address: "192.0.2.5", scope: "External", forwards });

type Line = readonly [address: string, node: string | undefined, state?: SliceEndpoint["state"]];

const slice = (service: string, ...lines: Line[]): Slice => ({
  service,
  family: "IPv4",
  ports: [{ name: "", protocol: "TCP", port: 8080 }],
  endpoints: lines.map(([address, node, state]) => ({ address: address as Address, node, state: state ?? "ready" })),
});

const lookup =
  (...slices: Slice[]) =>
  (service: string) =>
    slices.filter((it) => it.service === service);

const WEB = slice("t/web", ["198.18.1.1", "a"], ["198.18.2.1", "b"]);

describe("planVip", () => {
  test("endpoints are balanced, and each node knows which are its own", () => {
    const [frontend] = planVip(vip(forward()), lookup(WEB), "a").frontends;
    expect(frontend).toMatchObject({ protocol: "TCP", port: 80, sourceRanges: [], action: { type: "balance" } });
    if (frontend?.action.type !== "balance") throw new Error("not balanced");
    expect(frontend.action.buckets).toHaveLength(16);
    expect(frontend.action.outside).toBeUndefined();
    expect(new Set(frontend.action.buckets.map((it) => `${it?.address} ${it?.local}`))).toEqual(
      new Set(["198.18.1.1 true", "198.18.2.1 false"]),
    );
  });

  test("every node has the same table, local marks aside", () => {
    const [a, b, c] = ["a", "b", "c"].map((node) => {
      const action = planVip(vip(forward()), lookup(WEB), node).frontends[0]?.action;
      return action?.type === "balance" ? action.buckets.map((it) => it?.address) : undefined;
    });
    expect(a).toEqual(b);
    expect(b).toEqual(c);
  });

  test("no usable endpoint, an unknown Service, or nothing but dead weight is refused (DP-09)", () => {
    const action = (forwards: Forward, ...slices: Slice[]) =>
      planVip(vip(forwards), lookup(...slices), "a").frontends[0]?.action;
    expect(action(forward(), slice("t/web", ["198.18.1.1", "a", "unusable"]))).toEqual({ type: "refuse" });
    expect(action(forward())).toEqual({ type: "refuse" });
    expect(action(forward({ backends: [], refuseWeight: 1 }))).toEqual({ type: "refuse" });
    expect(action(forward({ backends: [] }))).toEqual({ type: "refuse" });
  });

  test("another data path passes untouched, whatever its endpoints", () => {
    const plan = planVip(vip(forward({ dataPath: "ServiceProxy" })), lookup(WEB), "a");
    expect(plan.frontends[0]?.action).toEqual({ type: "pass" });
  });

  test("refuseWeight leaves its part of the buckets without element", () => {
    const [frontend] = planVip(
      vip(forward({ refuseWeight: 3 })),
      lookup(slice("t/web", ["198.18.1.1", "a"])),
      "a",
    ).frontends;
    if (frontend?.action.type !== "balance") throw new Error("not balanced");
    const { buckets } = frontend.action;
    expect(buckets.filter((it) => it === undefined)).toHaveLength((buckets.length * 3) / 4);
  });

  test("nodes LocalOnly: clients outside use local endpoints alone, those inside all (DP-01)", () => {
    const at = (node: string) => {
      const action = planVip(vip(forward({ nodes: "LocalOnly" })), lookup(WEB), node).frontends[0]?.action;
      if (action?.type !== "balance") throw new Error("not balanced");
      const { outside, buckets } = action;
      const texts = (them: typeof outside) =>
        them === undefined || them === "drop" ? them : [...new Set(them.map((it) => it?.address as string))].sort();
      return [texts(buckets), texts(outside)];
    };
    expect(at("a")).toEqual([["198.18.1.1", "198.18.2.1"], ["198.18.1.1"]]);
    expect(at("c")).toEqual([["198.18.1.1", "198.18.2.1"], "drop"]);
  });

  test("nodes LocalOnly: the node's last endpoint serves while it terminates, though others are ready (I-20 row 4)", () => {
    const slices = lookup(slice("t/web", ["198.18.1.1", "a", "terminating"], ["198.18.2.1", "b"]));
    const action = planVip(vip(forward({ nodes: "LocalOnly" })), slices, "a").frontends[0]?.action;
    if (action?.type !== "balance") throw new Error("not balanced");
    expect(action.buckets.map((it) => it?.address)).toEqual(["198.18.2.1"]);
    expect(action.outside).toEqual([{ address: "198.18.1.1", port: 8080, local: true }]);
  });

  test("nodes PreferLocal: own endpoints first, all of them where there are none", () => {
    const outside = (node: string) => {
      const action = planVip(vip(forward({ nodes: "PreferLocal" })), lookup(WEB), node).frontends[0]?.action;
      return action?.type === "balance" ? action.outside : "not balanced";
    };
    expect(outside("a")).toEqual([{ address: "198.18.1.1", port: 8080, local: true }]);
    expect(outside("c")).toBeUndefined();
  });

  test("nodes LocalOnly: a backend without an endpoint here gives its part to those that are here, a dead one does not", () => {
    const two = forward({
      nodes: "LocalOnly",
      backends: [
        { kind: "Service", namespace: "t", name: "web", portName: "", weight: 1 },
        { kind: "Service", namespace: "t", name: "api", portName: "", weight: 1 },
      ],
    });
    const outside = (...slices: Slice[]) => {
      const action = planVip(vip(two), lookup(...slices), "a").frontends[0]?.action;
      return action?.type === "balance" && Array.isArray(action.outside) ? action.outside.length : "not balanced";
    };
    const here = slice("t/web", ["198.18.1.1", "a"]);
    expect(outside(here, slice("t/api", ["198.18.2.9", "b"]))).toBe(1);
    expect(outside(here)).toBe(16);
  });

  test("source ranges of the VIP's family count; with ranges of the other family alone nobody may connect", () => {
    const ranges = (...sourceRanges: string[]) =>
      planVip(vip(forward({ sourceRanges })), lookup(WEB), "a").frontends[0]?.sourceRanges;
    expect(ranges("203.0.113.0/25", "2001:db8:9::/64", "192.0.2.0/24")).toEqual(["192.0.2.0/24", "203.0.113.0/25"]);
    expect(ranges("192.0.2.9/24")).toEqual(["192.0.2.0/24"]);
    expect(ranges("2001:db8:9::/64")).toEqual(["0.0.0.0/32"]);
    expect(ranges()).toEqual([]);
  });

  test("equal input gives the very plan that is in force: nothing to send (invariant 9)", () => {
    const before = planVip(vip(forward(), forward({ port: 81 })), lookup(WEB), "a");
    expect(planVip(vip(forward(), forward({ port: 81 })), lookup(WEB), "a", before)).toBe(before);
    const other = slice("t/web", ["198.18.1.1", "a"], ["198.18.2.2", "b"]);
    expect(planVip(vip(forward(), forward({ port: 81 })), lookup(other), "a", before)).not.toBe(before);
    const more = planVip(vip(forward(), forward({ port: 81 }), forward({ port: 82 })), lookup(WEB), "a", before);
    expect(more.frontends[0]).toBe(before.frontends[0]);
  });

  test("the bucket count in force holds until a quarter of its step", () => {
    const many = (count: number) =>
      lookup(slice("t/web", ...Array.from({ length: count }, (_, i): Line => [`198.18.1.${i + 1}`, "a"])));
    const count = (plan: ReturnType<typeof planVip>) => {
      const action = plan.frontends[0]?.action;
      return action?.type === "balance" ? action.buckets.length : 0;
    };
    const three = planVip(vip(forward()), many(3), "a");
    expect(count(three)).toBe(64);
    expect(count(planVip(vip(forward()), many(2), "a", three))).toBe(64);
    expect(count(planVip(vip(forward()), many(2), "a"))).toBe(16);
  });
});

describe("nodesWithEndpoints", () => {
  const local = forward({ nodes: "LocalOnly" });
  const rows: [string, Forward[], Slice[], string[] | undefined][] = [
    ["nodes Cluster: any node may", [forward()], [WEB], undefined],
    ["LocalOnly: those with an endpoint", [local], [WEB], ["a", "b"]],
    [
      "LocalOnly that the service proxy serves: it too drops where there is none",
      [forward({ nodes: "LocalOnly", dataPath: "ServiceProxy" })],
      [WEB],
      ["a", "b"],
    ],
    ["LocalOnly without endpoints: nobody", [local], [], []],
    ["an endpoint without nodeName is nobody's (ET-08)", [local], [slice("t/web", ["198.18.1.1", undefined])], []],
    [
      "beside a Cluster forward, one without endpoints holds nobody back",
      [local, forward({ port: 81 })],
      [],
      undefined,
    ],
    [
      "two LocalOnly forwards: nodes that serve both",
      [local, forward({ port: 81, nodes: "LocalOnly", backends: [{ ...backend("api") }] })],
      [WEB, slice("t/api", ["198.18.2.9", "b"], ["198.18.3.9", "c"])],
      ["b"],
    ],
    [
      "two that no node serves both: one that serves some",
      [local, forward({ port: 81, nodes: "LocalOnly", backends: [{ ...backend("api") }] })],
      [WEB, slice("t/api", ["198.18.3.9", "c"])],
      ["a", "b", "c"],
    ],
    [
      "weight 0 serves nobody",
      [forward({ nodes: "LocalOnly", backends: [{ ...backend("web"), weight: 0 }] })],
      [WEB],
      [],
    ],
  ];
  test.each(rows)("%s", (_, forwards, slices, nodes) => {
    const found = nodesWithEndpoints({ address: "192.0.2.5", forwards }, lookup(...slices));
    expect(found === undefined ? undefined : [...found].sort()).toEqual(nodes);
  });
});

function backend(name: string): Forward["backends"][number] {
  return { kind: "Service", namespace: "t", name, portName: "", weight: 1 };
}

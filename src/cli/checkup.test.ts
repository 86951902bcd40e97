import { describe, expect, test } from "vitest";
import type { KubeObject } from "../api/meta.ts";
import { type Cluster, condition, one, spoilt } from "./cluster.fixture.ts";
import { judgeCluster } from "./cluster-checkup.ts";
import { countBad, type Finding, renderSections } from "./finding.ts";
import { type ForeignObjects, judgeForeign } from "./foreign-balancer.ts";
import { judgeNode, type NodeSight } from "./node-checkup.ts";
import { paintFor } from "./output.ts";

const serious = (findings: readonly Finding[]) => findings.filter(({ mark }) => mark !== "ok");

describe("the cluster", () => {
  test("in which everything works has nothing but good findings", () => {
    expect(serious(judgeCluster(spoilt()))).toEqual([]);
  });

  test.each<[string, (c: Cluster) => void, Finding["mark"], string, string]>([
    ["no controller", (c) => void c.liveLeases.delete("belfry-controller"), "bad", "controller", "none leads"],
    [
      "a node without speaker",
      (c) => void c.nodes.push({ metadata: { name: "n" } }),
      "bad",
      "node n",
      "no speaker has ever run",
    ],
    [
      "a dead speaker",
      (c) => void c.liveLeases.delete("belfry-speaker-node-2"),
      "bad",
      "node node-2",
      "does not renew",
    ],
    ["a speaker without Node", (c) => void c.nodes.pop(), "note", "node node-2", "no Node"],
    [
      "a data path that is not ready",
      (c) => {
        one(c.speakers).status = {
          conditions: [condition("DataPathReady", "False", "ForwardingOff", "set ip_forward")],
        };
      },
      "bad",
      "node node-1",
      "DataPathReady=False (ForwardingOff): set ip_forward",
    ],
    [
      "a remark on the data path",
      (c) => {
        one(c.speakers).status = { conditions: [condition("DataPathReady", "True", "Ready", "pods unknown")] };
      },
      "note",
      "node node-1",
      "pods unknown",
    ],
    [
      "an address that fails on a node",
      (c) => {
        one(c.speakers).status = { failingCount: 70, failing: [{ vip: "192.0.2.10", reason: "full" }] };
      },
      "bad",
      "node node-1",
      "70 VirtualIPs fail, such as 192.0.2.10: full",
    ],
    [
      "no pool",
      (c) => {
        c.pools = [];
      },
      "note",
      "pools",
      "there is none",
    ],
    [
      "a full pool",
      (c) => {
        one(c.pools).status = { assignedIPv4: 11, availableIPv4: 0 };
      },
      "note",
      "pool lan",
      "no IPv4 address is left",
    ],
    [
      "a pool that overlaps an older one",
      (c) => void one(c.pools).status?.conditions?.push(condition("Conflicted", "True", "Overlap", "older")),
      "bad",
      "pool lan",
      "older",
    ],
    [
      "a drained pool",
      (c) => {
        one(c.pools).spec.disabled = true;
      },
      "note",
      "pool lan",
      "drained",
    ],
    [
      "no advertisement",
      (c) => {
        c.advertisements = [];
      },
      "note",
      "advertisements",
      "no node answers",
    ],
    [
      "an advertisement of a pool that is not there",
      (c) => {
        one(c.advertisements).status = {
          conditions: [condition("ResolvedRefs", "False", "PoolNotFound", "no pool x")],
        };
      },
      "bad",
      "advertisement lan",
      "no pool x",
    ],
    [
      "an address that is not served",
      (c) => {
        one(c.vips).status = { conditions: [condition("Announced", "False", "NotInSubnet", "far")] };
      },
      "bad",
      "vip 192.0.2.10",
      "NotInSubnet: far",
    ],
  ])("%s", (_, spoil, mark, about, says) => {
    const [found, ...more] = serious(judgeCluster(spoilt(spoil)));
    expect(found).toMatchObject({ mark, about });
    expect(found?.says).toContain(says);
    expect(more).toEqual([]);
  });

  test("without our kinds is not installed; without rights it is not judged", () => {
    const missing = "the cluster serves no virtualips of belfry.dev";
    expect(judgeCluster(spoilt(() => {}, new Map([["vips", missing]])))[0]).toMatchObject({
      mark: "bad",
      says: missing,
    });
    expect(judgeCluster(spoilt(() => {}, new Map([["nodes", "you may not list nodes"]])))[0]?.mark).toBe("note");
  });

  test("of a thousand troubled addresses shows ten and a number", () => {
    const model = spoilt((c) => {
      const [first] = c.vips;
      c.vips = Array.from({ length: 1000 }, (_, i) => ({
        ...one(c.vips),
        metadata: { name: `192.0.${i >> 8}.${i & 255}` },
        spec: { ...one(c.vips).spec, address: `192.0.${i >> 8}.${i & 255}` },
        status: { conditions: [condition("Announced", "False", "NotInSubnet")] },
      }));
      expect(first).toBeDefined();
    });
    const found = serious(judgeCluster(model));
    expect(found).toHaveLength(11);
    expect(found.at(-1)?.says).toBe("990 more of 1000 are not served");
  });
});

const NOBODY: ForeignObjects = {
  metallbPools: undefined,
  ciliumPools: undefined,
  kubeVipConfig: undefined,
  workloads: [],
};
const metallb = (...addresses: string[]): KubeObject =>
  ({ metadata: { name: "p", namespace: "metallb-system" }, spec: { addresses } }) as KubeObject;
const pod = (image: string): KubeObject =>
  ({ metadata: { name: "x", namespace: "kube-system" }, spec: { containers: [{ image }] } }) as KubeObject;

describe("other balancers", () => {
  test.each<[string, Partial<ForeignObjects>, string]>([
    [
      "MetalLB, a range",
      { metallbPools: [metallb("192.0.2.20-192.0.2.40")] },
      "MetalLB's pool metallb-system/p: 192.0.2.20-192.0.2.40",
    ],
    ["MetalLB, a prefix with host bits", { metallbPools: [metallb("192.0.2.99/25")] }, "192.0.2.0-192.0.2.127"],
    [
      "Cilium",
      {
        ciliumPools: [
          {
            metadata: { name: "c" },
            spec: { blocks: [{ cidr: "2001:db8::/64" }, { start: "192.0.2.12" }] },
          } as KubeObject,
        ],
      },
      "Cilium's pool c: 192.0.2.12/32",
    ],
    [
      "kube-vip",
      {
        kubeVipConfig: {
          metadata: { name: "kubevip" },
          data: { "range-global": "198.51.100.1-198.51.100.2, 192.0.2.10-192.0.2.12", other: "x" },
        } as KubeObject,
      },
      "kube-vip's range-global: 192.0.2.10-192.0.2.12",
    ],
  ])("with addresses of our pool: %s", (_, foreign, words) => {
    const [found] = judgeForeign(spoilt(), { ...NOBODY, ...foreign });
    expect(found).toMatchObject({ mark: "bad", about: "pool lan" });
    expect(found?.says).toContain(words);
  });

  test("with addresses of their own are only named", () => {
    const foreign = {
      ...NOBODY,
      metallbPools: [metallb("198.51.100.0/24")],
      workloads: [pod("ghcr.io/kube-vip/kube-vip:v1")],
    };
    expect(judgeForeign(spoilt(), foreign)).toEqual([
      { mark: "ok", about: "other balancers", says: "MetalLB, kube-vip; no address in common with Belfry's pools" },
    ]);
  });

  test.each<[string, (c: Cluster) => void, string]>([
    [
      "a Service of another class",
      (c) => {
        one(c.services, "legacy").spec.loadBalancerClass = "io.example/lb";
        c.vips = [];
        c.gateways = [];
      },
      "Service demo/legacy (io.example/lb) shows 192.0.2.11",
    ],
    [
      "a Service with an external IP",
      (c) => void Object.assign(one(c.services).spec, { externalIPs: ["192.0.2.15"] }),
      "Service demo/web (type ClusterIP) shows 192.0.2.15",
    ],
    [
      "a Gateway of another class",
      (c) => {
        one(c.gateways).spec.gatewayClassName = "other";
        one(c.gateways).status = { addresses: [{ value: "192.0.2.16" }] };
      },
      "Gateway demo/web (class other) shows 192.0.2.16",
    ],
  ])("show an address of our pool: %s", (_, spoil, words) => {
    const [found] = judgeForeign(spoilt(spoil), NOBODY);
    expect(found).toMatchObject({ mark: "bad", about: "pool lan" });
    expect(found?.says).toContain(words);
  });

  test("are none where there are none", () => {
    expect(judgeForeign(spoilt(), NOBODY)).toEqual([{ mark: "ok", about: "other balancers", says: "none seen" }]);
  });
});

describe("this node", () => {
  const well: NodeSight = {
    capabilities: (1n << 10n) | (1n << 12n) | (1n << 13n),
    probe: { type: "able", ownership: true },
    packetSocket: undefined,
    droppingChains: [],
    legacyFilter: false,
    observation: {
      kernelRelease: "6.12.0",
      ipv4Forwarding: true,
      ipv6Forwarding: true,
      reversePathFilter: [],
      droppingForwardChains: [],
      bypasses: [],
      families: { IPv4: true, IPv6: true },
      podCIDRsKnown: true,
    },
    conntrack: { count: 1, most: 100 },
    links: [{ name: "eth0", up: true }],
  };
  test("on which all is well", () => {
    expect(serious(judgeNode(well))).toEqual([]);
  });

  test.each<[string, Partial<NodeSight>, Finding["mark"], string, string]>([
    ["without a capability", { capabilities: 1n << 12n }, "bad", "capabilities", "NET_BIND_SERVICE, NET_RAW"],
    [
      "with a kernel that lacks something",
      { probe: { type: "fault", fault: { what: "", message: "lacks NFT_HASH" } } },
      "bad",
      "nftables",
      "lacks NFT_HASH",
    ],
    ["without packet sockets", { packetSocket: "EPERM" }, "bad", "packet socket", "EPERM"],
    [
      "that does not forward",
      { observation: { ...well.observation, ipv4Forwarding: false } },
      "bad",
      "data path",
      "sysctl -w net.ipv4.ip_forward=1",
    ],
    [
      "whose forward chain drops",
      { droppingChains: [{ chain: "ip filter FORWARD", accepts: false }] },
      "bad",
      "data path",
      "ip filter FORWARD",
    ],
    [
      "whose forward chain may drop",
      { droppingChains: [{ chain: "ip filter FORWARD", accepts: true }] },
      "note",
      "data path",
      "ip filter FORWARD",
    ],
    ["with iptables-legacy", { legacyFilter: true }, "note", "iptables-legacy", "can't be judged"],
    ["with a full conntrack table", { conntrack: { count: 95, most: 100 } }, "bad", "conntrack", "95 of 100"],
    ["without a link", { links: [] }, "bad", "links", "no interface"],
    ["whose links are down", { links: [{ name: "eth0", up: false }] }, "bad", "links", "eth0: all down"],
  ])("%s", (_, change, mark, about, says) => {
    const [found, ...more] = serious(judgeNode({ ...well, ...change }));
    expect(found).toMatchObject({ mark, about });
    expect(found?.says).toContain(says);
    expect(more).toEqual([]);
  });

  test("where a table can't be owned is still good enough", () => {
    const findings = judgeNode({ ...well, probe: { type: "able", ownership: false } });
    expect(serious(findings)).toEqual([]);
    expect(findings[1]?.says).toContain("can't be owned");
  });
});

test("findings as they are read", () => {
  const sections = [
    {
      title: "Cluster",
      findings: [
        { mark: "ok", about: "controller", says: "one leads" },
        { mark: "bad", about: "node a", says: "no speaker", todo: "start one" },
      ],
    },
  ] as const;
  const plain = paintFor({ stdout: { write() {}, isTTY: false }, environment: {} });
  expect(countBad(sections)).toBe(1);
  expect(renderSections(sections, plain)).toBe(`Cluster
  ✓ controller  one leads
  ✗ node a      no speaker
                → start one

1 thing is wrong.
`);
});

test.each<[string, boolean, Record<string, string>, boolean]>([
  ["on a terminal", true, {}, true],
  ["into a pipe", false, {}, false],
  ["with NO_COLOR", true, { NO_COLOR: "1" }, false],
  ["with an empty NO_COLOR", true, { NO_COLOR: "" }, true],
  ["on a dumb terminal", true, { TERM: "dumb" }, false],
])("colours %s", (_, isTTY, environment, coloured) => {
  const paint = paintFor({ stdout: { write() {}, isTTY }, environment });
  expect(paint.bad("x") !== "x").toBe(coloured);
});

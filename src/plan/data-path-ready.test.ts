import { expect, test } from "vitest";
import { judgeDataPath, type NodeObservation } from "./data-path-ready.ts";

const fine: NodeObservation = {
  kernelRelease: "6.1.0-18-amd64",
  ipv4Forwarding: true,
  ipv6Forwarding: true,
  reversePathFilter: [{ interface: "eth0", value: 2 }],
  droppingForwardChains: [],
  bypasses: [],
  families: { IPv4: true, IPv6: true },
  podCIDRsKnown: true,
};

const rows: [string, Partial<NodeObservation>, string, string][] = [
  ["a node with all it takes", {}, "Ready", ""],
  ["IPv4 forwarding off", { ipv4Forwarding: false }, "ForwardingOff", "sysctl -w net.ipv4.ip_forward=1"],
  ["IPv6 forwarding off", { ipv6Forwarding: false }, "ForwardingOff", "sysctl -w net.ipv6.conf.all.forwarding=1"],
  [
    "strict rp_filter",
    { reversePathFilter: [{ interface: "eth1", value: 1 }] },
    "StrictReversePathFilter",
    "sysctl -w net.ipv4.conf.eth1.rp_filter=2",
  ],
  ["an old kernel", { kernelRelease: "5.8.18-300" }, "KernelTooOld", "5.9"],
  ["an older one", { kernelRelease: "4.19.0" }, "KernelTooOld", "4.19.0"],
  [
    "a FORWARD chain that drops all",
    { droppingForwardChains: [{ chain: "ip filter FORWARD", accepts: false }] },
    "ForwardChainDrops",
    "iptables -P FORWARD ACCEPT",
  ],
  ["an eBPF proxy", { bypasses: ["the eBPF data plane of Calico"] }, "NetfilterBypassed", "kube-proxy replacement"],
];
test.each(rows)("%s", (_, more, reason, part) => {
  const verdict = judgeDataPath({ ...fine, ...more });
  expect(verdict.ready).toBe(reason === "Ready");
  expect(verdict.reason).toBe(reason);
  expect(verdict.message).toContain(part);
});

const harmless: [string, Partial<NodeObservation>][] = [
  ["IPv6 forwarding off on a node without IPv6", { ipv6Forwarding: false, families: { IPv4: true, IPv6: false } }],
  [
    "nothing that can be read",
    { ipv4Forwarding: undefined, ipv6Forwarding: undefined, droppingForwardChains: undefined },
  ],
  ["kernel 5.9", { kernelRelease: "5.9.0" }],
  ["unknown pod addresses, with a remark", { podCIDRsKnown: false }],
  [
    "a FORWARD chain that drops but has rules that accept, with a remark",
    { droppingForwardChains: [{ chain: "ip filter FORWARD", accepts: true }] },
  ],
];
test.each(harmless)("ready: %s", (_, more) => expect(judgeDataPath({ ...fine, ...more }).ready).toBe(true));

test("every obstacle is told at once, so that one visit to the node is enough", () => {
  const { message } = judgeDataPath({ ...fine, ipv4Forwarding: false, kernelRelease: "5.4.0" });
  expect(message).toContain("ip_forward");
  expect(message).toContain("5.4.0");
});

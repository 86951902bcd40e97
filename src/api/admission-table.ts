import type { KubeObject } from "./meta.ts";
import { API_VERSION } from "./names.ts";

/**
 * What admission takes and refuses, as data: tests run it on the twins of the rules here and on a real API server, so
 * that both say the same.
 */
export type AdmissionRow = {
  /** A claim, with the id of the case where there is one. */
  readonly claim: string;
  readonly object: KubeObject & { readonly kind: string; readonly spec: unknown };
  /** The object before the change; absent when it is created. */
  readonly old?: KubeObject & { readonly kind: string; readonly spec: unknown };
  readonly outcome:
    | { readonly type: "accepted" }
    /** `by` schema: bounds, types, enumerations, keys of lists. `message` is part of what the user reads. */
    | { readonly type: "refused"; readonly by: "schema" | "pattern" | "CEL"; readonly message: string }
    /** Admitted, because no rule can say it; the controller says it on the object. */
    | { readonly type: "condition"; readonly message: string };
};

type Outcome = AdmissionRow["outcome"];
const accepted: Outcome = { type: "accepted" };
const byCEL = (message: string): Outcome => ({ type: "refused", by: "CEL", message });
const byPattern = (message: string): Outcome => ({ type: "refused", by: "pattern", message });
const bySchema = (message: string): Outcome => ({ type: "refused", by: "schema", message });
const byCondition = (message: string): Outcome => ({ type: "condition", message });

const object = (kind: string, name: string, spec: unknown, namespace?: string): AdmissionRow["object"] => ({
  apiVersion: API_VERSION,
  kind,
  metadata: { name, ...(namespace === undefined ? {} : { namespace }) },
  spec,
});
const pool = (...addresses: string[]) => object("IPAddressPool", "edge", { addresses });
const vip = (name: string, spec: Record<string, unknown>) => object("VirtualIP", name, spec);
const l2 = (spec: Record<string, unknown>) => object("L2Advertisement", "lan", spec);
const route = (spec: Record<string, unknown>) => object("ServiceRoute", "web", { ...ROUTE, ...spec }, "demo");
const ROUTE = { parentRefs: [{ name: "web" }], ports: [{ port: 80 }], backendRef: { name: "web" } };
const forward = (protocol: string, port: number, more: Record<string, unknown> = {}) => ({ protocol, port, ...more });
const holder = (name: string) => ({ kind: "Gateway", namespace: "demo", name, uid: `uid-${name}` });

const range = (id: string, entry: string, outcome: Outcome): AdmissionRow => ({
  claim: `${id}: a pool of ${entry} is ${outcome.type === "accepted" ? "accepted" : `refused (${words(outcome)})`}`,
  object: pool(entry),
  outcome,
});
const words = (outcome: Exclude<Outcome, { type: "accepted" }>): string =>
  outcome.type === "condition" ? "condition" : outcome.by;

export const ADMISSION_TABLE: readonly AdmissionRow[] = [
  range("IP-06, I-02", "192.0.2.200/28", byCEL("192.0.2.192/28 (192.0.2.192-192.0.2.207)")),
  range("IP-06, I-02", "198.51.100.3/24", byCEL("198.51.100.0/24 (198.51.100.0-198.51.100.255)")),
  range("I-02", "198.51.100.3/9", byCEL("198.0.0.0/9 (198.0.0.0-198.127.255.255)")),
  range("I-02", "198.51.100.3/31", byCEL("198.51.100.2/31 (198.51.100.2-198.51.100.3)")),
  range("I-02", "2001:db8:0:1::5/64", byCEL("it would mean 2001:db8:0:1::/64")),
  range("I-02", "192.0.2.200/32", accepted),
  range("I-02", "192.0.2.192/28", accepted),
  range("I-02", "192.0.2.5-192.0.2.37", accepted),
  range("IP-08, I-03", "192.0.2.10-192.0.2.10", accepted),
  range("I-03", "192.0.2.10 - 192.0.2.12", accepted),
  range("IP-08, I-03", "192.0.2.20-192.0.2.10", byCEL("ends before it starts; 192.0.2.10-192.0.2.20")),
  range("I-03", "10.0.0.0-9.255.255.255", byCEL("ends before it starts")),
  range("I-03", "9.255.255.255-10.0.0.0", accepted),
  range("I-03", "2001:db8::2-2001:db8::1", byCondition("ends before it starts; 2001:db8::1-2001:db8::2")),
  range("IP-08, I-03", "192.0.2.259", byCEL("192.0.2.259 is neither a prefix nor a range")),
  range("IP-08, I-03", "192.0.2.1-192.0.2.300", byCEL("192.0.2.1-192.0.2.300 is neither a prefix nor a range")),
  range("I-03", "192.0.2.010-192.0.2.020", byCEL("leading zeros")),
  range("I-03", "192.0.2.10", byCEL("write 192.0.2.10/32")),
  range("I-03", "2001:db8::a", byCEL("write 2001:db8::a/128")),
  range("I-03", "192.0.2.1-2001:db8::1", byCEL("ends of two families")),
  range("I-03", "::ffff:192.0.2.10/128", byCEL("IPv4 written as IPv6")),
  range("I-03", "fe80::10/128", byCEL("not assignable")),
  range("I-03", "127.0.0.0/8", byCEL("not assignable")),
  range("I-03", "126.0.0.0/7", byCEL("not assignable")),
  range("I-03", "224.0.0.0/4", byCEL("not assignable")),
  range("I-03", "0.0.0.0/0", byCEL("not assignable")),
  range("I-03", "::/0", byCEL("not assignable")),
  range("I-03", "255.255.255.0/24", byCEL("not assignable")),
  range("I-03", "192.0.2.1-255.255.255.255", byCEL("not assignable")),
  range("I-03", "126.255.255.0-128.0.0.9", byCondition("127.0.0.0/8 is loopback")),
  range("I-03", "2001:DB8::A/128", accepted),
  range("I-03", "2001:db8::1-2001:db8::ffff", accepted),
  range("I-03", "192.0.2.0/31", accepted),
  range("I-03", "192.0.2.0/33", byCEL("neither a prefix nor a range")),
  range("I-03", "192.0.2.0/24-192.0.3.0/24", byCEL("neither a prefix nor a range")),
  range("I-03", "192.0.2.1-192.0.2.2-192.0.2.3", byCEL("neither a prefix nor a range")),
  range("I-03", "-", byCEL("neither a prefix nor a range")),
  range("I-03", "", bySchema("spec.addresses[0]")),
  {
    claim: "I-03: the same range twice, or one inside another, is accepted and merged",
    object: pool("192.0.2.0/24", "192.0.2.0/25", "192.0.2.0/24"),
    outcome: accepted,
  },
  { claim: "a pool without addresses is refused", object: pool(), outcome: bySchema("spec.addresses") },
  {
    claim: "a pool with 65 entries is refused",
    object: pool(...Array.from({ length: 65 }, (_, i) => `192.0.2.${i}/32`)),
    outcome: bySchema("must have at most 64 items"),
  },
  {
    claim: "host bits in excludes are refused as in addresses",
    object: object("IPAddressPool", "edge", { addresses: ["192.0.2.0/24"], excludes: ["192.0.2.9/28"] }),
    outcome: byCEL("192.0.2.0/28"),
  },
  {
    claim: "a selector with In and no values is refused",
    object: object("IPAddressPool", "edge", {
      addresses: ["192.0.2.0/24"],
      serviceAllocation: { namespaceSelectors: [{ matchExpressions: [{ key: "team", operator: "In" }] }] },
    }),
    outcome: byCEL("In and NotIn need at least one value"),
  },
  {
    claim: "a selector by presence is accepted",
    object: object("IPAddressPool", "edge", {
      addresses: ["192.0.2.0/24"],
      serviceAllocation: { serviceSelectors: [{ matchExpressions: [{ key: "team", operator: "Exists" }] }] },
    }),
    outcome: accepted,
  },

  {
    claim: "an IPv4 VirtualIP has its address as name",
    object: vip("192.0.2.5", { address: "192.0.2.5" }),
    outcome: accepted,
  },
  {
    claim: "an IPv6 VirtualIP has dashes for colons",
    object: vip("2001-db8--a", { address: "2001:db8::a" }),
    outcome: accepted,
  },
  {
    claim: "a name never ends with a dash",
    object: vip("2001-db8--0", { address: "2001:db8::" }),
    outcome: accepted,
  },
  {
    claim: "a name never begins with a dash",
    object: vip("0--9-192", { address: "::9:192" }),
    outcome: accepted,
  },
  {
    claim: "a VirtualIP under another name is refused with the right one",
    object: vip("web", { address: "2001:db8::a" }),
    outcome: byCEL("metadata.name must be 2001-db8--a for the address 2001:db8::a"),
  },
  ...[
    ["2001-db8--a", "2001:DB8::A"],
    ["2001-db8-0-0-0-0-0-a", "2001:db8:0:0:0:0:0:a"],
    ["192.0.2.05", "192.0.2.05"],
    ["127.0.0.1", "127.0.0.1"],
    ["169.254.1.1", "169.254.1.1"],
    ["224.0.0.5", "224.0.0.5"],
    ["0.1.2.3", "0.1.2.3"],
    ["255.255.255.255", "255.255.255.255"],
    ["0--1", "::1"],
    ["0--0", "::"],
    ["fe80--1", "fe80::1"],
    ["ff02--1", "ff02::1"],
    ["0--ffff-192.0.2.5", "::ffff:192.0.2.5"],
    ["192.0.2.0-24", "192.0.2.0/24"],
  ].map(
    ([name = "", address = ""]): AdmissionRow => ({
      claim: `a VirtualIP of ${address} is refused`,
      object: vip(name, { address }),
      outcome: byCEL("must be a unicast address in canonical text"),
    }),
  ),
  {
    claim: "the address of a VirtualIP never changes",
    old: vip("192.0.2.5", { address: "192.0.2.5" }),
    object: vip("192.0.2.5", { address: "192.0.2.6" }),
    outcome: byCEL("address is immutable"),
  },
  {
    claim: "the scope of a VirtualIP never changes, also not away from its default",
    old: vip("192.0.2.5", { address: "192.0.2.5" }),
    object: vip("192.0.2.5", { address: "192.0.2.5", scope: "Node" }),
    outcome: byCEL("scope is immutable"),
  },
  {
    claim: "holders and forwards of a VirtualIP may change",
    old: vip("192.0.2.5", { address: "192.0.2.5" }),
    object: vip("192.0.2.5", { address: "192.0.2.5", holders: [holder("web")], forwards: [forward("TCP", 80)] }),
    outcome: accepted,
  },
  {
    claim: "two forwards of one protocol and port are refused",
    object: vip("192.0.2.5", { address: "192.0.2.5", forwards: [forward("TCP", 80), forward("TCP", 80)] }),
    outcome: bySchema("Duplicate value"),
  },
  {
    claim: "two forwards of one port and two protocols are accepted",
    object: vip("192.0.2.5", { address: "192.0.2.5", forwards: [forward("TCP", 53), forward("UDP", 53)] }),
    outcome: accepted,
  },
  {
    claim: "a forward of a holder that is not there is refused",
    object: vip("192.0.2.5", {
      address: "192.0.2.5",
      holders: [holder("web")],
      forwards: [forward("TCP", 80, { holder: 1 })],
    }),
    outcome: byCEL("index in holders"),
  },
  {
    claim: "65 holders are refused",
    object: vip("192.0.2.5", { address: "192.0.2.5", holders: Array.from({ length: 65 }, (_, i) => holder(`g${i}`)) }),
    outcome: bySchema("must have at most 64 items"),
  },
  {
    claim: "513 forwards are refused",
    object: vip("192.0.2.5", {
      address: "192.0.2.5",
      forwards: Array.from({ length: 513 }, (_, i) => forward("TCP", i + 1)),
    }),
    outcome: bySchema("must have at most 512 items"),
  },
  {
    claim: "SCTP is refused by name",
    object: vip("192.0.2.5", { address: "192.0.2.5", forwards: [forward("SCTP", 80)] }),
    outcome: bySchema('Unsupported value: "SCTP"'),
  },
  {
    claim: "a backend that nothing serves yet is refused by name",
    object: vip("192.0.2.5", {
      address: "192.0.2.5",
      forwards: [forward("TCP", 80, { backends: [{ kind: "EndpointSelector", namespace: "demo", name: "web" }] })],
    }),
    outcome: bySchema('Unsupported value: "EndpointSelector"'),
  },
  {
    claim: "a source range that is no prefix is refused",
    object: vip("192.0.2.5", { address: "192.0.2.5", forwards: [forward("TCP", 80, { sourceRanges: ["any"] })] }),
    outcome: byPattern("should match"),
  },
  {
    claim: "an announcement over BGP is refused until something makes it",
    object: vip("192.0.2.5", { address: "192.0.2.5", advertisements: { bgp: ["edge"] } }),
    outcome: byCEL("bgp is not supported by this version"),
  },

  { claim: "an empty L2Advertisement is accepted", object: l2({}), outcome: accepted },
  {
    claim: "interfaces by name and by expression are accepted",
    object: l2({ interfaces: ["eth0", "/^en(p|o)/"], excludeInterfaces: [] }),
    outcome: accepted,
  },
  {
    claim: "an interface name that the kernel can't have is refused",
    object: l2({ interfaces: ["a-name-far-too-long"] }),
    outcome: byPattern("should match"),
  },
  {
    claim: "an expression that does not compile is admitted",
    object: l2({ interfaces: ["/eth(/"] }),
    outcome: byCondition(""),
  },
  {
    claim: "failover settings are refused until something acts on them",
    object: l2({ failover: { intervalMilliseconds: 300, multiplier: 3 } }),
    outcome: byCEL("failover is not supported by this version"),
  },
  {
    claim: "a refresh interval over an hour is refused",
    object: l2({ refreshIntervalSeconds: 3601 }),
    outcome: bySchema("should be less than or equal to 3600"),
  },
  {
    claim: "a preferred node without weight is refused",
    object: l2({ preferredNodeSelectors: [{ preference: {} }] }),
    outcome: bySchema("weight: Required value"),
  },

  { claim: "a route of one port to a Service is accepted", object: route({}), outcome: accepted },
  {
    claim: "a port counts once for each protocol",
    object: route({ ports: [{ port: 53, protocol: "UDP" }, { port: 53 }] }),
    outcome: accepted,
  },
  {
    claim: "one protocol and port twice is refused, also when one is written out",
    object: route({ ports: [{ port: 80 }, { port: 80, protocol: "TCP" }] }),
    outcome: bySchema("Duplicate value"),
  },
  {
    claim: "a backend of a kind that we don't serve is admitted: it may be another controller's",
    object: route({ backendRef: { group: "example.com", kind: "Bucket", name: "web" } }),
    outcome: byCondition(""),
  },
  {
    claim: "two parentRefs to two sections of one parent are accepted",
    object: route({
      parentRefs: [
        { name: "web", sectionName: "a" },
        { name: "web", sectionName: "b" },
      ],
    }),
    outcome: accepted,
  },
  {
    claim: "two parentRefs to one parent, one without section, are refused",
    object: route({ parentRefs: [{ name: "web" }, { name: "web", sectionName: "b" }] }),
    outcome: byCEL("sectionName must be given"),
  },
  {
    claim: "two parentRefs that differ only in port are refused",
    object: route({
      parentRefs: [
        { name: "web", port: 80 },
        { name: "web", port: 81 },
      ],
    }),
    outcome: byCEL("sectionName must differ"),
  },
  {
    claim: "two parentRefs of one name in two namespaces are accepted",
    object: route({ parentRefs: [{ name: "web" }, { name: "web", namespace: "edge" }] }),
    outcome: accepted,
  },
  {
    claim: "a parent in a namespace that no namespace can be called is refused",
    object: route({ parentRefs: [{ name: "web", namespace: "No_Such" }] }),
    outcome: byPattern("should match"),
  },
  {
    claim: "a route without ports is refused",
    object: route({ ports: [] }),
    outcome: bySchema("spec.ports"),
  },
  {
    claim: "port 65536 is refused",
    object: route({ ports: [{ port: 65536 }] }),
    outcome: bySchema("should be less than or equal to 65535"),
  },

  {
    claim: "a SpeakerStatus has the name of its node",
    object: object("SpeakerStatus", "node-a", { nodeName: "node-a" }),
    outcome: accepted,
  },
  {
    claim: "a SpeakerStatus of another node is refused",
    object: object("SpeakerStatus", "node-a", { nodeName: "node-b" }),
    outcome: byCEL("metadata.name must be spec.nodeName"),
  },
];

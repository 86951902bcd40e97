import { expect, test } from "vitest";
import { printAge } from "./age.ts";
import { type Cluster, condition, one, spoilt, vip } from "./cluster.fixture.ts";
import { tableOf, topicNamed } from "./get.ts";
import { renderTable } from "./table.ts";

function table(what: string, spoil: (cluster: Cluster) => void = () => {}, wide = false): string {
  const topic = topicNamed(what);
  if (topic === undefined) throw new Error(`no topic ${what}`);
  const { headings, rows } = tableOf(topic, topic.rows(spoilt(spoil)), {
    wide,
    age: (at) => (at === undefined ? "?" : "5m"),
  });
  return renderTable(headings, rows);
}

test("addresses, with why not", () => {
  const spoil = (c: Cluster) => {
    const six = vip("2001:db8::7", "Gateway", "web", "uid-web", "web");
    six.status = { conditions: [condition("Announced", "False", "NotInSubnet", "no interface\nis there")] };
    c.vips.push(six);
    one(c.vips).status = { ...one(c.vips).status, announcers: { count: 12, names: ["node-1", "node-2"] } };
  };
  expect(table("vips", spoil)).toBe(`\
ADDRESS       POOL   HOLDERS               OWNER    ANNOUNCERS          PROGRAMMED   AGE   WHY-NOT
192.0.2.10    lan    Gateway demo/web      node-1   node-1,node-2,+10   True         5m
192.0.2.11    lan    Service demo/legacy   node-1   node-1              True         5m
2001:db8::7   lan    Gateway demo/web      <none>   <none>              Unknown      5m    NotInSubnet: no interface is there
`);
});

test("addresses, wide", () => {
  expect(table("vip", (c) => void c.vips.pop(), true)).toBe(`\
ADDRESS      POOL   HOLDERS            OWNER    ANNOUNCERS   PROGRAMMED   AGE   PORTS    INTERFACE   OWNED-FOR   NAME         WHY-NOT
192.0.2.10   lan    Gateway demo/web   node-1   node-1       True         5m    TCP 80   eth0        5m          192.0.2.10
`);
});

test("pools, by family", () => {
  const spoil = (c: Cluster) => {
    const { status } = one(c.pools);
    if (status !== undefined) status.availableIPv6 = Number.MAX_SAFE_INTEGER;
    c.pools.push({ ...one(c.pools), metadata: { name: "old" }, spec: { ...one(c.pools).spec, disabled: true } });
    one(c.pools, "old").status = { assignedIPv4: 1, availableIPv4: 0 };
  };
  expect(table("pools", spoil)).toBe(`\
NAME   ADDRESSES               AUTO-ASSIGN   USED   FREE      AGE   WHY-NOT
lan    192.0.2.10-192.0.2.20   true          2/0    9/2^53+   5m
old    192.0.2.10-192.0.2.20   true          1/-    0/-       ?     Disabled: it gives out nothing new
`);
});

test("speakers, dead ones too", () => {
  const spoil = (c: Cluster) => {
    c.liveLeases.delete("belfry-speaker-node-2");
    c.nodes.push({ metadata: { name: "node-3" } });
  };
  expect(table("speakers", spoil, true)).toBe(`\
NODE     LIVE    DATA-PATH   OWNS   FAILING   AGE      LINKS               WHY-NOT
node-1   true    True        2      0         5m       eth0 192.0.2.2/24
node-2   false   True        0      0         5m       eth0 192.0.2.3/24   SpeakerDead: its speaker does not renew its Lease
node-3   false   Unknown     0      0         <none>   <none>              NoSpeaker: no speaker has ever run here
`);
});

test("Gateways and Services", () => {
  expect(table("gateways")).toBe(`\
NAMESPACE   NAME   CLASS    ADDRESSES    PORTS    PROGRAMMED   AGE   WHY-NOT
demo        web    belfry   192.0.2.10   TCP 80   True         5m
`);
  expect(table("svc")).toBe(`\
NAMESPACE   NAME     CLASS                      ADDRESSES    PORTS    PROGRAMMED   AGE   WHY-NOT
demo        legacy   belfry.dev/load-balancer   192.0.2.11   TCP 80   True         5m
`);
});

// k8s.io/apimachinery/pkg/util/duration: HumanDuration
test.each([
  [-5, "<invalid>"],
  [-1, "0s"],
  [0.9, "0s"],
  [119, "119s"],
  [120, "2m"],
  [121, "2m1s"],
  [600, "10m"],
  [3 * 3600, "3h"],
  [3 * 3600 + 60, "3h1m"],
  [9 * 3600 + 60, "9h"],
  [50 * 3600, "2d2h"],
  [9 * 86_400, "9d"],
  [729 * 86_400, "729d"],
  [730 * 86_400, "2y"],
  [800 * 86_400, "2y70d"],
  [3000 * 86_400, "8y"],
])("an age of %d s is %s", (seconds, text) => {
  expect(printAge(seconds)).toBe(text);
});

test("an age that is not known", () => {
  expect(printAge(undefined)).toBe("<unknown>");
});

import { describe, expect, test } from "vitest";
import type { Address } from "../net/address.ts";
import type { ReadModel } from "../status/read-model.ts";
import { type Cluster, condition, one, route, spoilt, vip } from "./cluster.fixture.ts";
import { paintFor } from "./output.ts";
import { renderTrace } from "./render-trace.ts";
import { firstObstacle, type Place, type Trace, traceGateway, traceService, traceVip } from "./trace.ts";

const web = (model: ReadModel): Trace => traceGateway(model, "demo", "web");
const legacy = (model: ReadModel): Trace => traceService(model, "demo", "legacy");
const address = (text: string) => (model: ReadModel) => traceVip(model, text as Address);
const ten = address("192.0.2.10");

/** What is spoilt · who is asked · where the first obstacle stands · words of it · words of the advice. */
type Row = [string, (cluster: Cluster) => void, (model: ReadModel) => Trace, Place, string, string];

const speakerOf = (cluster: Cluster, name: string) => one(cluster.speakers, name).status ?? {};
const linksOf = ({ speakers }: Cluster) => speakers.flatMap(({ status }) => status?.links ?? []);
const ownerOf = (cluster: Cluster) => {
  const status = one(cluster.vips).status;
  if (status?.owner === undefined) throw new Error("the fixture has an owner");
  return status.owner;
};
const noOwner = (cluster: Cluster) => {
  delete one(cluster.vips).status?.owner;
};
const endpoints = (cluster: Cluster) => one(cluster.slices, "web-1").endpoints ?? [];
const withoutVip = (cluster: Cluster) => {
  cluster.vips = cluster.vips.filter(({ metadata }) => metadata.name !== "192.0.2.10");
};
const fill = (cluster: Cluster) => {
  withoutVip(cluster);
  one(cluster.pools).spec.addresses = ["192.0.2.11/32"];
};
const deleting = (cluster: Cluster) => {
  one(cluster.vips).metadata.deletionTimestamp = "2026-01-02T00:00:00Z";
};

const ROWS: Row[] = [
  // request
  [
    "no such Gateway",
    (c) => {
      c.gateways = [];
    },
    web,
    "request",
    "there is no Gateway demo/web",
    "-n",
  ],
  [
    "the Gateway is being deleted",
    (c) => {
      one(c.gateways).metadata.deletionTimestamp = "x";
    },
    web,
    "request",
    "being deleted",
    "no finalizer",
  ],
  [
    "no such class",
    (c) => {
      one(c.gateways).spec.gatewayClassName = "no";
    },
    web,
    "request",
    'no GatewayClass "no"',
    "controllerName belfry.dev/load-balancer",
  ],
  [
    "another's class",
    (c) => {
      one(c.gateways).spec.gatewayClassName = "other";
    },
    web,
    "request",
    "belongs to example.com/other",
    "gatewayClassName",
  ],
  [
    "a class with parameters",
    (c) => {
      one(c.gatewayClasses).spec.parametersRef = { group: "x", kind: "Y", name: "z" };
    },
    web,
    "request",
    "no kind of parameters",
    "class",
  ],
  [
    "only HTTP listeners",
    (c) => {
      one(c.gateways).spec.listeners = [{ name: "h", protocol: "HTTP", port: 80 }];
    },
    web,
    "request",
    "protocol HTTP is not supported",
    "spec",
  ],
  [
    "a host name asked for",
    (c) => {
      one(c.gateways).spec.addresses = [{ type: "Hostname", value: "a" }];
    },
    web,
    "request",
    "type Hostname is not supported",
    "spec",
  ],
  [
    "an address that is none",
    (c) => {
      one(c.gateways).spec.addresses = [{ value: "a" }];
    },
    web,
    "request",
    "not an IP address",
    "spec",
  ],
  [
    "no such Service",
    (c) => {
      c.services = [];
    },
    legacy,
    "request",
    "there is no Service demo/legacy",
    "-n",
  ],
  [
    "a Service that is a ClusterIP",
    (c) => {
      one(c.services, "legacy").spec.type = "ClusterIP";
    },
    legacy,
    "request",
    "of type ClusterIP",
    "LoadBalancer",
  ],
  [
    "a Service of another class",
    (c) => {
      one(c.services, "legacy").spec.loadBalancerClass = "io.example/lb";
    },
    legacy,
    "request",
    "io.example/lb is not Belfry's",
    "immutable",
  ],
  [
    "a Service without class that nobody claimed",
    (c) => {
      delete one(c.services, "legacy").spec.loadBalancerClass;
      c.vips = [];
    },
    legacy,
    "request",
    "no loadBalancerClass",
    "--claim-classless-services",
  ],
  [
    "a Service with SCTP alone",
    (c) => {
      one(c.services, "legacy").spec.ports = [{ protocol: "SCTP", port: 80 }];
    },
    legacy,
    "request",
    "nothing to forward",
    "Service",
  ],
  [
    "an address whose holder is gone",
    (c) => {
      c.gateways = [];
    },
    ten,
    "request",
    "Gateway demo/web is gone",
    "controller",
  ],
  [
    "an address whose holder was made anew",
    (c) => {
      one(c.gateways).metadata.uid = "new";
    },
    ten,
    "request",
    "made anew",
    "controller",
  ],
  ["a free address", () => {}, address("192.0.2.15"), "request", 'free in pool "lan"', "spec.addresses"],
  // routes
  [
    "no route",
    (c) => {
      c.routes = [];
    },
    web,
    "routes",
    "no ServiceRoute names this Gateway",
    "parentRefs",
  ],
  [
    "a route on another port",
    (c) => {
      one(c.routes).spec.ports = [{ protocol: "TCP", port: 81 }];
    },
    web,
    "routes",
    "no listener",
    "route",
  ],
  [
    "a route without its Service",
    (c) => {
      c.services = c.services.slice(1);
    },
    web,
    "routes",
    "there is no Service demo/web",
    "route",
  ],
  [
    "a route to a port that the Service has not",
    (c) => {
      one(c.routes).spec.ports = [{ protocol: "TCP", port: 80, backendPort: 99 }];
    },
    web,
    "routes",
    "has no port TCP 99",
    "route",
  ],
  // pool
  [
    "no pool",
    (c) => {
      withoutVip(c);
      c.pools = [];
    },
    web,
    "pool",
    "there is no IPAddressPool",
    "IPAddressPool",
  ],
  ["a full pool", fill, web, "pool", 'pool "lan" has no free IPv4', "add addresses"],
  [
    "a pool that is not for this namespace",
    (c) => {
      withoutVip(c);
      one(c.pools).spec.serviceAllocation = {
        priority: 0,
        namespaces: ["else"],
        namespaceSelectors: [],
        serviceSelectors: [],
        gatewayClasses: [],
      };
    },
    web,
    "pool",
    "no pool that this object may draw from",
    "belfry get pools",
  ],
  [
    "an address asked for that another has",
    (c) => {
      one(c.gateways).spec.addresses = [{ value: "192.0.2.11" }];
    },
    web,
    "pool",
    "in use by Service demo/legacy",
    "another address",
  ],
  [
    "an address asked for outside of all pools",
    (c) => {
      one(c.gateways).spec.addresses = [{ value: "192.0.2.99" }];
    },
    web,
    "pool",
    "in no IPAddressPool",
    "belfry get pools",
  ],
  [
    "an address asked for that is a node's",
    (c) => {
      one(c.gateways).spec.addresses = [{ value: "192.0.2.20" }];
      one(c.nodes).status = { addresses: [{ type: "InternalIP", address: "192.0.2.20" }] };
    },
    web,
    "pool",
    "an address of node node-1",
    "another address",
  ],
  [
    "a named pool that is not there",
    (c) => {
      one(c.services, "legacy").metadata.annotations = { "belfry.dev/address-pool": "gone" };
      c.vips = [];
    },
    legacy,
    "pool",
    'no IPAddressPool "gone"',
    "create the pool",
  ],
  ["an address of no pool", () => {}, address("192.0.2.99"), "pool", "no IPAddressPool has it", "belfry get pools"],
  [
    "an address that is a gateway's",
    (c) => {
      one(c.pools).spec.addresses = ["192.0.2.1-192.0.2.20"];
    },
    address("192.0.2.1"),
    "pool",
    "a default gateway of node",
    "another",
  ],
  // controller
  ["an address could be given and is not", withoutVip, web, "controller", "has not acted yet", "log"],
  [
    "an address could be given and no controller lives",
    (c) => {
      withoutVip(c);
      c.liveLeases.delete("belfry-controller");
    },
    web,
    "controller",
    "no controller is alive",
    "kubectl -n belfry-system",
  ],
  // address
  ["the address is being given back", deleting, ten, "address", "being given back", "wait"],
  [
    "the address is kept by a dead node",
    (c) => {
      deleting(c);
      one(c.vips).status?.conditions?.push(condition("Releasing", "True", "NodeMayAnswer", "node-2 may still answer"));
    },
    ten,
    "address",
    "node-2 may still answer",
    "belfry release 192.0.2.10 --force",
  ],
  [
    "another device has the address",
    (c) =>
      void one(c.vips).status?.conditions?.push(
        condition("Conflict", "True", "Claimed", "02:00:00:00:00:99 claims it"),
      ),
    ten,
    "address",
    "claims it",
    "the other device",
  ],
  [
    "the address is bound to an earlier Gateway",
    (c) => {
      one(c.gateways).metadata.uid = "new";
    },
    web,
    "address",
    "an earlier Gateway demo/web",
    "controller",
  ],
  [
    "the forwards are not up to date",
    (c) => {
      one(c.gateways).spec.listeners.push({ name: "b", protocol: "TCP", port: 81 });
      c.routes.push(portRoute(81));
    },
    web,
    "address",
    "does not forward yet",
    "controller",
  ],
  // advertisement
  [
    "nothing announces it",
    (c) => {
      one(c.vips).spec.advertisements.l2 = [];
    },
    ten,
    "advertisement",
    "announced by no L2Advertisement",
    "create an L2Advertisement",
  ],
  [
    "the advertisement is gone",
    (c) => {
      c.advertisements = [];
    },
    web,
    "advertisement",
    "announced by no L2Advertisement",
    "create",
  ],
  // node
  [
    "no node is selected",
    (c) => {
      one(c.advertisements).spec.nodeSelectors = [{ matchLabels: { a: "b" } }];
    },
    ten,
    "node",
    "no node is selected",
    "nodeSelectors",
  ],
  [
    "no speaker lives",
    (c) => {
      c.liveLeases = new Set(["belfry-controller"]);
    },
    ten,
    "node",
    "no node",
    "belfry get speakers",
  ],
  [
    "all nodes are excluded",
    (c) => c.nodes.forEach(exclude),
    ten,
    "node",
    "exclude-from-external-load-balancers",
    "label",
  ],
  [
    "no node's data path is ready",
    (c) => c.speakers.forEach(unready),
    ten,
    "node",
    "DataPathReady=False",
    "belfry doctor",
  ],
  ["the elected node has not begun", noOwner, ten, "node", "is to answer and has not begun", "speaker"],
  [
    "the elected node says why it has not begun",
    (c) => {
      noOwner(c);
      for (const { status } of c.speakers) status?.failing?.push({ vip: "192.0.2.10", reason: "the table is full" });
    },
    ten,
    "node",
    "is to answer and has not begun",
    "speaker",
  ],
  [
    "the owner has died and the next is not there yet",
    (c) => void c.liveLeases.delete("belfry-speaker-node-1"),
    ten,
    "node",
    "node node-1 is recorded and can't answer (NoLiveSpeaker); node node-2 is to take over",
    "node-2",
  ],
  [
    "the owner has not programmed the last change",
    (c) => {
      ownerOf(c).generation = 1;
    },
    web,
    "node",
    "has not programmed the last change",
    "node-1",
  ],
  // interface
  [
    "no interface is allowed",
    (c) => {
      one(c.advertisements).spec.interfaces = ["eth9"];
    },
    ten,
    "interface",
    "no interface of the selected nodes",
    "interfaces",
  ],
  [
    "the interfaces are down",
    (c) =>
      linksOf(c).forEach((link) => {
        link.up = false;
      }),
    ten,
    "interface",
    "down or without carrier",
    "plug",
  ],
  [
    "no interface is in the subnet",
    (c) =>
      linksOf(c).forEach((link) => {
        link.subnets = ["198.51.100.2/24"];
      }),
    ten,
    "interface",
    "subnet that holds 192.0.2.10",
    "requireSubnet",
  ],
  // endpoints
  [
    "no slice at all",
    (c) => {
      c.slices = [];
    },
    ten,
    "endpoints",
    "no endpoint at all",
    "selector",
  ],
  [
    "no endpoint is ready",
    (c) =>
      endpoints(c).forEach((each) => {
        each.conditions = { ready: false };
      }),
    ten,
    "endpoints",
    "none of 2 endpoints is ready",
    "probes",
  ],
  [
    "the slices have another port name",
    (c) => {
      one(c.slices, "web-1").ports = [{ name: "x", protocol: "TCP", port: 1 }];
    },
    ten,
    "endpoints",
    'no TCP port "http"',
    "ports",
  ],
  [
    "the slices have another family",
    (c) => {
      one(c.slices, "web-1").addressType = "IPv6";
    },
    ten,
    "endpoints",
    "no IPv4 endpoint",
    "ipFamilies",
  ],
  [
    "the backend's Service is gone",
    (c) => {
      c.services = c.services.slice(1);
      c.slices = [];
    },
    ten,
    "endpoints",
    "there is no Service demo/web",
    "create",
  ],
  [
    "a backend that was not resolved",
    (c) =>
      one(c.vips).spec.forwards.forEach((each) => {
        each.backends = [];
      }),
    ten,
    "endpoints",
    "is refused",
    "route",
  ],
  [
    "no port at all",
    (c) => {
      one(c.vips).spec.forwards = [];
    },
    ten,
    "endpoints",
    "forwards no port",
    "port",
  ],
  [
    "local endpoints only, and none on a node that can answer",
    (c) => {
      one(c.vips).spec.forwards.forEach((each) => {
        each.nodes = "LocalOnly";
      });
      endpoints(c).forEach((each) => {
        each.nodeName = "node-9";
      });
    },
    ten,
    "endpoints",
    "no candidate node runs a ready endpoint",
    "externalTrafficPolicy",
  ],
];

function portRoute(port: number) {
  const made = route("second");
  made.spec.ports = [{ protocol: "TCP", port, backendPort: 80 }];
  return made;
}
function exclude(node: Cluster["nodes"][number]) {
  node.metadata.labels = { "node.kubernetes.io/exclude-from-external-load-balancers": "" };
}
function unready({ status }: Cluster["speakers"][number]) {
  if (status !== undefined)
    status.conditions = [condition("DataPathReady", "False", "ForwardingOff", "ip_forward is 0")];
}

describe("the first thing in the way", () => {
  test.each(ROWS)("%s", (_, spoil, ask, place, says, todo) => {
    const obstacle = firstObstacle(ask(spoilt(spoil)));
    expect(obstacle).toMatchObject({ place, mark: "stop" });
    expect(obstacle?.says).toContain(says);
    expect(obstacle?.todo).toContain(todo);
  });

  test("every place can be the one", () => {
    const places = new Set(ROWS.map(([, , , place]) => place));
    expect([...places].sort()).toEqual(
      ["address", "advertisement", "controller", "endpoints", "interface", "node", "pool", "request", "routes"].sort(),
    );
  });
});

describe("nothing in the way", () => {
  test.each([
    ["a Gateway", web],
    ["a Service", legacy],
    ["an address", ten],
  ])("%s of a healthy cluster", (_, ask) => {
    const trace = ask(spoilt());
    expect(firstObstacle(trace)).toBeUndefined();
    const steps = [...trace.head, ...trace.paths.flatMap((path) => path.steps)];
    expect(steps.map(({ mark }) => mark)).toEqual(steps.map(() => "ok"));
  });

  test.each<[string, (cluster: Cluster) => void, (model: ReadModel) => Trace, string]>([
    [
      "a listener without route beside one that has one",
      (c) => void one(c.gateways).spec.listeners.push({ name: "b", protocol: "TCP", port: 81 }),
      web,
      'listener "b"',
    ],
    [
      "a listener of HTTP beside one of TCP",
      (c) => void one(c.gateways).spec.listeners.push({ name: "h", protocol: "HTTP", port: 81 }),
      web,
      "protocol HTTP",
    ],
    [
      "a second route that is younger",
      (c) =>
        void c.routes.push({
          ...route("young"),
          metadata: { name: "young", namespace: "demo", creationTimestamp: "2026-01-02T00:00:00Z" },
        }),
      web,
      "older",
    ],
    [
      "a pool that is gone",
      (c) => {
        c.pools = [];
      },
      ten,
      "is gone; the address stays",
    ],
    [
      "a pool that has the address no more",
      (c) => {
        one(c.pools).spec.addresses = ["192.0.2.11/32"];
      },
      ten,
      "does not have it any more",
    ],
    [
      "a port that is not forwarded",
      (c) => void one(c.services, "legacy").spec.ports?.push({ name: "s", protocol: "SCTP", port: 9 }),
      legacy,
      "SCTP 9 is not forwarded",
    ],
    [
      "a status that does not show the address",
      (c) => {
        one(c.gateways).status = {};
      },
      web,
      "does not show it",
    ],
    [
      "one advertisement of two is gone",
      (c) => void one(c.vips).spec.advertisements.l2.push("gone"),
      ten,
      "gone: named by the VirtualIP",
    ],
    [
      "a failure of the owner that does not hinder",
      (c) => void speakerOf(c, "node-1").failing?.push({ vip: "192.0.2.10", reason: "a stranger claims it" }),
      ten,
      "a stranger claims it",
    ],
  ])("but worth a note: %s", (_, spoil, ask, words) => {
    const trace = ask(spoilt(spoil));
    expect(firstObstacle(trace)).toBeUndefined();
    const notes = [...trace.head, ...trace.paths.flatMap((path) => path.steps)].filter(({ mark }) => mark === "note");
    expect(JSON.stringify(notes)).toContain(JSON.stringify(words).slice(1, -1));
  });

  test("a service proxy's data path needs no endpoint of ours", () => {
    const model = spoilt((c) => {
      c.slices = [];
      one(c.vips).spec.forwards.forEach((each) => {
        each.dataPath = "ServiceProxy";
      });
    });
    expect(firstObstacle(ten(model))).toBeUndefined();
  });

  test("a Service that the controller's flags leave to the service proxy is up to date", () => {
    const model = spoilt((c) => {
      for (const forward of one(c.vips, "192.0.2.11").spec.forwards) forward.dataPath = "ServiceProxy";
    });
    expect(firstObstacle(legacy(model))).toBeUndefined();
  });
});

describe("what may not be seen", () => {
  test("without a look at nodes and speakers the record speaks", () => {
    const trace = ten(spoilt(() => {}, new Map([["speakers", "you may not list speakerstatuses"]])));
    expect(firstObstacle(trace)).toBeUndefined();
    expect(JSON.stringify(trace)).toContain("the record's word alone");
  });

  test("without a look at VirtualIPs the controller's condition speaks", () => {
    const refused = condition("Programmed", "False", "AddressNotAssigned", "PoolExhausted: pool lan is full");
    const spoil = (c: Cluster) => {
      one(c.gateways).status = { conditions: [refused] };
    };
    const obstacle = firstObstacle(web(spoilt(spoil, new Map([["vips", "you may not list virtualips"]]))));
    expect(obstacle).toMatchObject({ place: "pool", says: "PoolExhausted: pool lan is full" });
  });

  test("without a look at EndpointSlices nothing is said against the endpoints", () => {
    expect(firstObstacle(ten(spoilt(() => {}, new Map([["slices", "you may not"]]))))).toBeUndefined();
  });
});

test("a Gateway that is gone shows the addresses that it still keeps", () => {
  const trace = web(
    spoilt((c) => {
      c.gateways = [];
      deleting(c);
    }),
  );
  expect(trace.paths.map((path) => path.address)).toEqual(["192.0.2.10"]);
});

test("two addresses are two paths, in order", () => {
  const model = spoilt((c) => {
    one(c.gateways).spec.addresses = [{ value: "192.0.2.10" }, { value: "192.0.2.9" }];
    c.vips.push(vip("192.0.2.9", "Gateway", "web", "uid-web", "web"));
  });
  expect(web(model).paths.map((path) => path.address)).toEqual(["192.0.2.9", "192.0.2.10"]);
});

const plain = paintFor({ stdout: { write() {}, isTTY: false }, environment: {} });

test("the trace as it is read", () => {
  const model = spoilt((c) => {
    one(c.advertisements).spec.interfaces = ["eth9"];
  });
  expect(renderTrace(web(model), plain)).toBe(`Gateway demo/web
  ✓ request        class belfry; http TCP 80
  ✓ routes         TCP 80 → Service demo/web
  ✓ pool           192.0.2.10 of pool lan
192.0.2.10
  ✓ address        VirtualIP 192.0.2.10; TCP 80
  ✓ advertisement  L2Advertisement lan
  ✓ node           nodes are selected and alive
  ✗ interface      no interface of the selected nodes, such as node-1, is allowed by interfaces and excludeInterfaces of the L2Advertisement
                   node-1: NoInterface
                   node-2: NoInterface
  ✓ endpoints      TCP 80 → Service demo/web: 2 usable

In the way: interface: no interface of the selected nodes, such as node-1, is allowed by interfaces and excludeInterfaces of the L2Advertisement
What to do: change interfaces or excludeInterfaces of the L2Advertisement: belfry get speakers -o wide shows the links
`);
});

import { expect, test } from "vitest";
import type { Listener } from "../api/foreign.ts";
import { gateway, listener } from "./gateway.fixture.ts";
import { judgeListeners } from "./listener.ts";

const SERVICE_ROUTE = { group: "belfry.dev", kind: "ServiceRoute" };
const TCP_ROUTE = { kind: "TCPRoute" };

const protocols: [string, boolean, string][] = [
  ["TCP", true, ""],
  ["UDP", true, ""],
  ["HTTP", false, "use protocol TCP on port 80 and a ServiceRoute to the Service of a proxy that speaks HTTP"],
  ["HTTPS", false, "speaks HTTPS"],
  ["TLS", false, "speaks TLS"],
  ["INVALID", false, "use TCP or UDP"],
  ["tcp", false, "protocol tcp is not supported"],
  ["example.net/SCTP", false, "protocol example.net/SCTP is not supported"],
];

test.each(protocols)("a listener of protocol %s is accepted: %s", (protocol, accepted, advice) => {
  const [judged] = judgeListeners(gateway([listener("a", protocol, 80)]));
  expect(judged?.accepted?.reason).toBe(accepted ? undefined : "UnsupportedProtocol");
  expect(judged?.accepted?.message ?? "").toContain(advice);
  expect(judged?.supportedKinds).toEqual(accepted ? [SERVICE_ROUTE] : []);
  expect(judged?.resolvedRefs).toBeUndefined();
});

const kinds: [string, NonNullable<Listener["allowedRoutes"]>["kinds"], number, string | undefined][] = [
  ["not given", undefined, 1, undefined],
  ["empty", [], 1, undefined],
  ["ServiceRoute", [SERVICE_ROUTE], 1, undefined],
  ["ServiceRoute of the Gateway API's group", [{ kind: "ServiceRoute" }], 0, "gateway.networking.k8s.io/ServiceRoute"],
  ["a kind that is not there yet", [TCP_ROUTE], 0, "gateway.networking.k8s.io/TCPRoute"],
  ["one of ours and one that is not", [TCP_ROUTE, SERVICE_ROUTE], 1, "gateway.networking.k8s.io/TCPRoute"],
];

test.each(kinds)("allowedRoutes.kinds %s: supported and unknown kinds are told apart", (_, asked, count, unknown) => {
  const allowedRoutes = asked === undefined ? {} : { kinds: asked };
  const [judged] = judgeListeners(gateway([listener("a", "TCP", 80, { allowedRoutes })]));
  expect(judged?.supportedKinds).toHaveLength(count);
  expect(judged?.resolvedRefs?.reason).toBe(unknown === undefined ? undefined : "InvalidRouteKinds");
  expect(judged?.resolvedRefs?.message ?? "").toContain(unknown ?? "");
  expect(judged?.accepted).toBeUndefined();
});

const conflicts: [string, [string, string, number][], string[]][] = [
  [
    "GW-01: TCP and UDP share a port",
    [
      ["t", "TCP", 53],
      ["u", "UDP", 53],
    ],
    [],
  ],
  [
    "GW-10: TCP and HTTP share none, and UDP is untouched",
    [
      ["t", "TCP", 53],
      ["h", "HTTP", 53],
      ["u", "UDP", 53],
    ],
    ["t", "h"],
  ],
  [
    "TCP and HTTPS share none",
    [
      ["t", "TCP", 443],
      ["h", "HTTPS", 443],
    ],
    ["t", "h"],
  ],
  [
    "TCP and TLS share none",
    [
      ["t", "TCP", 443],
      ["h", "TLS", 443],
    ],
    ["t", "h"],
  ],
  [
    "HTTP and HTTPS are told apart by host name",
    [
      ["a", "HTTP", 443],
      ["b", "HTTPS", 443],
    ],
    [],
  ],
  [
    "two TCP listeners share none",
    [
      ["a", "TCP", 80],
      ["b", "TCP", 80],
    ],
    ["a", "b"],
  ],
  [
    "two UDP listeners share none",
    [
      ["a", "UDP", 80],
      ["b", "UDP", 80],
    ],
    ["a", "b"],
  ],
  [
    "other ports are no matter",
    [
      ["a", "TCP", 80],
      ["b", "HTTP", 81],
    ],
    [],
  ],
];

test.each(conflicts)("%s", (_, listeners, conflicted) => {
  const judged = judgeListeners(gateway(listeners.map(([name, protocol, port]) => listener(name, protocol, port))));
  const named = judged.filter((each) => each.conflicted !== undefined);
  expect(named.map((each) => each.name)).toEqual(conflicted);
  for (const each of named) {
    expect(each.conflicted?.reason).toBe("ProtocolConflict");
    expect(each.accepted?.reason).toBe(each.protocol === undefined ? "UnsupportedProtocol" : "ProtocolConflict");
  }
});

test("a conflict names the listeners that it is with", () => {
  const [judged] = judgeListeners(gateway([listener("t", "TCP", 53), listener("h", "HTTP", 53)]));
  expect(judged?.conflicted?.message).toContain('listener "h" (HTTP)');
});

import { expect, test } from "vitest";
import { unknownAnnotations } from "./annotation.ts";

const rows: [string, string | undefined][] = [
  ["belfry.dev/allow-shared", "belfry.dev/allow-shared-ip"],
  ["belfry.dev/loadbalancerips", "belfry.dev/loadBalancerIPs"],
  ["belfry.dev/load-balancer-ip", "belfry.dev/loadBalancerIPs"],
  ["belfry.dev/addresspool", "belfry.dev/address-pool"],
  ["belfry.dev/pool", "belfry.dev/address-pool"],
  ["belfry.dev/address-pool", undefined],
  ["belfry.dev/loadBalancerIPs", undefined],
  ["metallb.io/address-pool", undefined],
  ["belfry.developer/x", undefined],
];

test.each(rows)("SH-09: annotation %s is answered with %s", (key, nearest) => {
  const warnings = unknownAnnotations({ [key]: "x" });
  expect(warnings).toHaveLength(nearest === undefined ? 0 : 1);
  expect(warnings[0]?.message ?? "").toContain(nearest === undefined ? "" : `did you mean ${nearest}?`);
});

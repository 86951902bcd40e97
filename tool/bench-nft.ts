/**
 * How long the nftables plane takes to load 10,000 VIPs with two endpoints each, beside `nft -f` loading the same sets,
 * maps, chains and elements from a file in the same run. Everything happens in network namespaces of its own.
 */
import { execFile, execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { clock } from "../src/host/clock.ts";
import { NETLINK_NETFILTER, openNetlink } from "../src/host/netlink-socket.ts";
import type { Address } from "../src/net/address.ts";
import type { Prefix } from "../src/net/prefix.ts";
import { DataPlane } from "../src/nft/session.ts";
import type { Endpoint, VipPlan } from "../src/plan/vip-plan.ts";

const VIPS = 10_000;
const BUCKETS = 16;
const ROUNDS = 3;
/** Changes by the peer in each round. */
const CHANGES = 20;

/** The plan of the VIP with this number: one TCP frontend, two endpoints of its own on other nodes, 16 buckets. */
export function benchPlan(number: number, version = 0): VipPlan {
  const [high, low] = [number >> 8, number & 0xff];
  const endpoint = (last: number): Endpoint => ({
    address: `198.19.${high}.${low}` as Address,
    port: 8080 + last,
    local: false,
  });
  const two = [endpoint(1), endpoint(2 + version)];
  return {
    address: `198.18.${high}.${low}` as Address,
    scope: "External",
    frontends: [
      {
        protocol: "TCP",
        port: 80,
        sourceRanges: [],
        action: {
          type: "balance",
          affinity: "None",
          buckets: Array.from({ length: BUCKETS }, (_, bucket) => two[bucket % 2]),
        },
      },
    ],
  };
}

/** The same as text for `nft -f`: what a speaker without an encoder of its own would write. */
function peerText(plans: readonly VipPlan[]): string {
  const vips: string[] = [];
  const frontends: string[] = [];
  const endpoints: string[] = [];
  for (const plan of plans) {
    vips.push(plan.address);
    for (const { protocol, port, action } of plan.frontends) {
      const key = `${plan.address} . ${protocol.toLowerCase()} . ${port}`;
      if (action.type !== "balance") continue;
      frontends.push(`${key} : goto choose4-flow-${action.buckets.length}`);
      for (const [bucket, endpoint] of action.buckets.entries()) {
        if (endpoint !== undefined) endpoints.push(`${key} . ${bucket} : ${endpoint.address} . ${endpoint.port}`);
      }
    }
  }
  return `table inet belfry {
  set vip4 { type ipv4_addr; elements = { ${vips.join(", ")} } }
  map endpoint4 {
    typeof ip daddr . meta l4proto . th dport . numgen random mod 65536 : ip daddr . th dport
    elements = { ${endpoints.join(",\n")} }
  }
  chain choose4-flow-${BUCKETS} {
    meta l4proto { tcp, udp } dnat ip to ip daddr . meta l4proto . th dport . jhash ip saddr . th sport mod ${BUCKETS} seed 0x62656c66 map @endpoint4
  }
  map frontend4 {
    type ipv4_addr . inet_proto . inet_service : verdict
    elements = { ${frontends.join(",\n")} }
  }
  chain nat-prerouting {
    type nat hook prerouting priority -105
    ip daddr . meta l4proto . th dport vmap @frontend4
  }
}
`;
}

/** One endpoint of one VIP changes: its buckets go and come, in one transaction. */
function peerChange(number: number): string {
  const { address, frontends } = benchPlan(number, 1);
  const lines = frontends.flatMap(({ protocol, port, action }) => {
    if (action.type !== "balance") return [];
    return action.buckets.flatMap((endpoint, bucket) => {
      if (endpoint === undefined || bucket % 2 === 0) return [];
      const key = `${address} . ${protocol.toLowerCase()} . ${port} . ${bucket}`;
      return [
        `delete element inet belfry endpoint4 { ${key} }`,
        `add element inet belfry endpoint4 { ${key} : ${endpoint.address} . ${endpoint.port} }`,
      ];
    });
  });
  return `${lines.join("\n")}\n`;
}

/** Milliseconds of one change by `nft -f`, less what entering the namespace costs. */
async function peerChanges(namespace: string, file: string): Promise<number[]> {
  const timed = async (...command: string[]) => {
    const begin = performance.now();
    await run("ip", ["netns", "exec", namespace, ...command]);
    return performance.now() - begin;
  };
  const entering: number[] = [];
  const changes: number[] = [];
  for (let i = 0; i < CHANGES; i++) {
    writeFileSync(file, peerChange((i * 7919) % VIPS));
    entering.push(await timed("true"));
    changes.push(await timed("nft", "-f", file));
  }
  return changes.map((each) => each - median(entering));
}

const median = (values: readonly number[]): number =>
  [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;

/** In a fresh namespace: claims, loads everything, and gives the seconds from the call to the acknowledgement. */
async function loadOnce(): Promise<number> {
  const netlink = openNetlink({ protocol: NETLINK_NETFILTER });
  const plane = new DataPlane({ netlink, clock, pause });
  const started = await plane.start();
  if (!started.ok) throw new Error(started.fault.message);
  const plans = new Map(Array.from({ length: VIPS }, (_, i) => benchPlan(i)).map((plan) => [plan.address, plan]));
  const begin = performance.now();
  const applied = await plane.adopt(plans, {
    ownPods: ["198.19.200.0/24" as Prefix],
    clusterPods: ["198.19.0.0/16" as Prefix],
    nodeAddresses: [],
  });
  const seconds = (performance.now() - begin) / 1000;
  if ("fault" in applied) throw new Error(applied.fault.message);
  netlink.close();
  return seconds;
}

const run = promisify(execFile);

async function inFreshNamespace<T>(name: string, work: () => Promise<T>): Promise<T> {
  execFileSync("ip", ["netns", "add", name]);
  try {
    return await work();
  } finally {
    execFileSync("ip", ["netns", "delete", name]);
  }
}

/** Needs root and the nft program. Ours and the peer's rounds take turns. */
export async function benchNft(): Promise<Record<string, number>> {
  const directory = mkdtempSync(join(tmpdir(), "belfry-bench-"));
  const file = join(directory, "peer.nft");
  const ours: number[] = [];
  const peers: number[] = [];
  const changes: number[] = [];
  try {
    writeFileSync(file, peerText(Array.from({ length: VIPS }, (_, i) => benchPlan(i))));
    for (let round = 0; round < ROUNDS; round++) {
      const name = `belfry-bench-${process.pid}-${round}`;
      ours.push(
        await inFreshNamespace(name, async () => {
          const self = fileURLToPath(import.meta.url);
          const { stdout } = await run("ip", ["netns", "exec", name, process.execPath, self, "--load-once"]);
          return Number(stdout);
        }),
      );
      peers.push(
        await inFreshNamespace(`${name}-peer`, async () => {
          const begin = performance.now();
          await run("ip", ["netns", "exec", `${name}-peer`, "nft", "-f", file]);
          const seconds = (performance.now() - begin) / 1000;
          changes.push(...(await peerChanges(`${name}-peer`, join(directory, "change.nft"))));
          return seconds;
        }),
      );
    }
  } finally {
    rmSync(directory, { recursive: true });
  }
  return {
    nft_load_10k_s: median(ours),
    nft_f_load_10k_s: median(peers),
    nft_load_ratio: median(ours) / median(peers),
    nft_f_change_p50_ms_10k: median(changes),
  };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  console.log(process.argv.includes("--load-once") ? await loadOnce() : await benchNft());
}

/**
 * Watches the kernel and the API server from inside a node's network namespace, the same way whoever programs the kernel.
 * Runs as a resident (lab/resident.ts); every instant is of CLOCK_MONOTONIC, in milliseconds.
 */
import { setTimeout as delay } from "node:timers/promises";
import { serveActions } from "../lab/resident-entry.ts";
import { ENDPOINTSLICE } from "../src/api/resource.ts";
import { fromHex, toHex } from "../src/core/bytes.ts";
import { silentLog } from "../src/core/log.ts";
import { clock } from "../src/host/clock.ts";
import { NETLINK_NETFILTER, type NetlinkSocket, openNetlink } from "../src/host/netlink-socket.ts";
import { createClient } from "../src/kube/client.ts";
import { loadConfig } from "../src/kube/config.ts";
import { MessageWriter } from "../src/netlink/message.ts";
import { NFNLGRP_NFTABLES, NFPROTO_INET, NFPROTO_IPV4 } from "../src/netlink/nfnetlink.ts";
import { putElementQuery } from "../src/netlink/nftables.ts";

/** A map from `address . protocol . port`; kube-proxy's and ours have the same key. */
export type FrontendMap = { readonly family: "ip" | "inet"; readonly table: string; readonly map: string };

let sequence = 1;
let asking: NetlinkSocket | undefined;

/** One lookup of one element in the kernel: no dump, so it costs the same in a full table. */
async function holds({ family, table, map }: FrontendMap, key: Uint8Array): Promise<boolean> {
  asking ??= openNetlink({ protocol: NETLINK_NETFILTER });
  const writer = new MessageWriter(256);
  putElementQuery(writer, sequence++, table, map, key, family === "ip" ? NFPROTO_IPV4 : NFPROTO_INET);
  const [reply] = await asking.exchange(writer.bytes(), () => true);
  return reply !== undefined && new DataView(reply.buffer, reply.byteOffset).getUint16(4, true) !== 2;
}

/** When a notification of nftables first had these bytes in it, by their hex. */
const toldAt = new Map<string, number>();
let sought: string | undefined;
let monitor: NetlinkSocket | undefined;

/** When the event of a slice's version was read, by `name resourceVersion`. */
const readAt = new Map<string, number>();
let watching: AbortController | undefined;

const actions = {
  /** Asks until the map holds all these keys (hex), every few milliseconds; gives the instant. */
  async untilHeld(map: FrontendMap, keys: readonly string[], limitMs: number): Promise<number> {
    const deadline = clock.now() + limitMs;
    for (const hex of keys) {
      const key = fromHex(hex);
      while (!(await holds(map, key))) {
        if (clock.now() > deadline) throw new Error(`not within ${limitMs} ms: an element of ${map.table} ${map.map}`);
        await delay(4);
      }
    }
    return clock.now();
  },

  /** Counts the keys (hex) that the map holds. */
  async countHeld(map: FrontendMap, keys: readonly string[]): Promise<number> {
    let held = 0;
    for (const hex of keys) if (await holds(map, fromHex(hex))) held++;
    return held;
  },

  /** Listens to what nftables tells of changes in this namespace. */
  listen(): void {
    monitor = openNetlink({
      protocol: NETLINK_NETFILTER,
      groups: [NFNLGRP_NFTABLES],
      onMessage: (message) => {
        if (sought !== undefined && !toldAt.has(sought) && toHex(message).includes(sought)) {
          toldAt.set(sought, clock.now());
        }
      },
    });
  },

  deafen(): void {
    monitor?.close();
    monitor = undefined;
  },

  seek(hex: string): void {
    sought = hex;
  },

  /** The instant of the first notification that had the sought bytes in it: the kernel sends it once a change holds. */
  async untilTold(hex: string, limitMs: number): Promise<number> {
    const deadline = clock.now() + limitMs;
    for (;;) {
      const at = toldAt.get(hex);
      if (at !== undefined) return at;
      if (clock.now() > deadline) throw new Error(`not within ${limitMs} ms: a notification with ${hex}`);
      await delay(2);
    }
  },

  /** Follows the EndpointSlices of a namespace, beside whoever else does. */
  async watchSlices(kubeconfig: string, namespace: string, resourceVersion: string): Promise<void> {
    const client = createClient(loadConfig({ kubeconfig }), { clock, log: silentLog });
    watching = new AbortController();
    const { signal } = watching;
    signal.addEventListener("abort", () => client.close());
    await new Promise<void>((resolve, reject) => {
      void client
        .watch(
          ENDPOINTSLICE,
          { namespace, resourceVersion, timeoutSeconds: 3600, signal },
          {
            opened: () => resolve(),
            heard: () => {},
            event: (_, { metadata }, receivedAt) =>
              readAt.set(`${metadata.name} ${metadata.resourceVersion}`, receivedAt),
          },
        )
        .then((end) => signal.aborted || reject(new Error(`the watch of slices ended: ${JSON.stringify(end)}`)));
    });
  },

  async untilRead(name: string, resourceVersion: string, limitMs: number): Promise<number> {
    const deadline = clock.now() + limitMs;
    for (;;) {
      const at = readAt.get(`${name} ${resourceVersion}`);
      if (at !== undefined) return at;
      if (clock.now() > deadline) throw new Error(`not within ${limitMs} ms: the event of ${name}`);
      await delay(2);
    }
  },

  unwatch(): void {
    watching?.abort();
  },
};

export type ObserverActions = typeof actions;

serveActions(actions);

/** A data plane in a network namespace of its own, for lab tests: a resident (see lab/resident.ts) that does as it is told. */
import { setTimeout } from "node:timers/promises";
import { serveActions } from "../../lab/resident-entry.ts";
import type { Fault } from "../core/trouble.ts";
import { clock } from "../host/clock.ts";
import { NETLINK_NETFILTER, type NetlinkSocket, openNetlink } from "../host/netlink-socket.ts";
import type { Address } from "../net/address.ts";
import { NFNLGRP_NFTABLES } from "../netlink/nfnetlink.ts";
import type { NodeSurroundings, VipPlan } from "../plan/vip-plan.ts";
import { type Applied, DataPlane, type Started } from "./session.ts";

let netlink: NetlinkSocket | undefined;
let conntrack: NetlinkSocket | undefined;
let plane: DataPlane | undefined;
let told = 0;
const repairs: (Applied | { fault: Fault })[] = [];
const flowFaults: Fault[] = [];

const actions = {
  /** A new speaker: opens its socket and claims the table. */
  start(options: { plain?: boolean; largeMap?: number } = {}): Promise<Started> {
    netlink = openNetlink({ protocol: NETLINK_NETFILTER });
    conntrack = openNetlink({ protocol: NETLINK_NETFILTER });
    plane = new DataPlane({
      netlink,
      conntrack,
      clock,
      pause: setTimeout,
      plain: options.plain ?? false,
      ...(options.largeMap !== undefined && { largeMap: options.largeMap }),
      watch: (onChange, onOverrun, ignoreSender) =>
        openNetlink({
          protocol: NETLINK_NETFILTER,
          groups: [NFNLGRP_NFTABLES],
          ignoreSender,
          onMessage: (message) => {
            told++;
            onChange(message);
          },
          onOverrun,
        }),
      onRepair: (repaired) => void repairs.push(repaired),
      onFlowFault: (fault) => void flowFaults.push(fault),
    });
    return plane.start();
  },
  adopt: (plans: readonly VipPlan[], surroundings: NodeSurroundings) =>
    known().adopt(new Map(plans.map((plan) => [plan.address, plan])), surroundings),
  apply: (changes: readonly (readonly [Address, VipPlan | undefined])[], surroundings?: NodeSurroundings) =>
    known().apply(new Map(changes), surroundings),
  flowsCleaned: () => known().flowsCleaned(),
  forgetFlows: (address: Address) => known().forgetFlows(address),
  droppingForwardChains: () => known().droppingForwardChains(),
  /** Messages about changes that the watch was told since the last call. */
  told(): number {
    const count = told;
    told = 0;
    return count;
  },
  /** What others' changes have led to since the last call. */
  repairs: () => repairs.splice(0),
  flowFaults: () => flowFaults.splice(0),
  /** The process is gone: so are its sockets, and nothing else happens. */
  die(): void {
    plane?.close();
    netlink?.close();
    conntrack?.close();
    plane = undefined;
  },
};

function known(): DataPlane {
  if (plane === undefined) throw new Error("start first");
  return plane;
}

export type PlaneActions = typeof actions;

serveActions(actions);

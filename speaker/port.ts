/** What the speaker's loop needs of the two halves that it feeds: the nftables plane and the wire worker. */
import type { Address } from "../src/net/address.ts";
import type { NodeSurroundings, VipPlan } from "../src/plan/vip-plan.ts";
import type { FromWire, ToWire } from "./wire-protocol.ts";

export type PlanePort = {
  /**
   * Makes the plane hold these plans, and nothing for an address whose plan is undefined, in one transaction; addresses
   * that are not named stay as they are. Resolves after the kernel's acknowledgement, rejects when nothing was changed.
   */
  apply(changes: ReadonlyMap<Address, VipPlan | undefined>, surroundings?: NodeSurroundings): Promise<unknown>;
};

export type WirePort = {
  send(message: ToWire): void;
  onMessage(listener: (message: FromWire) => void): void;
};

/** What the speaker's loop needs of the two halves that it feeds: the nftables plane and the wire worker. */
import type { Fault } from "../src/core/trouble.ts";
import type { Address } from "../src/net/address.ts";
import type { NodeSurroundings, VipPlan } from "../src/plan/vip-plan.ts";
import type { HeldCounts } from "./held-count.ts";
import type { FromWire, ToWire } from "./wire-protocol.ts";

/** What was done and which VIPs the kernel refused, or why nothing was changed at all. */
export type PlaneOutcome =
  | {
      readonly failed: ReadonlyMap<Address, Fault>;
      readonly added: number;
      readonly deleted: number;
      readonly rebuilt?: string;
    }
  | { readonly fault: Fault };

/** The Fault with which the plane says that the table's owner is alive (EPERM on the claim). */
export const anotherSpeakerLives = (fault: Fault): boolean =>
  fault.what.startsWith("claim of table") && fault.message.startsWith("another speaker lives");

/** `nft/session.ts` fulfils it. */
export type PlanePort = {
  /** Claims the table; a Fault is retried. */
  start(): Promise<{ readonly ok: true; readonly mode: string } | { readonly ok: false; readonly fault: Fault }>;
  /** Bucket counts in the table as an earlier life left it, by frontend; asked between `start` and `adopt`. */
  heldCounts(): Promise<HeldCounts>;
  /** Makes the table hold exactly these plans; nothing is sent where it does already. */
  adopt(plans: ReadonlyMap<Address, VipPlan>, surroundings: NodeSurroundings): Promise<PlaneOutcome>;
  /**
   * Makes the plane hold these plans, and nothing for an address whose plan is undefined, in one transaction; addresses
   * that are not named stay as they are. Resolves after the kernel's acknowledgement.
   */
  apply(changes: ReadonlyMap<Address, VipPlan | undefined>, surroundings?: NodeSurroundings): Promise<PlaneOutcome>;
  /** Ends every flow of the VIP: it was given to another holder. */
  forgetFlows(address: Address): void;
};

export type WirePort = {
  send(message: ToWire): void;
  onMessage(listener: (message: FromWire) => void): void;
};

import type { VirtualIP } from "../api/virtual-ip.ts";
import { reaches } from "../core/resource-version.ts";

/** A node's speaker as a consistent read of Leases and SpeakerStatus, made after the deletion was seen, shows it. */
export type SpeakerView = {
  readonly node: string;
  /** False only when its Lease was seen to stand still for its whole duration, or is not there. */
  readonly live: boolean;
  readonly withdrawnThrough: string | undefined;
  /** Its Node: Ready, not Ready, or deleted. */
  readonly nodeState: "Ready" | "NotReady" | "Deleted";
};

export type ReleaseInput = {
  readonly vip: VirtualIP;
  readonly speakers: readonly SpeakerView[];
  /** resourceVersion of a consistent list of VirtualIPs, made after the speakers were read. */
  readonly listVersion: string;
  /** True when the status of the holder still shows the address. */
  readonly shownByHolder: boolean;
};

export type ReleaseDecision =
  /** Nobody answers for the address any more: the finalizer goes. */
  | { readonly type: "removeFinalizer" }
  | {
      readonly type: "wait";
      /** Live speakers that have not reported yet: a matter of milliseconds. */
      readonly reporting: readonly string[];
      /** Nodes without a live speaker that may still answer: named in the condition Releasing. */
      readonly holding: readonly string[];
      readonly shownByHolder: boolean;
    };

/**
 * Whether the address of a VIP that is being deleted may be given to another ("Release" of the life of a VIP).
 * A live speaker lets go by reporting `withdrawnThrough` up to this object. A dead one holds the address when it was
 * the last recorded owner (cut off, it may go on answering) or when its Node is Ready (its nft table outlives it),
 * until it returns or its Node is deleted.
 */
export function decideRelease(input: ReleaseInput): ReleaseDecision {
  const { vip, speakers, listVersion, shownByHolder } = input;
  const reporting: string[] = [];
  const holding: string[] = [];
  const owner = vip.status?.owner?.node;
  for (const { node, live, withdrawnThrough, nodeState } of speakers) {
    // A report above what the API server has now was made in another life of the store: it says nothing.
    const withdrew = reaches(withdrawnThrough, vip.metadata.resourceVersion) && reaches(listVersion, withdrawnThrough);
    if (live) {
      if (!withdrew) reporting.push(node);
    } else if (nodeState !== "Deleted" && (node === owner || nodeState === "Ready")) {
      holding.push(node);
    }
  }
  if (reporting.length === 0 && holding.length === 0 && !shownByHolder) return { type: "removeFinalizer" };
  return { type: "wait", reporting: reporting.sort(), holding: holding.sort(), shownByHolder };
}

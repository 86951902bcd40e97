import { type Address, familyOf } from "../net/address.ts";

/** A VIP that this node's kernel answers for by itself, whoever owns it. */
export type KernelAnswer = {
  readonly address: Address;
  /** The interface that the VIP is assigned to. */
  readonly assignedTo: string;
  /** Interfaces on which the kernel answers. */
  readonly answersOn: readonly string[];
  /** What to do about it. */
  readonly message: string;
};

export type LinkForKernelAnswers = {
  readonly name: string;
  readonly loopback: boolean;
  readonly noArp: boolean;
  readonly addresses: readonly { readonly address: Address }[];
};

/**
 * VIPs that are assigned to an interface of this node, so that the kernel answers ARP or NDP for them beside the owner
 * (kube-proxy IPVS without strictARP, an address set by hand).
 *
 * ARP: a local address is answered on every interface, unless arp_ignore there or on `all`, whichever is more, is above 0
 * (kernel's ip-sysctl); with 1 and more only on the interface that has it. NDP: only on the interface that has it.
 * `arpIgnore` gives the effective value by interface name.
 */
export function kernelAnswers(
  vips: ReadonlySet<Address>,
  links: readonly LinkForKernelAnswers[],
  arpIgnore: (link: string) => number,
): KernelAnswer[] {
  const speaking = links.filter((link) => !link.loopback && !link.noArp);
  const answers: KernelAnswer[] = [];
  for (const link of links) {
    for (const { address } of link.addresses) {
      if (!vips.has(address)) continue;
      const answersOn = speaking
        .map(({ name }) => name)
        .filter((name) => name === link.name || (familyOf(address) === "IPv4" && arpIgnore(name) === 0));
      if (answersOn.length > 0)
        answers.push({ address, assignedTo: link.name, answersOn, message: advice(address, link, answersOn) });
    }
  }
  return answers;
}

function advice(address: Address, link: LinkForKernelAnswers, answersOn: readonly string[]): string {
  const says = `${address} is assigned to ${link.name}, so the kernel answers for it on ${answersOn.join(", ")}, whoever owns it`;
  return answersOn.includes(link.name)
    ? `${says}; take the address off the interface`
    : `${says}; set strictARP: true in kube-proxy's IPVS mode, or net.ipv4.conf.all.arp_ignore=1 and arp_announce=2`;
}

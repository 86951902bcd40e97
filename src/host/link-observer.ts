import {
  decodeAcknowledgement,
  decodeMessage,
  type Message,
  NLM_F_DUMP_INTR,
  NLMSG_DONE,
  NLMSG_ERROR,
} from "../netlink/message.ts";
import {
  type AddressRecord,
  decodeRouteMessage,
  dumpAddresses,
  dumpLinks,
  dumpRoutes,
  getLink,
  type LinkRecord,
  type NextHop,
  ROUTE_GROUPS,
  type RouteMessage,
} from "../netlink/rtnetlink.ts";
import { LinkTable, type Question } from "../netlink/rtnetlink-links.ts";
import { NETLINK_ROUTE, type NetlinkSocket, openNetlink } from "./netlink-socket.ts";
import type { HostLink, LinkObserver } from "./port.ts";
import { SystemError } from "./sysnet.ts";

/** How long a re-dump waits after one that failed, and route dumps after one another. */
const PAUSE_MILLISECONDS = 100;
const DUMP_TRIES = 10;
/** EOPNOTSUPP, EAFNOSUPPORT. */
const UNKNOWN_FAMILY: readonly number[] = [95, 97];

/**
 * Follows links, addresses and default routes of the network namespace of this thread; resolves with the first whole
 * picture. Rejects with a SystemError where rtnetlink refuses. `onTrouble` hears of failed dumps (each is tried again)
 * and of what a listener threw.
 */
export async function observeLinks(onTrouble: (trouble: unknown) => void): Promise<LinkObserver> {
  const observer = new Observer(onTrouble);
  try {
    await observer.dumpAll();
  } catch (trouble) {
    observer.close();
    throw trouble;
  }
  return observer;
}

class Observer implements LinkObserver {
  readonly #onTrouble: (trouble: unknown) => void;
  readonly #socket: NetlinkSocket;
  readonly #table = new LinkTable();
  readonly #listeners = new Set<() => void>();
  #sequence = 1;
  #links: readonly HostLink[] = [];
  #told = "";
  /** What the groups say while a dump is under way: taken after it, in order, so that the end is right. */
  #meanwhile: RouteMessage[] | undefined;
  #again: NodeJS.Timeout | undefined;
  #routes: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(onTrouble: (trouble: unknown) => void) {
    this.#onTrouble = onTrouble;
    this.#socket = openNetlink({
      protocol: NETLINK_ROUTE,
      groups: Object.values(ROUTE_GROUPS),
      onMessage: (bytes) => this.#hear(bytes),
      onOverrun: () => this.#dumpSoon(),
      onTrouble,
    });
  }

  links = (): readonly HostLink[] => this.#links;

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#again);
    clearTimeout(this.#routes);
    this.#socket.close();
  }

  async dumpAll(): Promise<void> {
    this.#meanwhile ??= [];
    const links = await this.#dump(dumpLinks, linkIn);
    const addresses = await this.#dump(dumpAddresses, addressIn);
    this.#table.replace(links, addresses);
    this.#table.replaceHops(await this.#dumpHops());
    const meanwhile = this.#meanwhile ?? [];
    this.#meanwhile = undefined;
    for (const message of meanwhile) this.#take(message);
    this.#tell();
  }

  #hear(bytes: Uint8Array): void {
    const message = decodeMessage(bytes);
    const decoded = message && decodeRouteMessage(message);
    if (decoded === undefined) return;
    if (this.#meanwhile !== undefined) {
      this.#meanwhile.push(decoded);
      return;
    }
    this.#take(decoded);
    // After each message, not each batch: a carrier that went and came at once was still away.
    this.#tell();
  }

  #take(message: RouteMessage): void {
    for (const question of this.#table.take(message)) this.#ask(question);
  }

  #ask(question: Question): void {
    if (question.type === "routes") {
      this.#routes ??= setTimeout(() => {
        this.#routes = undefined;
        this.#dumpHops().then((hops) => {
          this.#table.replaceHops(hops);
          this.#tell();
        }, this.#failed);
      }, PAUSE_MILLISECONDS);
      return;
    }
    const sequence = this.#sequence++;
    this.#socket
      .exchange(getLink(question.index, sequence), () => true)
      .then((replies) => {
        // A link that is gone by now answers ENODEV, and its end is told by the group.
        for (const link of replies.flatMap((reply) => linkIn(decodeMessage(reply)))) {
          this.#take({ type: "link", link });
        }
        this.#tell();
      }, this.#failed);
  }

  async #dumpHops(): Promise<NextHop[]> {
    const hops = [];
    for (const family of ["IPv4", "IPv6"] as const) {
      try {
        hops.push(...(await this.#dump((sequence) => dumpRoutes(family, sequence), hopsIn)));
      } catch (trouble) {
        // A kernel without IPv6 has no IPv6 routes, and says so.
        if (!(trouble instanceof SystemError && UNKNOWN_FAMILY.includes(trouble.errno))) throw trouble;
      }
    }
    return hops;
  }

  /** One consistent dump. */
  async #dump<T>(
    ask: (sequence: number) => Uint8Array,
    read: (message: Message | undefined) => readonly T[],
  ): Promise<T[]> {
    for (let tries = 1; ; tries++) {
      const messages = (await this.#socket.exchange(ask(this.#sequence++), isLast)).map(decodeMessage);
      const refusal = messages.find((message) => message?.type === NLMSG_ERROR);
      const acknowledgement = refusal && decodeAcknowledgement(refusal);
      if (acknowledgement !== undefined && acknowledgement.errno > 0) {
        throw new SystemError(`rtnetlink dump ${acknowledgement.text ?? ""}`.trim(), -acknowledgement.errno);
      }
      const torn = messages.some((message) => message !== undefined && (message.flags & NLM_F_DUMP_INTR) !== 0);
      if (!torn || tries >= DUMP_TRIES) return messages.flatMap(read);
    }
  }

  #dumpSoon(): void {
    this.#meanwhile ??= [];
    this.#again ??= setTimeout(() => {
      this.#again = undefined;
      this.dumpAll().catch((trouble: unknown) => {
        this.#failed(trouble);
        this.#dumpSoon();
      });
    }, PAUSE_MILLISECONDS);
  }

  readonly #failed = (trouble: unknown): void => {
    if (!this.#closed) this.#onTrouble(trouble);
  };

  #tell(): void {
    const links = this.#table.view();
    const told = JSON.stringify(links);
    if (told === this.#told) return;
    this.#told = told;
    this.#links = links;
    for (const listener of this.#listeners) {
      try {
        listener();
      } catch (trouble) {
        this.#onTrouble(trouble);
      }
    }
  }
}

const isLast = (bytes: Uint8Array): boolean => {
  const type = decodeMessage(bytes)?.type;
  return type === NLMSG_DONE || type === NLMSG_ERROR;
};

function linkIn(message: Message | undefined): LinkRecord[] {
  const decoded = message && decodeRouteMessage(message);
  return decoded?.type === "link" ? [decoded.link] : [];
}

function addressIn(message: Message | undefined): AddressRecord[] {
  const decoded = message && decodeRouteMessage(message);
  return decoded?.type === "address" ? [decoded.address] : [];
}

function hopsIn(message: Message | undefined): readonly NextHop[] {
  const decoded = message && decodeRouteMessage(message);
  return decoded?.type === "defaultRoute" ? decoded.hops : [];
}

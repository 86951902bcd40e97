import type { Condition, OwnerReference } from "../src/api/meta.ts";
import { SPEAKERSTATUS } from "../src/api/resource.ts";
import type { Link, SpeakerStatus } from "../src/api/speaker-status.ts";
import { after, type Instant } from "../src/core/instant.ts";
import type { Log } from "../src/core/log.ts";
import { isOlder } from "../src/core/resource-version.ts";
import type { Clock } from "../src/host/port.ts";
import type { ApiClient } from "../src/kube/port.ts";

/** The whole status as it should stand; written when it differs from what was written last. */
export type Report = {
  readonly links: readonly Link[];
  readonly conditions: readonly Omit<Condition, "lastTransitionTime">[];
  readonly failing: readonly { readonly vip: string; readonly reason: string }[];
  readonly failingCount: number;
  readonly withdrawnThrough: string | undefined;
};

const LEAST_GAP_MILLISECONDS = 1000;

/** Writes this node's SpeakerStatus: on change only, and at most once a second. */
export class Reporter {
  readonly #node: string;
  readonly #client: ApiClient;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #wallClock: () => string;
  readonly #owner: () => OwnerReference | undefined;
  #wanted: Report | undefined;
  #written: string | undefined;
  /** resourceVersion of the last write. */
  #version: string | undefined;
  #conditions: readonly Condition[] = [];
  #notBefore: Instant | undefined;
  #busy = false;
  /** What the watch told while a write was under way. */
  #unread: { readonly object: SpeakerStatus | undefined } | undefined;
  #failures = 0;

  constructor(options: {
    node: string;
    client: ApiClient;
    clock: Clock;
    log: Log;
    wallClock: () => string;
    /** The Node, as what is created goes with it; undefined while there is none, and nothing is created. */
    owner: () => OwnerReference | undefined;
  }) {
    this.#owner = options.owner;
    this.#node = options.node;
    this.#client = options.client;
    this.#clock = options.clock;
    this.#log = options.log;
    this.#wallClock = options.wallClock;
  }

  /** What the last life of this speaker wrote: equal again means that nothing is written. */
  adopt(status: SpeakerStatus["status"]): void {
    if (this.#written !== undefined || status === undefined) return;
    this.#conditions = status.conditions ?? [];
    this.#written = printStatus(status);
  }

  /**
   * Our own object as the watch tells it, undefined when it was deleted. What is not as it was written last, because
   * somebody else wrote it or the store was put back, is written again.
   */
  seen(object: SpeakerStatus | undefined): void {
    if (this.#busy) {
      this.#unread = { object };
      return;
    }
    if (this.#written === undefined) return;
    // An echo of an earlier write of ours.
    if (
      object !== undefined &&
      this.#version !== undefined &&
      isOlder(object.metadata.resourceVersion ?? "", this.#version)
    )
      return;
    this.#conditions = object?.status?.conditions ?? [];
    this.#written = object?.status === undefined ? "" : printStatus(object.status);
    this.tick(this.#clock.now());
  }

  /** The store changed: versions that were seen mean nothing any more. */
  forgetVersion(): void {
    this.#version = undefined;
  }

  want(report: Report): void {
    this.#wanted = report;
    this.tick(this.#clock.now());
  }

  nextDeadline(): Instant | undefined {
    return this.#busy || this.#wanted === undefined || print(this.#wanted) === this.#written
      ? undefined
      : this.#notBefore;
  }

  tick(now: Instant): void {
    if (this.#busy || this.#wanted === undefined || (this.#notBefore !== undefined && now < this.#notBefore)) return;
    const report = this.#wanted;
    if (print(report) === this.#written) return;
    this.#busy = true;
    this.#notBefore = after(now, LEAST_GAP_MILLISECONDS);
    void this.#write(report).finally(() => {
      this.#busy = false;
      const unread = this.#unread;
      this.#unread = undefined;
      if (unread !== undefined) this.seen(unread.object);
    });
  }

  async #write(report: Report): Promise<void> {
    const conditions = report.conditions.map((condition) => ({
      ...condition,
      lastTransitionTime:
        this.#conditions.find((it) => it.type === condition.type && it.status === condition.status)
          ?.lastTransitionTime ?? this.#wallClock(),
    }));
    const patch = {
      status: {
        links: report.links,
        conditions,
        failing: report.failing,
        failingCount: report.failingCount,
        // A number of a store that was put back would speak of deletions that are still to come.
        withdrawnThrough: report.withdrawnThrough ?? null,
      },
    };
    const key = { name: this.#node };
    let answer = await this.#client.mergePatch<SpeakerStatus>(SPEAKERSTATUS, key, patch, "status");
    const owner = this.#owner();
    if (!answer.ok && answer.failure.reason === "NotFound" && owner !== undefined) {
      await this.#client.create<SpeakerStatus>(SPEAKERSTATUS, {
        apiVersion: "belfry.dev/v1alpha1",
        kind: "SpeakerStatus",
        metadata: { name: this.#node, ownerReferences: [owner] },
        spec: { nodeName: this.#node },
      });
      answer = await this.#client.mergePatch<SpeakerStatus>(SPEAKERSTATUS, key, patch, "status");
    }
    if (answer.ok) {
      this.#written = print(report);
      this.#version = answer.object.metadata.resourceVersion;
      this.#conditions = conditions;
      this.#failures = 0;
      return;
    }
    this.#failures++;
    const { status, message } = answer.failure;
    if (this.#failures === 1) this.#log.warn({ speaker: this.#node, status, message }, "SpeakerStatus is not written");
    this.#notBefore = after(this.#clock.now(), Math.min(30_000, 1000 * 2 ** Math.min(this.#failures, 5)));
  }
}

const printStatus = (status: NonNullable<SpeakerStatus["status"]>): string =>
  print({
    links: status.links ?? [],
    conditions: (status.conditions ?? []).map(({ lastTransitionTime: _, ...rest }) => rest),
    failing: status.failing ?? [],
    failingCount: status.failingCount ?? 0,
    withdrawnThrough: status.withdrawnThrough,
  });

const print = (report: Report): string =>
  JSON.stringify([
    report.links.map(({ name, mac, up, subnets, defaultGateways }) => [name, mac, up, subnets, defaultGateways]),
    report.conditions.map(({ type, status, reason, message }) => [type, status, reason, message]),
    report.failing.map(({ vip, reason }) => [vip, reason]),
    report.failingCount,
    report.withdrawnThrough,
  ]);

/** What the CLI needs of the world: all of it is handed in, so that a test is a world of its own. */

import type { Link } from "../api/speaker-status.ts";
import type { HostLink } from "../host/port.ts";
import type { NodeObservation } from "../plan/data-path-ready.ts";

export type Output = { write(text: string): void; readonly isTTY: boolean };

export type World = {
  /** Arguments after the program's name. */
  readonly argv: readonly string[];
  /** What the user typed: `belfry`, or `kubectl belfry`. */
  readonly programName: string;
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly stdout: Output;
  readonly stderr: Output;
  /** The answer of the person at the terminal; undefined when nobody sits there. */
  ask(question: string): Promise<string | undefined>;
  /** Seconds since an RFC 3339 time, by the wall clock; undefined for other texts. */
  secondsSince(timestamp: string): number | undefined;
  pause(milliseconds: number): Promise<void>;
  readonly isRoot: boolean;
  /** How the speaker looks at the node that it runs on. */
  speakerEyes(): Promise<SpeakerEyes>;
};

export type SpeakerEyes = {
  reportedLinks(links: readonly HostLink[]): Link[];
  observeNode(options: {
    readonly links: readonly HostLink[];
    readonly interfaces: readonly string[];
    readonly podCIDRsKnown: boolean;
    readonly droppingForwardChains: NodeObservation["droppingForwardChains"];
  }): NodeObservation;
};

/** Something that ends the command, in words for the person who typed it; 2 unless `exitCode` says otherwise. */
export class CommandFailed extends Error {
  readonly exitCode: number;
  constructor(message: string, exitCode = 2) {
    super(message);
    this.exitCode = exitCode;
  }
}

/** What went over a wire, with the kernel's time stamps: tcpdump writes, we read. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { addressFromBytes } from "../src/net/address.ts";
import type { Claim } from "./claim.ts";

export type Frame = {
  /** Seconds on the kernel's real-time clock, with microseconds. */
  readonly at: number;
  readonly bytes: Uint8Array;
};

export type Capture = {
  /** Ends the capture and gives all frames, in order. */
  stop(): Promise<Frame[]>;
};

/** Captures on an interface of a namespace until stopped. Resolves when tcpdump listens. */
export async function startCapture(
  claim: Claim,
  namespace: string,
  device: string,
  filter: readonly string[] = [],
): Promise<Capture> {
  const file = `${claim.directory}/${namespace}-${device}-${Date.now()}.pcap`;
  const child = spawn(
    "ip",
    [
      "netns",
      "exec",
      namespace,
      "tcpdump",
      "-i",
      device,
      "-w",
      file,
      "-U",
      "--immediate-mode",
      "-B",
      "16384",
      "-Z",
      "root",
      "-s",
      "0",
      ...filter,
    ],
    { stdio: ["ignore", "ignore", "pipe"] },
  );
  if (child.pid !== undefined) claim.process(child.pid);
  await listening(child);
  return {
    async stop() {
      await delay(200); // the last frames are on their way through the ring
      child.kill("SIGINT");
      await once(child, "exit");
      return readPcap(readFileSync(file));
    },
  };
}

function listening(child: ChildProcess): Promise<void> {
  return new Promise((resolve, reject) => {
    let text = "";
    child.stderr?.setEncoding("utf8").on("data", (chunk) => {
      text += chunk;
      if (text.includes("listening on")) resolve();
    });
    child.once("exit", () => reject(new Error(`tcpdump: ${text.trim()}`)));
    child.once("error", reject);
  });
}

/** The frames of a pcap file in the byte order of this machine's tcpdump (magic a1b2c3d4, little-endian, microseconds). */
export function readPcap(file: Uint8Array): Frame[] {
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  if (view.byteLength < 24 || view.getUint32(0, true) !== 0xa1b2c3d4) throw new Error("not a little-endian pcap file");
  const frames: Frame[] = [];
  for (let at = 24; at + 16 <= view.byteLength; ) {
    const length = view.getUint32(at + 8, true);
    if (at + 16 + length > view.byteLength) break; // the last record was cut off
    frames.push({
      at: view.getUint32(at, true) + view.getUint32(at + 4, true) / 1e6,
      bytes: file.subarray(at + 16, at + 16 + length),
    });
    at += 16 + length;
  }
  return frames;
}

/** An ARP packet or a neighbour advertisement or solicitation, as the tests look at it. */
export type NeighbourFrame = {
  readonly at: number;
  readonly source: string;
  readonly destination: string;
  readonly kind: "arp-request" | "arp-reply" | "ns" | "na";
  /** Address that is asked for or claimed. */
  readonly target: string;
  /** Sender's protocol address (ARP) or IPv6 source. */
  readonly sender: string;
};

/** The neighbour traffic among the frames. */
export function neighbourFrames(frames: readonly Frame[]): NeighbourFrame[] {
  return frames.flatMap((frame): NeighbourFrame[] => {
    const bytes = frame.bytes;
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    if (bytes.length < 42) return [];
    const common = { at: frame.at, destination: mac(bytes, 0), source: mac(bytes, 6) };
    const type = view.getUint16(12);
    if (type === 0x0806) {
      const kind = view.getUint16(20) === 1 ? "arp-request" : "arp-reply";
      return [{ ...common, kind, target: ipv4(bytes, 38), sender: ipv4(bytes, 28) }];
    }
    if (type === 0x86dd && bytes.length >= 78 && bytes[20] === 58 && (bytes[54] === 135 || bytes[54] === 136)) {
      return [
        { ...common, kind: bytes[54] === 135 ? "ns" : "na", target: ipv6(bytes, 62), sender: ipv6(bytes, 22) } as const,
      ];
    }
    return [];
  });
}

/** True for frames by which a node says that it has the address: ARP with it as sender, or an advertisement. */
export const claims = (frame: NeighbourFrame, address: string): boolean =>
  frame.kind === "na" ? frame.target === address : frame.kind !== "ns" && frame.sender === address;

const mac = (bytes: Uint8Array, at: number): string =>
  Array.from(bytes.subarray(at, at + 6), (byte) => byte.toString(16).padStart(2, "0")).join(":");

const ipv4 = (bytes: Uint8Array, at: number): string => bytes.subarray(at, at + 4).join(".");

const ipv6 = (bytes: Uint8Array, at: number): string => addressFromBytes(bytes.subarray(at, at + 16));

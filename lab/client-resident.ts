/** The client on the LAN (or in a pod, or on a node): asks addresses and tells who answered. */
import dgram from "node:dgram";
import { readFileSync } from "node:fs";
import net from "node:net";
import { performance } from "node:perf_hooks";
import { fromHex } from "../src/core/bytes.ts";
import {
  AF_PACKET,
  bind,
  close,
  interfaceIndex,
  orThrow,
  SOCK_CLOEXEC,
  SOCK_RAW,
  send,
  socket,
} from "../src/host/sysnet.ts";
import { serveActions } from "./resident-entry.ts";

/** `answer` carries the server's words, `refused` an RST or an ICMP unreachable, `silent` nothing within the time. */
export type Outcome =
  | { type: "answer"; text: string }
  | { type: "refused"; code: string }
  | { type: "silent" }
  | { type: "broken"; code: string };

function askTcp(address: string, port: number, timeoutMs: number): Promise<Outcome> {
  return new Promise((resolve) => {
    const socket = net.connect({ host: address, port });
    let text = "";
    const finish = (outcome: Outcome) => {
      clearTimeout(timer);
      socket.destroy();
      resolve(outcome);
    };
    const timer = setTimeout(() => finish({ type: "silent" }), timeoutMs);
    socket.setEncoding("utf8");
    socket.on("data", (chunk) => {
      text += chunk;
      if (text.endsWith("\n")) finish({ type: "answer", text: text.trim() });
    });
    socket.on("end", () => finish({ type: "broken", code: "EOF" }));
    socket.on("error", (error: NodeJS.ErrnoException) =>
      finish({ type: error.code === "ETIMEDOUT" ? "silent" : "refused", code: error.code ?? error.message } as Outcome),
    );
  });
}

function askUdp(address: string, port: number, timeoutMs: number): Promise<Outcome> {
  return new Promise((resolve) => {
    const socket = dgram.createSocket(address.includes(":") ? "udp6" : "udp4");
    let repeat: NodeJS.Timeout | undefined;
    const finish = (outcome: Outcome) => {
      clearTimeout(timer);
      clearInterval(repeat);
      socket.close();
      resolve(outcome);
    };
    const timer = setTimeout(() => finish({ type: "silent" }), timeoutMs);
    socket.on("message", (bytes) => finish({ type: "answer", text: bytes.toString().trim() }));
    socket.on("error", (error: NodeJS.ErrnoException) =>
      finish({ type: "refused", code: error.code ?? error.message }),
    );
    // A connected socket hears ICMP unreachables.
    socket.connect(port, address, () => {
      const send = () => socket.send("?", () => {});
      send();
      repeat = setInterval(send, 1000);
    });
  });
}

/** Long connections that each exchange one counted byte at every interval. */
type Stream = { socket: net.Socket; sent: number; received: number; broken: string | undefined };
const streams: Stream[] = [];
let beat: NodeJS.Timeout | undefined;

/** Questions at a steady rate, each from a new socket. */
let load:
  | { timer: NodeJS.Timeout; counts: Record<string, number>; pending: Set<Promise<void>>; synRetransmissions: number }
  | undefined;

/** SYN and SYN-ACK that were sent again in this thread's namespace so far (proc_pid_net(5): netstat). */
function synRetransmissions(): number {
  const lines = readFileSync("/proc/thread-self/net/netstat", "utf8").split("\n");
  const [names = [], values = []] = lines.filter((line) => line.startsWith("TcpExt:")).map((line) => line.split(" "));
  return Number(values[names.indexOf("TCPSynRetrans")]);
}

/** Frames sent again and again, each batch at every interval, until stopped. */
const drums = new Map<string, NodeJS.Timeout>();

function openPacketSocket(device: string): number {
  const fd = orThrow("packet socket", socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0));
  const address = new Uint8Array(20); // struct sockaddr_ll (linux/if_packet.h)
  const view = new DataView(address.buffer);
  view.setUint16(0, AF_PACKET, true);
  view.setInt32(4, orThrow(device, interfaceIndex(device)), true);
  orThrow("bind", bind(fd, address));
  return fd;
}

const actions = {
  /** Sends raw Ethernet frames (hex) on an interface. */
  sendFrames(device: string, frames: readonly string[]): void {
    const fd = openPacketSocket(device);
    for (const frame of frames) orThrow("send", send(fd, fromHex(frame), 0));
    close(fd);
  },

  /** Sends the frames at every interval from now on, under a name. */
  startDrum(name: string, device: string, frames: readonly string[], intervalMs: number): void {
    const fd = openPacketSocket(device);
    const bytes = frames.map(fromHex);
    drums.set(
      name,
      setInterval(() => {
        for (const frame of bytes) send(fd, frame, 0);
      }, intervalMs),
    );
  },

  stopDrum(name: string): void {
    clearInterval(drums.get(name));
    drums.delete(name);
  },

  /** Fetches a page over HTTP from this namespace's 127.0.0.1. */
  async fetchPage(port: number, path: string): Promise<{ code: number; body: string }> {
    try {
      const response = await fetch(`http://127.0.0.1:${port}${path}`, { signal: AbortSignal.timeout(2000) });
      return { code: response.status, body: await response.text() };
    } catch (error) {
      return { code: 0, body: String(error) };
    }
  },

  ask(protocol: "TCP" | "UDP", address: string, port: number, timeoutMs = 2000): Promise<Outcome> {
    return protocol === "TCP" ? askTcp(address, port, timeoutMs) : askUdp(address, port, timeoutMs);
  },

  /** Asks `count` times, each from a new socket, `parallel` at once; counts the first word of each answer. */
  async survey(
    protocol: "TCP" | "UDP",
    address: string,
    port: number,
    count: number,
    parallel = 10,
    timeoutMs = 3000,
  ): Promise<Record<string, number>> {
    const names: Record<string, number> = {};
    let left = count;
    const askMore = async () => {
      while (left-- > 0) {
        const outcome = await actions.ask(protocol, address, port, timeoutMs);
        const name = outcome.type === "answer" ? (outcome.text.split(" ")[0] ?? "") : outcome.type;
        names[name] = (names[name] ?? 0) + 1;
      }
    };
    await Promise.all(Array.from({ length: parallel }, askMore));
    return names;
  },

  /** Asks so many times each second from now on, whatever becomes of the earlier ones. */
  startLoad(protocol: "TCP" | "UDP", address: string, port: number, perSecond: number): void {
    clearInterval(load?.timer);
    const counts: Record<string, number> = {};
    const ask = async () => {
      const outcome = await actions.ask(protocol, address, port, 3000);
      const word = outcome.type === "answer" ? "answer" : `${outcome.type} ${"code" in outcome ? outcome.code : ""}`;
      counts[word.trim()] = (counts[word.trim()] ?? 0) + 1;
    };
    const startedAt = performance.now();
    const pending = new Set<Promise<void>>();
    let asked = 0;
    // Timers are late on a busy machine: what is due is asked.
    const timer = setInterval(() => {
      for (; asked < ((performance.now() - startedAt) * perSecond) / 1000; asked++) {
        const one = ask().finally(() => pending.delete(one));
        pending.add(one);
      }
    }, 5);
    load = { timer, counts, pending, synRetransmissions: synRetransmissions() };
  },

  /**
   * Stops asking, waits for what is under way, and counts the outcomes: `answer`, `refused ECONNREFUSED`, `silent`; and
   * `SYN lost`, since one that was dropped comes again after a second, and is answered then.
   */
  async stopLoad(): Promise<Record<string, number>> {
    clearInterval(load?.timer);
    await Promise.all(load?.pending ?? []);
    const lost = synRetransmissions() - (load?.synRetransmissions ?? 0);
    return { ...load?.counts, ...(lost === 0 ? {} : { "SYN lost": lost }) };
  },

  /** Asks until it is answered; gives the answer and the milliseconds it took, or `undefined` after `limitMs`. */
  async askUntilAnswered(
    protocol: "TCP" | "UDP",
    address: string,
    port: number,
    limitMs: number,
  ): Promise<{ text: string; afterMs: number } | undefined> {
    const start = performance.now();
    while (performance.now() - start < limitMs) {
      const outcome = await actions.ask(protocol, address, port, 250);
      if (outcome.type === "answer") return { text: outcome.text, afterMs: performance.now() - start };
      if (outcome.type !== "silent") await new Promise((resolve) => setTimeout(resolve, 50));
    }
    return undefined;
  },

  /** Opens long connections; resolves when all have greeted. */
  async openStreams(address: string, port: number, count: number): Promise<Record<string, number>> {
    const names: Record<string, number> = {};
    const open = () =>
      new Promise<void>((resolve, reject) => {
        const socket = net.connect({ host: address, port });
        const stream: Stream = { socket, sent: 0, received: 0, broken: undefined };
        socket.setNoDelay(true);
        socket.once("data", (greeting) => {
          const name = greeting.toString().split(" ")[0] ?? "";
          names[name] = (names[name] ?? 0) + 1;
          socket.on("data", (bytes) => {
            stream.received += bytes.length;
          });
          streams.push(stream);
          resolve();
        });
        socket.on("error", (error: NodeJS.ErrnoException) => {
          stream.broken = error.code ?? error.message;
          reject(error);
        });
        socket.on("close", () => {
          stream.broken ??= "closed";
        });
      });
    for (let i = 0; i < count; i += 20) await Promise.all(Array.from({ length: Math.min(20, count - i) }, open));
    return names;
  },

  /** Lets every stream send one byte at each interval from now on. */
  beatStreams(intervalMs: number): void {
    clearInterval(beat);
    beat = setInterval(() => {
      for (const stream of streams) {
        if (stream.broken !== undefined) continue;
        stream.socket.write("x");
        stream.sent++;
      }
    }, intervalMs);
  },

  /** Stops sending, waits for the last echoes, closes all, and tells what was lost. */
  async closeStreams(): Promise<{ streams: number; broken: string[]; sent: number; received: number }> {
    clearInterval(beat);
    for (let i = 0; i < 50 && streams.some((s) => s.broken === undefined && s.received < s.sent); i++) {
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    const result = {
      streams: streams.length,
      broken: streams.flatMap((s) => (s.broken === undefined ? [] : [s.broken])),
      sent: streams.reduce((sum, s) => sum + s.sent, 0),
      received: streams.reduce((sum, s) => sum + s.received, 0),
    };
    for (const stream of streams.splice(0)) stream.socket.destroy();
    return result;
  },
};

export type ClientActions = typeof actions;

serveActions(actions);

/** For lab tests: a station that sends any frame it is told to and reports every ARP and NDP frame that it sees, over IPC. */
import { toHex } from "../src/core/bytes.ts";
import { clock } from "../src/host/clock.ts";
import {
  AF_PACKET,
  bind,
  interfaceIndex,
  makeReceiver,
  orThrow,
  SO_RCVBUFFORCE,
  SOCK_CLOEXEC,
  SOCK_NONBLOCK,
  SOCK_RAW,
  SOL_SOCKET,
  send,
  setsockopt,
  socket,
  watchReadable,
} from "../src/host/sysnet.ts";

const [name = "eth0"] = process.argv.slice(2);
const fd = orThrow("packet socket", socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, 64 * 1024 * 1024);
const address = new DataView(new ArrayBuffer(20));
address.setUint16(0, AF_PACKET, true);
address.setUint16(2, 3, false); // ETH_P_ALL
address.setInt32(4, orThrow(`index of ${name}`, interfaceIndex(name)), true);
orThrow("bind", bind(fd, new Uint8Array(address.buffer)));
const receiver = makeReceiver(fd, 2048, 0);

let counting = false;
let seen = 0;
watchReadable(
  fd,
  () => {
    for (;;) {
      const length = receiver.receive();
      if (length < 0) return;
      if (receiver.name[10] === 4) continue; // PACKET_OUTGOING: our own
      const frame = receiver.data.subarray(0, length);
      const isNdp = frame[12] === 0x86 && frame[20] === 58 && (frame[54] === 135 || frame[54] === 136);
      if (!(frame[12] === 0x08 && frame[13] === 0x06) && !isNdp) continue;
      seen++;
      if (!counting) process.send?.({ at: clock.now(), hex: toHex(frame) });
    }
  },
  (trouble) => {
    throw trouble;
  },
);

type Order =
  | { type: "send"; hex: string }
  /** The same frame `count` times at `perSecond`; the answers are counted, not reported. */
  | { type: "flood"; hex: string; count: number; perSecond: number };

process.on("message", (order: Order) => {
  const frame = Uint8Array.from(order.hex.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
  if (order.type === "send") send(fd, frame);
  else flood(frame, order.count, order.perSecond);
});

function flood(frame: Uint8Array, count: number, perSecond: number): void {
  counting = true;
  seen = 0;
  const start = clock.now();
  let sent = 0;
  const timer = setInterval(() => {
    const due = Math.min(count, Math.floor(((clock.now() - start) * perSecond) / 1000));
    while (sent < due && send(fd, frame) > 0) sent++;
    if (sent < count) return;
    clearInterval(timer);
    setTimeout(() => {
      counting = false;
      process.send?.({ at: clock.now(), flooded: sent, seen });
    }, 500);
  }, 2);
}

process.send?.({ at: clock.now(), ready: true });

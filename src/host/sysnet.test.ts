import { setTimeout as delay } from "node:timers/promises";
import { expect, test } from "vitest";
import {
  AF_INET,
  bind,
  close,
  EAGAIN,
  EINVAL,
  errnoName,
  getsockname,
  getsockopt,
  makeReceiver,
  orThrow,
  recv,
  SO_ATTACH_FILTER,
  SOCK_CLOEXEC,
  SOCK_DGRAM,
  SOCK_NONBLOCK,
  SOL_SOCKET,
  SystemError,
  sendto,
  setsockopt,
  socket,
  watchReadable,
} from "./sysnet.ts";

const SO_RCVBUF = 8;

/** A UDP socket on 127.0.0.1, and its sockaddr_in. */
function loopback(): { fd: number; address: Uint8Array } {
  const fd = orThrow("socket", socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const address = new Uint8Array(16);
  address.set([AF_INET, 0, 0, 0, 127, 0, 0, 1]);
  orThrow("bind", bind(fd, address));
  expect(getsockname(fd, address)).toBe(16);
  return { fd, address };
}

test("a call gives its value, or the errno as a negative number", () => {
  const { fd } = loopback();
  expect(recv(fd, new Uint8Array(8))).toBe(-EAGAIN);
  expect(setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, new Uint8Array(16))).toBe(-EINVAL);
  expect(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, 8192)).toBe(0);
  const value = new Uint8Array(4);
  expect(getsockopt(fd, SOL_SOCKET, SO_RCVBUF, value)).toBe(4);
  expect(new DataView(value.buffer).getInt32(0, true)).toBe(16384);
  expect(close(fd)).toBe(0);
  expect(close(-1)).toBe(-9);
  expect(errnoName(-9)).toBe("EBADF");
  expect(() => orThrow("closing", close(-1))).toThrow(new SystemError("closing", -9));
});

test("a receiver tells the message, its sender and its true length", () => {
  const [a, b] = [loopback(), loopback()];
  const receiver = makeReceiver(b.fd, 4, 0);
  expect(receiver.receive()).toBe(-EAGAIN);
  for (const text of [Uint8Array.of(1, 2, 3), Uint8Array.of(1, 2, 3, 4, 5, 6)]) sendto(a.fd, text, b.address);
  expect(receiver.receive()).toBe(3);
  expect([...receiver.data.subarray(0, 3)]).toEqual([1, 2, 3]);
  expect([...receiver.name.subarray(0, receiver.nameLength())]).toEqual([...a.address]);
  expect(receiver.flags()).toBe(0);
  expect(receiver.receive()).toBe(4);
  expect(receiver.flags()).toBe(0x20); // MSG_TRUNC
  close(a.fd);
  close(b.fd);
});

test("a watch calls for everything that comes, outlives what its listener throws and a garbage collection, and ends when told", async () => {
  const { fd, address } = loopback();
  const buffer = new Uint8Array(16);
  const [seen, troubles]: [number[], unknown[]] = [[], []];
  const watch = watchReadable(
    fd,
    () => {
      for (let length = recv(fd, buffer); length > 0; length = recv(fd, buffer)) {
        seen.push(buffer[0] ?? 0);
        if (buffer[0] === 1) throw new Error("a bug");
      }
    },
    (trouble) => troubles.push(trouble),
  );
  const until = async (count: number) => {
    for (let i = 0; i < 200 && seen.length < count; i++) await delay(5);
  };
  sendto(fd, Uint8Array.of(1), address);
  await until(1);
  // Enough garbage for a collection, in which a handle that nobody holds would close itself.
  for (let i = 0; i < 50; i++) new Array(200_000).fill({ i });
  sendto(fd, Uint8Array.of(2), address);
  await until(2);
  expect(seen).toEqual([1, 2]);
  expect(troubles).toEqual([new Error("a bug")]);
  watch.close();
  watch.close();
  sendto(fd, Uint8Array.of(3), address);
  await delay(30);
  expect(seen).toEqual([1, 2]);
  close(fd);
});

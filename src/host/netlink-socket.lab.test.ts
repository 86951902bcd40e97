import { execFileSync } from "node:child_process";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { decodeMessages, MessageWriter, NLM_F_DUMP, NLM_F_REQUEST, NLMSG_DONE } from "../netlink/message.ts";
import { enterNetworkNamespace } from "./namespace.ts";
import { NETLINK_ROUTE, type NetlinkOptions, openNetlink } from "./netlink-socket.ts";
import { CLONE_NEWNET, close, O_RDONLY, open, orThrow, setns } from "./sysnet.ts";

const NAMESPACE = `belfry-nl-${process.pid}`;
const RTM_GETLINK = 18;
const RTNLGRP_IPV4_ROUTE = 7;

const linkDump = (sequence: number): Uint8Array => {
  const writer = new MessageWriter();
  const at = writer.beginMessage(RTM_GETLINK, NLM_F_REQUEST | NLM_F_DUMP, sequence);
  writer.raw(new Uint8Array(16)); // struct ifinfomsg
  writer.endMessage(at);
  return writer.bytes().slice();
};
const isDone = (message: Uint8Array): boolean => decodeMessages(message)[0]?.type === NLMSG_DONE;

/** A socket in the namespace; it stays there when this thread comes back. */
function openThere(options: Omit<NetlinkOptions, "protocol">) {
  const home = orThrow("own namespace", open("/proc/thread-self/ns/net", O_RDONLY));
  enterNetworkNamespace(NAMESPACE);
  try {
    return openNetlink({ protocol: NETLINK_ROUTE, ...options });
  } finally {
    orThrow("coming back", setns(home, CLONE_NEWNET));
    close(home);
  }
}

describe.skipIf(process.getuid?.() !== 0)("a netlink socket", () => {
  beforeAll(() => {
    execFileSync("ip", ["netns", "add", NAMESPACE]);
    execFileSync("ip", ["-n", NAMESPACE, "link", "set", "lo", "up"]);
  });
  afterAll(() => {
    execFileSync("ip", ["netns", "delete", NAMESPACE]);
  });

  test("requests are served one after another, each with its own replies", async () => {
    const socket = openThere({});
    const all = await Promise.all(Array.from({ length: 50 }, (_, i) => socket.exchange(linkDump(i + 1), isDone)));
    for (const [i, replies] of all.entries()) {
      expect(replies.length).toBeGreaterThanOrEqual(2);
      expect(replies.flatMap(decodeMessages).every((message) => message.sequence === i + 1)).toBe(true);
      expect(replies.flatMap(decodeMessages).every((message) => message.portId === socket.portId)).toBe(true);
    }
    socket.close();
    await expect(socket.exchange(linkDump(99), isDone)).rejects.toThrow("closed");
  });

  test("a close rejects what waits", async () => {
    const socket = openThere({});
    const never = socket.exchange(linkDump(1), () => false);
    const behind = socket.exchange(linkDump(2), isDone);
    socket.close();
    await expect(never).rejects.toThrow("closed");
    await expect(behind).rejects.toThrow("closed");
  });

  test("an overrun is counted and told once, the process and the socket live on", async () => {
    const told = { messages: 0, overruns: 0 };
    const troubles: unknown[] = [];
    const socket = openThere({
      groups: [RTNLGRP_IPV4_ROUTE],
      onMessage: () => {
        told.messages++;
        if (told.messages === 1) throw new Error("a bug");
      },
      onOverrun: () => void told.overruns++,
      onTrouble: (trouble) => troubles.push(trouble),
    });
    const routes = (count: number, from = 0) =>
      Array.from({ length: count }, (_, i) => `route add 10.${(from + i) >> 8}.${(from + i) & 255}.0/24 dev lo`).join(
        "\n",
      );
    execFileSync("ip", ["-n", NAMESPACE, "-batch", "-"], { input: `${routes(3, 60_000)}\n` });
    await delay(100);
    expect(told).toEqual({ messages: 3, overruns: 0 });
    expect(troubles).toEqual([new Error("a bug")]);
    // This thread stands still while more comes than the buffer holds.
    execFileSync("ip", ["-n", NAMESPACE, "-batch", "-"], { input: `${routes(45_000)}\n` });
    for (let i = 0; i < 100 && told.overruns === 0; i++) await delay(20);
    expect(told.overruns).toBe(1);
    expect(socket.overruns()).toBe(1);
    // What the buffer held is still told, in turns.
    let before = -1;
    while (before !== told.messages) {
      before = told.messages;
      await delay(250);
    }
    execFileSync("ip", ["-n", NAMESPACE, "-batch", "-"], { input: `${routes(2, 61_000)}\n` });
    for (let i = 0; i < 100 && told.messages < before + 2; i++) await delay(20);
    expect(told.messages).toBe(before + 2);
    socket.close();
  });
});

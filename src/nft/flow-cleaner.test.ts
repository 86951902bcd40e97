import { describe, expect, test } from "vitest";
import type { Instant } from "../core/instant.ts";
import type { Address } from "../net/address.ts";
import { decodeMessages, MessageWriter, NLMSG_DONE } from "../netlink/message.ts";
import { FlowCleaner } from "./flow-cleaner.ts";

const vip = (last: number) => `203.0.113.${last}` as Address;

/** A kernel without flows, where a dump takes `dumpMilliseconds`, and the clock it takes them on. */
function cleaner(dumpMilliseconds: number) {
  const dumps: { at: number }[] = [];
  let now = 1000;
  const flows = new FlowCleaner({
    exchange: async (bytes) => {
      dumps.push({ at: now });
      now += dumpMilliseconds;
      const done = new MessageWriter(64);
      done.endMessage(done.beginMessage(NLMSG_DONE, 0, decodeMessages(bytes)[0]?.sequence ?? 0));
      return [done.bytes()];
    },
    takeSequences: () => 1,
    planOf: () => undefined,
    onFault: ({ message }) => {
      throw new Error(message);
    },
    clock: { now: () => now as Instant },
    pause: async (milliseconds) => {
      // Whoever is waiting for something else gets his turn first, as while a timer runs.
      await new Promise((resolve) => setImmediate(resolve));
      now += milliseconds;
    },
  });
  return { flows, dumps, later: (milliseconds: number) => (now += milliseconds) };
}

describe("how often the kernel's flows are looked at", () => {
  test("a lone change at once", async () => {
    const { flows, dumps } = cleaner(8);
    flows.clean({ type: "first", address: vip(1) });
    await flows.idle();
    expect(dumps).toEqual([{ at: 1000 }]);
  });

  test("a burst is gathered: after the first look it waits for 19 times what that took, and then looks once", async () => {
    const { flows, dumps } = cleaner(8);
    for (let i = 1; i <= 200; i++) {
      flows.clean({ type: "first", address: vip(i) });
      await new Promise((resolve) => setTimeout(resolve, 0));
      if (i === 1) expect(dumps).toHaveLength(1);
    }
    await flows.idle();
    expect(dumps[1]).toEqual({ at: 1000 + 8 + 19 * 8 });
    const [first, last] = [dumps[0]?.at ?? 0, dumps.at(-1)?.at ?? 0];
    expect(dumps.length * 8).toBeLessThan((last - first) / 5);
  });

  test("all that comes during the rest is looked at together", async () => {
    const { flows, dumps } = cleaner(8);
    flows.clean({ type: "first", address: vip(1) });
    await flows.idle();
    for (let i = 2; i <= 200; i++) flows.clean({ type: "first", address: vip(i) });
    await flows.idle();
    expect(dumps).toEqual([{ at: 1000 }, { at: 1000 + 8 + 19 * 8 }]);
  });

  test("a change after the rest is over waits for nothing", async () => {
    const { flows, dumps, later } = cleaner(8);
    flows.forget(vip(1));
    await flows.idle();
    later(1000);
    flows.forget(vip(2));
    await flows.idle();
    expect(dumps).toEqual([{ at: 1000 }, { at: 2008 }]);
  });

  test("a table so large that a look takes a second is looked at again after two", async () => {
    const { flows, dumps } = cleaner(1000);
    flows.forget(vip(1));
    await flows.idle();
    flows.forget(vip(2));
    await flows.idle();
    expect(dumps).toEqual([{ at: 1000 }, { at: 4000 }]);
  });
});

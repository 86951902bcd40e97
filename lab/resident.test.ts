import { afterAll, beforeAll, test } from "vitest";
import { run } from "./command.ts";
import type { SpinActions } from "./resident.fixture.ts";
import { startResident } from "./resident.ts";

const NAMESPACE = `belfry-resident-${process.pid}`;
beforeAll(() => run("ip", ["netns", "add", NAMESPACE]));
afterAll(() => run("ip", ["netns", "delete", NAMESPACE]));

test("a resident that is busy reading leaves without taking the process with it", async () => {
  for (let i = 0; i < 30; i++) {
    const resident = await startResident<SpinActions>(NAMESPACE, new URL("./resident.fixture.ts", import.meta.url));
    await resident.call("spin");
    await new Promise((resolve) => setTimeout(resolve, 5));
    await resident.close();
  }
});

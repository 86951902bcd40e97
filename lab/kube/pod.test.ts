import { describe, expect, test } from "vitest";
import { type ContainerView, type PodStatus, type PodView, podStatus } from "./pod.ts";

const T0 = "2026-06-01T12:00:00Z";
const T1 = "2026-06-01T12:00:05Z";

const container = (more: Partial<ContainerView> = {}): ContainerView => ({
  name: "web",
  image: "image",
  id: "uid-web-0",
  restarts: 0,
  state: { type: "running", startedAt: T0 },
  ready: true,
  ...more,
});
const ended = (exitCode: number): Partial<ContainerView> => ({
  state: { type: "terminated", exitCode, startedAt: T0, finishedAt: T1 },
});
const view = (more: Partial<PodView> = {}): PodView => ({
  hostIPs: ["192.0.2.11", "2001:db8:0:1::11"],
  podIPs: ["198.18.1.2", "2001:db8:0:11::2"],
  startedAt: T0,
  ending: false,
  initContainers: [],
  containers: [container()],
  ...more,
});
const conditionOf = (status: PodStatus, type: string) => status.conditions.find((each) => each.type === type);

describe("what a pod's status says", () => {
  const waiting = container({ state: { type: "waiting", reason: "ContainerCreating", message: "" } });
  test.each([
    ["nothing has started", view({ podIPs: [], containers: [waiting] }), "Pending", "False"],
    ["all run", view(), "Running", "True"],
    ["one of two waits", view({ containers: [container(), waiting] }), "Running", "False"],
    ["it runs and is not ready", view({ containers: [container({ ready: false })] }), "Running", "False"],
    ["it ended and will be started again", view({ containers: [container(ended(1))] }), "Running", "False"],
    ["it ended well for good", view({ ending: true, containers: [container(ended(0))] }), "Succeeded", "False"],
    [
      "one ended badly",
      view({ ending: true, containers: [container(ended(0)), container(ended(137))] }),
      "Failed",
      "False",
    ],
    ["it is ending and still runs", view({ ending: true }), "Running", "True"],
    [
      "what comes first still runs",
      view({ initContainers: [container({ ready: false })], containers: [waiting] }),
      "Pending",
      "False",
    ],
    [
      "what comes first ended badly and is tried again",
      view({ initContainers: [container(ended(1))], containers: [waiting] }),
      "Pending",
      "False",
    ],
    [
      "what comes first ended badly for good",
      view({ ending: true, initContainers: [container(ended(1))], containers: [waiting] }),
      "Failed",
      "False",
    ],
    ["what comes first has ended well", view({ initContainers: [container(ended(0))] }), "Running", "True"],
  ])("%s", (_what, given, phase, ready) => {
    const status = podStatus(given, undefined, T0);
    expect([status.phase, conditionOf(status, "Ready")?.status]).toEqual([phase, ready]);
  });

  test("a condition keeps its time until it changes", () => {
    const first = podStatus(view(), undefined, T0);
    const second = podStatus(view({ containers: [container({ ready: false })] }), first, T1);
    expect(conditionOf(second, "Ready")?.lastTransitionTime).toBe(T1);
    expect(conditionOf(second, "Initialized")?.lastTransitionTime).toBe(T0);
  });

  test("it is Initialized when everything that comes first has ended well", () => {
    const initialized = (code: number) =>
      conditionOf(
        podStatus(view({ initContainers: [container(ended(0)), container(ended(code))] }), undefined, T0),
        "Initialized",
      );
    expect(initialized(0)).toEqual({ type: "Initialized", status: "True", lastTransitionTime: T0 });
    expect(initialized(1)).toMatchObject({ status: "False", reason: "ContainersNotInitialized" });
  });

  test("a pod without a network takes its addresses back", () => {
    const { podIP, podIPs } = podStatus(view({ podIPs: [] }), undefined, T0);
    expect([podIP, podIPs]).toEqual([null, null]);
  });
});

import { describe, expect, test } from "vitest";
import { type ContainerView, environmentOf, expand, type Pod, type PodStatus, type PodView, podStatus } from "./pod.ts";

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

  test("a pod without a network takes its addresses back", () => {
    const { podIP, podIPs } = podStatus(view({ podIPs: [] }), undefined, T0);
    expect([podIP, podIPs]).toEqual([null, null]);
  });
});

describe("environment", () => {
  const pod: Pod = {
    metadata: { name: "web-1", namespace: "demo", uid: "u" },
    spec: { nodeName: "node-1", containers: [] },
  };

  test("fields of the pod and earlier variables are filled in", () => {
    const env = [
      { name: "POD", valueFrom: { fieldRef: { fieldPath: "metadata.name" } } },
      { name: "NODE", valueFrom: { fieldRef: { fieldPath: "spec.nodeName" } } },
      { name: "IP", valueFrom: { fieldRef: { fieldPath: "status.podIP" } } },
      { name: "BOTH", value: "$(POD) on $(NODE)" },
    ];
    expect(environmentOf({ name: "web", image: "i", env }, pod, ["198.18.1.2"])).toEqual({
      POD: "web-1",
      NODE: "node-1",
      IP: "198.18.1.2",
      BOTH: "web-1 on node-1",
    });
  });

  test.each([
    ["$(A)", "1"],
    ["--name=$(A)-$(A)", "--name=1-1"],
    ["$(B)", "$(B)"],
    ["$$(A)", "$(A)"],
    ["$A", "$A"],
  ])("%s becomes %s", (text, expanded) => {
    expect(expand(text, { A: "1" })).toBe(expanded);
  });
});

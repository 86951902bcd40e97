import { defineConfig } from "vitest/config";

/** Labs are apart from each other, and each waits more than it works; more of them make each other late on two cores. */
const THREE_AT_ONCE = { pool: "forks", maxWorkers: 3 } as const;
/** A real control plane in each takes its share of the processors. */
const TWO_AT_ONCE = { pool: "forks", maxWorkers: 2 } as const;

const ALONE = ["e2e/kube/thousand.test.ts"];

export default defineConfig({
  test: {
    projects: [
      {
        test: {
          name: "unit",
          include: ["src/**/*.test.ts", "controller/**/*.test.ts", "speaker/**/*.test.ts", "tool/**/*.test.ts"],
          exclude: ["**/*.{lab,integration}.test.ts"],
          testTimeout: 20_000,
          maxWorkers: 2,
        },
      },
      {
        test: {
          // Real loops, servers and bundles in one process: no root needed, and too long for every save.
          name: "integration",
          include: ["{src,controller,speaker,tool}/**/*.integration.test.ts"],
          // Real time on a noisy machine: a second try is shown in the report, a second failure fails.
          retry: 1,
          testTimeout: 60_000,
          ...THREE_AT_ONCE,
        },
      },
      {
        test: {
          name: "lab",
          include: ["e2e/**/*.test.ts", "lab/**/*.test.ts", "src/**/*.lab.test.ts", "speaker/**/*.lab.test.ts"],
          exclude: ["e2e/kube/**"],
          retry: 1,
          testTimeout: 180_000,
          hookTimeout: 120_000,
          ...THREE_AT_ONCE,
          sequence: { groupOrder: 1 },
        },
      },
      {
        test: {
          name: "kube",
          include: [
            "e2e/kube/**/*.test.ts",
            // Written for both backends.
            "e2e/{delivery,outage,ownership,source-address,speaker-restart,table}.test.ts",
          ],
          exclude: ALONE,
          env: { BELFRY_LAB: "kube" },
          retry: 1,
          testTimeout: 180_000,
          // A real control plane comes up first.
          hookTimeout: 300_000,
          ...TWO_AT_ONCE,
          sequence: { groupOrder: 2 },
        },
      },
      {
        test: {
          // Counts what a busy API server is asked: another lab beside it would be part of the answer.
          name: "kube-alone",
          include: ALONE,
          env: { BELFRY_LAB: "kube" },
          testTimeout: 180_000,
          hookTimeout: 300_000,
          pool: "forks",
          maxWorkers: 1,
          sequence: { groupOrder: 3 },
        },
      },
    ],
  },
});

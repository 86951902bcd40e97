/** Alerts and dashboard against what the processes declare, and against the guide that they send people to. */
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parse } from "yaml";
import { startController } from "../controller/controller.ts";
import { describeSpeaker, followWire } from "../speaker/metrics.ts";
import { silentLog } from "../src/core/log.ts";
import { startEmbedded } from "../src/embedded/embedded.ts";
import { clock } from "../src/host/clock.ts";
import { loadConfig } from "../src/kube/config.ts";
import { createKubeMetrics } from "../src/kube/metrics.ts";
import type { Metrics } from "../src/observe/metrics.ts";

const ROOT = dirname(import.meta.dirname);
const text = (path: string): string => readFileSync(join(ROOT, path), "utf8");

type Rule = {
  alert: string;
  expr: string;
  for?: string;
  labels: { severity: string };
  annotations: Record<string, string>;
};
type Panel = {
  id: number;
  title: string;
  type: string;
  gridPos: Box;
  targets?: { expr: string; legendFormat: string }[];
};
type Box = { x: number; y: number; w: number; h: number };

const groups: { name: string; rules: Rule[] }[] = parse(text("config/observe/alerts.yaml")).groups;
const rules = groups.flatMap((group) => group.rules);
const dashboard: { uid: string; panels: Panel[] } = JSON.parse(text("config/observe/dashboard.json"));

/** Every expression, with the templates that speak of its labels. */
const uses = [
  ...rules.map((rule) => ({
    where: `alert ${rule.alert}`,
    expr: rule.expr,
    labels: Object.values(rule.annotations).flatMap((each) =>
      [...each.matchAll(/\$labels\.(\w+)/g)].map(([, label = ""]) => label),
    ),
  })),
  ...dashboard.panels.flatMap(({ title, targets = [] }) =>
    targets.map(({ expr, legendFormat }) => ({
      where: `panel ${title}`,
      expr,
      labels: [...legendFormat.matchAll(/\{\{(\w+)\}\}/g)].map(([, label = ""]) => label),
    })),
  ),
];

/** Metric as it is written in an expression → its labels. */
const declared = new Map<string, readonly string[]>();

/** What Prometheus and its own rules add. */
const ADDED = ["instance", "job", "severity"];

beforeAll(async () => {
  const recorder: Metrics = {
    counter: (name, _, labels = []) => {
      declared.set(name, labels);
      return () => {};
    },
    gauge: (name, _, labels) => void declared.set(name, labels),
    total: (name, _, labels) => void declared.set(name, labels),
    histogram: (name) => {
      declared.set(`${name}_bucket`, ["le"]);
      for (const suffix of ["_sum", "_count"]) declared.set(name + suffix, []);
      return () => {};
    },
    render: async () => "",
  };
  const api = await startEmbedded();
  const folder = mkdtempSync(join(tmpdir(), "belfry-observe-"));
  try {
    writeFileSync(join(folder, "kubeconfig"), api.kubeconfig);
    const leaving = new AbortController();
    const controller = startController({
      config: loadConfig({ kubeconfig: join(folder, "kubeconfig") }),
      clock,
      log: silentLog,
      metrics: recorder,
      namespace: "belfry-system",
      identity: "observed",
      signal: leaving.signal,
    });
    leaving.abort();
    await controller.left;
  } finally {
    await api.close();
    rmSync(folder, { recursive: true });
  }
  createKubeMetrics(recorder);
  describeSpeaker(recorder, () => ({ owned: 0, programmed: 0, known: 0, failing: 0, leaseSeconds: 0 }));
  followWire(recorder, { send() {}, onMessage() {} });
});

afterAll(() => {
  const used = new Set(uses.flatMap(({ expr }) => metricsOf(expr)));
  const unused = [...declared.keys()].filter((name) => !used.has(name) && !/_(sum|count)$/.test(name));
  if (unused.length > 0) console.info(`metrics that no alert and no panel uses: ${unused.join(", ")}`);
});

const metricsOf = (expr: string): string[] => expr.match(/\bbelfry_\w+/g) ?? [];

const labelsOf = (expr: string): string[] => [
  ...[...expr.matchAll(/\b(?:by|on|without|ignoring) ?\(([^)]*)\)/g)].flatMap(([, list = ""]) => list.split(/, */)),
  ...[...expr.matchAll(/\{([^}]*)\}/g)].flatMap(([, matchers = ""]) => matchers.match(/\w+(?=[=!])/g) ?? []),
];

describe.each(uses)("$where: $expr", ({ expr, labels }) => {
  test("every metric is declared by a process, and has the labels that are asked for", () => {
    const metrics = metricsOf(expr);
    if (!expr.startsWith("up{")) expect(metrics).not.toEqual([]);
    for (const metric of metrics) expect([...declared.keys()]).toContain(metric);
    const known = [...ADDED, ...metrics.flatMap((metric) => declared.get(metric) ?? [])];
    for (const label of [...labelsOf(expr), ...labels]) expect(known).toContain(label);
  });

  test("every event of the wire is one that is counted", () => {
    const asked = [...expr.matchAll(/event=~?"([^"]+)"/g)].flatMap(([, names = ""]) => names.split("|"));
    for (const event of asked) expect(WIRE_EVENTS).toContain(event);
  });
});

const WIRE_EVENTS = ["src/l2", "speaker"]
  .flatMap((folder) => readdirSync(join(ROOT, folder)).map((name) => `${folder}/${name}`))
  .filter((path) => path.endsWith(".ts") && !path.endsWith(".test.ts"))
  .flatMap((path) => [...text(path).matchAll(/count\("(\w+)"/g)].map(([, name = ""]) => name));

describe.each(rules)("alert $alert", (rule) => {
  test("its runbook is a section of a guide", () => {
    const [file = "", anchor] = rule.annotations["runbook"]?.split("#") ?? [];
    const anchors = [...text(file).matchAll(/^#+ (.*)$/gm)].map(([, title = ""]) =>
      title
        .toLowerCase()
        .replace(/[^\w -]/g, "")
        .replaceAll(" ", "-"),
    );
    expect(anchors).toContain(anchor);
  });

  test("it says how bad it is, and what it means, in a sentence", () => {
    expect(["critical", "warning"]).toContain(rule.labels.severity);
    expect(rule.annotations["summary"]).toMatch(/\S+ \S+/);
    expect(rule.annotations["description"]).toMatch(/\.$/);
    if (rule.for !== undefined) expect(rule.for).toMatch(/^\d+[smh]$/);
  });
});

test("alerts have names of their own", () => {
  const names = rules.map(({ alert }) => alert);
  expect(new Set(names).size).toBe(names.length);
  for (const name of names) expect(name).toMatch(/^Belfry[A-Z]\w+$/);
});

test("panels have ids of their own and lie beside each other", () => {
  const { panels } = dashboard;
  expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
  for (const [i, { gridPos: a }] of panels.entries()) {
    expect(a.x + a.w).toBeLessThanOrEqual(24);
    for (const { gridPos: b } of panels.slice(i + 1)) {
      const apart = a.x + a.w <= b.x || b.x + b.w <= a.x || a.y + a.h <= b.y || b.y + b.h <= a.y;
      expect(apart, JSON.stringify([a, b])).toBe(true);
    }
  }
});

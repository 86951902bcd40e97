/** The Helm chart and the kustomize base give the same objects, by the real Helm and the real kubectl. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { parseAllDocuments } from "yaml";
import { run, tryRun } from "../lab/command.ts";
import { REPOSITORY } from "../lab/program.ts";
import { findHelm } from "../tool/helm/build.ts";
import { findKubectl } from "../tool/kubectl/build.ts";

const CONFIG = join(REPOSITORY, "config");
const CHART = join(CONFIG, "helm/belfry");

type KubeObject = {
  kind: string;
  metadata: { name: string; namespace?: string; labels?: Record<string, string>; annotations?: Record<string, string> };
};

const [helm, kubectl] = await Promise.all([findHelm(), findKubectl()]);
const missing = [helm, kubectl].flatMap((found) => (found.type === "missing" ? [found.why] : []));
const why = missing.length > 0 ? ` (SKIPPED: ${missing.join("; ")})` : "";
if (missing.length > 0) console.warn(`chart tests are skipped: ${missing.join("; ")}`);
const pathOf = (found: typeof helm): string => (found.type === "built" ? found.path : "");

const folder = mkdtempSync(join(tmpdir(), "belfry-chart-"));
afterAll(() => rmSync(folder, { recursive: true }));

const template = (...flags: readonly string[]) =>
  tryRun(pathOf(helm), ["template", "belfry", CHART, "--namespace", "belfry-system", ...flags]);

async function rendered(...flags: readonly string[]): Promise<Map<string, KubeObject>> {
  const { code, stdout, stderr } = await template(...flags);
  expect(code, stderr).toBe(0);
  return byKey(stdout);
}

/** The default overlay, with components. */
async function kustomized(...components: readonly string[]): Promise<Map<string, KubeObject>> {
  const overlay = mkdtempSync(join(folder, "overlay-"));
  const list = (name: string, entries: readonly string[]) =>
    `${name}:\n${entries.map((entry) => `- ${join("../".repeat(20), entry)}\n`).join("")}`;
  const more =
    components.length === 0
      ? ""
      : list(
          "components",
          components.map((name) => join(CONFIG, name)),
        );
  writeFileSync(join(overlay, "kustomization.yaml"), list("resources", [join(CONFIG, "default")]) + more);
  return byKey(await run(pathOf(kubectl), ["kustomize", overlay]));
}

function byKey(yaml: string): Map<string, KubeObject> {
  const objects = parseAllDocuments(yaml).flatMap((document) => {
    const object = document.toJS() as KubeObject | null;
    return object === null ? [] : [object];
  });
  const keyed = new Map(
    objects.map((object) => [`${object.kind} ${object.metadata.namespace ?? "-"}/${object.metadata.name}`, object]),
  );
  expect(keyed.size).toBe(objects.length);
  return keyed;
}

/** What Helm puts on everything to know it again. */
const HELM_LABELS = ["helm.sh/chart", "app.kubernetes.io/managed-by"];
const HELM_ANNOTATIONS = ["helm.sh/resource-policy"];

function withoutHelm(object: KubeObject): KubeObject {
  const { labels = {}, annotations = {}, ...metadata } = object.metadata;
  const kept = (of: Record<string, string>, names: readonly string[]) =>
    Object.fromEntries(Object.entries(of).filter(([name]) => !names.includes(name)));
  const keptAnnotations = kept(annotations, HELM_ANNOTATIONS);
  return {
    ...object,
    metadata: {
      ...metadata,
      labels: kept(labels, HELM_LABELS),
      ...(Object.keys(keptAnnotations).length === 0 ? {} : { annotations: keptAnnotations }),
    },
  };
}

function expectSame(chart: Map<string, KubeObject>, base: Map<string, KubeObject>): void {
  expect([...chart.keys()].sort()).toEqual([...base.keys()].sort());
  for (const [key, object] of base) expect(withoutHelm(chart.get(key) as KubeObject), key).toEqual(object);
}

describe.skipIf(missing.length > 0)(`config/helm/belfry${why}`, () => {
  test("helm lint has nothing to say, strictly", async () => {
    const { code, stdout, stderr } = await tryRun(pathOf(helm), ["lint", "--strict", "--quiet", CHART]);
    expect(stdout + stderr).not.toMatch(/WARN|ERROR/i);
    expect(code).toBe(0);
  });

  test("its objects are those of config/default, each of them", async () => {
    expectSame(await rendered("--set", "namespace.create=true"), await kustomized());
  });

  test("the release's namespace is left to whoever installs it, since Helm keeps its record there", async () => {
    const base = await kustomized();
    base.delete("Namespace -/belfry-system");
    expectSame(await rendered(), base);
  });

  test("speakers that Prometheus reaches are those of config/observe", async () => {
    const flags = ["--set", "namespace.create=true", "--set", "speaker.metricsAddress=$(HOST_IP)"];
    expectSame(await rendered(...flags), await kustomized("observe"));
  });

  test("CRDs are upgraded with the release, and stay when it goes, unless that is said otherwise", async () => {
    const crds = (objects: Map<string, KubeObject>) =>
      [...objects.values()].filter(({ kind }) => kind === "CustomResourceDefinition");
    const policies = (objects: KubeObject[]) =>
      objects.map(({ metadata }) => metadata.annotations?.["helm.sh/resource-policy"]);
    const kept = crds(await rendered());
    expect(kept.length).toBeGreaterThanOrEqual(5);
    expect(new Set(policies(kept))).toEqual(new Set(["keep"]));
    expect(new Set(policies(crds(await rendered("--set", "crds.keep=false"))))).toEqual(new Set([undefined]));
    expect(crds(await rendered("--set", "crds.install=false"))).toEqual([]);
  });

  test("another namespace is meant everywhere: subjects, the admission policy, objects", async () => {
    const { stdout } = await template("--namespace", "edge", "--set", "monitoring.rules=true");
    expect(stdout).toContain("system:serviceaccount:edge:belfry-speaker");
    expect(stdout).not.toContain("belfry-system");
  });

  test("every value does what it says", async () => {
    const values = {
      image: { repository: "registry.example/belfry", digest: `sha256:${"0".repeat(64)}`, pullPolicy: "Always" },
      imagePullSecrets: ["pull"],
      controller: {
        replicas: 3,
        logLevel: "debug",
        claimClasslessServices: true,
        serviceDataPath: "Belfry",
        controllerName: "example.com/edge",
        extraArgs: ["--one=1"],
        priorityClassName: "",
        nodeSelector: { a: "b" },
        tolerations: [],
        resources: { limits: { memory: "1Gi" } },
      },
      speaker: {
        logLevel: "warn",
        podCIDRs: ["198.18.0.0/16", "2001:db8:1::/48"],
        ignoreExcludeLabel: true,
        extraArgs: ["--nft-plain"],
        metricsAddress: "[::]",
        nodeSelector: { edge: "yes" },
      },
      monitoring: { rules: true, podMonitors: true, dashboard: true, labels: { release: "prometheus" } },
    };
    writeFileSync(join(folder, "values.yaml"), JSON.stringify(values));
    const objects = await rendered("--values", join(folder, "values.yaml"));
    // biome-ignore lint/suspicious/noExplicitAny: whatever the chart gave; each expectation names what it wants.
    const spec = (key: string): any => (objects.get(`${key}`) as unknown as { spec: unknown }).spec;
    const deployment = spec("Deployment belfry-system/belfry-controller");
    expect(deployment.replicas).toBe(3);
    const controller = deployment.template.spec;
    expect(controller).toMatchObject({ imagePullSecrets: [{ name: "pull" }], nodeSelector: { a: "b" } });
    for (const absent of ["priorityClassName", "tolerations"]) expect(controller).not.toHaveProperty(absent);
    expect(controller.containers[0]).toMatchObject({
      image: `registry.example/belfry@sha256:${"0".repeat(64)}`,
      imagePullPolicy: "Always",
    });
    expect(controller.containers[0].resources.limits).toEqual({ memory: "1Gi" });
    expect(controller.containers[0].args.slice(-5)).toEqual([
      "--log-level=debug",
      "--service-data-path=Belfry",
      "--claim-classless-services",
      "--gateway-controller-name=example.com/edge",
      "--one=1",
    ]);
    const speaker = spec("DaemonSet belfry-system/belfry-speaker").template.spec;
    expect(speaker.nodeSelector).toEqual({ edge: "yes", "kubernetes.io/os": "linux" });
    expect(speaker.containers[0].args.slice(2)).toEqual([
      "--metrics-bind=[::]:9472",
      "--log-level=warn",
      "--pod-cidr=198.18.0.0/16",
      "--pod-cidr=2001:db8:1::/48",
      "--ignore-exclude-label",
      "--nft-plain",
    ]);
    expect(speaker.containers[0].livenessProbe.httpGet).toEqual({ path: "/livez", port: 9472 });
    expect(spec("PrometheusRule belfry-system/belfry").groups[0].rules.length).toBeGreaterThan(10);
    for (const name of ["controller", "speaker"])
      expect(spec(`PodMonitor belfry-system/belfry-${name}`).podMetricsEndpoints).toEqual([{ port: "metrics" }]);
    const dashboard = objects.get("ConfigMap belfry-system/belfry-dashboard") as unknown as {
      data: { [k: string]: string };
    };
    expect(JSON.parse(dashboard.data["belfry.json"] ?? "").title).toBe("Belfry");
    expect(objects.get("PrometheusRule belfry-system/belfry")?.metadata.labels).toMatchObject({
      release: "prometheus",
    });
  });

  test.each([
    ["a value that does not exist", ["speaker.podCIDR=198.18.0.0/16"], /podCIDR/],
    ["a log level that does not exist", ["controller.logLevel=trace"], /logLevel/],
    ["no controller at all", ["controller.replicas=0"], /replicas/],
    ["an argument that is no flag", ["controller.extraArgs[0]=x"], /extraArgs/],
    ["a name where metrics want an address", ["speaker.metricsAddress=node"], /metricsAddress/],
    ["PodMonitors of speakers that nobody reaches", ["monitoring.podMonitors=true"], /set speaker\.metricsAddress/],
  ])("%s is refused, with its name", async (_, settings, words) => {
    const { code, stderr } = await template(...settings.flatMap((setting) => ["--set", setting]));
    expect(code).not.toBe(0);
    expect(stderr).toMatch(words);
  });
});

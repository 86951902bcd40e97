import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { parseAllDocuments } from "yaml";
import { defaults, kindNamed, validate } from "./kinds.ts";
import { GROUP, LOAD_BALANCER, NAMESPACE, speakerLeaseName } from "./names.ts";

type Manifest = { kind: string; metadata: { name: string; namespace?: string }; [field: string]: unknown };
type RbacRule = { apiGroups: string[]; resources: string[]; verbs: string[] };

const CONFIG = join(import.meta.dirname, "../../config");

const manifestsIn = (path: string): Manifest[] =>
  parseAllDocuments(readFileSync(join(CONFIG, path), "utf8")).map((document) => document.toJS() as Manifest);
const samples = readdirSync(join(CONFIG, "samples/quickstart"))
  .toSorted()
  .flatMap((name) => manifestsIn(`samples/quickstart/${name}`));

const rulesOf = (path: string): RbacRule[] =>
  manifestsIn(path).flatMap((each) => (each.kind.endsWith("Role") ? (each["rules"] as RbacRule[]) : []));

describe("the samples of the quickstart", () => {
  it.each(samples.filter(({ kind }) => kindNamed(kind)).map((sample) => [sample.kind, sample] as const))(
    "%s is admitted",
    (name, sample) => {
      const kind = kindNamed(name);
      if (kind === undefined) throw new Error(`no kind ${name}`);
      expect(validate(kind, defaults(kind, sample))).toEqual([]);
    },
  );

  it("stand in an order in which a namespace comes before what lives in it", () => {
    expect(samples[0]?.kind).toBe("Namespace");
  });

  it("name our controller and our load balancer class", () => {
    const named = samples.flatMap((sample) => {
      const spec = sample["spec"] as Record<string, unknown> | undefined;
      return spec?.["controllerName"] ?? spec?.["loadBalancerClass"] ?? [];
    });
    expect(named).toEqual([LOAD_BALANCER, LOAD_BALANCER]);
  });
});

describe("the rights of our processes", () => {
  it.each(["rbac/controller.yaml", "rbac/speaker.yaml"])("are written verb by verb in %s", (path) => {
    for (const rule of rulesOf(path)) {
      expect([...rule.apiGroups, ...rule.resources, ...rule.verbs]).not.toContain("*");
    }
  });

  it("let a speaker read nothing that decides policy, and no secret", () => {
    const resources = rulesOf("rbac/speaker.yaml").flatMap((rule) => rule.resources);
    for (const forbidden of [
      "gateways",
      "gatewayclasses",
      "serviceroutes",
      "services",
      "referencegrants",
      "namespaces",
      "secrets",
      "ipaddresspools",
    ]) {
      expect(resources).not.toContain(forbidden);
    }
  });

  it("let a speaker write nothing of a VirtualIP but its status", () => {
    const writing = rulesOf("rbac/speaker.yaml").filter(
      ({ apiGroups, verbs }) =>
        apiGroups.includes(GROUP) && verbs.some((verb) => !["get", "list", "watch"].includes(verb)),
    );
    expect(writing.flatMap(({ resources }) => resources).toSorted()).toEqual([
      "speakerstatuses",
      "speakerstatuses/status",
      "virtualips/status",
    ]);
  });
});

describe("the manifests", () => {
  it("live in our namespace", () => {
    const all = ["manifests/controller.yaml", "manifests/speaker.yaml"].flatMap(manifestsIn);
    expect(all.length).toBeGreaterThan(1);
    expect([...new Set(all.map(({ metadata }) => metadata.namespace))]).toEqual([NAMESPACE]);
  });

  it.each([
    ["manifests/controller.yaml", []],
    ["manifests/speaker.yaml", ["NET_RAW", "NET_ADMIN", "NET_BIND_SERVICE"]],
  ])("give the container of %s a read-only root and only the capabilities %j", (path, capabilities) => {
    const text = readFileSync(join(CONFIG, path), "utf8");
    const security = findAll(parseAllDocuments(text)[0]?.toJS(), "capabilities") as {
      drop: string[];
      add?: string[];
    }[];
    expect(security).toEqual([{ drop: ["ALL"], ...(capabilities.length > 0 ? { add: capabilities } : {}) }]);
    expect(text).toContain("readOnlyRootFilesystem: true");
    expect(text).not.toMatch(/privileged: true/);
  });

  it("set no CPU limit, or a speaker would be throttled past its own deadlines", () => {
    const limits = findAll(manifestsIn("manifests/speaker.yaml")[0], "limits") as Record<string, string>[];
    expect(limits.map((each) => Object.keys(each))).toEqual([["memory"]]);
  });

  it("name the speaker's Lease in the admission policy as the speaker does", () => {
    const text = readFileSync(join(CONFIG, "admission/speaker.yaml"), "utf8");
    expect(text).toContain(`'${speakerLeaseName("")}' + variables.node`);
  });
});

function findAll(value: unknown, field: string): unknown[] {
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([name, inner]) => (name === field ? [inner] : findAll(inner, field)));
}

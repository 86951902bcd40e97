/** The guides as a reader follows them: blocks marked `sh run` are run as they are written, in their order. */
import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parseAllDocuments } from "yaml";
import { DEMO, gatewayAddresses } from "../lab/demo.ts";
import { eventually } from "../lab/eventually.ts";
import { createLab, type Lab } from "../lab/lab.ts";
import { REPOSITORY } from "../lab/program.ts";
import { findHelm } from "../tool/helm/build.ts";
import { findKubectl } from "../tool/kubectl/build.ts";

const kubectl = await findKubectl();
const helm = await findHelm();
const missing = [kubectl, helm].flatMap((found) => (found.type === "missing" ? [found.why] : []));
const why = missing.length > 0 ? ` (SKIPPED: ${missing.join("; ")})` : "";

/** A folder of our own with `config` in it and the programs on the path, as a clone on an admin's machine has. */
const folder = mkdtempSync(join(tmpdir(), "belfry-guide-"));

type Block = { readonly mark: string; readonly text: string };

const blocksOf = (guide: string): Block[] =>
  [...readFileSync(join(REPOSITORY, "docs/guides", guide), "utf8").matchAll(/^```(sh [a-z]+)\n(.*?)^```$/gms)].map(
    ([, mark = "", text = ""]) => ({ mark, text }),
  );

function shell(script: string, kubeconfig: string): Promise<{ code: number; out: string; err: string }> {
  const env = { ...process.env, PATH: `${join(folder, "bin")}:${process.env["PATH"]}`, KUBECONFIG: kubeconfig };
  return new Promise((resolve) => {
    execFile("bash", ["-euo", "pipefail", "-c", script], { cwd: folder, env, maxBuffer: 2 ** 26 }, (error, out, err) =>
      resolve({ code: typeof error?.code === "number" ? error.code : error === null ? 0 : 1, out, err }),
    );
  });
}

beforeAll(() => {
  symlinkSync(join(REPOSITORY, "config"), join(folder, "config"));
  mkdirSync(join(folder, "bin"));
  if (kubectl.type === "built") symlinkSync(kubectl.path, join(folder, "bin/kubectl"));
  if (helm.type === "built") symlinkSync(helm.path, join(folder, "bin/helm"));
});
afterAll(() => rmSync(folder, { recursive: true }));

describe.skipIf(missing.length > 0)(`the guides${why}`, () => {
  let lab: Lab;
  beforeAll(async () => {
    lab = await createLab();
    await lab.startAll();
    for (const node of lab.nodes) await eventually(`${node.name} is ready`, 30_000, () => lab.speakerIsReady(node));
  });
  afterAll(() => lab?.close());

  test("install: the overlay and the chart give objects with the image of the reader", async () => {
    const outputs: string[] = [];
    for (const { text } of blocksOf("install.md")) {
      const { code, out, err } = await shell(text, lab.hostKubeconfig ?? "");
      expect(code, `${text}\n${err}`).toBe(0);
      outputs.push(out);
    }
    const kinds = outputs.map((out) =>
      parseAllDocuments(out).flatMap((document) => (document.toJS() as { kind?: string } | null)?.kind ?? []),
    );
    const [overlay, chart, nodes, monitored] = kinds;
    expect(overlay).toContain("DaemonSet");
    expect(chart?.toSorted()).toEqual(overlay?.toSorted());
    expect(nodes).toEqual([]);
    expect(outputs[2]?.trim().split("\n")).toHaveLength(lab.nodes.length);
    expect(monitored).toEqual(expect.arrayContaining(["PrometheusRule", "PodMonitor", "ConfigMap"]));
    for (const out of outputs.slice(0, 2)) expect(out).toContain("image: registry.example/belfry:0.1.0");
  });

  test("first VIP: every step works as it is written, and the address answers on the LAN", async () => {
    const blocks = blocksOf("first-vip.md");
    expect(blocks.length).toBeGreaterThan(6);
    const seen: string[] = [];
    for (const { mark, text } of blocks) {
      if (mark === "sh pods") {
        await startPods();
        continue;
      }
      if (text.includes("delete gateway/web")) await askGateway();
      const { code, out, err } = await shell(text, lab.hostKubeconfig ?? "");
      expect(code, `${text}\n${out}${err}`).toBe(0);
      seen.push(out);
    }
    expect(seen.join("\n")).toMatch(/^192\.0\.2\.\d+ +192\.0\.2\.\d+ +lan +Gateway +demo +web +node-\d +True/m);
    expect(seen.join("\n")).toMatch(/^plain +LoadBalancer +\S+ +192\.0\.2\./m);
    expect((await shell("kubectl get vip", lab.hostKubeconfig ?? "")).err).toContain("No resources found");
  });

  /** The embedded API runs no Deployments: the lab's pods stand in for those of the sample. */
  async function startPods(): Promise<void> {
    for (const [i, node] of lab.nodes.slice(0, 2).entries()) await lab.startPod(`web-${"ab"[i]}`, node);
    const port = { name: "http", protocol: "TCP", port: 8080 } as const;
    for (const name of ["web", "plain"]) await lab.setEndpoints({ namespace: DEMO, name }, [port]);
  }

  async function askGateway(): Promise<void> {
    const addresses = await gatewayAddresses(lab, "web");
    const client = await lab.client();
    for (const address of Object.values(addresses ?? {})) {
      expect(await client.call("ask", "TCP", address, 80, 5_000)).toMatchObject({ type: "answer" });
    }
    expect(Object.keys(addresses ?? {})).toEqual(["IPv4", "IPv6"]);
  }
});

test.each(["install.md", "first-vip.md", "upgrade.md", "troubleshooting.md"])(
  "%s: every link leads to a file or a section that is there",
  (guide) => {
    const text = readFileSync(join(REPOSITORY, "docs/guides", guide), "utf8");
    for (const [, target = ""] of text.matchAll(/\]\(([^)]+)\)/g)) {
      if (target.startsWith("https://")) continue;
      const [path = "", anchor] = target.split("#");
      const linked = path === "" ? text : readFileSync(join(REPOSITORY, "docs/guides", path), "utf8");
      if (anchor === undefined) continue;
      const anchors = [...linked.matchAll(/^#+ (.*)$/gm)].map(([, title = ""]) =>
        title
          .toLowerCase()
          .replace(/[^\w -]/g, "")
          .replaceAll(" ", "-"),
      );
      expect(anchors, target).toContain(anchor);
    }
  },
);

/** The ways in and out of a real cluster, as the guides tell them: Helm, kustomize, and from one to the other. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Claim, claimLab, removeStaleLabs } from "../../lab/claim.ts";
import { run } from "../../lab/command.ts";
import { type ControlPlane, startControlPlane } from "../../lab/kube/control-plane.ts";
import { buildNetwork } from "../../lab/network.ts";
import { REPOSITORY } from "../../lab/program.ts";
import { findHelm } from "../../tool/helm/build.ts";
import { findKube } from "./build.ts";

const CHART = join(REPOSITORY, "config/helm/belfry");
const BASE = join(REPOSITORY, "config/default");
const NAMESPACE = "belfry-system";
const POOL = JSON.stringify({
  apiVersion: "belfry.dev/v1alpha1",
  kind: "IPAddressPool",
  metadata: { name: "lan" },
  spec: { addresses: ["192.0.2.192/27"] },
});
const EVERYTHING = [
  "namespaces,serviceaccounts,deployments,daemonsets,poddisruptionbudgets,roles,rolebindings,clusterroles",
  "clusterrolebindings,validatingadmissionpolicies,validatingadmissionpolicybindings,customresourcedefinitions",
].join(",");

const found = await findHelm();
const why = found.type === "missing" ? ` (SKIPPED: no Helm, ${found.why})` : "";
if (found.type === "missing") console.warn(`Helm on a real API server is skipped: ${found.why}`);
const helmPath = found.type === "built" ? found.path : "";

let claim: Claim | undefined;
let controlPlane: ControlPlane;
let binary = "";
const folder = mkdtempSync(join(tmpdir(), "belfry-helm-"));

beforeAll(async () => {
  if (found.type === "missing") return;
  const kube = await findKube((line) => console.log(line));
  if (kube.type === "missing") throw new Error(kube.why);
  binary = kube.path;
  await removeStaleLabs();
  claim = claimLab();
  controlPlane = await startControlPlane(claim, await buildNetwork(claim, 0), binary);
});
afterAll(async () => {
  await controlPlane?.close();
  await claim?.release();
  rmSync(folder, { recursive: true });
});

const kubectl = (args: readonly string[], input = "") =>
  run(
    binary,
    ["kubectl", "--kubeconfig", controlPlane.hostKubeconfig, "--cache-dir", join(folder, "kubectl"), ...args],
    input,
  );

const helm = (...args: readonly string[]) =>
  run("env", [
    `HOME=${folder}`,
    helmPath,
    "--kubeconfig",
    controlPlane.hostKubeconfig,
    "--namespace",
    NAMESPACE,
    ...args,
  ]);

/** `kind/name` of everything that is ours in the cluster. */
async function present(): Promise<string[]> {
  const selector = "app.kubernetes.io/part-of=belfry";
  const names = await kubectl(["get", EVERYTHING, "-A", "--selector", selector, "--output=name"]);
  return names.trim().split("\n").filter(Boolean).sort();
}

/** What changes when pods are replaced: each template of pods has its ReplicaSet or ControllerRevision. */
async function templates(): Promise<string[]> {
  return (await kubectl(["get", "replicasets,controllerrevisions", "-n", NAMESPACE, "--output=name"]))
    .trim()
    .split("\n");
}

/** Waits until the workloads' controllers have looked at what was applied last. */
async function observed(): Promise<void> {
  for (const name of ["deployment/belfry-controller", "daemonset/belfry-speaker"]) {
    const { metadata } = JSON.parse(await kubectl(["get", name, "-n", NAMESPACE, "--output=json"]));
    const path = `--for=jsonpath={.status.observedGeneration}=${metadata.generation}`;
    await kubectl(["wait", name, "-n", NAMESPACE, path, "--timeout=20s"]);
  }
}

const columns = () =>
  kubectl([
    "get",
    "crd",
    "virtualips.belfry.dev",
    "--output=jsonpath={.spec.versions[0].additionalPrinterColumns[*].name}",
  ]);

async function makeNamespace(): Promise<void> {
  await kubectl(["create", "namespace", NAMESPACE]);
  await kubectl(["label", "namespace", NAMESPACE, "pod-security.kubernetes.io/enforce=privileged"]);
}

const deleteCrds = async () => {
  const crds = (await present()).filter((name) => name.startsWith("customresourcedefinition"));
  try {
    await kubectl(["delete", ...crds, "--timeout=120s"]);
  } catch (error) {
    console.error(await kubectl(["get", "crd", "--output=yaml"])); // which is left, and what it waits for
    throw error;
  }
};

describe.skipIf(found.type === "missing")(`in and out${why}`, () => {
  test("Helm installs on an empty cluster, and the API server finds nothing to warn of in what it gets", async () => {
    await makeNamespace();
    await helm("install", "belfry", CHART);
    expect(await present()).toEqual(
      expect.arrayContaining(["daemonset.apps/belfry-speaker", "deployment.apps/belfry-controller"]),
    );
    await kubectl(["wait", "--for=condition=Established", "crd", "--all", "--timeout=30s"]);
    await kubectl(["apply", "--server-side", "-f", "-"], POOL);
    const warnings = "--output=jsonpath={.items[*].status.typeChecking.expressionWarnings}";
    await expect
      .poll(
        () => kubectl(["get", "validatingadmissionpolicy", "--output=jsonpath={.items[*].status.observedGeneration}"]),
        {
          timeout: 30_000,
        },
      )
      .toBe("1");
    expect(await kubectl(["get", "validatingadmissionpolicy", warnings])).toBe("");
  });

  test("an upgrade of the release upgrades the CRDs, and keeps what was made of them", async () => {
    const older = join(folder, "older");
    // With its links followed: cpSync keeps those inside, and the edit below would meet config/crd itself.
    await run("cp", ["-RL", CHART, older]);
    const crd = join(older, "files/crd/belfry.dev_virtualips.yaml");
    writeFileSync(crd, readFileSync(crd, "utf8").replace(/ {8}- name: Pool\n(?: {10}.*\n)+/, ""));
    await helm("upgrade", "belfry", older);
    expect(await columns()).not.toContain("Pool");
    await helm("upgrade", "belfry", CHART, "--reset-then-reuse-values");
    expect(await columns()).toContain("Pool");
    expect(await kubectl(["get", "pool", "--output=name"])).toContain("lan");
  });

  test("an uninstall leaves the CRDs with the pools, and nothing else; then they can be deleted", async () => {
    await helm("uninstall", "belfry");
    await expect
      .poll(async () => (await present()).filter((name) => !name.startsWith("customresourcedefinition")), {
        timeout: 30_000,
      })
      .toEqual([]);
    expect(await kubectl(["get", "pool", "--output=name"])).toContain("lan");
    await deleteCrds();
    await kubectl(["delete", "namespace", NAMESPACE, "--timeout=90s"]);
    expect(await present()).toEqual([]);
  });

  test("from kustomize to Helm and back nothing is made anew and no pod is replaced", async () => {
    await kubectl(["apply", "--server-side", "-k", BASE]);
    await expect.poll(templates, { timeout: 15_000 }).toHaveLength(2);
    const before = await templates();
    await helm("install", "belfry", CHART, "--take-ownership", "--force-conflicts");
    await observed();
    expect(await templates()).toEqual(before);
    await kubectl(["apply", "--server-side", "--force-conflicts", "-k", BASE]);
    await kubectl(["-n", NAMESPACE, "delete", "secret", "--selector", "owner=helm,name=belfry"]);
    expect(await helm("list", "--short")).toBe("");
    await observed();
    expect(await templates()).toEqual(before);
  });

  test("kustomize takes all of it away again", async () => {
    await kubectl(["delete", "-k", BASE, "--timeout=90s"]);
    expect(await present()).toEqual([]);
  });
});

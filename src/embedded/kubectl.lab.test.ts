/** The client that people have, against the embedded API: what they do with it must work and read well. */
import { execFile } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { findKubectl } from "../../tool/kubectl/build.ts";
import type { KubeObject } from "../api/meta.ts";
import { type Embedded, startEmbedded } from "./embedded.ts";

const found = await findKubectl();
const why = found.type === "missing" ? ` (SKIPPED: no kubectl, ${found.why})` : "";
if (found.type === "missing") console.warn(`kubectl tests are skipped: ${found.why}`);

const POOL = `
apiVersion: belfry.dev/v1alpha1
kind: IPAddressPool
metadata: { name: lan }
spec: { addresses: [192.0.2.192/27, 2001:db8:0:1::200/120] }
`;
const GATEWAY = `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: { name: web, namespace: demo }
spec:
  gatewayClassName: belfry
  listeners:
  - { name: web, port: 80, protocol: TCP }
  - { name: dns, port: 53, protocol: UDP }
`;
const SERVICE = `
apiVersion: v1
kind: Service
metadata: { name: legacy, namespace: demo }
spec:
  type: LoadBalancer
  loadBalancerClass: belfry.dev/load-balancer
  ipFamilyPolicy: PreferDualStack
  selector: { app: web }
  ports: [{ port: 80, targetPort: 8080 }]
`;

/** Machines that run tests are slow at times; what is awaited here comes in milliseconds otherwise. */
const eventually = <T>(read: () => T) => expect.poll(read, { timeout: 10_000 });

type Result = { code: number; out: string; err: string };

describe.skipIf(found.type === "missing")(`kubectl against the embedded API${why}`, () => {
  let embedded: Embedded;
  let folder: string;

  beforeAll(async () => {
    embedded = await startEmbedded();
    folder = mkdtempSync(join(tmpdir(), "belfry-kubectl-"));
    writeFileSync(join(folder, "config"), embedded.kubeconfig);
  });
  afterAll(async () => {
    await embedded?.close();
    if (folder !== undefined) rmSync(folder, { recursive: true });
  });

  const start = (...args: string[]) => {
    const path = found.type === "built" ? found.path : "";
    const all = ["--kubeconfig", join(folder, "config"), "--cache-dir", join(folder, "cache"), ...args];
    let child: ReturnType<typeof execFile> | undefined;
    const result = new Promise<Result>((resolve) => {
      child = execFile(path, all, { timeout: 15_000 }, (error, out, err) => {
        resolve({ code: error === null ? 0 : Number(error.code ?? 1), out, err });
      });
    });
    return { result, child };
  };
  const kubectl = (...args: string[]): Promise<Result> => start(...args).result;
  const file = (name: string, text: string): string => {
    const path = join(folder, name);
    writeFileSync(path, text);
    return path;
  };
  const applied = async (name: string, text: string): Promise<Result> => {
    const result = await kubectl("apply", "--server-side", "-f", file(name, text));
    expect(result.err).toBe("");
    return result;
  };

  test("apply --server-side creates, and says so again without a write when nothing changed", async () => {
    const first = await applied("all.yaml", [POOL, GATEWAY, SERVICE].join("---"));
    expect(first.out.split("\n").slice(0, 3)).toEqual([
      "ipaddresspool.belfry.dev/lan serverside-applied",
      "gateway.gateway.networking.k8s.io/web serverside-applied",
      "service/legacy serverside-applied",
    ]);
    const before = embedded.store.version;
    await applied("all.yaml", [POOL, GATEWAY, SERVICE].join("---"));
    expect(embedded.store.version).toBe(before);
  });

  test("get prints the columns of the kind, -o wide the wide ones, -o json the object", async () => {
    const pools = await kubectl("get", "pool");
    expect(pools.out).toMatch(/^NAME +ADDRESSES .*AGE\nlan .*192\.0\.2\.192\/27.* \d+s\n$/);
    const services = await kubectl("get", "svc", "-n", "demo");
    expect(services.out).toMatch(/^NAME +TYPE +CLUSTER-IP +EXTERNAL-IP +PORT\(S\) +AGE\n/);
    expect(services.out).toMatch(/legacy +LoadBalancer +198\.19\.\d+\.\d+ +<pending> +80:3\d{4}\/TCP/);
    const wide = await kubectl("get", "svc", "-n", "demo", "-o", "wide");
    expect(wide.out).toMatch(/SELECTOR\n.*app=web\n/);
    const json = JSON.parse((await kubectl("get", "gateway", "web", "-n", "demo", "-o", "json")).out) as KubeObject;
    expect(json).toMatchObject({ kind: "Gateway", metadata: { name: "web", generation: 1 } });
    const yaml = await kubectl("get", "gateway", "-A", "-o", "yaml");
    expect(yaml.out).toContain("gatewayClassName: belfry");
    const names = await kubectl("get", "pool,gateway,svc", "-A", "-o", "name");
    expect(names.out).toContain("gateway.gateway.networking.k8s.io/web");
    expect((await kubectl("get", "belfry")).out).toContain("ipaddresspool.belfry.dev/lan");
  });

  test("get --watch prints a line per change", async () => {
    const { result, child } = start("get", "pool", "-w");
    let printed = "";
    child?.stdout?.on("data", (chunk) => {
      printed += chunk;
    });
    await eventually(() => embedded.faults.watches({ resource: "ipaddresspools" }).length).toBe(1);
    embedded.seed({
      apiVersion: "belfry.dev/v1alpha1",
      kind: "IPAddressPool",
      metadata: { name: "second" },
      spec: { addresses: ["198.51.100.0/28"] },
    } as KubeObject);
    await eventually(() => printed).toMatch(/lan[^\n]*\n(.*\n)*second +.*198\.51\.100\.0\/28/);
    child?.kill();
    await result;
  });

  test("label and annotate change metadata without a new generation", async () => {
    expect((await kubectl("label", "pool", "lan", "site=one")).out).toBe("ipaddresspool.belfry.dev/lan labeled\n");
    expect((await kubectl("annotate", "pool", "lan", "note=x")).code).toBe(0);
    expect((await kubectl("get", "pool", "-l", "site=one", "-o", "name")).out).toBe("ipaddresspool.belfry.dev/lan\n");
    expect(embedded.read("IPAddressPool", "lan")?.metadata.generation).toBe(1);
  });

  test("patch --type=merge and --type=json change the specification and count a generation each", async () => {
    const merge = await kubectl("patch", "pool", "lan", "--type=merge", "-p", '{"spec":{"disabled":true}}');
    expect(merge.out).toBe("ipaddresspool.belfry.dev/lan patched\n");
    const json = '[{"op":"replace","path":"/spec/disabled","value":false}]';
    expect((await kubectl("patch", "pool", "lan", "--type=json", "-p", json)).code).toBe(0);
    expect(embedded.read("IPAddressPool", "lan")?.metadata.generation).toBe(3);
  });

  test("replace keeps what it read unless someone wrote in between", async () => {
    const { out } = await kubectl("get", "pool", "lan", "-o", "json");
    const read = JSON.parse(out) as KubeObject & { spec: { autoAssign: boolean } };
    read.spec.autoAssign = false;
    const path = file("replace.json", JSON.stringify(read));
    expect((await kubectl("replace", "-f", path)).out).toBe("ipaddresspool.belfry.dev/lan replaced\n");
    const late = await kubectl("replace", "-f", path);
    expect(late.code).toBe(1);
    expect(late.err).toContain("the object has been modified");
  });

  test("the second client-side apply of a core kind is told to use --server-side", async () => {
    const path = file("plain.yaml", SERVICE.replaceAll("legacy", "plain"));
    expect((await kubectl("apply", "-f", path)).code).toBe(0);
    writeFileSync(path, SERVICE.replaceAll("legacy", "plain").replace("port: 80,", "port: 81,"));
    const again = await kubectl("apply", "-f", path);
    expect(again.code).toBe(1);
    expect(again.err).toContain("use `kubectl apply --server-side`");
  });

  test("apply over a field of another manager is a conflict that names both, and --force-conflicts takes it", async () => {
    const changed = POOL.replace("spec: {", "spec: { autoAssign: true, ");
    const path = file("conflict.yaml", changed);
    const refused = await kubectl("apply", "--server-side", "-f", path);
    expect(refused.code).toBe(1);
    expect(refused.err).toMatch(/conflict with "kubectl-replace".*: \.spec\.autoAssign/);
    const forced = await kubectl("apply", "--server-side", "--force-conflicts", "-f", path);
    expect(forced.err).toBe("");
    expect(embedded.read("IPAddressPool", "lan")).toMatchObject({ spec: { autoAssign: true } });
  });

  test("a field that is dropped from the applied set is removed from the object", async () => {
    await applied("pool3.yaml", POOL.replaceAll("lan", "third").replace("spec: {", "spec: { avoidBuggyIPs: true, "));
    expect(embedded.read("IPAddressPool", "third")).toMatchObject({ spec: { avoidBuggyIPs: true } });
    await applied("pool3.yaml", POOL.replaceAll("lan", "third"));
    expect(embedded.read("IPAddressPool", "third")).toMatchObject({ spec: { avoidBuggyIPs: false } });
  });

  test("a wrong object is refused with the field and the reason, an unknown field by its name", async () => {
    const listeners = "{ name: web, port: 80, protocol: TCP }\n  - { name: web2, port: 80, protocol: TCP }";
    const twice = GATEWAY.replace("{ name: web, port: 80, protocol: TCP }", listeners);
    const refused = await kubectl("apply", "--server-side", "-f", file("twice.yaml", twice));
    expect(refused.err).toContain("Combination of port, protocol and hostname must be unique for each listener");
    const unknown = POOL.replace("spec: {", "spec: { adresses: [], ");
    const strict = await kubectl("apply", "--server-side", "-f", file("unknown.yaml", unknown));
    expect(strict.err).toContain('unknown field "spec.adresses"');
    const hostBits = await kubectl(
      "apply",
      "--server-side",
      "-f",
      file("host-bits.yaml", POOL.replaceAll("lan", "fourth").replace("192.0.2.192/27", "192.0.2.193/27")),
    );
    expect(hostBits.err).toContain("192.0.2.192/27");
    expect((await kubectl("get", "pool", "nothing")).err).toContain('ipaddresspools.belfry.dev "nothing" not found');
  });

  test("explain tells fields out of the one schema", async () => {
    const { out } = await kubectl("explain", "vip.spec.forwards.backends");
    expect(out).toContain("KIND:       VirtualIP");
    expect(out).toContain("weight\t<integer>");
    expect((await kubectl("explain", "gateway.spec.listeners")).out).toContain("protocol\t<string> -required-");
  });

  test("delete waits for the finalizer, and the object goes with it", async () => {
    await kubectl("patch", "pool", "third", "--type=merge", "-p", '{"metadata":{"finalizers":["belfry.dev/test"]}}');
    const { result } = start("delete", "pool", "third");
    await eventually(() => embedded.read("IPAddressPool", "third")?.metadata.deletionTimestamp).toBeDefined();
    expect((await kubectl("get", "pool", "third")).code).toBe(0);
    await kubectl("patch", "pool", "third", "--type=merge", "-p", '{"metadata":{"finalizers":null}}');
    expect(await result).toMatchObject({ code: 0, out: expect.stringContaining('"third" deleted') });
    expect(embedded.read("IPAddressPool", "third")).toBeUndefined();
  });

  test("wait, describe, api-resources and a dry run work", async () => {
    const status = {
      conditions: [
        { type: "Ready", status: "True", reason: "Ok", message: "", lastTransitionTime: "2026-01-01T00:00:00Z" },
      ],
    };
    const patch = JSON.stringify({ status });
    expect((await kubectl("patch", "pool", "lan", "--subresource=status", "--type=merge", "-p", patch)).code).toBe(0);
    expect((await kubectl("wait", "pool/lan", "--for=condition=Ready", "--timeout=5s")).code).toBe(0);
    expect((await kubectl("describe", "pool", "lan")).out).toContain("Name:         lan");
    expect((await kubectl("api-resources")).out).toMatch(/virtualips +vip +belfry\.dev\/v1alpha1 +false +VirtualIP/);
    const before = embedded.store.version;
    expect(
      (
        await kubectl(
          "apply",
          "--server-side",
          "--dry-run=server",
          "-f",
          file("dry.yaml", POOL.replaceAll("lan", "dry")),
        )
      ).code,
    ).toBe(0);
    expect(embedded.store.version).toBe(before);
  });

  test("deleting a namespace deletes what is in it", async () => {
    expect((await kubectl("delete", "namespace", "demo")).code).toBe(0);
    expect((await kubectl("get", "gateway,svc", "-n", "demo")).err).toContain("No resources found");
  });
});

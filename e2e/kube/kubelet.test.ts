/** The lab's kubelet, which stands for a real one: one pod with all that Belfry's own pods, and those of users, ask of a node. */
import { existsSync, readFileSync } from "node:fs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { must } from "../../lab/cluster.ts";
import { eventually } from "../../lab/eventually.ts";
import { POD, type Pod } from "../../lab/kube/pod.ts";
import { objectOf } from "../../lab/kube/request.ts";
import type { Lab } from "../../lab/lab.ts";
import { REPOSITORY } from "../../lab/program.ts";
import { type KubeLab, startKubeLab } from "./kube-lab.ts";

const NAMESPACE = "belfry-system";
const NAME = "everything";
const TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token";
/** Not on the machine: only the container sees it. */
const SETTINGS = "/etc/belfry-lab-settings";

let cluster: KubeLab;
let lab: Lab;

beforeAll(async () => {
  cluster = await startKubeLab((started) => started.startApi(), { nodes: 1 });
  lab = cluster.lab;
  await apply(
    config("scripts", { "main.ts": MAIN }),
    config("settings", { mode: "fast", "app.conf": "x = 1\n" }),
    { apiVersion: "v1", kind: "Secret", metadata: meta("hidden"), stringData: { PASSWORD: "hunter2" } },
    POD_OF_ALL,
  );
});
afterAll(() => cluster?.lab.close());

const meta = (name: string) => ({ name, namespace: NAMESPACE });
const config = (name: string, data: Record<string, string>) => ({
  apiVersion: "v1",
  kind: "ConfigMap",
  metadata: meta(name),
  data,
});

async function apply(...objects: readonly object[]): Promise<void> {
  const text = objects.map((object) => JSON.stringify(object)).join("\n---\n");
  await eventually("the objects are applied", 30_000, async () => {
    // A pod is refused until its account is there.
    await cluster.kube.kubectl(["apply", "--server-side", "-f", "-"], text);
    return true;
  });
}

/** Answers what it is asked about itself, and asks the API server with Belfry's own client and what the kubelet gave it. */
const MAIN = `
import { readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { hostname } from "node:os";
import { VIRTUALIP } from "${REPOSITORY}/src/api/resource.ts";
import { silentLog } from "${REPOSITORY}/src/core/log.ts";
import { clock } from "${REPOSITORY}/src/host/clock.ts";
import { createClient } from "${REPOSITORY}/src/kube/client.ts";
import { loadConfig } from "${REPOSITORY}/src/kube/config.ts";

process.on("SIGTERM", () => {}); // so that only the end of the grace period ends it
let client;
const pages = {
  environment: () => JSON.stringify({ ...process.env, hostname: hostname(), argument: process.argv[2] }),
  read: (path) => readFileSync(path, "utf8"),
  write: (path) => void writeFileSync(path, "x"),
  async addresses() {
    client ??= createClient(loadConfig({}), { clock, log: silentLog });
    const answer = await client.list(VIRTUALIP);
    return answer.ok ? "allowed" : answer.failure.message;
  },
};
createServer(async (request, response) => {
  const [, page, path] = /^\\/([a-z]+)(.*)$/.exec(request.url);
  try {
    response.end((await pages[page](path)) ?? "");
  } catch (error) {
    response.writeHead(500).end(String(error));
  }
}).listen(8080);
`;

const shell = (script: string) => ["sh", "-c", script];
const SHARED = { name: "shared", mountPath: "/shared" };
const POD_OF_ALL = {
  apiVersion: "v1",
  kind: "Pod",
  metadata: { ...meta(NAME), labels: { app: NAME } },
  spec: {
    nodeName: "node-1",
    serviceAccountName: "belfry-controller",
    terminationGracePeriodSeconds: 3,
    volumes: [
      { name: "shared", emptyDir: {} },
      { name: "scripts", configMap: { name: "scripts" } },
      { name: "settings", configMap: { name: "settings", items: [{ key: "app.conf", path: "conf.d/app.conf" }] } },
      { name: "hidden", secret: { secretName: "hidden", defaultMode: 0o400 } },
      {
        name: "mixed",
        projected: {
          sources: [
            { configMap: { name: "settings", items: [{ key: "mode", path: "mode" }] } },
            { downwardAPI: { items: [{ path: "labels", fieldRef: { fieldPath: "metadata.labels" } }] } },
          ],
        },
      },
    ],
    initContainers: [
      {
        name: "first",
        image: "node",
        command: shell("sleep 1; echo first >> /shared/order"),
        volumeMounts: [SHARED],
      },
      {
        name: "second",
        image: "node",
        command: shell("echo second >> /shared/order; test -e /shared/tried || { touch /shared/tried; exit 1; }"),
        volumeMounts: [SHARED],
      },
    ],
    containers: [
      {
        name: "main",
        image: "node",
        command: ["node", "/scripts/main.ts"],
        args: ["--mode=$(MODE)"],
        envFrom: [{ prefix: "HIDDEN_", secretRef: { name: "hidden" } }],
        env: [
          { name: "MODE", valueFrom: { configMapKeyRef: { name: "settings", key: "mode" } } },
          { name: "IP", valueFrom: { fieldRef: { fieldPath: "status.podIP" } } },
        ],
        volumeMounts: [
          SHARED,
          { name: "scripts", mountPath: "/scripts" },
          { name: "settings", mountPath: SETTINGS, readOnly: true },
          { name: "hidden", mountPath: "/hidden" },
          { name: "mixed", mountPath: "/mixed" },
        ],
        readinessProbe: {
          exec: { command: shell('test -e /shared/ready && test "$MODE" = fast') },
          periodSeconds: 1,
          timeoutSeconds: 10,
        },
      },
    ],
  },
};

async function page(path: string): Promise<string> {
  const { code, body } = await lab.scrape(lab.podNamespace(`${NAMESPACE}-${NAME}`), 8080, path);
  if (code !== 200) throw new Error(`${path}: ${code} ${body}`);
  return body;
}
const pod = async (): Promise<Pod> => must(NAME, await lab.api.get<Pod>(POD, { namespace: NAMESPACE, name: NAME }));
const isReady = ({ status }: Pod): boolean =>
  status?.conditions.some(({ type, status: is }) => type === "Ready" && is === "True") === true;

/** The tokens that the API server was asked with, by their ids, in order. */
function credentials(): string[] {
  const ids = readFileSync(cluster.kube.controlPlane.auditLog, "utf8")
    .split("\n")
    .filter((line) => line.endsWith("}"))
    .map((line) => JSON.parse(line) as { user: { extra?: Record<string, string[]> }; userAgent?: string })
    .filter(({ user, userAgent }) => {
      const [name] = user.extra?.["authentication.kubernetes.io/pod-name"] ?? [];
      return userAgent === "belfry" && name === NAME;
    })
    .map(({ user }) => user.extra?.["authentication.kubernetes.io/credential-id"]?.[0] ?? "");
  return ids.filter((id, i) => id !== ids[i - 1]);
}

test("what comes first runs in order, each to its good end before the next", async () => {
  const order = await eventually("the program serves", 60_000, () => page("/read/shared/order"));
  expect(order).toBe("first\nsecond\nsecond\n");
  const { status } = await pod();
  expect(status?.initContainerStatuses).toMatchObject([
    { name: "first", restartCount: 0, ready: true },
    { name: "second", restartCount: 1, ready: true },
  ]);
  expect(status?.conditions.find(({ type }) => type === "Initialized")?.status).toBe("True");
});

test("its environment is made of keys, whole objects and fields", async () => {
  expect(JSON.parse(await page("/environment"))).toMatchObject({
    MODE: "fast",
    HIDDEN_PASSWORD: "hunter2",
    IP: (await pod()).status?.podIP,
    hostname: NAME,
    argument: "--mode=fast",
  });
});

test("its volumes have their files, and no other container or program of the machine sees them", async () => {
  expect(await page(`/read${SETTINGS}/conf.d/app.conf`)).toBe("x = 1\n");
  expect(await page("/read/hidden/PASSWORD")).toBe("hunter2");
  expect(await page("/read/mixed/mode")).toBe("fast");
  expect(await page("/read/mixed/labels")).toBe(`app="${NAME}"`);
  await page("/write/etc/belfry-lab-scratch");
  expect([existsSync(SETTINGS), existsSync("/etc/belfry-lab-scratch")]).toEqual([false, false]);
  await expect(page(`/write${SETTINGS}/more`)).rejects.toThrow("EROFS");
});

test("it is ready when its command in the container says so, and not before", async () => {
  expect(isReady(await pod())).toBe(false);
  await page("/write/shared/ready");
  await eventually("it is ready", 20_000, async () => isReady(await pod()));
});

test("Belfry's client asks the API server with the pod's own token, and goes on with the next one", async () => {
  // A kind that was defined just now answers 429 until its cache is there.
  await eventually("the list is allowed", 10_000, async () => {
    expect(await page("/addresses")).toBe("allowed");
    return true;
  });
  const before = await page(`/read${TOKEN}`);
  // The log has a request a moment after its answer.
  const [first] = await eventually(
    "the first token is in the log",
    5_000,
    () => credentials().length > 0 && credentials(),
  );
  expect(credentials()).toEqual([first]);
  await cluster.kube.kubelets.get("node-1")?.rotateTokens(NAME);
  expect(await page(`/read${TOKEN}`)).not.toBe(before);
  // It looks at the file once a minute, and the old token is good until then.
  await eventually("the new token is used", 90_000, async () => {
    expect(await page("/addresses")).toBe("allowed");
    return credentials().length === 2;
  });
  expect(credentials()[0]).toBe(first);
});

test("a ConfigMap that changed is seen in its volume, and not in the environment", async () => {
  await apply(config("settings", { mode: "slow", "app.conf": "x = 2\n" }));
  await eventually("the file changed", 40_000, async () => {
    const files = [await page(`/read${SETTINGS}/conf.d/app.conf`), await page("/read/mixed/mode")];
    return `${files}` === "x = 2\n,slow";
  });
  expect(JSON.parse(await page("/environment"))).toMatchObject({ MODE: "fast" });
});

test("a program that does not listen is given its grace period, and no more", async () => {
  const path = `/api/v1/namespaces/${NAMESPACE}/pods/${NAME}`;
  const startedAt = performance.now();
  const { metadata } = objectOf<Pod>(path, await cluster.kube.controlPlane.admin("DELETE", path));
  expect(metadata.deletionGracePeriodSeconds).toBe(3);
  await eventually("it is gone", 30_000, async () => !(await lab.api.get(POD, meta(NAME))).ok);
  expect(performance.now() - startedAt).toBeGreaterThan(3000);
});

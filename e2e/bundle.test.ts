/** The file system of the image, without an engine: a root that holds nothing else, in the lab's namespaces. */
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Addresses, startDemo, waitForDemo } from "../lab/demo.ts";
import { eventually } from "../lab/eventually.ts";
import { createLab, type Lab } from "../lab/lab.ts";
import { NODE, REPOSITORY } from "../lab/program.ts";
import { bundle } from "../tool/bundle.ts";

/** As the manifests say: the controller is nobody, the speaker is root with three capabilities (and one for chroot). */
const CONTROLLER = ["chroot", "--userspec=65532:65532"];
const CAPABILITIES = "-all,+net_bind_service,+net_admin,+net_raw,+sys_chroot";
const SPEAKER = ["setpriv", `--bounding-set=${CAPABILITIES}`, "--no-new-privs", "chroot"];

const KUBECONFIG = "--kubeconfig=/tmp/kubeconfig";
const ANSWER = { type: "answer", text: expect.stringMatching(/^web-[ab]\b/) };

let lab: Lab;
let gateway: Addresses;
let startedSpeaker: ChildProcess;
let logs = "";
const folder = mkdtempSync(join(tmpdir(), "belfry-image-"));
const root = join(folder, "root");
const children: ChildProcess[] = [];

beforeAll(async () => {
  await bundle(join(folder, "bundle"));
  execFileSync("sh", [join(REPOSITORY, "config/image/gather-root.sh"), NODE, join(folder, "bundle"), root]);
  lab = await createLab({ nodes: 1 });
  await lab.startApi();
  writeFileSync(join(root, "tmp/kubeconfig"), readFileSync(lab.kubeconfig), { mode: 0o644 });
  const [node] = lab.nodes;
  if (node === undefined) throw new Error("the lab has no node");
  const controller = ["controller/main.js", KUBECONFIG, "--identity=bundled", "--metrics-bind=127.0.0.1:9120"];
  startInRoot(lab.network.controlPlane, CONTROLLER, controller);
  const speaker = ["speaker/main.js", KUBECONFIG, `--node-name=${node.name}`, "--metrics-bind=127.0.0.1:9121"];
  startedSpeaker = startInRoot(node.namespace, SPEAKER, speaker);
  try {
    await eventually("the speaker is ready", 30_000, () => lab.speakerIsReady(node));
    await startDemo(lab);
    ({ gateway } = await waitForDemo(lab));
  } catch (error) {
    console.error(logs);
    throw error;
  }
});
afterAll(async () => {
  for (const child of children) child.kill("SIGKILL");
  await lab?.close();
  rmSync(folder, { recursive: true });
});

/** As an engine would: an own mount namespace with a read-only root and /proc, less privileges, then the program. */
function startInRoot(namespace: string, enter: readonly string[], [file, ...flags]: readonly string[]): ChildProcess {
  const mounted = 'mount --bind "$0" "$0"; mount -t proc proc "$0/proc"; mount -o remount,bind,ro "$0"; exec "$@"';
  const place = ["netns", "exec", namespace, "unshare", "--mount", "sh", "-ec", mounted, root];
  const program = ["/usr/bin/node", `/belfry/${file}`, ...flags];
  const child = spawn("ip", [...place, ...enter, root, ...program], {
    env: { PATH: process.env["PATH"] },
    stdio: ["ignore", "pipe", "pipe"],
  });
  if (child.pid !== undefined) lab.claim.process(child.pid);
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (text) => {
      logs += text;
    });
  }
  children.push(child);
  return child;
}

test("the bundled processes give a Gateway its addresses, answer for them and deliver, TCP and UDP", async () => {
  const client = await lab.client();
  for (const address of [gateway.IPv4, gateway.IPv6]) {
    expect(await client.call("ask", "TCP", address, 80, 5_000), logs).toMatchObject(ANSWER);
    expect(await client.call("ask", "UDP", address, 53, 5_000), logs).toMatchObject(ANSWER);
  }
});

test("the table outlives the speaker, which owns it; after that, the node is cleaned of it", async () => {
  const namespace = lab.nodes[0]?.namespace ?? "";
  const tables = () => lab.exec(namespace, "nft", "list", "tables");
  const ended = (child: ChildProcess) => new Promise((resolve) => child.once("exit", resolve));
  const clean = () => ended(startInRoot(namespace, SPEAKER, ["speaker/clean.js"]));
  expect(await clean()).toBe(1);
  expect(logs).toContain("a speaker still runs on this node");
  const left = ended(startedSpeaker);
  startedSpeaker.kill("SIGTERM");
  expect(await left).toBe(0);
  expect(await tables()).toContain("table inet belfry");
  expect(await clean()).toBe(0);
  expect(await tables()).toBe("");
  expect(await clean()).toBe(0);
});

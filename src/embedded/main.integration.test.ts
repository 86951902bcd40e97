/** The process that the lab and the quickstart start: flags, ready line, several listeners, SIGTERM. */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { request as httpsRequest } from "node:https";
import { connect as connectSocket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { parse } from "yaml";

const folder = mkdtempSync(join(tmpdir(), "belfry-embedded-"));
let child: ChildProcess | undefined;
afterEach(() => {
  child?.kill("SIGKILL");
  rmSync(folder, { recursive: true, force: true });
});

test("it serves the same objects on every listener, says when it is ready, and ends on SIGTERM", async () => {
  const [kubeconfig, socket] = [join(folder, "config"), join(folder, "api.sock")];
  const listen = ["--listen", "127.0.0.1:0", "--listen", "[::1]:0", "--unix", socket];
  const process_ = spawn(process.execPath, [
    join(import.meta.dirname, "main.ts"),
    ...listen,
    "--kubeconfig-out",
    kubeconfig,
  ]);
  child = process_;
  const line = await new Promise<string>((resolve) => process_.stdout.once("data", (chunk) => resolve(String(chunk))));
  expect(line).toMatch(/^ready: https:\/\/127\.0\.0\.1:\d+, kubeconfig in .*\n$/);

  const config = parse(readFileSync(kubeconfig, "utf8"));
  const { server, "certificate-authority-data": ca } = config.clusters[0].cluster;
  const ask = (options: object): Promise<string> =>
    new Promise((resolve, reject) => {
      const headers = { authorization: `Bearer ${config.users[0].user.token}` };
      const url = `${server}/api/v1/namespaces/default`;
      httpsRequest(url, { ca: Buffer.from(ca, "base64"), agent: false, headers, ...options }, (response) => {
        let text = "";
        response.on("data", (chunk) => {
          text += chunk;
        });
        response.on("end", () => resolve(JSON.parse(text).metadata?.name));
      })
        .on("error", reject)
        .end();
    });
  expect(await ask({})).toBe("default");
  expect(await ask({ createConnection: undefined, socketPath: socket, servername: "localhost" })).toBe("default");

  const ended = new Promise((resolve) => process_.once("exit", resolve));
  const open = connectSocket(socket);
  process_.kill("SIGTERM");
  expect(await ended).toBe(0);
  open.destroy();
});

import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { parse, stringify } from "yaml";
import { instant } from "../core/instant.ts";
import { login } from "./login.ts";
import { run, type Served, serve } from "./shell.fixture.ts";

let directory: string;
let served: Served | undefined;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "belfry-login-"));
});
afterEach(async () => {
  rmSync(directory, { recursive: true });
  await served?.close();
  served = undefined;
});

const file = (name: string, text: string, mode = 0o644) => {
  writeFileSync(join(directory, name), text, { mode });
  return join(directory, name);
};
const base64 = (text: string) => Buffer.from(text).toString("base64");

type Entry = { cluster?: object; user?: object; namespace?: string };

/** One cluster, user and context of each name; the first is current. */
const kubeconfig = (entries: Record<string, Entry>, current = Object.keys(entries)[0]): string =>
  stringify({
    apiVersion: "v1",
    kind: "Config",
    "current-context": current,
    clusters: Object.entries(entries).map(([name, { cluster }]) => ({
      name,
      cluster: { server: `https://${name}.example.com:6443`, ...cluster },
    })),
    users: Object.entries(entries).map(([name, { user }]) => ({ name, user: { token: `token-${name}`, ...user } })),
    contexts: Object.entries(entries).map(([name, { namespace }]) => ({
      name,
      context: { cluster: name, user: name, ...(namespace === undefined ? {} : { namespace }) },
    })),
  });

const enter = async (options: Partial<Parameters<typeof login>[0]>) => {
  const { config, namespace } = await login({ kubeconfig: undefined, context: undefined, environment: {}, ...options });
  return { ...config.connection(), token: config.token(instant(0)), namespace };
};

describe("which cluster", () => {
  test("the current context's, with its namespace", async () => {
    const path = file("one", kubeconfig({ a: { namespace: "demo" }, b: {} }));
    expect(await enter({ kubeconfig: path })).toMatchObject({
      origin: "https://a.example.com:6443",
      token: "token-a",
      namespace: "demo",
    });
  });

  test("another context's, when it is named", async () => {
    const path = file("one", kubeconfig({ a: { namespace: "demo" }, b: {} }));
    expect(await enter({ kubeconfig: path, context: "b" })).toMatchObject({ token: "token-b", namespace: "default" });
  });

  test("of several files the first current-context, and of two entries with one name the first", async () => {
    const first = file("first", kubeconfig({ a: {} }, ""));
    const second = file("second", kubeconfig({ a: { user: { token: "late" } }, b: {} }, "b"));
    const environment = { KUBECONFIG: `${join(directory, "missing")}:${first}:${second}` };
    expect(await enter({ environment })).toMatchObject({ token: "token-b" });
    expect(await enter({ environment, context: "a" })).toMatchObject({ token: "token-a" });
  });

  test("the one of ~/.kube/config, when nothing is said", async () => {
    mkdirSync(join(directory, ".kube"));
    file(".kube/config", kubeconfig({ home: {} }));
    expect(await enter({ environment: { HOME: directory } })).toMatchObject({ token: "token-home" });
  });

  test.each<[string, () => Promise<unknown>, string]>([
    ["no kubeconfig", () => enter({ environment: { HOME: "/nonexistent" } }), "no kubeconfig: give --kubeconfig"],
    ["a file that is not there", () => enter({ kubeconfig: "/nonexistent" }), "ENOENT"],
    ["no file of KUBECONFIG", () => enter({ environment: { KUBECONFIG: "/nonexistent" } }), "no such file"],
    ["no YAML", () => enter({ kubeconfig: file("x", "{") }), "not YAML"],
    ["no object", () => enter({ kubeconfig: file("x", "text") }), "this is no kubeconfig"],
    [
      "no current context",
      () => enter({ kubeconfig: file("x", kubeconfig({ a: {} }, "")) }),
      "no current-context; give --context, one of: a",
    ],
    [
      "no such context",
      () => enter({ kubeconfig: file("x", kubeconfig({ a: {} })), context: "b" }),
      'no context "b"; there are: a',
    ],
    [
      "a proxy",
      () => enter({ kubeconfig: file("x", kubeconfig({ a: { cluster: { "proxy-url": "socks5://x" } } })) }),
      "proxy-url is not supported",
    ],
    [
      "impersonation",
      () => enter({ kubeconfig: file("x", kubeconfig({ a: { user: { as: "x" } } })) }),
      "impersonation",
    ],
    [
      "a password",
      () => enter({ kubeconfig: file("x", kubeconfig({ a: { user: { username: "x" } } })) }),
      "no user name and password",
    ],
  ])("none: %s", async (_, entering, words) => {
    await expect(entering()).rejects.toThrow(words);
  });
});

describe("by which credentials", () => {
  test("a certificate, inline or in files beside the kubeconfig", async () => {
    file("ca.crt", "CA");
    file("client.crt", "CERT");
    const path = file(
      "config",
      kubeconfig({
        a: {
          cluster: {
            "certificate-authority": "ca.crt",
            "tls-server-name": "api",
            server: "https://a.example.com/k8s/",
          },
          user: { token: undefined, "client-certificate": "client.crt", "client-key-data": base64("KEY") },
        },
      }),
    );
    expect(await enter({ kubeconfig: path })).toMatchObject({
      ca: "CA",
      basePath: "/k8s",
      serverName: "api",
      insecure: false,
      clientCertificate: { certificate: "CERT", key: "KEY" },
      token: undefined,
    });
  });

  test("a token file, which counts more than a token", async () => {
    file("token", "fresh\n");
    const path = file("config", kubeconfig({ a: { user: { token: "stale", tokenFile: "token" } } }));
    expect((await enter({ kubeconfig: path })).token).toBe("fresh");
  });

  test("no check of the server's certificate, where that is said", async () => {
    const path = file("config", kubeconfig({ a: { cluster: { "insecure-skip-tls-verify": true } } }));
    expect((await enter({ kubeconfig: path })).insecure).toBe(true);
  });

  test("an exec plugin beside the kubeconfig, which is told the cluster", async () => {
    file(
      "plugin",
      `#!/bin/sh
printf '%s' "$KUBERNETES_EXEC_INFO" > ${directory}/told
printf '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"%s-%s"}}' "$1" "$EXTRA"
`,
      0o755,
    );
    const exec = {
      apiVersion: "client.authentication.k8s.io/v1",
      command: "./plugin",
      args: ["secret"],
      env: [{ name: "EXTRA", value: "more" }],
      provideClusterInfo: true,
    };
    const path = file("config", kubeconfig({ a: { user: { token: undefined, exec } } }));
    expect((await enter({ kubeconfig: path })).token).toBe("secret-more");
    expect(JSON.parse(readFileSync(join(directory, "told"), "utf8"))).toMatchObject({
      kind: "ExecCredential",
      apiVersion: "client.authentication.k8s.io/v1",
      spec: { interactive: false, cluster: { server: "https://a.example.com:6443" } },
    });
  });

  test("an exec plugin that fails says why in its own words", async () => {
    file("plugin", "#!/bin/sh\necho please log in with your badge >&2\nexit 1\n", 0o755);
    const path = file("config", kubeconfig({ a: { user: { token: undefined, exec: { command: "./plugin" } } } }));
    await expect(enter({ kubeconfig: path })).rejects.toThrow(/login as user "a".*please log in with your badge/s);
  });

  const jwt = (exp: number) =>
    [{ alg: "none" }, { exp }].map((part) => Buffer.from(JSON.stringify(part)).toString("base64url")).join(".") +
    ".sig";

  test("an OIDC token that is still good", async () => {
    const token = jwt(4_000_000_000);
    const provider = { name: "oidc", config: { "id-token": token, "idp-issuer-url": "https://idp.example.com" } };
    const path = file("config", kubeconfig({ a: { user: { token: undefined, "auth-provider": provider } } }));
    expect((await enter({ kubeconfig: path })).token).toBe(token);
  });

  test("an OIDC token that ran out, where the identity provider is away", async () => {
    const closed = createServer();
    await new Promise<void>((resolve) => closed.listen(0, "127.0.0.1", resolve));
    const { port } = closed.address() as AddressInfo;
    await new Promise((resolve) => closed.close(resolve));
    const config = {
      "id-token": jwt(1),
      "refresh-token": "r",
      "client-id": "belfry",
      "idp-issuer-url": `https://127.0.0.1:${port}`,
    };
    const user = { token: undefined, "auth-provider": { name: "oidc", config } };
    const path = file("config", kubeconfig({ a: { user } }));
    await expect(enter({ kubeconfig: path })).rejects.toThrow('login as user "a"');
  });
});

test("a login by exec plugin gets in", async () => {
  served = await serve();
  const { token } = parse(served.embedded.kubeconfig).users[0].user;
  const credential = { apiVersion: "client.authentication.k8s.io/v1", kind: "ExecCredential", status: { token } };
  file("plugin", `#!/bin/sh\ncat <<'END'\n${JSON.stringify(credential)}\nEND\n`, 0o755);
  const config = parse(served.embedded.kubeconfig);
  config.users[0].user = { exec: { apiVersion: credential.apiVersion, command: "./plugin" } };
  const path = file("config", stringify(config));
  expect(await run(`get vips --kubeconfig ${path}`)).toMatchObject({
    code: 0,
    out: expect.stringContaining("192.0.2.10"),
  });
});

test("a token that the server does not know is said to be so", async () => {
  served = await serve();
  const config = parse(served.embedded.kubeconfig);
  config.users[0].user = { token: "nobody's" };
  const ran = await run(`get vips --kubeconfig ${file("config", stringify(config))}`);
  expect(ran).toMatchObject({ code: 2, err: expect.stringContaining("does not know you (401)") });
});

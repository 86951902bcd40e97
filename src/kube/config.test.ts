import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { instant } from "../core/instant.ts";
import { ConfigError, loadConfig } from "./config.ts";

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "belfry-config-"));
});
afterEach(() => rmSync(directory, { recursive: true }));

const file = (name: string, text: string) => {
  writeFileSync(join(directory, name), text);
  return join(directory, name);
};
const base64 = (text: string) => Buffer.from(text).toString("base64");
const kubeconfig = (cluster: string, user: string) =>
  file(
    "kubeconfig",
    `current-context: here
contexts: [{name: there, context: {cluster: no, user: no}}, {name: here, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: ${cluster}}]
users: [{name: u, user: ${user}}]
`,
  );

describe("a kubeconfig", () => {
  test("with everything inline", () => {
    const path = kubeconfig(
      `{server: "https://192.0.2.1:6443/k8s/", certificate-authority-data: ${base64("CA")}, tls-server-name: api}`,
      `{client-certificate-data: ${base64("CERT")}, client-key-data: ${base64("KEY")}}`,
    );
    const config = loadConfig({ kubeconfig: path });
    expect(config.connection()).toEqual({
      origin: "https://192.0.2.1:6443",
      basePath: "/k8s",
      ca: "CA",
      clientCertificate: { certificate: "CERT", key: "KEY" },
      serverName: "api",
      insecure: false,
    });
    expect(config.token(instant(0))).toBeUndefined();
  });

  test("with files beside it, and a token file that wins over a token", () => {
    file("ca.crt", "CA");
    file("t", "fresh\n");
    const path = kubeconfig(
      `{server: "https://[2001:db8::1]:6443", certificate-authority: ca.crt, insecure-skip-tls-verify: true}`,
      `{token: stale, tokenFile: t}`,
    );
    const config = loadConfig({ kubeconfig: path });
    expect(config.connection()).toMatchObject({ origin: "https://[2001:db8::1]:6443", ca: "CA", insecure: true });
    expect(config.token(instant(0))).toBe("fresh");
  });

  test("is read again for each connection", () => {
    const path = kubeconfig(`{server: "https://192.0.2.1"}`, "{token: one}");
    const config = loadConfig({ kubeconfig: path });
    kubeconfig(`{server: "https://192.0.2.2"}`, "{token: two}");
    expect(config.connection().origin).toBe("https://192.0.2.2");
    expect(config.token(instant(0))).toBe("two");
  });

  test.each([
    ["current-context: x", /"x" is not among its contexts/],
    ["", /empty/],
    ["{", /not YAML/],
  ])("%j is refused", (text, message) => {
    expect(() => loadConfig({ kubeconfig: file("bad", text) })).toThrow(message);
  });

  test.each([
    [`{server: "192.0.2.1:6443"}`, "{}", /is not an https/],
    [`{server: "https://192.0.2.1"}`, "{exec: {command: aws}}", /use a token or a client certificate/],
    [`{server: "https://192.0.2.1", certificate-authority: gone.crt}`, "{}", /gone\.crt/],
  ])("cluster %s, user %s is refused", (cluster, user, message) => {
    expect(() => loadConfig({ kubeconfig: kubeconfig(cluster, user) })).toThrow(message);
  });

  test("that is not there is refused by name", () => {
    expect(() => loadConfig({ kubeconfig: "/nonexistent/kubeconfig" })).toThrow(ConfigError);
  });
});

describe("a service account", () => {
  const environment = { KUBERNETES_SERVICE_HOST: "2001:db8::10", KUBERNETES_SERVICE_PORT: "6443" };

  test("gives the server, the CA and the token", () => {
    file("ca.crt", "CA");
    file("token", "t1");
    const config = loadConfig({ environment, serviceAccountDirectory: directory });
    expect(config.connection()).toMatchObject({ origin: "https://[2001:db8::10]:6443", ca: "CA" });
    expect(config.token(instant(0))).toBe("t1");
  });

  test("is read again after a minute, and at once after a 401", () => {
    file("ca.crt", "CA");
    file("token", "t1");
    const config = loadConfig({ environment, serviceAccountDirectory: directory });
    expect(config.token(instant(0))).toBe("t1");
    file("token", "t2");
    expect(config.token(instant(59_999))).toBe("t1");
    expect(config.token(instant(60_000))).toBe("t2");
    file("token", "t3");
    config.forgetToken();
    expect(config.token(instant(60_001))).toBe("t3");
  });

  test("outside a pod the words say what to give", () => {
    expect(() => loadConfig({ environment: {} })).toThrow(/--kubeconfig/);
  });
});

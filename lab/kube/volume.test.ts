import { describe, expect, test } from "vitest";
import type { Container, Pod } from "./pod.ts";
import {
  environmentOf,
  expand,
  filesOf,
  keysOf,
  type Material,
  NotThere,
  referencesOf,
  tokenIsOld,
  type Volume,
} from "./volume.ts";

const pod = (more: Partial<Pod["spec"]> = {}): Pod => ({
  metadata: {
    name: "web-1",
    namespace: "demo",
    uid: "u",
    labels: { b: "2", a: "1" },
    annotations: { note: 'say "hi"' },
  },
  spec: { nodeName: "node-1", containers: [], ...more },
});

const material: Material = {
  pod: pod(),
  podIPs: ["198.18.1.2", "2001:db8:0:11::2"],
  configMap: (name) => (name === "config" ? keysOf({ data: { mode: "fast", "app.conf": "x=1\n" } }) : undefined),
  secret: (name) => (name === "secret" ? keysOf({ kind: "Secret", data: { password: "aHVudGVyMg==" } }) : undefined),
  token: ({ audience }) => `token for ${audience ?? "the server"}`,
};

const texts = (volume: Volume) =>
  Object.fromEntries(
    [...filesOf(volume, material)].map(([path, { bytes, mode }]) => [
      path,
      `${mode.toString(8)} ${new TextDecoder().decode(bytes)}`,
    ]),
  );

describe("files of a volume", () => {
  test.each([
    ["a ConfigMap whole", { configMap: { name: "config" } }, { mode: "644 fast", "app.conf": "644 x=1\n" }],
    [
      "keys of a ConfigMap under other paths, with their modes",
      {
        configMap: {
          name: "config",
          defaultMode: 0o400,
          items: [
            { key: "mode", path: "a/b" },
            { key: "app.conf", path: "c", mode: 0o755 },
          ],
        },
      },
      { "a/b": "400 fast", c: "755 x=1\n" },
    ],
    ["a Secret, decoded", { secret: { secretName: "secret", defaultMode: 0o600 } }, { password: "600 hunter2" }],
    ["an optional one that is not there", { configMap: { name: "other", optional: true } }, {}],
    [
      "an optional key that is not there",
      { secret: { secretName: "secret", optional: true, items: [{ key: "x", path: "x" }] } },
      {},
    ],
    [
      "the downward API",
      {
        downwardAPI: {
          items: [
            { path: "labels", fieldRef: { fieldPath: "metadata.labels" } },
            { path: "note", fieldRef: { fieldPath: "metadata.annotations" } },
          ],
        },
      },
      { labels: '644 a="1"\nb="2"', note: '644 note="say \\"hi\\""' },
    ],
    [
      "a projection of all of them",
      {
        projected: {
          sources: [
            { serviceAccountToken: { path: "token" } },
            { serviceAccountToken: { path: "vault", audience: "vault" } },
            { configMap: { name: "config", items: [{ key: "mode", path: "mode" }] } },
            { downwardAPI: { items: [{ path: "namespace", fieldRef: { fieldPath: "metadata.namespace" } }] } },
          ],
        },
      },
      { token: "644 token for the server", vault: "644 token for vault", mode: "644 fast", namespace: "644 demo" },
    ],
  ] as const)("%s", (_what, volume, files) => {
    expect(texts({ name: "v", ...volume })).toEqual(files);
  });

  test.each([
    ["a ConfigMap", { configMap: { name: "other" } }, "ConfigMap other is not there"],
    ["a Secret", { secret: { secretName: "other" } }, "Secret other is not there"],
    ["a key", { configMap: { name: "config", items: [{ key: "x", path: "x" }] } }, "ConfigMap config has no key x"],
  ] as const)("%s that is not there is named", (_what, volume, words) => {
    expect(() => texts({ name: "v", ...volume })).toThrow(new NotThere(words));
  });
});

describe("environment", () => {
  const variables = (container: Pick<Container, "env" | "envFrom">) => environmentOf(container, material);

  test("fields of the pod and earlier variables are filled in", () => {
    const field = (name: string, fieldPath: string) => ({ name, valueFrom: { fieldRef: { fieldPath } } });
    const env = [
      field("POD", "metadata.name"),
      field("NODE", "spec.nodeName"),
      field("IP", "status.podIP"),
      field("IPS", "status.podIPs"),
      field("LABEL", "metadata.labels['a']"),
      { name: "BOTH", value: "$(POD) on $(NODE)" },
    ];
    expect(variables({ env })).toEqual({
      POD: "web-1",
      NODE: "node-1",
      IP: "198.18.1.2",
      IPS: "198.18.1.2,2001:db8:0:11::2",
      LABEL: "1",
      BOTH: "web-1 on node-1",
    });
  });

  test("of keys and of whole objects; a variable of its own wins", () => {
    expect(
      variables({
        envFrom: [
          { prefix: "C_", configMapRef: { name: "config" } },
          { secretRef: { name: "secret" } },
          { secretRef: { name: "other", optional: true } },
        ],
        env: [
          { name: "MODE", valueFrom: { configMapKeyRef: { name: "config", key: "mode" } } },
          { name: "SAME", valueFrom: { secretKeyRef: { name: "secret", key: "password" } } },
          { name: "NONE", valueFrom: { secretKeyRef: { name: "secret", key: "x", optional: true } } },
          { name: "password", value: "mine" },
        ],
      }),
    ).toEqual({ C_mode: "fast", "C_app.conf": "x=1\n", password: "mine", MODE: "fast", SAME: "hunter2" });
  });

  test("a key that is not there is named", () => {
    const env = [{ name: "A", valueFrom: { configMapKeyRef: { name: "config", key: "x" } } }];
    expect(() => variables({ env })).toThrow(new NotThere("ConfigMap config has no key x"));
  });

  test.each([
    ["$(A)", "1"],
    ["--name=$(A)-$(A)", "--name=1-1"],
    ["$(B)", "$(B)"],
    ["$$(A)", "$(A)"],
    ["$A", "$A"],
  ])("%s becomes %s", (text, expanded) => {
    expect(expand(text, { A: "1" })).toBe(expanded);
  });
});

test("a pod refers to what is in its volumes, in the environment of its containers, and of those that come first", () => {
  const container = (more: Partial<Container>): Container => ({ name: "c", image: "i", ...more });
  const { configMaps, secrets, tokens } = referencesOf(
    pod({
      volumes: [
        { name: "a", configMap: { name: "in-volume" } },
        { name: "b", secret: { secretName: "in-volume" } },
        {
          name: "c",
          projected: { sources: [{ secret: { name: "projected" } }, { serviceAccountToken: { path: "t" } }] },
        },
        { name: "d", emptyDir: {} },
      ],
      initContainers: [container({ envFrom: [{ configMapRef: { name: "first" } }] })],
      containers: [container({ env: [{ name: "A", valueFrom: { secretKeyRef: { name: "key", key: "k" } } }] })],
    }),
  );
  expect([...configMaps]).toEqual(["in-volume", "first"]);
  expect([...secrets]).toEqual(["in-volume", "projected", "key"]);
  expect(tokens).toEqual([{ path: "t" }]);
});

describe("a token is fetched anew", () => {
  const hour = 3_600_000;
  test.each([
    ["not before four fifths of its life", hour, 0.79 * hour, false],
    ["at four fifths of its life", hour, 0.8 * hour, true],
    ["when it is over", hour, 2 * hour, true],
    ["after a day, however long it lives", 8760 * hour, 24 * hour, true],
    ["and not within that day", 8760 * hour, 23 * hour, false],
  ])("%s", (_what, life, age, old) => {
    expect(tokenIsOld({ issuedAt: 1000, expiresAt: 1000 + life }, 1000 + age)).toBe(old);
  });
});

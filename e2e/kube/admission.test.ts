import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createKubeRequest, type KubeRequest, objectOf } from "../../lab/kube/request.ts";
import { ADMISSION_TABLE, type AdmissionRow } from "../../src/api/admission-table.ts";
import type { KubeObject } from "../../src/api/meta.ts";
import * as resources from "../../src/api/resource.ts";
import { type KubeLab, startKubeLab } from "./kube-lab.ts";

let cluster: KubeLab;
let admin: KubeRequest;

beforeAll(async () => {
  cluster = await startKubeLab((lab) => lab.startApi(), { serviceProxy: "none" });
  admin = cluster.kube.controlPlane.admin;
  for (const name of ["demo", "web"]) await admin("POST", "/api/v1/namespaces", { metadata: { name } });
});
afterAll(() => cluster?.lab.close());

const KINDS = Object.values(resources).filter((value): value is resources.Resource => typeof value === "object");

/** Path of an object's collection. */
function pathOf(object: KubeObject): string {
  const resource = KINDS.find(
    (each) => each.kind === object.kind && resources.apiVersionOf(each) === object.apiVersion,
  );
  if (resource === undefined) throw new Error(`no resource of kind ${object.kind}`);
  const { namespace } = object.metadata;
  const scope = namespace === undefined ? "" : `namespaces/${namespace}/`;
  return `/apis/${resource.group}/${resource.version}/${scope}${resource.plural}`;
}

/** What the real server says of the change, carried out on nothing but the object before it. */
async function ask(row: AdmissionRow): Promise<{ status: number; text: string }> {
  const path = pathOf(row.object);
  if (row.old === undefined) return admin("POST", `${path}?dryRun=All`, row.object);
  const before = objectOf<KubeObject>(row.claim, await admin("POST", path, row.old));
  const at = `${path}/${row.old.metadata.name}`;
  try {
    const { resourceVersion = "" } = before.metadata;
    const object = { ...row.object, metadata: { ...row.object.metadata, resourceVersion } };
    return await admin("PUT", `${at}?dryRun=All`, object);
  } finally {
    await admin("DELETE", at);
  }
}

test("every CRD is accepted by the real server without a word: structural, and within the budget of CEL", async () => {
  const { kube } = cluster;
  const list = JSON.parse(await kube.kubectl(["get", "crd", "-o", "json"])) as {
    items: {
      metadata: { name: string };
      status: { conditions: { type: string; status: string; message: string }[] };
    }[];
  };
  const ours = list.items.filter(({ metadata }) => metadata.name.endsWith(".belfry.dev"));
  expect(ours.length).toBeGreaterThanOrEqual(5);
  for (const { metadata, status } of ours) {
    const words = status.conditions.map(({ type, status: is, message }) => `${type}=${is} ${message}`);
    expect(
      words.filter((each) => !/^(NamesAccepted|Established)=True/.test(each)),
      metadata.name,
    ).toEqual([]);
  }
});

describe("the table of accepted and refused objects holds on the real server", () => {
  test.each(ADMISSION_TABLE.map((row) => [row.claim, row] as const))("%s", async (_claim, row) => {
    const { status, text } = await ask(row);
    if (row.outcome.type !== "refused") {
      expect(status, text).toBeLessThan(300);
      return;
    }
    expect(status, text).toBe(422);
    expect((JSON.parse(text) as { message: string }).message).toContain(row.outcome.message);
  });
});

describe("a speaker's token speaks for its own node alone", () => {
  const OTHER = "node-2";
  const BELFRY = "/apis/belfry.dev/v1alpha1";
  const LEASES = "/apis/coordination.k8s.io/v1/namespaces/belfry-system/leases";
  let speaker: KubeRequest;
  let unbound: KubeRequest;

  beforeAll(async () => {
    const { lab, kube } = cluster;
    const { hostPort: port, ca } = kube.controlPlane;
    const node = lab.node("node-1");
    speaker = createKubeRequest({ port, ca, token: await kube.token("belfry-speaker", node) });
    unbound = createKubeRequest({ port, ca, token: await kube.token("belfry-speaker", undefined) });
    const make = async (path: string, object: unknown) => objectOf(path, await admin("POST", path, object));
    for (const { name } of lab.nodes) {
      await make(`${BELFRY}/speakerstatuses`, speakerStatus(name));
      await make(LEASES, lease(`belfry-speaker-${name}`));
    }
    await make(LEASES, lease("belfry-controller"));
    await make(`${BELFRY}/virtualips`, {
      apiVersion: "belfry.dev/v1alpha1",
      kind: "VirtualIP",
      metadata: { name: "192.0.2.200" },
      spec: { address: "192.0.2.200" },
    });
  });

  const speakerStatus = (name: string) => ({
    apiVersion: "belfry.dev/v1alpha1",
    kind: "SpeakerStatus",
    metadata: { name },
    spec: { nodeName: name },
  });
  const lease = (name: string) => ({
    apiVersion: "coordination.k8s.io/v1",
    kind: "Lease",
    metadata: { name, namespace: "belfry-system" },
    spec: { holderIdentity: name },
  });
  const patch = (as: KubeRequest, path: string, body: unknown) =>
    as("PATCH", path, body, "application/merge-patch+json");
  const owner = (node: string) => ({
    status: { owner: { node, term: 1, generation: 1, since: "2026-06-01T12:00:00Z" } },
  });
  /** Replaces another node's Lease as it is, with another holder. */
  const takeLease = async (as: KubeRequest, name: string) => {
    const before = objectOf<{ spec: object }>(name, await admin("GET", `${LEASES}/${name}`));
    return as("PUT", `${LEASES}/${name}`, { ...before, spec: { ...before.spec, holderIdentity: "node-1" } });
  };

  const OWN = [
    ["its SpeakerStatus", (as) => patch(as, `${BELFRY}/speakerstatuses/node-1/status`, { status: {} })],
    ["its Lease", (as) => takeLease(as, "belfry-speaker-node-1")],
    ["itself as owner", (as) => patch(as, `${BELFRY}/virtualips/192.0.2.200/status`, owner("node-1"))],
  ] as const satisfies readonly (readonly [string, (as: KubeRequest) => Promise<{ status: number; text: string }>])[];

  test.each(OWN)("it writes %s", async (_what, act) => {
    const { status, text } = await act(speaker);
    expect(status, text).toBe(200);
  });

  test.each([
    [
      "another node's SpeakerStatus",
      (as: KubeRequest) => patch(as, `${BELFRY}/speakerstatuses/${OTHER}/status`, { status: {} }),
      "the speaker on node-1 may write only its own SpeakerStatus",
    ],
    [
      "a SpeakerStatus of a node without one",
      (as: KubeRequest) => as("POST", `${BELFRY}/speakerstatuses`, speakerStatus("node-9")),
      "the speaker on node-1 may write only its own SpeakerStatus",
    ],
    [
      "another node's Lease",
      (as: KubeRequest) => takeLease(as, `belfry-speaker-${OTHER}`),
      "may write only the Lease belfry-speaker-node-1",
    ],
    [
      "the controllers' Lease",
      (as: KubeRequest) => takeLease(as, "belfry-controller"),
      "may write only the Lease belfry-speaker-node-1",
    ],
    [
      "another node as owner",
      (as: KubeRequest) => patch(as, `${BELFRY}/virtualips/192.0.2.200/status`, owner(OTHER)),
      "the speaker on node-1 may record only itself as owner",
    ],
    [
      "an empty owner",
      (as: KubeRequest) => patch(as, `${BELFRY}/virtualips/192.0.2.200/status`, { status: { owner: null } }),
      "the speaker on node-1 may record only itself as owner",
    ],
    [
      "conditions of a VirtualIP",
      (as: KubeRequest) =>
        patch(as, `${BELFRY}/virtualips/192.0.2.200/status`, {
          status: {
            ...owner("node-1").status,
            conditions: [
              {
                type: "Programmed",
                status: "True",
                reason: "Programmed",
                message: "no",
                lastTransitionTime: "2026-06-01T12:00:00Z",
              },
            ],
          },
        }),
      "a speaker writes status.owner and nothing else",
    ],
  ])("it can't write %s", async (_what, act, message) => {
    const { status, text } = await act(speaker);
    expect(status, text).toBe(422);
    expect(text).toContain(message);
  });

  test.each(OWN)("a token that names no node can't write %s", async (_what, act) => {
    const { status, text } = await act(unbound);
    expect(status, text).toBe(422);
    expect(text).toContain("the token names no node");
  });

  test.each([
    ["GET", "/api/v1/services"],
    ["GET", "/api/v1/namespaces"],
    ["GET", "/api/v1/secrets"],
    ["GET", "/apis/gateway.networking.k8s.io/v1/gateways"],
    ["GET", `${BELFRY}/ipaddresspools`],
    ["DELETE", `${BELFRY}/virtualips/192.0.2.200`],
    ["DELETE", `${BELFRY}/speakerstatuses/node-1`],
    ["PATCH", `${BELFRY}/virtualips/192.0.2.200`],
    ["PATCH", `${BELFRY}/ipaddresspools/lan/status`],
  ])("it is not let near: %s %s", async (method, path) => {
    const body = method === "PATCH" ? {} : undefined;
    const { status, text } = await speaker(method, path, body, "application/merge-patch+json");
    expect(status, text).toBe(403);
  });
});

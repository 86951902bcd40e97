/** The commands, from the words that are typed to what is printed, on the embedded API. */
import { execFileSync } from "node:child_process";
import { symlinkSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { parse } from "yaml";
import { LEASE, VIRTUALIP } from "../api/resource.ts";
import { type Cluster, condition, one } from "./cluster.fixture.ts";
import { type Ran, run, type Served, serve } from "./shell.fixture.ts";
import type { World } from "./world.ts";

const REPOSITORY = dirname(dirname(dirname(fileURLToPath(import.meta.url))));

let served: Served | undefined;
afterEach(async () => {
  await served?.close();
  served = undefined;
});

const start = async (spoil?: (cluster: Cluster) => void): Promise<Served> => {
  served = await serve(spoil);
  return served;
};
const belfry = (line: string, more: Partial<World> = {}): Promise<Ran> =>
  run(line, { environment: { KUBECONFIG: served?.kubeconfig }, ...more });

describe("get", () => {
  beforeEach(() => start());

  test("lists the addresses when nothing else is said", async () => {
    const { code, out } = await belfry("get");
    expect(code).toBe(0);
    expect(out.split("\n").map((line) => line.split(/ {3,}/).slice(0, 4).join("|"))).toEqual([
      "ADDRESS|POOL|HOLDERS|OWNER",
      "192.0.2.10|lan|Gateway demo/web|node-1",
      "192.0.2.11|lan|Service demo/legacy|node-1",
      "",
    ]);
  });

  test("takes namespaces as kubectl does: the context's, another, all", async () => {
    expect(await belfry("get gateways")).toMatchObject({
      code: 0,
      out: "",
      err: "No gateways found in namespace default.\n",
    });
    expect((await belfry("get gateways -n demo")).out).toContain("web");
    expect((await belfry("get gateways -A")).out).toContain("web");
    expect((await belfry("get vips -n demo")).out).toContain("192.0.2.10");
    expect((await belfry("get vips -n default")).out).toBe("");
  });

  test("gives one object to a program", async () => {
    expect(JSON.parse((await belfry("get vip 192.0.2.10 -o json")).out)).toMatchObject({
      address: "192.0.2.10",
      owner: { node: "node-1", interface: "eth0" },
      programmed: "True",
    });
    expect(parse((await belfry("get speakers -o yaml")).out).items).toMatchObject([
      { node: "node-1", live: true, owns: 2 },
      { node: "node-2", live: true, owns: 0 },
    ]);
  });

  test.each([
    ["get vip 192.0.2.99", 1, 'there is no vip "192.0.2.99"\n'],
    ["get nonsense", 2, "there is no such list; there are: vips, pools, speakers, gateways, services"],
    ["get -o xml", 2, "Allowed choices are table, wide, json, yaml"],
    ["nonsense", 2, "unknown command 'nonsense'"],
    ["get --context no", 2, 'there is no context "no"; there are: belfry-embedded'],
  ])("%s: %d", async (line, code, words) => {
    const ran = await belfry(line);
    expect(ran.code).toBe(code);
    expect(ran.err).toContain(words);
    expect(ran.out).toBe("");
  });

  test("is coloured for nobody, since it is a table", async () => {
    const terminal = { write: () => {}, isTTY: true };
    let out = "";
    await belfry("get", {
      stdout: {
        ...terminal,
        write: (text) => {
          out += text;
        },
      },
    });
    expect(out).not.toContain("\u001b");
  });
});

describe("explain", () => {
  test("finds nothing in the way of a healthy cluster", async () => {
    await start();
    for (const line of ["explain gateway web -n demo", "explain service demo/legacy", "explain vip 192.0.2.10"]) {
      const { code, out, err } = await belfry(line);
      expect([line, code, err, out.split("\n").at(-2)]).toEqual([line, 0, "", "Nothing stands in the way."]);
    }
  });

  test("leaves with 1 when something is, and says it to a program, too", async () => {
    await start((c) => {
      c.advertisements = [];
    });
    const ran = await belfry("explain gateway web -n demo");
    expect(ran.code).toBe(1);
    expect(ran.out).toContain("  ✗ advertisement  192.0.2.10 is announced by no L2Advertisement");
    expect(ran.out).toContain("  · node           not reached");
    expect(ran.out).toContain("What to do: create an L2Advertisement");
    const told = await belfry("explain vip 192.0.2.10 -o json");
    expect(told.code).toBe(1);
    expect(JSON.parse(told.out)).toMatchObject({ obstacle: { place: "advertisement", mark: "stop" }, unread: [] });
  });

  test("takes the colours of a terminal", async () => {
    await start();
    let out = "";
    await belfry("explain vip 192.0.2.10", {
      stdout: {
        write: (text) => {
          out += text;
        },
        isTTY: true,
      },
    });
    expect(out).toContain("\u001b[32m✓\u001b[0m");
  });

  test("knows an IPv6 address by its name, too, and refuses what is neither", async () => {
    await start();
    expect((await belfry("explain vip 2001-db8--7")).out).toContain("VirtualIP 2001-db8--7");
    expect(await belfry("explain vip web")).toMatchObject({
      code: 2,
      err: expect.stringContaining("neither an address"),
    });
  });

  test("says what it may not see, and goes on with the rest", async () => {
    const { embedded } = await start();
    embedded.faults.inject(
      { verb: "list", resource: "speakerstatuses" },
      { type: "status", code: 403, reason: "Forbidden" },
      { times: 9 },
    );
    const { code, out, err } = await belfry("explain vip 192.0.2.10");
    expect(code).toBe(0);
    expect(out).toContain("the record's word alone");
    expect(err).toBe("you may not list speakerstatuses: what depends on them is a guess.\n");
  });
});

describe("a Lease whose time looks wrong", () => {
  const old = "2020-01-01T00:00:00.000000Z";
  const stale = (cluster: Cluster) => {
    for (const { metadata, spec } of cluster.leases) {
      if (metadata.name === "belfry-speaker-node-2" && spec !== undefined) spec.renewTime = old;
    }
  };

  test("is dead when nobody renews it while we wait", async () => {
    await start(stale);
    let waited = 0;
    const { out } = await belfry("get speakers", {
      pause: async (milliseconds) => {
        waited += milliseconds;
      },
    });
    expect(out).toMatch(/node-2 +false/);
    expect(waited).toBeGreaterThan(2_000);
  });

  test("is alive when it was renewed meanwhile: the other clock is wrong, or ours", async () => {
    const { client } = await start(stale);
    const key = { namespace: "belfry-system", name: "belfry-speaker-node-2" };
    const { out } = await belfry("get speakers", {
      pause: async () => {
        const renewed = { spec: { renewTime: "2020-01-01T00:00:02.000000Z" } };
        expect((await client.mergePatch(LEASE, key, renewed)).ok).toBe(true);
      },
    });
    expect(out).toMatch(/node-2 +true/);
  });

  test("costs no waiting when all look right", async () => {
    await start();
    const { out } = await belfry("get speakers", { pause: () => Promise.reject(new Error("it waited")) });
    expect(out).toMatch(/node-2 +true/);
  });
});

describe("doctor", () => {
  test("is content with a healthy cluster", async () => {
    await start();
    const { code, out } = await belfry("doctor");
    expect(code).toBe(0);
    expect(out).toMatch(/✓ speakers +2 of 2 nodes have one/);
    expect(out).toMatch(/! skipped +you are not root/);
    expect(out.trimEnd().split("\n").at(-1)).toBe("Nothing is wrong.");
  });

  test("counts what is wrong", async () => {
    await start((c) => {
      one(c.pools).status = { conditions: [condition("Conflicted", "True", "Overlap", "older pool")] };
      c.leases.shift();
    });
    const { code, out } = await belfry("doctor --cluster-only");
    expect(code).toBe(1);
    expect(out).toContain("✗ controller");
    expect(out).toContain("✗ pool lan");
    expect(out).toContain("2 things are wrong.");
    expect(out).not.toContain("This node");
  });

  test("says when nobody answers", async () => {
    const { embedded } = await start();
    await embedded.stopListening();
    const { code, out } = await belfry("doctor --cluster-only");
    expect(code).toBe(1);
    expect(out).toContain("✗ API server  the API server does not answer");
    await embedded.resume();
  });
});

describe("release", () => {
  const deleting = async (finalizers: string[] = []) => {
    const { embedded, client } = await start((c) => {
      // Its node is there and Ready, and nobody renews its speaker's Lease.
      c.leases = c.leases.filter(({ metadata }) => metadata.name !== "belfry-speaker-node-1");
      one(c.vips).metadata.finalizers?.push(...finalizers);
    });
    await client.delete(VIRTUALIP, { name: "192.0.2.10" });
    expect(embedded.read("VirtualIP", "192.0.2.10")?.metadata.deletionTimestamp).toBeDefined();
    return embedded;
  };

  test("asks, says the risk, and frees the address", async () => {
    const embedded = await deleting();
    let question = "";
    const { code, out, err } = await belfry("release 192.0.2.10 --force", {
      ask: async (text) => {
        question = text;
        return "yes";
      },
    });
    expect(question).toContain("Release 192.0.2.10?");
    expect(err).toContain("node node-1 has no living speaker and may still answer for it");
    expect(err).toContain("Gateway demo/web still shows 192.0.2.10");
    expect({ code, out }).toEqual({ code: 0, out: "virtualip 192.0.2.10 released\n" });
    expect(embedded.read("VirtualIP", "192.0.2.10")).toBeUndefined();
  });

  test.each<[string, string, Partial<World>, number, string]>([
    ["on any other answer", "release 192.0.2.10 --force", { ask: async () => "y" }, 1, "Nothing was changed"],
    ["without a terminal", "release 192.0.2.10 --force", {}, 2, "add --yes"],
    ["without --force", "release 192.0.2.10 --yes", {}, 2, "by deleting its Gateway or Service"],
    ["for one that is in use", "release 192.0.2.11 --force --yes", {}, 1, "held by Service demo/legacy: delete that"],
    ["for one that is not there", "release 192.0.2.12 --force --yes", {}, 1, "there is no VirtualIP 192.0.2.12"],
    ["for what is no address", "release web --force --yes", {}, 2, "neither an address"],
  ])("does nothing %s", async (_, line, more, code, words) => {
    const embedded = await deleting();
    const before = embedded.read("VirtualIP", "192.0.2.10")?.metadata.resourceVersion;
    const ran = await belfry(line, more);
    expect(ran).toMatchObject({ code, out: "" });
    expect(ran.err).toContain(words);
    expect(embedded.read("VirtualIP", "192.0.2.10")?.metadata.resourceVersion).toBe(before);
  });

  test("gives up a node whose speaker nobody hears: its Lease is written, and says when it was last renewed", async () => {
    const { embedded } = await start((c) => {
      for (const { metadata, spec } of c.leases) {
        if (metadata.name === "belfry-speaker-node-1" && spec) spec.renewTime = "2026-01-01T00:00:00.000000Z";
      }
    });
    const lease = () => embedded.read("Lease", "belfry-speaker-node-1", "belfry-system");
    const before = lease()?.metadata.resourceVersion;
    let question = "";
    const ask = async (text: string) => {
      question = text;
      return "yes";
    };
    const { code, out, err } = await belfry("release --node node-1 --force", { ask });
    expect({ code, out }).toEqual({ code: 0, out: "node node-1 given up\n" });
    expect(question).toContain("Give up node-1?");
    expect(err).toContain("may still answer for addresses that the store does not know");
    expect(lease()?.metadata.annotations).toEqual({ "belfry.dev/given-up": "2026-01-01T00:00:00.000000Z" });
    expect(lease()?.metadata.resourceVersion).not.toBe(before);
  });

  test.each([
    ["one that lives", "release --node node-1 --force --yes", 1, "renews its Lease"],
    ["one without a Lease", "release --node node-9 --force --yes", 1, "no speaker's Lease"],
    ["without --force", "release --node node-1 --yes", 2, "--force is needed"],
    ["together with an address", "release 192.0.2.10 --node node-1 --force", 2, "name one"],
    ["nor nothing at all", "release --force", 2, "name one"],
  ])("does not give up %s", async (_, line, code, words) => {
    const { embedded } = await start();
    const before = embedded.read("Lease", "belfry-speaker-node-1", "belfry-system")?.metadata.resourceVersion;
    const ran = await belfry(line);
    expect(ran).toMatchObject({ code, out: "", err: expect.stringContaining(words) });
    expect(embedded.read("Lease", "belfry-speaker-node-1", "belfry-system")?.metadata.resourceVersion).toBe(before);
  });

  test("takes off nobody else's finalizer, and acts on no other version than it has shown", async () => {
    const embedded = await deleting(["example.com/mine"]);
    const meddling = await belfry("release 192.0.2.10 --force", {
      ask: async () => {
        const labels = { changed: "meanwhile" };
        await served?.client.mergePatch(VIRTUALIP, { name: "192.0.2.10" }, { metadata: { labels } });
        return "yes";
      },
    });
    expect(meddling).toMatchObject({ code: 1, err: expect.stringContaining("changed meanwhile") });
    expect((await belfry("release 192.0.2.10 --force --yes")).code).toBe(0);
    expect(embedded.read("VirtualIP", "192.0.2.10")?.metadata.finalizers).toEqual(["example.com/mine"]);
    const again = await belfry("release 192.0.2.10 --force --yes");
    expect(again).toMatchObject({ code: 1, err: expect.stringContaining("by example.com/mine") });
  });
});

describe("completion", () => {
  const words = (line: string, more: Partial<World> = {}) => {
    const argv = ["__complete", ...line.split(" ")];
    return belfry("", { argv, ...more }).then(({ out }) => out.split("\n").map((each) => each.split("\t")[0]));
  };

  test.each([
    ["", ["get", "explain", "doctor", "release", "completion", ":4", ""]],
    ["ex", ["explain", ":4", ""]],
    ["explain ", ["vip", "gateway", "service", ":4", ""]],
    ["get pools -o ", ["table", "wide", "json", "yaml", ":4", ""]],
    ["release --f", ["--force", ":4", ""]],
    ["explain gateway ", [":4", ""]],
    ["nonsense ", [":4", ""]],
  ])("of '%s' asks nobody", async (line, expected) => {
    expect(await words(line, { environment: {} })).toEqual(expected);
  });

  test.each([
    ["explain vip ", ["192.0.2.10", "192.0.2.11"]],
    ["release 192.0.2.11", ["192.0.2.11"]],
    ["explain gateway -n demo ", ["web"]],
    ["explain gateway ", []],
    ["get speakers node-2", ["node-2"]],
  ])("of '%s' asks the cluster", async (line, names) => {
    await start();
    expect(await words(line)).toEqual([...names, ":4", ""]);
  });

  test("is a script that bash takes", async () => {
    const { out } = await run("completion bash");
    const typed = `${out}
belfry() { printf 'explain\\tx\\nexit\\ty\\n:4\\n'; }
COMP_WORDS=(belfry ex) COMP_CWORD=1 COMP_LINE="belfry ex" COMP_POINT=9
_belfry_complete
printf '%s|' "\${COMPREPLY[@]}"
belfry() { printf '2001:db8::7\\t\\n:4\\n'; }
COMP_WORDS=(belfry explain vip 2001 : db) COMP_CWORD=5 COMP_LINE="belfry explain vip 2001:db" COMP_POINT=26
_belfry_complete
printf '%s' "\${COMPREPLY[@]}"`;
    expect(execFileSync("bash", ["-c", typed], { encoding: "utf8" })).toBe("explain|exit|db8::7");
  });

  test("is there for zsh and fish, and for no other shell", async () => {
    expect((await run("completion zsh")).out).toContain("#compdef belfry");
    expect((await run("completion fish")).out).toContain("complete -c belfry");
    expect(await run("completion csh")).toMatchObject({
      code: 2,
      err: "completion csh: give one of bash, zsh, fish\n",
    });
  });
});

describe("the program", () => {
  test("shows its help, with examples that name it as it was called", async () => {
    const { code, out } = await run("--help", { programName: "kubectl belfry" });
    expect(code).toBe(0);
    expect(out).toContain("Usage: kubectl belfry");
    expect(out).toContain("  kubectl belfry explain gateway web -n demo");
  });

  test("has examples that run as they are written", async () => {
    await start();
    const helps = await Promise.all(
      ["", "get ", "explain ", "doctor ", "release "].map((name) => run(`${name}--help`)),
    );
    const lines = helps.flatMap(({ out }) =>
      [...out.matchAll(/^ {2}belfry (.+?) *#/gm)].map((match) => match[1] ?? ""),
    );
    expect(lines.length).toBeGreaterThan(10);
    for (const line of lines) {
      if (line.includes("--node-only")) continue;
      const { code, err } = await belfry(line);
      // 1 is an answer about the cluster; 2 says that the words were wrong. A release without a terminal can't ask.
      expect([line, code === 2 ? err : ""]).toEqual([line, ""]);
    }
  });

  test("is a plugin of kubectl by its name", () => {
    const plugin = join(REPOSITORY, "bin", "kubectl-belfry.js");
    const out = execFileSync(process.execPath, [plugin, "get", "--help"], { encoding: "utf8" });
    expect(out).toContain("Usage: kubectl belfry get");
    expect(out).toContain("kubectl belfry get pools -o json");
  });

  test("is a plugin of kubectl as the link that npm makes", async () => {
    const { directory } = await start();
    symlinkSync(join(REPOSITORY, "bin", "kubectl-belfry.js"), join(directory, "kubectl-belfry"));
    const environment = { ...process.env, KUBECONFIG: served?.kubeconfig };
    const out = execFileSync(join(directory, "kubectl-belfry"), ["completion", "bash"], {
      encoding: "utf8",
      env: { ...environment, PATH: `${dirname(process.execPath)}:${process.env["PATH"]}` },
    });
    expect(out).toContain("complete -F _belfry_complete belfry");
  });
});

import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

/**
 * Who may import whom, below src: a folder may name itself and the folders on its line.
 *
 *   core ← net ← api ← gateway, service, ipam, plan ← status        doors: kube, host
 *           ↖ netlink ← nft      ↖ l2, bgp, bfd                     around: embedded, observe
 */
const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  core: [],
  net: ["core"],
  api: ["core", "net"],
  gateway: ["core", "net", "api"],
  service: ["core", "net", "api"],
  ipam: ["core", "net", "api"],
  plan: ["core", "net", "api"],
  status: ["core", "net", "api", "gateway", "service", "ipam", "plan"],
  reconcile: ["core"],
  netlink: ["core", "net"],
  nft: ["core", "net", "netlink"],
  l2: ["core", "net"],
  sim: ["core", "net", "l2"],
  // The doors. kube serves our kinds; host knows the bytes that the kernel speaks.
  kube: ["core", "api"],
  host: ["core", "net", "netlink"],
  embedded: ["core", "net", "api"],
  observe: ["core"],
  // The CLI is a process of its own: it asks both doors, and shows what the inside makes of the answers.
  cli: ["core", "net", "api", "gateway", "service", "ipam", "plan", "status", "netlink", "nft", "kube", "host"],
};

/** Files that are types and nothing else: the contracts between two layers. Anyone above `core` may name them. */
const CONTRACTS = new Set([
  "src/plan/vip-plan.ts",
  "src/ipam/request.ts",
  "src/host/port.ts",
  "src/kube/port.ts",
  "src/status/allocation.ts",
]);

const root = dirname(dirname(fileURLToPath(import.meta.url)));

const sources = (folder: string): string[] =>
  readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".ts") && !/\.(test|fixture)\.ts$/.test(name))
    .map((name) => join(folder, name));

type Import = { readonly from: string; readonly to: string; readonly typesOnly: boolean };

function importsOf(file: string): Import[] {
  const text = readFileSync(join(root, file), "utf8");
  return [
    ...text.matchAll(
      /^(?:import|export)\s(type\s)?[^"';]*?from\s+"([^"]+)"|^import\s+"([^"]+)"|\bimport\("([^"]+)"\)/gms,
    ),
  ].map((match) => {
    const target = match[2] ?? match[3] ?? match[4] ?? "";
    return {
      from: file,
      to: target.startsWith(".") ? relative(root, join(root, dirname(file), target)) : target,
      typesOnly: match[1] !== undefined,
    };
  });
}

const layerOf = (file: string): string | undefined => /^src\/([^/]+)\//.exec(file)?.[1];

function breaks({ from, to, typesOnly }: Import): string | undefined {
  const layer = layerOf(from);
  const target = layerOf(to);
  if (layer === undefined) return undefined;
  if (/^(controller|speaker|lab|e2e|tool)\//.test(to)) return `${from} imports ${to}: src knows no process`;
  if (target === undefined || target === layer) return undefined;
  if (typesOnly && CONTRACTS.has(to) && layer !== "core") return undefined;
  return MAY_IMPORT[layer]?.includes(target) ? undefined : `${from} imports ${to}: ${layer} may not know ${target}`;
}

test("imports point one way", () => {
  const broken = sources("src")
    .flatMap(importsOf)
    .flatMap((each) => breaks(each) ?? []);
  expect(broken).toEqual([]);
});

test("every folder of src has its line", () => {
  const folders = readdirSync(join(root, "src"), { withFileTypes: true }).filter((entry) => entry.isDirectory());
  expect(folders.map(({ name }) => name).filter((name) => MAY_IMPORT[name] === undefined)).toEqual([]);
});

test("only the doors and the processes import doors, and only src/host makes system calls", () => {
  const broken = sources("src")
    .flatMap(importsOf)
    .filter(({ from, to, typesOnly }) => {
      const door = to.startsWith("src/kube/") || to.startsWith("src/host/") || to === "koffi";
      const inside = !["kube", "host", "cli"].includes(layerOf(from) ?? "");
      return door && inside && !(typesOnly && CONTRACTS.has(to));
    });
  expect(broken).toEqual([]);
  const elsewhere = ["controller", "speaker", "lab", "tool", "e2e"].flatMap(sources).flatMap(importsOf);
  expect(elsewhere.filter(({ to }) => to === "koffi")).toEqual([]);
});

test("a wrong direction would be seen", () => {
  const wrong = (from: string, to: string, typesOnly = false) => breaks({ from, to, typesOnly });
  expect(wrong("src/core/bytes.ts", "src/net/address.ts")).toContain("core may not know net");
  expect(wrong("src/l2/arp.ts", "src/api/names.ts")).toContain("l2 may not know api");
  expect(wrong("src/nft/element.ts", "src/plan/buckets.ts", true)).toContain("nft may not know plan");
  expect(wrong("src/nft/element.ts", "src/plan/vip-plan.ts", true)).toBeUndefined();
  expect(wrong("src/plan/elect.ts", "speaker/loop.ts")).toContain("src knows no process");
});

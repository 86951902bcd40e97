/**
 * `npm run bundle [-- FOLDER]`: everything that runs in the cluster, one file per thread, in FOLDER (default `dist`).
 * It needs nothing but Node and libc beside it. The native part of koffi is the one of this machine's architecture.
 */
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { build, type Metafile } from "esbuild";

const ROOT = dirname(import.meta.dirname);
const MODULES = join(ROOT, "node_modules");

/** One per thread. The output has the same names, with `.js`: speaker/main finds its worker beside itself in both forms. */
export const ENTRIES = ["controller/main.ts", "speaker/main.ts", "speaker/wire.ts", "speaker/clean.ts"] as const;

/** Packages that stay packages, since they find a shared object by their own path. */
const NATIVE = ["koffi", `@koromix/koffi-linux-${process.arch}`];
/** What they load; their sources, documents and objects for another libc are ten times as much. */
const LOADED = new RegExp(
  `^(package\\.json|LICENSE.*|index\\.c?js|src/koffi/.*\\.c?js|linux_${process.arch}/koffi\\.node)$`,
);

/** CommonJS packages that ended up in a module still ask for `require`. */
const BANNER = 'import { createRequire } from "node:module"; const require = createRequire(import.meta.url);';

/** Writes the bundle into the folder, which is emptied first. */
export async function bundle(folder: string): Promise<void> {
  rmSync(folder, { recursive: true, force: true });
  const { metafile } = await build({
    absWorkingDir: ROOT,
    entryPoints: [...ENTRIES],
    outbase: ROOT,
    outdir: folder,
    bundle: true,
    platform: "node",
    format: "esm",
    target: "node24",
    external: ["koffi"],
    banner: { js: BANNER },
    // Names and lines stay readable: a stack trace in a log is for people.
    minify: false,
    legalComments: "none",
    metafile: true,
    logLevel: "warning",
  });
  for (const name of NATIVE) copyNative(name, join(folder, "node_modules", name));
  const { name, version, license } = readPackage(ROOT);
  writeFileSync(
    join(folder, "package.json"),
    `${JSON.stringify({ name, version, license, type: "module" }, null, 2)}\n`,
  );
  cpSync(join(ROOT, "LICENSE"), join(folder, "LICENSE"));
  writeFileSync(join(folder, "THIRD-PARTY-LICENSES.txt"), renderLicenses([...packagesOf(metafile), ...NATIVE]));
}

function copyNative(name: string, target: string): void {
  const source = join(MODULES, name);
  if (!existsSync(source)) throw new Error(`${name} is not installed: no bundle for ${process.arch} can be made here`);
  for (const file of readdirSync(source, { recursive: true, encoding: "utf8" })) {
    if (!LOADED.test(file)) continue;
    mkdirSync(dirname(join(target, file)), { recursive: true });
    cpSync(join(source, file), join(target, file));
  }
}

/** The packages that the files of a bundle came from. */
function packagesOf(metafile: Metafile): string[] {
  const names = Object.keys(metafile.inputs).flatMap((file) => {
    const [, name] = /^node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(file) ?? [];
    return name === undefined ? [] : [name];
  });
  return [...new Set(names)];
}

/** Their licences ask to travel with every copy. */
function renderLicenses(names: readonly string[]): string {
  const parts = [...names].sort().map((name) => {
    const folder = join(MODULES, name);
    const { version, license } = readPackage(folder);
    const file = readdirSync(folder).find((each) => /^licen[cs]e/i.test(each));
    const text = file === undefined ? `Licence: ${license}` : readFileSync(join(folder, file), "utf8").trim();
    return `${name} ${version}\n\n${text}\n`;
  });
  return parts.join(`\n${"-".repeat(80)}\n\n`);
}

const readPackage = (folder: string): { name: string; version: string; license: string } =>
  JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));

if (import.meta.main) {
  const folder = resolve(process.argv[2] ?? "dist");
  await bundle(folder);
  console.log(`bundled into ${relative(process.cwd(), folder) || "."}`);
}

/** The volumes of one pod on the machine's disk, written as a kubelet writes them and kept up to date. */
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { basename, dirname, join, relative } from "node:path";
import type { Pod } from "./pod.ts";
import { type KubeRequest, objectOf } from "./request.ts";
import {
  type Files,
  filesOf,
  isWritten,
  type Keys,
  keysOf,
  type Material,
  NotThere,
  referencesOf,
  type TokenSource,
  tokenIsOld,
  type Volume,
} from "./volume.ts";

type Token = { readonly token: string; readonly issuedAt: number; readonly expiresAt: number };

/** A kubelet's own default, in seconds. */
const TOKEN_SECONDS = 3600;

export class PodVolumes {
  readonly #pod: Pod;
  readonly #request: KubeRequest;
  readonly #directory: string;
  readonly #tokens = new Map<string, Token>();

  /** `directory` is this pod's alone. `request` speaks as the node: it may read what its pods refer to. */
  constructor(pod: Pod, request: KubeRequest, directory: string) {
    this.#pod = pod;
    this.#request = request;
    this.#directory = directory;
  }

  /** True when something in it may change while the pod lives. */
  get wantsUpdates(): boolean {
    return (this.#pod.spec.volumes ?? []).some(isWritten);
  }

  /** Where a volume is; its parts need not be there yet. */
  pathOf(name: string): string {
    const volume = this.#pod.spec.volumes?.find((each) => each.name === name);
    if (volume === undefined) throw new NotThere(`the pod has no volume ${name}`);
    return volume.hostPath?.path ?? join(this.#directory, name);
  }

  /**
   * Reads what the pod refers to, and brings its volumes to that; gives it for the environment of containers too. A token
   * whose time has come, or each with `anew`, is replaced. Throws NotThere, or an error when the API server says no.
   */
  async update(podIPs: readonly string[], anew = false): Promise<Material> {
    const { configMaps, secrets, tokens } = referencesOf(this.#pod);
    const maps = await this.#readAll("configmaps", configMaps);
    const hidden = await this.#readAll("secrets", secrets);
    for (const source of tokens) await this.#renew(source, anew);
    const material: Material = {
      pod: this.#pod,
      podIPs,
      configMap: (name) => maps.get(name),
      secret: (name) => hidden.get(name),
      token: (source) => this.#tokens.get(keyOf(source))?.token ?? "",
    };
    for (const volume of this.#pod.spec.volumes ?? []) this.#write(volume, material);
    return material;
  }

  remove(): void {
    rmSync(this.#directory, { recursive: true, force: true });
  }

  #write(volume: Volume, material: Material): void {
    const path = this.pathOf(volume.name);
    if (isWritten(volume)) writeFiles(path, filesOf(volume, material));
    else if (volume.emptyDir !== undefined) mkdirSync(path, { recursive: true });
    else if (volume.hostPath === undefined) throw new NotThere(`the lab has no volumes like ${volume.name}`);
  }

  async #readAll(plural: string, names: ReadonlySet<string>): Promise<Map<string, Keys>> {
    const read = new Map<string, Keys>();
    for (const name of names) {
      const answer = await this.#request("GET", `${this.#base}/${plural}/${name}`);
      if (answer.status !== 404) read.set(name, keysOf(objectOf(`${plural}/${name}`, answer)));
    }
    return read;
  }

  async #renew(source: TokenSource, anew: boolean): Promise<void> {
    const key = keyOf(source);
    const known = this.#tokens.get(key);
    if (known !== undefined && !anew && !tokenIsOld(known, Date.now())) return;
    const { serviceAccountName: account = "default" } = this.#pod.spec;
    const { name, uid } = this.#pod.metadata;
    const answer = await this.#request("POST", `${this.#base}/serviceaccounts/${account}/token`, {
      apiVersion: "authentication.k8s.io/v1",
      kind: "TokenRequest",
      spec: {
        audiences: source.audience === undefined ? [] : [source.audience],
        expirationSeconds: source.expirationSeconds ?? TOKEN_SECONDS,
        boundObjectRef: { apiVersion: "v1", kind: "Pod", name, uid },
      },
    });
    const { status } = objectOf<{ status: { token: string; expirationTimestamp: string } }>(
      `a token of ${account}`,
      answer,
    );
    const expiresAt = Date.parse(status.expirationTimestamp);
    this.#tokens.set(key, { token: status.token, issuedAt: Date.now(), expiresAt });
  }

  get #base(): string {
    return `/api/v1/namespaces/${this.#pod.metadata.namespace}`;
  }
}

const keyOf = ({ audience, expirationSeconds }: TokenSource): string => `${audience} ${expirationSeconds}`;

/**
 * Brings a directory to these files so that a reader sees the old ones or the new ones, never both: they stand in a
 * directory of their own, `..data` is a link to it that is replaced in one step, and every name leads through that link
 * (k8s.io/kubernetes pkg/volume/util, AtomicWriter). Writes nothing when nothing changed; true when something did.
 */
export function writeFiles(directory: string, files: Files): boolean {
  mkdirSync(directory, { recursive: true });
  const data = join(directory, "..data");
  const before = linkOf(data);
  if (before !== undefined && sameFiles(join(directory, before), files)) return false;
  const fresh = mkdtempSync(join(directory, "..v"));
  chmodSync(fresh, 0o755);
  for (const [path, { bytes, mode }] of files) {
    mkdirSync(join(fresh, dirname(path)), { recursive: true });
    writeFileSync(join(fresh, path), bytes);
    chmodSync(join(fresh, path), mode);
  }
  const link = join(directory, "..data_tmp");
  rmSync(link, { force: true });
  symlinkSync(basename(fresh), link);
  renameSync(link, data);
  const tops = new Set([...files.keys()].map((path) => path.split("/")[0] ?? ""));
  for (const name of readdirSync(directory)) {
    if (!name.startsWith("..") && !tops.delete(name)) rmSync(join(directory, name));
  }
  for (const name of tops) symlinkSync(join("..data", name), join(directory, name));
  if (before !== undefined) rmSync(join(directory, before), { recursive: true });
  return true;
}

function linkOf(path: string): string | undefined {
  try {
    return readlinkSync(path);
  } catch {
    return undefined;
  }
}

function sameFiles(directory: string, files: Files): boolean {
  const there = readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((each) => each.isFile())
    .map((each) => relative(directory, join(each.parentPath, each.name)));
  if (there.length !== files.size) return false;
  return there.every((path) => {
    const wanted = files.get(path);
    return wanted !== undefined && Buffer.compare(readFileSync(join(directory, path)), wanted.bytes) === 0;
  });
}

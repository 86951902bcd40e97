/** Programs of the machine that we need: what is missing is installed from Debian where that can be done, and said. */
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync } from "node:fs";

/** Program → Debian package. */
const PACKAGES: Readonly<Record<string, string>> = {
  ip: "iproute2",
  nft: "nftables",
  tcpdump: "tcpdump",
  conntrack: "conntrack",
  // For kube-proxy in iptables mode.
  iptables: "iptables",
  arping: "arping",
  ndisc6: "ndisc6",
  ping: "iputils-ping",
};

const PATH = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

export const hasProgram = (name: string): boolean => PATH.some((directory) => existsSync(`${directory}/${name}`));

/** The Debian packages of programs. */
export const packagesOf = (programs: readonly string[]): string[] => [
  ...new Set(programs.flatMap((name) => PACKAGES[name] ?? [])),
];

/** Installs the Debian packages of the programs that are missing; gives the programs that are missing after that. */
export function installMissing(programs: readonly string[]): string[] {
  const missing = programs.filter((name) => !hasProgram(name));
  if (missing.length === 0 || process.getuid?.() !== 0 || !hasProgram("apt-get")) return missing;
  const packages = packagesOf(missing);
  console.log(`Installing from Debian: ${packages.join(", ")} (for ${missing.join(", ")})`);
  const apt = (...args: string[]) =>
    spawnSync("apt-get", args, {
      stdio: ["ignore", "ignore", "inherit"],
      env: { ...process.env, DEBIAN_FRONTEND: "noninteractive" },
    });
  apt("update", "-qq");
  apt("install", "-y", "-qq", "--no-install-recommends", ...packages);
  return programs.filter((name) => !hasProgram(name));
}

/** Whether this machine lets us make network namespaces: root, and a kernel and sandbox that allow it. */
export function canMakeNamespaces(): { can: true } | { can: false; why: string } {
  if (process.getuid?.() !== 0)
    return { can: false, why: "network namespaces need root: run it as root, or with sudo" };
  if (!hasProgram("ip")) return { can: false, why: "network namespaces need the program ip: install iproute2" };
  const name = `belfry-probe-${process.pid}`;
  try {
    execFileSync("ip", ["netns", "add", name], { stdio: "pipe" });
    execFileSync("ip", ["netns", "delete", name], { stdio: "pipe" });
    return { can: true };
  } catch (error) {
    return {
      can: false,
      why: `this machine refuses network namespaces: ${String((error as { stderr?: Buffer }).stderr).trim()}`,
    };
  }
}

/** What every entry into the lab needs first, and how it leaves. */
import { canMakeNamespaces, installMissing, packagesOf } from "../tool/prerequisite.ts";
import type { Lab } from "./lab.ts";

/** Installs what is missing and says so; gives a sentence when this machine can't run a lab. */
export function refuseMachine(programs: readonly string[] = []): string | undefined {
  const missing = installMissing(["ip", ...programs]);
  if (missing.length > 0) {
    const names = missing.join(", ");
    return `the lab needs ${names}: install ${packagesOf(missing).join(", ")}, or run this as root so that it can be installed`;
  }
  const namespaces = canMakeNamespaces();
  return namespaces.can ? undefined : `the lab builds its nodes as network namespaces. ${namespaces.why}`;
}

/** Removes the lab when the user or the system asks us to leave. */
export function closeOnSignal(lab: Lab): void {
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    process.once(signal, () => {
      console.log(`\n${signal}: removing the lab …`);
      void lab.close().then(() => process.exit(signal === "SIGINT" ? 130 : 143));
    });
  }
}

/** What to try while a lab is up, with and without kubectl. */
export function renderWhatToTry(lab: Lab, address: string | undefined): string {
  const client = lab.network.client.namespace;
  const node = lab.nodes[0];
  const vip = address ?? "ADDRESS";
  return [
    `Lab ${lab.claim.id} is up. Logs: ${lab.claim.directory}/*.log`,
    "",
    "Without kubectl:",
    `  ip netns exec ${client} nc -w 1 ${vip} 80                  # ask the VIP as the client`,
    `  ip netns exec ${client} ip neigh show ${vip}                # whose MAC answers`,
    `  ip netns exec ${node?.namespace} nft list table inet belfry    # the data plane of ${node?.name}`,
    `  ip netns exec ${client} tcpdump -ni eth0 arp or icmp6         # watch who answers`,
    `  ip -n ${lab.network.lan} link set ${node?.name} down            # pull the LAN cable of ${node?.name}`,
    "",
    "With kubectl:",
    `  export KUBECONFIG=${lab.hostKubeconfig}`,
    ...(lab.kube === undefined ? [] : [`  alias kubectl="${lab.kube.kubectlCommand}"`]),
    "  kubectl get vip,gateway,serviceroute,pool -A",
    "  kubectl get vip -o yaml",
    "  kubectl -n demo delete gateway web",
    "  kubectl apply --server-side -f config/samples/quickstart/",
    ...(lab.kube === undefined ? [] : ["  kubectl -n demo scale deployment web --replicas 5"]),
  ].join("\n");
}

/** The last lines of every process: what a reader needs when the story broke off. */
export function renderLogs(lab: Lab): string {
  return [...(lab.kube?.programs ?? [lab.apiServer]), ...lab.controllers, ...lab.speakers.values()]
    .filter((program) => program !== undefined)
    .map((program) => `--- ${program.name}\n${program.log().trimEnd().split("\n").slice(-8).join("\n")}`)
    .join("\n");
}

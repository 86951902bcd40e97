/** The embedded API as a process: listens, writes a kubeconfig, says that it is ready, and goes on SIGTERM. */
import { writeFileSync } from "node:fs";
import { Command } from "commander";
import { parseListenAddress } from "./connection.ts";
import { startEmbedded } from "./embedded.ts";

const collect = (value: string, before: string[]): string[] => [...before, value];

const program = new Command("belfry-embedded")
  .description("A small Kubernetes API server for Belfry alone: objects in memory, no authorization.")
  .option("--listen <host:port>", "address to listen on; may be given more than once", collect, [])
  .option("--unix <path>", "also listen (TLS as well) on a unix socket")
  .option("--host <name>", "further name or address for the certificate; may be given more than once", collect, [])
  .requiredOption("--kubeconfig-out <file>", "where to write a kubeconfig for the user admin");

const { listen, unix, host, kubeconfigOut } = program
  .parse()
  .opts<{ listen: string[]; unix?: string; host: string[]; kubeconfigOut: string }>();

const addresses = (listen.length === 0 ? ["127.0.0.1:0"] : listen).map(parseListenAddress);
const embedded = await startEmbedded({
  listen: unix === undefined ? addresses : [...addresses, { path: unix }],
  hosts: host,
});
writeFileSync(kubeconfigOut, embedded.kubeconfig, { mode: 0o600 });
process.stdout.write(`ready: ${embedded.url}, kubeconfig in ${kubeconfigOut}\n`);

const leave = async (): Promise<void> => {
  await embedded.close();
  process.exit(0);
};
process.once("SIGTERM", () => void leave());
process.once("SIGINT", () => void leave());

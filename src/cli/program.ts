/** The commands of `belfry` and their help. */
import { Command, Option } from "commander";
import { LOAD_BALANCER, NAMESPACE } from "../api/names.ts";
import { type DoctorFlags, runDoctor } from "./command-doctor.ts";
import { EXPLAINED, type ExplainFlags, runExplain } from "./command-explain.ts";
import { type GetFlags, runGet } from "./command-get.ts";
import { type ReleaseFlags, runRelease } from "./command-release.ts";
import { completeWords, completionScript, SHELLS } from "./completion.ts";
import { TOPICS } from "./get.ts";
import { FORMATS } from "./output.ts";
import { CommandFailed, type World } from "./world.ts";

/** Runs what `argv` says; gives the exit code: 0 well, 1 something is in the way, 2 the command could not be done. */
export async function runCli(world: World): Promise<number> {
  let exitCode = 0;
  const program = buildProgram(world, (code) => {
    exitCode = code;
  });
  try {
    // What the scripts of `completion` call, and kubectl by way of kubectl_complete-belfry: any words may follow.
    if (world.argv[0] === "__complete") {
      world.stdout.write(await completeWords(world, program, world.argv.slice(1)));
      return 0;
    }
    await program.parseAsync([...world.argv], { from: "user" });
    return exitCode;
  } catch (error) {
    if (error instanceof CommandFailed) {
      world.stderr.write(`${error.message}\n`);
      return error.exitCode;
    }
    if (isCommanderError(error)) return error.exitCode === 0 ? 0 : 2;
    throw error;
  }
}

/** Commander ends by throwing; what it had to say, it has said. */
const isCommanderError = (error: unknown): error is { exitCode: number } =>
  error instanceof Error && "code" in error && String(error.code).startsWith("commander.") && "exitCode" in error;

export function buildProgram(world: World, leave: (exitCode: number) => void): Command {
  const { programName: name } = world;
  const program = new Command(name)
    .description("Looks at Belfry's addresses: who has them, which node answers, and what stands in the way.")
    .exitOverride()
    .configureOutput({ writeOut: (text) => world.stdout.write(text), writeErr: (text) => world.stderr.write(text) })
    .showHelpAfterError(`(${name} --help shows how)`)
    .helpCommand(false)
    .addHelpText(
      "after",
      examples([
        [`${name} get`, "every address, with owner, holder and why not"],
        [`${name} explain gateway web -n demo`, "the way of its addresses, step by step"],
        [`${name} doctor`, "what is wrong with the cluster, and with this node as root"],
      ]),
    );

  const topics = TOPICS.map(({ names: [first] }) => first);
  clusterOptions(program.command("get"))
    .summary("list addresses, pools, speakers, gateways or services")
    .description("Lists what Belfry knows, one line each, with the reason where something does not work.")
    .argument("[what]", topics.join(", "), "vips")
    .argument("[name]", "only this one")
    .option("-A, --all-namespaces", "of all namespaces")
    .addOption(outputOption())
    .addHelpText(
      "after",
      examples([
        [`${name} get`, "all addresses"],
        [`${name} get vips -o wide`, "with ports and interfaces"],
        [`${name} get gateways -A`, "Belfry's Gateways of all namespaces"],
        [`${name} get pools -o json`, "for a program"],
      ]),
    )
    .action(async (what: string, only: string | undefined, flags: GetFlags) =>
      leave(await runGet(world, what, only, flags)),
    );

  clusterOptions(program.command("explain"))
    .summary("trace the way of an address and find what stands in it")
    .description(
      "Traces request → pool → address → advertisement → node → interface → endpoints, marks the first thing that stands in the way and says what to do. Exit code 1 when something does.",
    )
    .argument("<kind>", EXPLAINED.join(", "))
    .argument("<name>", "name, or NAMESPACE/NAME; of a vip its address")
    .addOption(outputOption(["table", "json", "yaml"]))
    .addHelpText(
      "after",
      examples([
        [`${name} explain vip 192.0.2.192`, "an address"],
        [`${name} explain gateway web -n demo`, "all addresses of a Gateway"],
        [`${name} explain service demo/legacy`, "the same for a Service"],
      ]),
    )
    .action(async (kind: string, subject: string, flags: ExplainFlags) =>
      leave(await runExplain(world, kind, subject, flags)),
    );

  clusterOptions(program.command("doctor"))
    .summary("say what is wrong with the cluster, and with this node")
    .description(
      "Judges the controller, the speakers, pools, advertisements, addresses and clashes with other balancers; as root on a node also its capabilities, kernel, sysctls and forwarding. Changes nothing. Exit code 1 when something is wrong.",
    )
    .option("--cluster-only", "leave this node out")
    .option("--node-only", "only this node; asks no API server")
    .addOption(outputOption(["table", "json", "yaml"]))
    .addHelpText(
      "after",
      examples([
        [`${name} doctor`, "the cluster; as root on a node, the node as well"],
        [`${name} doctor --node-only`, "before Belfry is installed: can this node do it?"],
      ]),
    )
    .action(async (flags: DoctorFlags) => leave(await runDoctor(world, flags)));

  clusterOptions(program.command("release"))
    .summary("free what a dead node keeps out of use")
    .description(
      "An address that is being deleted stays out of use while a node without a living speaker may still answer for it. This takes it out of that node's hands by force. With --node nobody waits for that node's speaker any more, without which nothing is given out after the API server's store was put back. Say it only of nodes that are off: otherwise two devices may answer for one address.",
    )
    .argument("[vip]", "address, or name of the VirtualIP")
    .option("--node <name>", "instead of an address: the node that is off")
    .option("--force", "needed: there is no gentle release but deleting the holder")
    .option("-y, --yes", "do not ask")
    .addHelpText(
      "after",
      examples([
        [`${name} explain vip 192.0.2.192`, "first: who has not let go?"],
        [`${name} release 192.0.2.192 --force`, "shows the risk, asks, releases"],
        [`${name} release --node node-3 --force`, "after a restore: do not wait for node-3"],
      ]),
    )
    .action(async (vip: string | undefined, flags: ReleaseFlags) => leave(await runRelease(world, vip, flags)));

  program
    .command("completion")
    .summary("print the completion script of a shell")
    .description("Prints a script that completes commands, options and names of objects.")
    .argument("<shell>", SHELLS.join(", "))
    .addHelpText(
      "after",
      examples([
        [`source <(${name} completion bash)`, "in ~/.bashrc"],
        [`source <(${name} completion zsh)`, "in ~/.zshrc, after compinit"],
        [`${name} completion fish | source`, "in ~/.config/fish/config.fish"],
      ]),
    )
    .action((shell: string) => {
      world.stdout.write(completionScript(shell));
      leave(0);
    });

  return program;
}

const outputOption = (formats: readonly string[] = FORMATS): Option =>
  new Option("-o, --output <format>", "how to print").choices([...formats]).default("table");

/** Options of every command that asks the cluster. */
export const clusterOptions = (command: Command): Command =>
  command
    .option("--kubeconfig <file>", "default: KUBECONFIG, else ~/.kube/config")
    .option("--context <name>", "context of the kubeconfig")
    .option("-n, --namespace <name>", "default: the context's")
    .addOption(new Option("--system-namespace <name>", "where Belfry runs").default(NAMESPACE))
    .addOption(
      new Option("--controller-name <name>", "controllerName and loadBalancerClass of Belfry").default(LOAD_BALANCER),
    );

/** Examples that run as they are written. */
function examples(lines: readonly (readonly [command: string, what: string])[]): string {
  const width = Math.max(...lines.map(([command]) => command.length));
  return `\nExamples:\n${lines.map(([command, what]) => `  ${command.padEnd(width)}   # ${what}`).join("\n")}`;
}

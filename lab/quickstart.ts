/**
 * `npm run quickstart`: a stranger sees a Gateway get an address that a client on the LAN reaches, and sees it survive
 * the death of a node. Exit code 0 only if all was seen.
 */
import { Command } from "commander";
import type { IPAddressPool } from "../src/api/ip-address-pool.ts";
import { GATEWAY, IPADDRESSPOOL, SERVICE, SERVICEROUTE } from "../src/api/resource.ts";
import { must } from "./cluster.ts";
import { type Addresses, DEMO, ownerOf, startDemo, virtualIPs, waitForDemo } from "./demo.ts";
import { eventually } from "./eventually.ts";
import { createLab, type Lab } from "./lab.ts";
import { closeOnSignal, refuseMachine, renderLogs, renderWhatToTry } from "./ready.ts";
import { Story } from "./story.ts";

const program = new Command("quickstart")
  .description("Shows Belfry at work on three nodes made of network namespaces. Takes about half a minute.")
  .option("--keep", "leave everything up at the end and print what to try", false)
  .parse();
const { keep } = program.opts<{ keep: boolean }>();

const refusal = refuseMachine();
if (refusal !== undefined) {
  console.error(refusal);
  process.exit(1);
}

const story = new Story();
const lab = await story.step("three nodes, a client and a router, as network namespaces", () => createLab());
closeOnSignal(lab);
let trouble: unknown;
try {
  await tell(lab);
} catch (error) {
  trouble = error;
  story.see("the rest of the story", error instanceof Error ? error.message : String(error), false);
}
console.log(`\n${story.render()}`);
if (trouble !== undefined) console.log(`\n${renderLogs(lab)}`);
if (keep) {
  console.log(`\n${renderWhatToTry(lab, undefined)}`);
  console.log("\nCtrl-C ends the lab and removes all that it made.");
  setInterval(() => {}, 1 << 30);
} else {
  await lab.close();
  process.exit(story.allGood ? 0 : 1);
}

async function tell(lab: Lab): Promise<void> {
  await story.step("API server, two controllers, a speaker on every node", () => lab.startAll());
  await story.step("two pods, and the objects of config/samples/quickstart", () => startDemo(lab));
  const { gateway, service } = await story.step("addresses assigned, programmed and announced", () => waitForDemo(lab));
  story.see("Gateway demo/web with a ServiceRoute", `has ${gateway.IPv4} and ${gateway.IPv6}`, true);
  story.see("Service demo/legacy of type LoadBalancer", `has ${service.IPv4} and ${service.IPv6}`, true);
  await story.step("the client asks every address", () => askAll(gateway, service));
  await story.step("the owner node dies, and another one answers", () => surviveNodeDeath(gateway.IPv4));
  if (keep) return;
  await story.step("everything is deleted, and the addresses are free", () => deleteAll(gateway, service));
}

async function askAll(gateway: Addresses, service: Addresses): Promise<void> {
  const client = await lab.client();
  const targets = [
    ["Gateway", gateway, "TCP", 80],
    ["Gateway", gateway, "UDP", 53],
    ["Service", service, "TCP", 80],
  ] as const;
  for (const [kind, addresses, protocol, port] of targets) {
    for (const address of [addresses.IPv4, addresses.IPv6]) {
      const names = await client.call("survey", protocol, address, port, 20);
      const pods = Object.keys(names).sort();
      const saw = pods.map((name) => `${names[name]} × ${name}`).join(", ");
      story.see(`${kind} ${address} ${port}/${protocol}, 20 times`, saw, `${pods}` === "web-a,web-b");
    }
  }
}

async function surviveNodeDeath(address: string): Promise<void> {
  const client = await lab.client();
  const before = lab.nodeOfMac(await lab.neighbour(address));
  const recorded = await ownerOf(lab, address);
  if (before === undefined || recorded === undefined) throw new Error(`nobody answers for ${address}`);
  story.see(`${address} is answered by`, `${before.name} (${before.mac})`, before.name === recorded);
  const diedAt = performance.now();
  await lab.killNode(before);
  const after = await eventually(`another node answers for ${address}`, 20_000, async () => {
    const node = lab.nodeOfMac(await lab.neighbour(address));
    return node === before ? undefined : node;
  });
  const answer = await client.call("askUntilAnswered", "TCP", address, 80, 20_000);
  const seconds = ((performance.now() - diedAt) / 1000).toFixed(1);
  story.see(
    `${before.name} is dead (speaker and links)`,
    answer === undefined
      ? "no answer"
      : `${after.name} (${after.mac}) answers after ${seconds} s: ${answer.text.split(" ")[0]}`,
    answer !== undefined,
  );
  await lab.reviveNode(before);
  await eventually(`${before.name} is back`, 20_000, () => lab.speakerIsReady(before));
  await new Promise((resolve) => setTimeout(resolve, 3000)); // long enough for a wrong move to show
  await client.call("ask", "TCP", address, 80);
  const still = lab.nodeOfMac(await lab.neighbour(address));
  story.see(`${before.name} is back`, `${still?.name ?? "nobody"} still answers for ${address}`, still === after);
}

async function deleteAll(gateway: Addresses, service: Addresses): Promise<void> {
  must("gateway", await lab.api.delete(GATEWAY, { namespace: DEMO, name: "web" }));
  must("service", await lab.api.delete(SERVICE, { namespace: DEMO, name: "legacy" }));
  must("serviceroute", await lab.api.delete(SERVICEROUTE, { namespace: DEMO, name: "web" }));
  await eventually("every VirtualIP is gone", 20_000, async () => (await virtualIPs(lab)).length === 0);
  await eventually("the pools count all their addresses as free", 10_000, async () => {
    const pools = must("pools", await lab.api.list<IPAddressPool>(IPADDRESSPOOL)).items;
    return pools.every(({ status }) => status?.assignedIPv4 === 0 && status.assignedIPv6 === 0);
  });
  const client = await lab.client();
  const addresses = [gateway.IPv4, gateway.IPv6, service.IPv4, service.IPv6];
  const answers = await Promise.all(addresses.map((address) => lab.stillAnswered(client, address)));
  story.see("all deleted", "no VirtualIP is left, and every address of the pools is free", true);
  story.see(
    "who answers for the freed addresses",
    answers.some((answered) => answered) ? addresses.filter((_, i) => answers[i]).join(", ") : "nobody",
    !answers.includes(true),
  );
}

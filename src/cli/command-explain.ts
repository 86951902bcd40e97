import { addressOfName } from "../api/virtual-ip-name.ts";
import { type Address, parseAddress } from "../net/address.ts";
import type { ReadModel } from "../status/read-model.ts";
import { EVERYTHING, gather } from "./gather.ts";
import { paintFor, parseFormat, renderValue } from "./output.ts";
import { renderTrace } from "./render-trace.ts";
import { type ClusterFlags, withCluster } from "./session.ts";
import { blindSpots, firstObstacle, servicesOf, type Trace, traceGateway, traceService, traceVip } from "./trace.ts";
import { CommandFailed, type World } from "./world.ts";

export type ExplainFlags = ClusterFlags & { readonly output: string };

export const EXPLAINED = ["vip", "gateway", "service"] as const;

const KINDS: Readonly<Record<string, (typeof EXPLAINED)[number]>> = {
  vip: "vip",
  vips: "vip",
  virtualip: "vip",
  virtualips: "vip",
  gateway: "gateway",
  gateways: "gateway",
  gtw: "gateway",
  service: "service",
  services: "service",
  svc: "service",
};

/** `belfry explain KIND NAME`: 0 when nothing stands in the way, 1 when something does. */
export async function runExplain(world: World, kindText: string, text: string, flags: ExplainFlags): Promise<number> {
  const kind = KINDS[kindText.toLowerCase()];
  if (kind === undefined) throw new CommandFailed(`explain ${kindText}: give one of ${EXPLAINED.join(", ")}`);
  const format = parseFormat(flags.output);
  return withCluster(world, flags, async (gathering) => {
    const slash = text.indexOf("/");
    const namespace = slash < 0 ? gathering.namespace : text.slice(0, slash);
    const subject = {
      kind,
      namespace,
      name: text.slice(slash + 1),
      address: kind === "vip" ? addressIn(text) : undefined,
    };
    const model = await gather({ ...gathering, namespace }, EVERYTHING, (seen) => servicesOf(vipsOf(seen, subject)));
    const trace = traceOf(model, subject);
    const obstacle = firstObstacle(trace);
    const value = renderValue(format, { ...trace, obstacle: obstacle ?? null, unread: blindSpots(model) });
    world.stdout.write(value ?? renderTrace(trace, paintFor(world)));
    if (value === undefined)
      for (const why of blindSpots(model)) world.stderr.write(`${why}: what depends on them is a guess.\n`);
    return obstacle === undefined ? 0 : 1;
  });
}

type Subject = {
  readonly kind: (typeof EXPLAINED)[number];
  readonly namespace: string;
  readonly name: string;
  readonly address: Address | undefined;
};

/** An address, or the name that a VirtualIP has for it. */
function addressIn(text: string): Address {
  const address = parseAddress(text) ?? addressOfName(text);
  if (address === undefined) throw new CommandFailed(`"${text}" is neither an address nor the name of a VirtualIP`);
  return address;
}

function vipsOf(model: ReadModel, { kind, namespace, name, address }: Subject) {
  if (kind === "vip") return model.objects.vips.filter(({ spec }) => spec.address === address);
  return model.vipsOf({ kind: kind === "gateway" ? "Gateway" : "Service", namespace, name });
}

function traceOf(model: ReadModel, { kind, namespace, name, address }: Subject): Trace {
  switch (kind) {
    case "vip":
      // `addressIn` has found one, or the command has ended.
      return traceVip(model, address as Address);
    case "gateway":
      return traceGateway(model, namespace, name);
    case "service":
      return traceService(model, namespace, name);
  }
}

import type { Service } from "../src/api/foreign.ts";
import { SERVICE } from "../src/api/resource.ts";
import type { VirtualIP } from "../src/api/virtual-ip.ts";
import { parseAddress } from "../src/net/address.ts";
import { resolveService, type ServiceResolution } from "../src/service/resolve.ts";
import { serviceStatus } from "../src/status/service.ts";
import type { Desk } from "./desk.ts";
import type { HolderKind } from "./holder.ts";
import { overlapOf } from "./overlap.ts";
import { projectService } from "./project.ts";
import { workKey } from "./world.ts";

type Ours = Extract<ServiceResolution, { ours: true }>;

export const serviceHolder = (desk: Desk): HolderKind<Service, Ours> => {
  const options = {
    loadBalancerClass: desk.controllerName,
    claimClassless: desk.claimClassless,
    dataPath: desk.serviceDataPath,
  };
  const statusOf = (service: Service, resolution: ServiceResolution, vips: readonly VirtualIP[]) => ({
    service,
    resolution,
    vips,
    liveSpeakers: desk.liveSpeakers(),
    now: desk.timestamp(),
  });
  return {
    kind: "Service",
    resource: SERVICE,
    project: projectService,
    standing: (service) => (resolveService(service, options).ours ? "ours" : "notOurs"),
    resolve: (service) => {
      const resolution = resolveService(service, options);
      // `standing` said so, of the same object.
      if (!resolution.ours) throw new Error(`Service ${service.metadata.name} is not ours`);
      for (const { reason, message } of resolution.warnings) desk.warn(service, "Service", reason, message);
      const key = workKey("Service", `${service.metadata.namespace}/${service.metadata.name}`);
      const overlaps = desk.world.vipsOf(key).flatMap((vip) => overlapOf(desk.book, vip) ?? []);
      for (const { reason, message } of overlaps) desk.warn(service, "Service", reason, message);
      return { ...resolution, problems: [...resolution.problems, ...overlaps] };
    },
    shown: (service) => (service.status?.loadBalancer?.ingress ?? []).flatMap(({ ip }) => parseAddress(ip ?? "") ?? []),
    status: (service, resolution, outcome, vips) => serviceStatus({ ...statusOf(service, resolution, vips), outcome }),
    without: (service, addresses) => {
      const key = workKey("Service", `${service.metadata.namespace}/${service.metadata.name}`);
      const vips = desk.world.vipsOf(key).filter((vip) => addresses.some((address) => address === vip.spec.address));
      return serviceStatus({ ...statusOf(service, { ours: false }, vips), outcome: undefined });
    },
    present: (service) => service.status,
    refused: ({ refused }) => refused,
  };
};

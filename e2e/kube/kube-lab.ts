/** A lab on the real Kubernetes, for the tests of one file. */
import type { KubeCluster, ServiceProxy } from "../../lab/kube/cluster.ts";
import { createLab, type Lab, type LabOptions } from "../../lab/lab.ts";
import { renderLogs } from "../../lab/ready.ts";
import { findKube } from "./build.ts";

export type KubeLab = { readonly lab: Lab; readonly kube: KubeCluster };

export type KubeLabOptions = Omit<LabOptions, "kube"> & { readonly serviceProxy?: ServiceProxy };

/** Builds the binary if need be, starts a lab on it, and lets `start` bring up what the tests need. */
export async function startKubeLab(start: (lab: Lab) => Promise<void>, options: KubeLabOptions = {}): Promise<KubeLab> {
  const found = await findKube((line) => console.log(line));
  if (found.type === "missing") throw new Error(found.why);
  const { serviceProxy = "nftables", ...rest } = options;
  const { path: binary, gatewayCrds } = found;
  const lab = await createLab({ ...rest, kube: { binary, gatewayCrds, serviceProxy } });
  try {
    await start(lab);
    if (lab.kube === undefined) throw new Error("the lab is not on Kubernetes");
    return { lab, kube: lab.kube };
  } catch (error) {
    console.error(renderLogs(lab)); // they are gone with the lab
    await lab.close();
    throw error;
  }
}

/** A kubeconfig with one cluster, user and context. */
import { stringify } from "yaml";

export const kubeconfigOf = (server: string, caPem: string, user: string, token: string): string =>
  stringify({
    apiVersion: "v1",
    kind: "Config",
    clusters: [
      {
        name: "belfry-embedded",
        cluster: { server, "certificate-authority-data": Buffer.from(caPem).toString("base64") },
      },
    ],
    users: [{ name: user, user: { token } }],
    contexts: [{ name: "belfry-embedded", context: { cluster: "belfry-embedded", user } }],
    "current-context": "belfry-embedded",
  });

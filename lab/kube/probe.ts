/** Probes of containers: what a kubelet asks, and how it counts the answers. */

export type Probe = {
  readonly exec?: { readonly command?: readonly string[] };
  readonly httpGet?: { readonly host?: string; readonly path?: string; readonly port: number | string };
  readonly tcpSocket?: { readonly port: number | string };
  readonly initialDelaySeconds?: number;
  readonly periodSeconds?: number;
  readonly timeoutSeconds?: number;
  readonly successThreshold?: number;
  readonly failureThreshold?: number;
};

/** Verdict so far, and how many answers in a row say otherwise. */
export type Verdict = { readonly good: boolean; readonly against: number };

/** Counts one answer: the verdict turns when as many in a row as its threshold says speak against it. */
export function judge(before: Verdict, answer: boolean, probe: Probe): Verdict {
  if (answer === before.good) return { good: before.good, against: 0 };
  const against = before.against + 1;
  const threshold = answer ? (probe.successThreshold ?? 1) : (probe.failureThreshold ?? 3);
  return against >= threshold ? { good: answer, against: 0 } : { good: before.good, against };
}

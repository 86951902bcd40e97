import type { LabelSelector } from "./meta.ts";

/**
 * True when the labels fulfil every requirement. An empty selector selects everything. NotIn also holds where the label is
 * absent, as Kubernetes has it; an operator that we don't know selects nothing.
 */
export function selects(selector: LabelSelector, labels: Readonly<Record<string, string>> | undefined): boolean {
  const has = (key: string) => labels !== undefined && Object.hasOwn(labels, key);
  for (const [key, value] of Object.entries(selector.matchLabels ?? {})) {
    if (!has(key) || labels?.[key] !== value) return false;
  }
  return (selector.matchExpressions ?? []).every(({ key, operator, values }) => {
    const listed = has(key) && (values ?? []).includes(labels?.[key] ?? "");
    switch (operator) {
      case "In":
        return listed;
      case "NotIn":
        return !listed;
      case "Exists":
        return has(key);
      case "DoesNotExist":
        return !has(key);
      default:
        return false;
    }
  });
}

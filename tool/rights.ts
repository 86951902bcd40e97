/**
 * What Belfry's ServiceAccounts may do, and why each of it. `config/rbac` grants; this table gives the reasons, and says of
 * which rights no test on a real Kubernetes makes use. Tests hold the three together: table, grants, and audit logs.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parseAllDocuments } from "yaml";

const RBAC = join(import.meta.dirname, "../config/rbac");

export type Right = {
  readonly account: "belfry-controller" | "belfry-speaker";
  readonly verbs: readonly string[];
  /** `virtualips/status.belfry.dev`; without a dot it is of the core group. */
  readonly resource: string;
  /** Where it is not the whole cluster. */
  readonly within?: string;
  readonly why: string;
  /** Why no test on a real Kubernetes makes use of it. */
  readonly unused?: string;
  /** What it takes to make use of it, where tests do so only sometimes. */
  readonly rare?: string;
};

const OWN_NAMESPACE = "belfry-system";
const FOLLOW = ["list", "watch"];

export const RIGHTS: readonly Right[] = [
  // The controller.
  {
    account: "belfry-controller",
    verbs: FOLLOW,
    resource: "gateways.gateway.networking.k8s.io",
    why: "who asks for an address; before a release the list is asked for the one object",
  },
  {
    account: "belfry-controller",
    verbs: FOLLOW,
    resource: "gatewayclasses.gateway.networking.k8s.io",
    why: "which Gateways are ours",
  },
  {
    account: "belfry-controller",
    verbs: ["patch"],
    resource: "gatewayclasses.gateway.networking.k8s.io",
    why: "the finalizer that the Gateway API wants on a class in use",
  },
  {
    account: "belfry-controller",
    verbs: ["patch"],
    resource: "gateways/status.gateway.networking.k8s.io",
    why: "addresses, conditions and listeners",
  },
  {
    account: "belfry-controller",
    verbs: ["patch"],
    resource: "gatewayclasses/status.gateway.networking.k8s.io",
    why: "Accepted and supportedFeatures",
  },
  {
    account: "belfry-controller",
    verbs: FOLLOW,
    resource: "services",
    why: "who asks for an address, and the ports behind routes",
  },
  {
    account: "belfry-controller",
    verbs: ["patch"],
    resource: "services/status",
    why: "loadBalancer.ingress and conditions",
  },
  {
    account: "belfry-controller",
    verbs: FOLLOW,
    resource: "namespaces",
    why: "labels, for selectors of pools and listeners",
  },
  {
    account: "belfry-controller",
    verbs: FOLLOW,
    resource: "nodes",
    why: "addresses that are never given out, labels and readiness of candidates",
  },
  {
    account: "belfry-controller",
    verbs: ["get"],
    resource: "nodes",
    why: "whether the node of a silent speaker is still there, before its address is used again",
    rare: "a release while a node is down and known as not Ready",
  },
  {
    account: "belfry-controller",
    verbs: FOLLOW,
    resource: "servicecidrs.networking.k8s.io",
    why: "addresses that are never given out",
  },
  {
    account: "belfry-controller",
    verbs: FOLLOW,
    resource: "ipaddresspools.belfry.dev",
    why: "what there is to give",
  },
  {
    account: "belfry-controller",
    verbs: FOLLOW,
    resource: "l2advertisements.belfry.dev",
    why: "which of them an address is announced by",
  },
  {
    account: "belfry-controller",
    verbs: FOLLOW,
    resource: "serviceroutes.belfry.dev",
    why: "what a Gateway forwards",
  },
  {
    account: "belfry-controller",
    verbs: FOLLOW,
    resource: "speakerstatuses.belfry.dev",
    why: "links of nodes, what speakers have withdrawn, what they can't do",
  },
  {
    account: "belfry-controller",
    verbs: ["patch"],
    resource: "ipaddresspools/status.belfry.dev",
    why: "what is assigned and left",
  },
  {
    account: "belfry-controller",
    verbs: ["patch"],
    resource: "l2advertisements/status.belfry.dev",
    why: "whether it can be followed",
  },
  {
    account: "belfry-controller",
    verbs: ["patch"],
    resource: "serviceroutes/status.belfry.dev",
    why: "a status for each parent",
  },
  {
    account: "belfry-controller",
    verbs: [...FOLLOW, "create", "patch", "delete"],
    resource: "virtualips.belfry.dev",
    why: "the record of each address: its life is the controller's",
  },
  {
    account: "belfry-controller",
    verbs: ["get"],
    resource: "virtualips.belfry.dev",
    why: "whose a name is that was taken already; that an address is still there before it is shown",
    rare: "two controllers that lead at once, or a status that was wiped",
  },
  {
    account: "belfry-controller",
    verbs: ["patch"],
    resource: "virtualips/status.belfry.dev",
    why: "its conditions",
  },
  {
    account: "belfry-controller",
    verbs: ["create"],
    resource: "events.events.k8s.io",
    why: "what `kubectl describe` shows",
  },
  {
    account: "belfry-controller",
    verbs: ["patch"],
    resource: "events.events.k8s.io",
    why: "the count of what happens again and again",
    rare: "the same refusal twice within minutes, and a minute apart",
  },
  {
    account: "belfry-controller",
    verbs: [...FOLLOW, "get", "create"],
    resource: "leases.coordination.k8s.io",
    within: OWN_NAMESPACE,
    why: "its own for leading, the speakers' to know who lives",
  },
  {
    account: "belfry-controller",
    verbs: ["update"],
    resource: "leases.coordination.k8s.io",
    within: `${OWN_NAMESPACE}, belfry-controller`,
    why: "its own: to lead, to renew, to give back",
  },
  // The speaker.
  {
    account: "belfry-speaker",
    verbs: FOLLOW,
    resource: "virtualips.belfry.dev",
    why: "what to forward, and who answers",
  },
  {
    account: "belfry-speaker",
    verbs: ["get"],
    resource: "virtualips.belfry.dev",
    why: "the record once more, before it answers after a doubt",
  },
  {
    account: "belfry-speaker",
    verbs: ["patch"],
    resource: "virtualips/status.belfry.dev",
    why: "status.owner; the admission policy holds it to this node's name",
  },
  {
    account: "belfry-speaker",
    verbs: FOLLOW,
    resource: "l2advertisements.belfry.dev",
    why: "interfaces and nodes that may answer",
  },
  {
    account: "belfry-speaker",
    verbs: FOLLOW,
    resource: "speakerstatuses.belfry.dev",
    why: "links of the other nodes, to agree with them on the owner",
  },
  {
    account: "belfry-speaker",
    verbs: ["create"],
    resource: "speakerstatuses.belfry.dev",
    why: "its own, once",
  },
  {
    account: "belfry-speaker",
    verbs: ["patch"],
    resource: "speakerstatuses/status.belfry.dev",
    why: "its own; held to this node's name",
  },
  {
    account: "belfry-speaker",
    verbs: FOLLOW,
    resource: "endpointslices.discovery.k8s.io",
    why: "where the traffic goes",
  },
  {
    account: "belfry-speaker",
    verbs: FOLLOW,
    resource: "nodes",
    why: "labels for node selectors, addresses and pod CIDRs for masquerade",
  },
  {
    account: "belfry-speaker",
    verbs: [...FOLLOW, "get", "create", "update"],
    resource: "leases.coordination.k8s.io",
    within: OWN_NAMESPACE,
    why: "its own, and the others' to know who lives; writes are held to this node's name",
  },
];

/** `belfry-speaker get nodes`, and where: one line per verb. */
export const linesOf = (right: Right): string[] =>
  right.verbs.map(
    (verb) => `${right.account} ${verb} ${right.resource}${right.within === undefined ? "" : ` in ${right.within}`}`,
  );

type Rule = { apiGroups: string[]; resources: string[]; verbs: string[]; resourceNames?: string[] };
type RbacObject = {
  kind: string;
  metadata: { name: string; namespace?: string };
  rules?: Rule[];
  roleRef?: { kind: string; name: string };
  subjects?: { kind: string; name: string }[];
};

/** Every right that `config/rbac` binds to a ServiceAccount, as a line of `linesOf`. */
export function grantedLines(objects: readonly RbacObject[] = readRbac()): string[] {
  return objects.flatMap(({ kind, metadata, roleRef, subjects = [] }) => {
    if (roleRef === undefined) return [];
    const namespace = kind === "RoleBinding" ? metadata.namespace : undefined;
    const role = objects.find(
      (each) =>
        each.kind === roleRef.kind &&
        each.metadata.name === roleRef.name &&
        (roleRef.kind === "ClusterRole" || each.metadata.namespace === namespace),
    );
    if (role === undefined) throw new Error(`${kind} ${metadata.name}: no ${roleRef.kind} ${roleRef.name}`);
    return subjects
      .filter((subject) => subject.kind === "ServiceAccount")
      .flatMap((subject) => (role.rules ?? []).flatMap((rule) => ruleLines(subject.name, rule, namespace)));
  });
}

function ruleLines(account: string, rule: Rule, namespace: string | undefined): string[] {
  const where = [namespace, ...(rule.resourceNames ?? [])].filter((part) => part !== undefined).join(", ");
  return rule.apiGroups.flatMap((group) =>
    rule.resources.flatMap((resource) =>
      rule.verbs.map((verb) => {
        const full = group === "" ? resource : `${resource}.${group}`;
        return `${account} ${verb} ${full}${where === "" ? "" : ` in ${where}`}`;
      }),
    ),
  );
}

const readRbac = (): RbacObject[] =>
  readdirSync(RBAC)
    .filter((name) => name !== "kustomization.yaml")
    .flatMap((name) => parseAllDocuments(readFileSync(join(RBAC, name), "utf8")).map((each) => each.toJS()));

/**
 * What is wrong with the table, seen with the rights that tests used (`usedRights` of lab/kube/audit.ts). A right that
 * nobody used is only held against it when all tests ran.
 */
export function compareUsed(used: ReadonlySet<string>, all: boolean, rights: readonly Right[] = RIGHTS): string[] {
  const problems: string[] = [];
  for (const right of rights) {
    const { within: _, ...anywhere } = right;
    for (const line of linesOf(anywhere)) {
      if (used.has(line) && right.unused !== undefined) problems.push(`${line}: it is used, take "unused" away`);
      if (!used.has(line) && right.unused === undefined && right.rare === undefined && all) {
        problems.push(`${line}: no test uses it; take the right away, or say why it stays`);
      }
    }
  }
  return problems;
}

/** `docs/reference/rights.md`. */
export function rightsPage(rights: readonly Right[] = RIGHTS): string {
  const table = (account: Right["account"]) => {
    const rows = rights
      .filter((right) => right.account === account)
      .map(({ resource, verbs, within, why, unused, rare }) => {
        const where = within === undefined ? "everywhere" : within;
        const notes = [
          unused === undefined ? "" : ` *Not used by any test:* ${unused}.`,
          rare === undefined ? "" : ` *Used by tests only sometimes:* ${rare}.`,
        ].join("");
        return `| \`${resource}\` | ${verbs.join(", ")} | ${where} | ${why}.${notes} |`;
      });
    return [`## ${account}`, "", "| resource | verbs | where | why |", "|---|---|---|---|", ...rows].join("\n");
  };
  return `${[INTRODUCTION, table("belfry-controller"), table("belfry-speaker"), PEOPLE].join("\n\n")}\n`;
}

const INTRODUCTION = `<!-- Generated by npm run generate from tool/rights.ts. -->
# Rights

What Belfry's two ServiceAccounts may ask of the API server, and what for. \`config/rbac\` and the Helm chart grant exactly this.
\`npm test\` reads the audit logs of its clusters: no request is refused, and each right here is used by some test unless its line
says otherwise. Neither account may read a Secret or a ConfigMap, see a pod, or write anything but what stands here.

All speakers share one ServiceAccount, so RBAC can't tell them apart: the ValidatingAdmissionPolicy \`belfry-speaker\` holds what one
writes to the node that its token names.`;

const PEOPLE = `## People

Who may view or edit a namespace may do so with its ServiceRoutes: \`belfry-view\` and \`belfry-edit\` are added to the cluster's own roles
\`view\`, \`edit\` and \`admin\`. Everything else of Belfry is for cluster admins. The CLI acts with the rights of whoever runs it.`;

/** `belfry get`: rows of the read model. */
import type { Problem } from "../core/trouble.ts";
import {
  type ClusterObjects,
  type HolderView,
  type PoolView,
  printHolder,
  type ReadModel,
  type SpeakerView,
  type VipView,
} from "../status/read-model.ts";

export type Row = VipView | PoolView | SpeakerView | HolderView;

type Column<T> = {
  readonly heading: string;
  readonly cell: (view: T, age: (createdAt: string | undefined) => string) => string;
  /** Only with -o wide. */
  readonly wide?: true;
};

/** What can be asked for: its names, what has to be read, its rows and columns. */
export type Topic<T extends Row = Row> = {
  readonly names: readonly [string, ...string[]];
  readonly lists: readonly (keyof ClusterObjects)[];
  readonly rows: (model: ReadModel) => T[];
  /** The row is about an object of that name. */
  readonly isNamed: (row: T, name: string) => boolean;
  /** Namespaces that the row belongs to; undefined where it belongs to the cluster. */
  readonly namespacesOf: (row: T) => readonly string[];
  /** With neither -n nor -A: only those of the present namespace. */
  readonly namespaced: boolean;
  readonly columns: readonly Column<T>[];
};

const none = (text: string | undefined): string => (text === undefined || text === "" ? "<none>" : text);
const why = (problem: Problem | undefined): string =>
  problem === undefined ? "" : `${problem.reason}: ${problem.message}`;
const list = (texts: readonly string[]): string => none(texts.join(","));

const VIPS: Topic<VipView> = {
  names: ["vips", "vip", "virtualip", "virtualips"],
  lists: ["vips"],
  rows: (model) => model.vipViews(),
  isNamed: (row, name) => row.name === name || row.address === name,
  namespacesOf: (row) => row.holders.map(({ namespace }) => namespace),
  namespaced: false,
  columns: [
    { heading: "ADDRESS", cell: ({ address }) => address },
    { heading: "POOL", cell: ({ pool }) => none(pool) },
    { heading: "HOLDERS", cell: ({ holders }) => list(holders.map(printHolder)) },
    { heading: "OWNER", cell: ({ owner }) => none(owner?.node) },
    { heading: "ANNOUNCERS", cell: ({ announcers }) => printAnnouncers(announcers) },
    { heading: "PROGRAMMED", cell: ({ programmed }) => programmed },
    { heading: "AGE", cell: ({ createdAt }, age) => age(createdAt) },
    { heading: "PORTS", cell: ({ ports }) => list(ports), wide: true },
    { heading: "INTERFACE", cell: ({ owner }) => none(owner?.interface), wide: true },
    { heading: "OWNED-FOR", cell: ({ owner }, age) => (owner === undefined ? none("") : age(owner.since)), wide: true },
    { heading: "NAME", cell: ({ name }) => name, wide: true },
    { heading: "WHY-NOT", cell: ({ whyNot }) => why(whyNot) },
  ],
};

function printAnnouncers({ count, names }: VipView["announcers"]): string {
  const more = count - names.length;
  return list([...names, ...(more > 0 ? [`+${more}`] : [])]);
}

const POOLS: Topic<PoolView> = {
  names: ["pools", "pool", "ipaddresspool", "ipaddresspools"],
  lists: ["pools"],
  rows: (model) => model.poolViews(),
  isNamed: (row, name) => row.name === name,
  namespacesOf: () => [],
  namespaced: false,
  columns: [
    { heading: "NAME", cell: ({ name }) => name },
    { heading: "ADDRESSES", cell: ({ addresses }) => list(addresses) },
    { heading: "AUTO-ASSIGN", cell: ({ autoAssign }) => String(autoAssign) },
    { heading: "USED", cell: ({ used, free }) => perFamily(used, used, free) },
    { heading: "FREE", cell: ({ used, free }) => perFamily(free, used, free) },
    { heading: "AGE", cell: ({ createdAt }, age) => age(createdAt) },
    { heading: "WHY-NOT", cell: ({ whyNot }) => why(whyNot) },
  ],
};

/** `3/12`: IPv4 and IPv6; a family that the pool does not have at all shows as `-`. */
function perFamily(counts: PoolView["used"], used: PoolView["used"], free: PoolView["free"]): string {
  const print = (family: "IPv4" | "IPv6") =>
    used[family] + free[family] === 0
      ? "-"
      : counts[family] === Number.MAX_SAFE_INTEGER
        ? "2^53+"
        : String(counts[family]);
  return `${print("IPv4")}/${print("IPv6")}`;
}

const SPEAKERS: Topic<SpeakerView> = {
  names: ["speakers", "speaker", "speakerstatus", "speakerstatuses", "nodes", "node"],
  lists: ["speakers", "nodes", "leases", "vips"],
  rows: (model) => model.speakerViews(),
  isNamed: (row, name) => row.node === name,
  namespacesOf: () => [],
  namespaced: false,
  columns: [
    { heading: "NODE", cell: ({ node }) => node },
    { heading: "LIVE", cell: ({ live }) => String(live) },
    { heading: "DATA-PATH", cell: ({ dataPathReady }) => dataPathReady },
    { heading: "OWNS", cell: ({ owns }) => String(owns) },
    { heading: "FAILING", cell: ({ failing }) => String(failing) },
    { heading: "AGE", cell: ({ createdAt }, age) => (createdAt === undefined ? none("") : age(createdAt)) },
    { heading: "LINKS", cell: ({ links }) => list(links.map(printLink)), wide: true },
    { heading: "WHY-NOT", cell: ({ whyNot }) => why(whyNot) },
  ],
};

const printLink = ({ name, up, subnets }: SpeakerView["links"][number]): string =>
  up ? [name, ...subnets].join(" ") : `${name} (down)`;

const holderColumns = (className: string): readonly Column<HolderView>[] => [
  { heading: "NAMESPACE", cell: ({ namespace }) => namespace },
  { heading: "NAME", cell: ({ name }) => name },
  { heading: className, cell: (view) => none(view.className) },
  { heading: "ADDRESSES", cell: ({ addresses }) => list(addresses) },
  { heading: "PORTS", cell: ({ ports }) => list(ports) },
  { heading: "PROGRAMMED", cell: ({ programmed }) => programmed },
  { heading: "AGE", cell: ({ createdAt }, age) => age(createdAt) },
  { heading: "WHY-NOT", cell: ({ whyNot }) => why(whyNot) },
];

const ofHolders = {
  isNamed: (row: HolderView, name: string) => row.name === name,
  namespacesOf: (row: HolderView) => [row.namespace],
  namespaced: true,
};

const GATEWAYS: Topic<HolderView> = {
  names: ["gateways", "gateway", "gtw"],
  lists: ["gateways", "gatewayClasses", "vips"],
  rows: (model) => model.gatewayViews(),
  ...ofHolders,
  columns: holderColumns("CLASS"),
};

const SERVICES: Topic<HolderView> = {
  names: ["services", "service", "svc"],
  lists: ["services", "vips"],
  rows: (model) => model.serviceViews(),
  ...ofHolders,
  columns: holderColumns("CLASS"),
};

// A topic's functions are only ever given the rows that it made itself.
export const TOPICS: readonly Topic[] = [VIPS, POOLS, SPEAKERS, GATEWAYS, SERVICES] as unknown as readonly Topic[];

export const topicNamed = (name: string): Topic | undefined =>
  TOPICS.find(({ names }) => names.includes(name.toLowerCase()));

/** Headings and cells, in the order of the columns. */
export function tableOf(
  topic: Topic,
  rows: readonly Row[],
  options: { readonly wide: boolean; readonly age: (createdAt: string | undefined) => string },
): { headings: string[]; rows: string[][] } {
  const columns = topic.columns.filter(({ wide }) => wide !== true || options.wide);
  return {
    headings: columns.map(({ heading }) => heading),
    rows: rows.map((row) => columns.map(({ cell }) => cell(row, options.age))),
  };
}

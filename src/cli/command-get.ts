import { printAge } from "./age.ts";
import { gather } from "./gather.ts";
import { type Row, TOPICS, tableOf, topicNamed } from "./get.ts";
import { parseFormat, renderValue } from "./output.ts";
import { type ClusterFlags, withCluster } from "./session.ts";
import { renderTable } from "./table.ts";
import { CommandFailed, type World } from "./world.ts";

export type GetFlags = ClusterFlags & { readonly allNamespaces?: boolean; readonly output: string };

/** `belfry get [TOPIC] [NAME]`; gives the exit code. */
export async function runGet(world: World, what: string, name: string | undefined, flags: GetFlags): Promise<number> {
  const topic = topicNamed(what);
  if (topic === undefined) {
    const names = TOPICS.map(({ names: [first] }) => first).join(", ");
    throw new CommandFailed(`get ${what}: there is no such list; there are: ${names}`);
  }
  const format = parseFormat(flags.output);
  return withCluster(world, flags, async (gathering) => {
    const model = await gather(gathering, topic.lists);
    const [list] = topic.lists;
    const why = list === undefined ? undefined : model.whyUnread(list);
    const { namespace } = gathering;
    const isWanted = (row: Row): boolean => {
      if (name !== undefined && !topic.isNamed(row, name)) return false;
      const chosen = topic.namespaced || flags.namespace !== undefined;
      return flags.allNamespaces === true || !chosen || topic.namespacesOf(row).includes(namespace);
    };
    const rows = topic.rows(model).filter(isWanted);
    if (why !== undefined && rows.length === 0) throw new CommandFailed(why, 1);
    if (name !== undefined && rows.length === 0) throw new CommandFailed(`there is no ${topic.names[1]} "${name}"`, 1);
    const value = renderValue(format, name !== undefined && rows.length === 1 ? rows[0] : { items: rows });
    if (value !== undefined) {
      world.stdout.write(value);
    } else if (rows.length === 0) {
      const where = topic.namespaced && flags.allNamespaces !== true ? ` in namespace ${namespace}` : "";
      world.stderr.write(`No ${topic.names[0]} found${where}.\n`);
    } else {
      const age = (createdAt: string | undefined) => printAge(world.secondsSince(createdAt ?? ""));
      const table = tableOf(topic, rows, { wide: format === "wide", age });
      world.stdout.write(renderTable(table.headings, table.rows));
    }
    for (const each of topic.lists) {
      const missing = model.whyUnread(each);
      if (missing !== undefined) world.stderr.write(`${missing}: what depends on them is missing here.\n`);
    }
    return 0;
  });
}

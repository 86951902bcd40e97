/** Completion: a thin script in the shell, and the words from the commands themselves, so that no two lists can differ. */
import type { Command, Option } from "commander";
import { EXPLAINED } from "./command-explain.ts";
import { gather } from "./gather.ts";
import { type Row, TOPICS, type Topic, topicNamed } from "./get.ts";
import { withCluster } from "./session.ts";
import { CommandFailed, type World } from "./world.ts";

export const SHELLS = ["bash", "zsh", "fish"] as const;

/** The script for the shell. It asks `belfry __complete`, whose last line is a directive (cobra's), not a word. */
export function completionScript(shell: string): string {
  switch (shell) {
    case "bash":
      return `# bash completion for belfry
_belfry_complete() {
  local line
  COMPREPLY=()
  while IFS= read -r line; do
    [[ $line == :* ]] && continue
    COMPREPLY+=("\${line%%$'\\t'*}")
  done < <(belfry __complete "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
  # A colon breaks words in bash, and IPv6 addresses are full of them: only the part after the last one is replaced.
  local before=\${COMP_LINE:0:COMP_POINT}
  before=\${before##*[[:space:]]}
  if [[ $before == *:* && $COMP_WORDBREAKS == *:* ]]; then
    local prefix=\${before%"\${before##*:}"}
    COMPREPLY=("\${COMPREPLY[@]#"$prefix"}")
  fi
}
complete -F _belfry_complete belfry
`;
    case "zsh":
      return `#compdef belfry
# zsh completion for belfry
_belfry() {
  local -a found
  local line tab=$'\\t'
  for line in "\${(@f)$(belfry __complete "\${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
    [[ $line == :* || -z $line ]] && continue
    found+=("\${\${line%%\${tab}*}//:/\\\\:}:\${line#*\${tab}}")
  done
  _describe -t words belfry found
}
compdef _belfry belfry
`;
    case "fish":
      return `# fish completion for belfry
function __belfry_complete
    set -l words (commandline -opc)[2..]
    set -l current (commandline -ct)
    belfry __complete $words "$current" 2>/dev/null | string match -v -r '^:'
end
complete -c belfry -f -a '(__belfry_complete)'
`;
    default:
      throw new CommandFailed(`completion ${shell}: give one of ${SHELLS.join(", ")}`);
  }
}

/** A word that could stand where the last of `words` stands, and what it means. */
export type Candidate = { readonly word: string; readonly means: string };

/** Lines of `word TAB meaning`, then the directive 4: no file names instead. */
export async function completeWords(world: World, program: Command, words: readonly string[]): Promise<string> {
  const asked = placeOf(program, words);
  const candidates = asked.type === "words" ? asked.candidates : await namesOf(world, asked);
  const begun = words.at(-1) ?? "";
  const lines = candidates.filter(({ word }) => word.startsWith(begun)).map(({ word, means }) => `${word}\t${means}\n`);
  return `${lines.join("")}:4\n`;
}

/** What belongs at the end of the words: words that are known, or names that the cluster knows. */
export type AskedPlace =
  | { readonly type: "words"; readonly candidates: readonly Candidate[] }
  | { readonly type: "names"; readonly topic: Topic; readonly flags: Readonly<Record<string, string>> };

const NOTHING: AskedPlace = { type: "words", candidates: [] };

export function placeOf(program: Command, words: readonly string[]): AskedPlace {
  const [name, ...rest] = words.slice(0, -1);
  const begun = words.at(-1) ?? "";
  if (name === undefined) {
    return {
      type: "words",
      candidates: program.commands.map((each) => ({ word: each.name(), means: each.summary() })),
    };
  }
  const command = program.commands.find((each) => each.name() === name);
  if (command === undefined) return NOTHING;
  const { positional, flags, open } = readWords(command, rest);
  if (open !== undefined)
    return { type: "words", candidates: (open.argChoices ?? []).map((word) => ({ word, means: "" })) };
  if (begun.startsWith("-")) {
    const options = command.options.filter(({ hidden }) => !hidden);
    return {
      type: "words",
      candidates: options.map(({ long, description }) => ({ word: long ?? "", means: description })),
    };
  }
  return placeOfArgument(name, positional, flags);
}

function placeOfArgument(
  command: string,
  positional: readonly string[],
  flags: Readonly<Record<string, string>>,
): AskedPlace {
  const [first] = positional;
  switch (`${command} ${positional.length}`) {
    case "get 0":
      return { type: "words", candidates: TOPICS.map(({ names: [word] }) => ({ word, means: "" })) };
    case "explain 0":
      return { type: "words", candidates: EXPLAINED.map((word) => ({ word, means: "" })) };
    case "completion 0":
      return { type: "words", candidates: SHELLS.map((word) => ({ word, means: "" })) };
    case "get 1":
    case "explain 1": {
      const topic = topicNamed(first ?? "");
      return topic === undefined ? NOTHING : { type: "names", topic, flags };
    }
    case "release 0": {
      const topic = topicNamed("vips");
      return topic === undefined ? NOTHING : { type: "names", topic, flags };
    }
    default:
      return NOTHING;
  }
}

/** Words without options and their values; `open` is an option whose value is due. */
function readWords(command: Command, words: readonly string[]) {
  const positional: string[] = [];
  const flags: Record<string, string> = {};
  let open: Option | undefined;
  for (const word of words) {
    if (open !== undefined) {
      flags[open.attributeName()] = word;
      open = undefined;
    } else if (word.startsWith("-")) {
      const [name, value] = word.split("=", 2);
      const option = command.options.find(({ short, long }) => short === name || long === name);
      if (option === undefined || option.isBoolean()) continue;
      if (value === undefined) open = option;
      else flags[option.attributeName()] = value;
    } else positional.push(word);
  }
  return { positional, flags, open };
}

/** Completion never complains: without a cluster there are no names. */
async function namesOf(world: World, { topic, flags }: Extract<AskedPlace, { type: "names" }>): Promise<Candidate[]> {
  const [list] = topic.lists;
  if (list === undefined) return [];
  try {
    return await withCluster(world, flags, async (gathering) => {
      const model = await gather(
        gathering,
        topic.lists.filter((each) => each !== "leases"),
      );
      const isHere = (row: Row) => !topic.namespaced || topic.namespacesOf(row).includes(gathering.namespace);
      return topic.rows(model).filter(isHere).map(candidateOf);
    });
  } catch (error) {
    if (error instanceof CommandFailed) return [];
    throw error;
  }
}

function candidateOf(row: Row): Candidate {
  const means = row.whyNot?.reason ?? "";
  if ("address" in row) return { word: row.address, means };
  return { word: "node" in row ? row.node : row.name, means };
}

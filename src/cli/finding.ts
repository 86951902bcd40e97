import type { Paint } from "./output.ts";

/** One thing that `doctor` looked at. */
export type Finding = {
  readonly mark: "ok" | "note" | "bad";
  /** What it is about: `controller`, `node node-1`, `pool lan`. */
  readonly about: string;
  readonly says: string;
  /** What to do about it. */
  readonly todo?: string;
};

export type Section = { readonly title: string; readonly findings: readonly Finding[] };

export const fine = (about: string, says: string): Finding => ({ mark: "ok", about, says });
export const remark = (about: string, says: string, todo?: string): Finding => ({
  mark: "note",
  about,
  says,
  ...(todo === undefined ? {} : { todo }),
});
export const bad = (about: string, says: string, todo?: string): Finding => ({
  mark: "bad",
  about,
  says,
  ...(todo === undefined ? {} : { todo }),
});

const SIGNS: Readonly<Record<Finding["mark"], string>> = { ok: "✓", note: "!", bad: "✗" };

/** The sections for eyes, and how many findings are bad. */
export function renderSections(sections: readonly Section[], paint: Paint): string {
  const width = Math.max(0, ...sections.flatMap(({ findings }) => findings.map(({ about }) => about.length)));
  const colour = { ok: paint.good, note: paint.bold, bad: paint.bad };
  const lines = sections.flatMap(({ title, findings }) => [
    paint.bold(title),
    ...findings.flatMap(({ mark, about, says, todo }) => [
      `  ${colour[mark](SIGNS[mark])} ${about.padEnd(width)}  ${says}`,
      ...(todo === undefined ? [] : [`${" ".repeat(width + 6)}→ ${todo}`]),
    ]),
  ]);
  const count = countBad(sections);
  const verdict =
    count === 0
      ? paint.good("Nothing is wrong.")
      : paint.bad(`${count} ${count === 1 ? "thing is" : "things are"} wrong.`);
  return `${[...lines, "", verdict].join("\n")}\n`;
}

export const countBad = (sections: readonly Section[]): number =>
  sections.flatMap(({ findings }) => findings).filter(({ mark }) => mark === "bad").length;

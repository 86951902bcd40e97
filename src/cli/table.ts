import Table from "cli-table3";

/** Rows under capital headings, columns three blanks apart and nothing drawn: the look of kubectl. */
export function renderTable(headings: readonly string[], rows: readonly (readonly string[])[]): string {
  const table = new Table({
    head: [...headings],
    chars: NOTHING_DRAWN,
    style: { "padding-left": 0, "padding-right": 0, head: [], border: [], compact: true },
  });
  // A line break would tear the row apart; messages have some.
  for (const row of rows) table.push(row.map((cell) => cell.replaceAll(/\s*\n\s*/g, " ")));
  return table
    .toString()
    .split("\n")
    .map((line) => `${line.trimEnd()}\n`)
    .join("");
}

const NOTHING_DRAWN = {
  top: "",
  "top-mid": "",
  "top-left": "",
  "top-right": "",
  bottom: "",
  "bottom-mid": "",
  "bottom-left": "",
  "bottom-right": "",
  left: "",
  "left-mid": "",
  mid: "",
  "mid-mid": "",
  right: "",
  "right-mid": "",
  middle: "   ",
};

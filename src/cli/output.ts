import { stringify } from "yaml";
import { CommandFailed, type World } from "./world.ts";

export const FORMATS = ["table", "wide", "json", "yaml"] as const;
export type Format = (typeof FORMATS)[number];

/** The value as a program reads it; undefined for the formats that people read. */
export function renderValue(format: Format, value: unknown): string | undefined {
  switch (format) {
    case "json":
      return `${JSON.stringify(value, undefined, 2)}\n`;
    case "yaml":
      return stringify(JSON.parse(JSON.stringify(value)));
    case "table":
    case "wide":
      return undefined;
  }
}

export function parseFormat(text: string): Format {
  const format = FORMATS.find((each) => each === text);
  if (format === undefined) throw new CommandFailed(`-o ${text}: give one of ${FORMATS.join(", ")}`);
  return format;
}

export type Paint = {
  good(text: string): string;
  bad(text: string): string;
  faint(text: string): string;
  bold(text: string): string;
};

const PLAIN: Paint = { good: (text) => text, bad: (text) => text, faint: (text) => text, bold: (text) => text };
const sgr = (code: number) => (text: string) => `\u001b[${code}m${text}\u001b[0m`;
const COLOURS: Paint = { good: sgr(32), bad: sgr(31), faint: sgr(2), bold: sgr(1) };

/** Colours only for eyes: on a terminal, and unless NO_COLOR is set to anything (no-color.org) or TERM is dumb. */
export function paintFor({ stdout, environment }: Pick<World, "stdout" | "environment">): Paint {
  const refused = (environment["NO_COLOR"] ?? "") !== "" || environment["TERM"] === "dumb";
  return stdout.isTTY && !refused ? COLOURS : PLAIN;
}

import type { Paint } from "./output.ts";
import { firstObstacle, type Step, type Trace } from "./trace.ts";

const SIGNS: Readonly<Record<Step["mark"], string>> = { ok: "✓", note: "!", stop: "✗", unreached: "·" };
const PLACE_WIDTH = "advertisement".length;

/** The trace for eyes: a line per step, the first obstacle once more at the end with what to do. */
export function renderTrace(trace: Trace, paint: Paint): string {
  const several = trace.paths.length > 1 || trace.head.length > 0;
  const lines = [
    paint.bold(trace.subject),
    ...trace.head.flatMap((step) => renderStep(step, paint)),
    ...trace.paths.flatMap(({ address, steps }) => [
      ...(several ? [paint.bold(address)] : []),
      ...steps.flatMap((step) => renderStep(step, paint)),
    ]),
  ];
  const obstacle = firstObstacle(trace);
  if (obstacle !== undefined) {
    lines.push("", `${paint.bad("In the way:")} ${obstacle.place}: ${obstacle.says}`);
    if (obstacle.todo !== undefined) lines.push(`${paint.bold("What to do:")} ${obstacle.todo}`);
  } else {
    lines.push("", paint.good("Nothing stands in the way."));
  }
  return `${lines.join("\n")}\n`;
}

function renderStep({ place, mark, says, details }: Step, paint: Paint): string[] {
  const colour = { ok: paint.good, note: paint.bold, stop: paint.bad, unreached: paint.faint }[mark];
  const indent = " ".repeat(PLACE_WIDTH + 6);
  const text = mark === "unreached" ? paint.faint("not reached") : says;
  return [`  ${colour(SIGNS[mark])} ${place.padEnd(PLACE_WIDTH)}  ${text}`, ...details.map((line) => indent + line)];
}

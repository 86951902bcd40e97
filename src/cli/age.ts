const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const YEAR = 365 * DAY;

/** A span as kubectl prints it (apimachinery util/duration HumanDuration): two units while the smaller one matters. */
export function printAge(seconds: number | undefined): string {
  if (seconds === undefined) return "<unknown>";
  const age = Math.floor(seconds);
  if (age < -1) return "<invalid>";
  if (age < 0) return "0s";
  if (age < 2 * MINUTE) return `${age}s`;
  if (age < 10 * MINUTE) return two(age, MINUTE, "m", 1, "s");
  if (age < 3 * HOUR) return one(age, MINUTE, "m");
  if (age < 8 * HOUR) return two(age, HOUR, "h", MINUTE, "m");
  if (age < 2 * DAY) return one(age, HOUR, "h");
  if (age < 8 * DAY) return two(age, DAY, "d", HOUR, "h");
  if (age < 2 * YEAR) return one(age, DAY, "d");
  if (age < 8 * YEAR) return two(age, YEAR, "y", DAY, "d");
  return one(age, YEAR, "y");
}

const one = (age: number, unit: number, name: string): string => `${Math.floor(age / unit)}${name}`;

function two(age: number, unit: number, name: string, smaller: number, smallerName: string): string {
  const rest = Math.floor((age % unit) / smaller);
  return rest === 0 ? one(age, unit, name) : `${one(age, unit, name)}${rest}${smallerName}`;
}

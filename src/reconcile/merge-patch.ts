import { same } from "../core/same.ts";

type Fields = Readonly<Record<string, unknown>>;

/**
 * The JSON merge patch (RFC 7396) that makes `wanted` of `current`: fields that go are null, lists are whole, and what
 * is the same is left out. An empty object when nothing differs.
 */
export function mergePatchTo(current: Fields | undefined, wanted: Fields): Fields {
  const patch: Record<string, unknown> = {};
  for (const name of Object.keys(current ?? {})) {
    if (wanted[name] === undefined && current?.[name] !== undefined) patch[name] = null;
  }
  for (const [name, value] of Object.entries(wanted)) {
    const before = current?.[name];
    if (value === undefined || same(before, value)) continue;
    patch[name] = isFields(value) && isFields(before) ? mergePatchTo(before, value) : value;
  }
  return patch;
}

const isFields = (value: unknown): value is Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** The part of JSONPath that printer columns use: fields, indexes, `[*]` and `[?(@.field=="text")]`. */

type Piece =
  | { readonly type: "field"; readonly name: string }
  | { readonly type: "index"; readonly index: number }
  | { readonly type: "all" }
  | { readonly type: "filter"; readonly field: readonly string[]; readonly text: string };

const PIECE =
  /^(?:\.((?:\\.|[^.[\\])+)|\[(\d+)\]|\[(\*)\]|\[\?\(@\.([\w.]+)\s*==\s*(?:"([^"]*)"|'([^']*)')\)\]|\['([^']+)'\])/;

/** The values that the path finds, in order. Throws on a path that it can't read: paths are ours, not input. */
export function compileJsonPath(path: string): (value: unknown) => unknown[] {
  const pieces: Piece[] = [];
  let rest = path.replace(/^\{(.*)\}$/, "$1");
  while (rest !== "") {
    const match = PIECE.exec(rest);
    if (match === null) throw new Error(`JSONPath ${path}: can't read ${rest}`);
    const [whole, field, index, all, filterField, double, single, quoted] = match;
    if (index !== undefined) pieces.push({ type: "index", index: Number(index) });
    else if (all !== undefined) pieces.push({ type: "all" });
    else if (filterField !== undefined) {
      pieces.push({ type: "filter", field: filterField.split("."), text: double ?? single ?? "" });
    } else pieces.push({ type: "field", name: quoted ?? (field ?? "").replace(/\\(.)/g, "$1") });
    rest = rest.slice(whole.length);
  }
  return (value) => pieces.reduce<unknown[]>((found, piece) => found.flatMap((one) => follow(one, piece)), [value]);
}

function follow(value: unknown, piece: Piece): unknown[] {
  switch (piece.type) {
    case "field": {
      const found = fieldOf(value, piece.name);
      return found === undefined ? [] : [found];
    }
    case "index":
      return Array.isArray(value) && piece.index < value.length ? [value[piece.index]] : [];
    case "all":
      return Array.isArray(value) ? value : typeof value === "object" && value !== null ? Object.values(value) : [];
    case "filter":
      return Array.isArray(value)
        ? value.filter((item) => String(piece.field.reduce<unknown>(fieldOf, item)) === piece.text)
        : [];
  }
}

const fieldOf = (value: unknown, name: string): unknown =>
  typeof value === "object" && value !== null ? (value as Record<string, unknown>)[name] : undefined;

import { describe, expect, it } from "vitest";
import { parseRange } from "../net/range.ts";
import { ADMISSION_TABLE, type AdmissionRow } from "./admission-table.ts";
import type { IPAddressPoolSpec } from "./ip-address-pool.ts";
import { defaults, KINDS, kindNamed, validate } from "./kinds.ts";

const refusalsOf = ({ object, old }: AdmissionRow) => {
  const kind = kindNamed(object.kind);
  if (kind === undefined) throw new Error(`no kind ${object.kind}`);
  return validate(kind, defaults(kind, object), old && defaults(kind, old));
};

describe("admission", () => {
  it.each(ADMISSION_TABLE.map((row) => [row.claim, row] as const))("%s", (_claim, row) => {
    const messages = refusalsOf(row).map(({ message }) => message);
    if (row.outcome.type === "refused") expect(messages.join("\n")).toContain(row.outcome.message);
    else expect(messages).toEqual([]);
  });

  it.each(
    ADMISSION_TABLE.filter(({ object }) => object.kind === "IPAddressPool").map((row) => [row.claim, row] as const),
  )("refuses no more than parsing does: %s", (_claim, { object, outcome }) => {
    const spec = object.spec as IPAddressPoolSpec;
    const entries = [...spec.addresses, ...(spec.excludes ?? [])].map(parseRange);
    const problem = entries.flatMap((entry) => (entry.ok ? [] : [entry.problem]))[0];
    if (outcome.type === "accepted") expect(problem).toBeUndefined();
    if (outcome.type === "condition") expect(problem?.message).toContain(outcome.message);
    if (outcome.type === "refused" && entries.length === 1 && spec.serviceAllocation === undefined) {
      expect(problem).toBeDefined();
    }
  });

  it("names the field that it refuses, and the value where it is short", () => {
    const [row] = ADMISSION_TABLE;
    expect(refusalsOf(row as AdmissionRow)).toEqual([
      {
        reason: "FieldValueInvalid",
        field: "spec.addresses[0]",
        message:
          'spec.addresses[0]: Invalid value: "192.0.2.200/28": 192.0.2.200/28 has host bits: it would mean ' +
          "192.0.2.192/28 (192.0.2.192-192.0.2.207); write 192.0.2.192/28 if you want that",
      },
    ]);
  });

  it("judges rules only when the shape is right", () => {
    const kind = kindNamed("VirtualIP");
    if (kind === undefined) throw new Error("no kind VirtualIP");
    const object = { metadata: { name: "web" }, spec: { address: 5, forwards: [] } };
    expect(validate(kind, object).map(({ reason, field }) => [reason, field])).toContainEqual([
      "FieldValueTypeInvalid",
      "spec.address",
    ]);
    expect(validate(kind, { metadata: { name: "web" } }).map(({ message }) => message)).toEqual([
      "spec: Required value",
    ]);
  });
});

describe("defaults", () => {
  const pool = KINDS[0] as (typeof KINDS)[number];

  it("fill what is absent or null, and nothing inside an object that is absent", () => {
    const object = {
      metadata: { name: "edge" },
      spec: { addresses: ["192.0.2.0/24"], autoAssign: null, disabled: true },
    };
    expect(defaults<unknown>(pool, object)).toEqual({
      metadata: { name: "edge" },
      spec: { addresses: ["192.0.2.0/24"], autoAssign: true, avoidBuggyIPs: false, disabled: true, excludes: [] },
    });
  });

  it("fill an optional object that is there", () => {
    const object = { metadata: { name: "edge" }, spec: { addresses: [], serviceAllocation: {} } };
    expect(defaults<{ spec: unknown }>(pool, object).spec).toMatchObject({
      serviceAllocation: { priority: 0, namespaces: [], gatewayClasses: [] },
    });
  });

  it("leave the given object as it was", () => {
    const object = { spec: { addresses: [] } };
    defaults(pool, object);
    expect(object).toEqual({ spec: { addresses: [] } });
  });
});

import { describe, expect, it, test } from "vitest";
import { compareUsed, grantedLines, linesOf, RIGHTS, type Right } from "./rights.ts";

const told = RIGHTS.flatMap(linesOf);

describe("the table of rights and config/rbac", () => {
  it("is granted, line by line, and nothing else is", () => {
    expect([...told].sort()).toEqual([...grantedLines()].sort());
  });

  it("says everything once", () => {
    expect(told.length).toBe(new Set(told).size);
  });
});

test("a rule of many groups, resources and names is one right for each", () => {
  const objects = [
    { kind: "Role", metadata: { name: "r", namespace: "n" }, rules: [RULE] },
    {
      kind: "RoleBinding",
      metadata: { name: "b", namespace: "n" },
      roleRef: { kind: "Role", name: "r" },
      subjects: [
        { kind: "ServiceAccount", name: "a" },
        { kind: "User", name: "u" },
      ],
    },
  ];
  expect(grantedLines(objects)).toEqual([
    "a get x in n, one",
    "a put x in n, one",
    "a get y in n, one",
    "a put y in n, one",
    "a get x.g in n, one",
    "a put x.g in n, one",
    "a get y.g in n, one",
    "a put y.g in n, one",
  ]);
});
const RULE = { apiGroups: ["", "g"], resources: ["x", "y"], verbs: ["get", "put"], resourceNames: ["one"] };

describe("seen with the rights that tests used", () => {
  const right = (more: Partial<Right>): Right => ({
    account: "belfry-speaker",
    verbs: ["get", "list"],
    resource: "things",
    why: "because",
    ...more,
  });
  const get = "belfry-speaker get things";
  const list = "belfry-speaker list things";
  test.each([
    ["all are used", [get, list], true, {}, 0],
    ["one is not used, and all tests ran", [get], true, {}, 1],
    ["one is not used, and some tests ran", [get], false, {}, 0],
    ["what is said to be unused is unused", [], true, { unused: "rare" }, 0],
    ["what is said to be unused is used", [get], false, { unused: "rare" }, 1],
    ["what is used sometimes is used", [get, list], true, { rare: "chance" }, 0],
    ["what is used sometimes is not used", [], true, { rare: "chance" }, 0],
    ["the namespace does not matter", [get, list], true, { within: "belfry-system" }, 0],
  ] as const)("%s", (_what, used, all, more, problems) => {
    expect(compareUsed(new Set(used), all, [right(more)])).toHaveLength(problems);
  });
});

import { expect, test } from "vitest";
import { briefOf, compact } from "./compact.ts";

const make = (n: number) => ({
  metadata: { name: `n${n}`, namespace: "demo", uid: `u${n}`, resourceVersion: `${n}`, finalizers: ["a"] },
  spec: { n, list: [n] },
  status: { text: `t${n}` },
});

test("a compact object reads as what it was made of, also long after others were made", () => {
  const all = Array.from({ length: 1_000 }, (_, n) => compact(make(n)));
  for (const [n, object] of all.entries()) {
    const { metadata, spec, status } = object;
    expect({ metadata, spec, status }).toEqual(make(n));
  }
});

test("an object without status has none", () => {
  const object: { metadata: { name: string }; spec: object; status?: object } = { metadata: { name: "a" }, spec: {} };
  expect(compact(object).status).toBe(undefined);
});

test("what has just come is read as it came; long after, it is read anew and stays for a while", () => {
  const made = make(1);
  const object = compact(made);
  expect(object.spec).toBe(made.spec);
  for (let n = 0; n < 1_000; n++) compact(make(n));
  expect(object.spec).not.toBe(made.spec);
  expect(object.spec).toBe(object.spec);
});

test("a brief is kept beside the text: nothing is inflated for it, and an object that is not compact has the same", () => {
  let asked = 0;
  const brief = ({ spec }: { spec: { n: number } }) => ({ n: spec.n, asked: ++asked });
  const made = make(1);
  const object = compact(made, brief(made));
  for (let n = 0; n < 1_000; n++) compact(make(n));
  expect(briefOf(object, brief)).toEqual({ n: 1, asked: 1 });
  expect(briefOf(made, brief)).toEqual({ n: 1, asked: 2 });
});

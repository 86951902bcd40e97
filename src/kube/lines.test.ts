import fc from "fast-check";
import { expect, test } from "vitest";
import { LineCutter } from "./lines.ts";

test("lines come out whole however the stream is cut, also inside a character", () => {
  fc.assert(
    fc.property(
      fc.array(fc.string({ unit: "grapheme", minLength: 1 }).map((text) => text.replaceAll("\n", "⏎"))),
      fc.array(fc.nat({ max: 12 })),
      (lines, cuts) => {
        const bytes = Buffer.from(lines.map((line) => `${line}\n`).join(""));
        const cutter = new LineCutter(1 << 20);
        const heard: string[] = [];
        let at = 0;
        for (const cut of [...cuts, bytes.length]) {
          expect(cutter.push(bytes.subarray(at, at + cut), (line) => heard.push(line))).toBe(true);
          at += cut;
        }
        expect(heard).toEqual(lines);
        expect(cutter.pendingBytes).toBe(0);
      },
    ),
  );
});

test("half a line is pending, not a line", () => {
  const cutter = new LineCutter(100);
  const heard: string[] = [];
  cutter.push(Buffer.from('{"a":1}\n{"b"'), (line) => heard.push(line));
  expect(heard).toEqual(['{"a":1}']);
  expect(cutter.pendingBytes).toBe(4);
});

test("a line without end is given up at the limit", () => {
  const cutter = new LineCutter(10);
  expect(cutter.push(Buffer.from("12345678"), () => {})).toBe(true);
  expect(cutter.push(Buffer.from("90123"), () => {})).toBe(false);
});

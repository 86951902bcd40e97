import fc from "fast-check";
import { expect, test } from "vitest";
import { lengthen, shorten } from "./shorthand.ts";

const VIP =
  '{"spec":{"address":"192.0.2.1","scope":"External","pool":"p","holders":[{"kind":"Service","namespace":"demo","name":"web","uid":"0b5d6f8e-9d7b-4f63-8a5e-000000000001"}],"advertisements":{"l2":["lan"]},"forwards":[{"protocol":"TCP","port":80,"holder":0,"dataPath":"Belfry","backends":[{"kind":"Service","namespace":"demo","name":"web","portName":"web","weight":1}],"sessionAffinity":"None","nodes":"Cluster","sourceIP":"MayMasquerade","sourceRanges":[],"refuseWeight":0}]},"status":{"owner":{"node":"n1","interface":"eth0","since":"2026-01-01T00:00:00Z","term":1,"generation":1},"announcers":{"count":1,"names":["n1"]},"conditions":[{"type":"Programmed","status":"True","observedGeneration":1,"lastTransitionTime":"2026-01-01T00:00:00Z","reason":"Programmed","message":"the owner serves the latest change"},{"type":"Announced","status":"True","observedGeneration":1,"lastTransitionTime":"2026-01-01T00:00:00Z","reason":"Answering","message":"node n1 answers on eth0"}]}}';

test("a VirtualIP comes to less than a third", () => {
  expect(lengthen(shorten(VIP))).toBe(VIP);
  expect(shorten(VIP).length).toBeLessThan(VIP.length / 3);
});

test("whatever is shortened comes back: pieces in odd places, signs of ours and any other character", () => {
  const piece = fc.constantFrom('"name":"', '"},{', "\u0080", "\u00ff", "\0", "é", "日", '"port":80,', "$&", "\\");
  fc.assert(
    fc.property(fc.array(fc.oneof(piece, fc.string({ unit: "binary" }))), (parts) => {
      const json = JSON.stringify({ text: parts.join("") });
      expect(lengthen(shorten(json))).toBe(json);
    }),
  );
});

import { expect, test } from "vitest";
import type { Slice } from "../src/plan/endpoint.ts";
import { SliceIndex } from "./slice-index.ts";

const slice = (service: string): Slice => ({ service, family: "IPv4", ports: [], endpoints: [] });

test("a slice that changes, moves to another Service or goes touches the Services that it was and is of", () => {
  const index = new SliceIndex();
  expect(index.set("t/one", slice("t/web"))).toEqual(["t/web"]);
  expect(index.set("t/two", slice("t/web"))).toEqual(["t/web"]);
  expect([...index.of("t/web")]).toHaveLength(2);
  expect(index.set("t/one", slice("t/api"))).toEqual(["t/web", "t/api"]);
  expect([...index.of("t/web")]).toHaveLength(1);
  expect(index.set("t/one", undefined)).toEqual(["t/api"]);
  expect([...index.of("t/api")]).toEqual([]);
  expect(index.set("t/unknown", undefined)).toEqual([]);
});

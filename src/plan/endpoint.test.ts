import { describe, expect, test } from "vitest";
import type { EndpointSlice } from "../api/foreign.ts";
import type { Address } from "../net/address.ts";
import { readSlice, type Slice, type SliceEndpoint, usableEndpoints } from "./endpoint.ts";

type Conditions = { ready?: boolean | null; serving?: boolean | null; terminating?: boolean | null };

const object = (more: Partial<EndpointSlice>): EndpointSlice => ({
  metadata: { name: "web-1", namespace: "t", labels: { "kubernetes.io/service-name": "web" } },
  addressType: "IPv4",
  ports: [{ name: "", protocol: "TCP", port: 8080 }],
  endpoints: [],
  ...more,
});

describe("readSlice", () => {
  const rows: [string, Conditions | undefined, SliceEndpoint["state"]][] = [
    ["ready", { ready: true, serving: true, terminating: false }, "ready"],
    ["no conditions at all", undefined, "ready"],
    ["all null (I-20 row 9: null ready means ready)", { ready: null, serving: null, terminating: null }, "ready"],
    ["publishNotReadyAddresses: ready without serving (I-20 row 11)", { ready: true, serving: false }, "ready"],
    ["not ready", { ready: false, serving: false, terminating: false }, "unusable"],
    ["starting: serving but not terminating", { ready: false, serving: true, terminating: false }, "unusable"],
    ["terminating, still serving", { ready: false, serving: true, terminating: true }, "terminating"],
    ["terminating, serving not said", { ready: false, serving: null, terminating: true }, "terminating"],
    ["terminating, serving no more", { ready: false, serving: false, terminating: true }, "unusable"],
  ];
  test.each(rows)("%s", (_, conditions, state) => {
    const endpoint = { addresses: ["198.18.1.7"], nodeName: "a", ...(conditions === undefined ? {} : { conditions }) };
    expect(readSlice(object({ endpoints: [endpoint] }))?.endpoints).toEqual([
      { address: "198.18.1.7", node: "a", state },
    ]);
  });

  test("a slice without the Service's label, or of names, is not for us", () => {
    expect(readSlice(object({ metadata: { name: "x", namespace: "t" } }))).toBeUndefined();
    expect(readSlice(object({ addressType: "FQDN" }))).toBeUndefined();
  });

  test("of the addresses of an endpoint the first counts; one of the wrong family or none is skipped", () => {
    const slice = readSlice(
      object({
        endpoints: [
          { addresses: ["198.18.1.7", "198.18.1.8"] },
          { addresses: ["2001:db8::7"] },
          { addresses: ["no address"] },
          { addresses: [] },
        ],
      }),
    );
    expect(slice?.endpoints.map(({ address }) => address)).toEqual(["198.18.1.7"]);
  });

  test("a port without a number is skipped, and protocol and name take the API's defaults", () => {
    const slice = readSlice(object({ ports: [{ port: 80 }, { name: "dns", protocol: "UDP" }] }));
    expect(slice?.ports).toEqual([{ name: "", protocol: "TCP", port: 80 }]);
  });
});

const endpoint = (address: string, node: string | undefined, state: SliceEndpoint["state"]): SliceEndpoint => ({
  address: address as Address,
  node,
  state,
});

const slice = (endpoints: SliceEndpoint[], more: Partial<Slice> = {}): Slice => ({
  service: "t/web",
  family: "IPv4",
  ports: [{ name: "", protocol: "TCP", port: 8080 }],
  endpoints,
  ...more,
});

const texts = (endpoints: readonly { address: Address; port: number }[]) =>
  endpoints.map(({ address, port }) => `${address}:${port}`);

describe("usableEndpoints", () => {
  test("terminating endpoints serve only while nothing is ready", () => {
    const usable = usableEndpoints(
      [slice([endpoint("198.18.1.1", "a", "ready"), endpoint("198.18.2.1", "b", "terminating")])],
      "IPv4",
      "",
      "TCP",
    );
    expect(texts(usable.anywhere)).toEqual(["198.18.1.1:8080"]);
    expect(texts(usable.on("a"))).toEqual(["198.18.1.1:8080"]);
    expect(texts(usable.on("b"))).toEqual(["198.18.2.1:8080"]);
    expect(usable.on("c")).toEqual([]);
  });

  test("with nothing ready anywhere, those that terminate and serve take everything", () => {
    const usable = usableEndpoints([slice([endpoint("198.18.2.1", "b", "terminating")])], "IPv4", "", "TCP");
    expect(texts(usable.anywhere)).toEqual(["198.18.2.1:8080"]);
  });

  test("an endpoint in two slices counts once, and with the better of the two states", () => {
    const usable = usableEndpoints(
      [
        slice([endpoint("198.18.1.1", "a", "terminating")]),
        slice([endpoint("198.18.1.1", "a", "ready"), endpoint("198.18.1.1", "a", "ready")]),
      ],
      "IPv4",
      "",
      "TCP",
    );
    expect(texts(usable.anywhere)).toEqual(["198.18.1.1:8080"]);
    expect(texts(usable.on("a"))).toEqual(["198.18.1.1:8080"]);
  });

  test("family, port name and protocol must all fit", () => {
    const v6 = slice([endpoint("2001:db8::1", "a", "ready")], { family: "IPv6" });
    const named = slice([endpoint("198.18.1.2", "a", "ready")], {
      ports: [
        { name: "dns", protocol: "UDP", port: 5353 },
        { name: "dns-tcp", protocol: "TCP", port: 5353 },
      ],
    });
    const find = (family: "IPv4" | "IPv6", name: string, protocol: "TCP" | "UDP") =>
      texts(usableEndpoints([v6, named], family, name, protocol).anywhere);
    expect(find("IPv6", "", "TCP")).toEqual(["2001:db8::1:8080"]);
    expect(find("IPv4", "", "TCP")).toEqual([]);
    expect(find("IPv4", "dns", "UDP")).toEqual(["198.18.1.2:5353"]);
    expect(find("IPv4", "dns", "TCP")).toEqual([]);
    expect(find("IPv4", "dns-tcp", "TCP")).toEqual(["198.18.1.2:5353"]);
  });
});

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { fromHex, toHex } from "../core/bytes.ts";
import {
  be32Of,
  decodeAcknowledgement,
  decodeAttributes,
  decodeMessage,
  decodeMessages,
  forEachAttribute,
  MessageWriter,
  textOf,
} from "./message.ts";

describe("writing", () => {
  test("a message is its header, its payload and padding; lengths count no padding", () => {
    const writer = new MessageWriter(8); // grows on the way
    const at = writer.beginMessage(0x0a00, 0x401, 7);
    writer.text(1, "ab");
    const nested = writer.begin(2);
    writer.be16(3, 0x1234);
    writer.u8(4, 9);
    writer.end(nested);
    writer.endMessage(at);
    expect(toHex(writer.bytes())).toBe(
      toHex(
        fromHex(
          `2c000000 000a 0104 07000000 00000000
           0700 0100 616200 00
           1400 0280
             0600 0300 1234 0000
             0500 0400 09 000000`,
        ),
      ),
    );
  });

  test("what was written before a clear leaves no trace in padding", () => {
    const writer = new MessageWriter(64);
    writer.raw(new Uint8Array(64).fill(0xff));
    writer.clear();
    const at = writer.beginMessage(1, 0, 0);
    writer.u8(1, 1);
    writer.endMessage(at);
    expect(toHex(writer.bytes())).toBe("18000000010000000000000000000000" + "0500010001000000");
  });

  test("an attribute that its 16-bit length can't hold is a bug and throws", () => {
    const writer = new MessageWriter();
    const at = writer.begin(1);
    writer.raw(new Uint8Array(0x10000));
    expect(() => writer.end(at)).toThrow("65535");
  });
});

describe("reading", () => {
  test("an acknowledgement with the kernel's own words", () => {
    // nlmsgerr of a capped request, -EINVAL, with NLMSGERR_ATTR_MSG
    const bytes = fromHex(
      `38000000 0200 0003 05000000 2a000000
       eaffffff 20000000 1800 0506 05000000 2a000000
       1100 0100 496e76616c69642070726566 00 000000`,
    );
    const message = decodeMessage(bytes);
    expect(message && decodeAcknowledgement(message)).toEqual({ sequence: 5, errno: 22, text: "Invalid pref" });
  });

  test.each([
    ["empty", ""],
    ["shorter than a header", "100000000000000000000000000000"],
    ["a length less than the header's", "0f000000000000000000000000000000"],
    ["a length beyond the bytes", "11000000000000000000000000000000"],
  ])("no message: %s", (_, hex) => expect(decodeMessage(fromHex(hex))).toBeUndefined());

  test.each([
    ["a length less than four", "0300010000000000"],
    ["a length beyond the bytes", "0900010000000000"],
    ["half a header at the end", "040001000400"],
  ])("no attributes: %s", (_, hex) => expect(decodeAttributes(fromHex(hex))).toBeUndefined());

  test("the last attribute may come without its padding", () => {
    expect(textOf(decodeAttributes(fromHex("0600010061 00"))?.get(1))).toBe("a");
  });

  test("a value of another length is no number", () => {
    expect(be32Of(fromHex("00000001"))).toBe(1);
    expect(be32Of(fromHex("0001"))).toBeUndefined();
    expect(be32Of(undefined)).toBeUndefined();
  });

  test("attributes come back as they were written", () => {
    const attribute = fc.tuple(fc.integer({ min: 0, max: 0x3fff }), fc.uint8Array({ maxLength: 40 }));
    fc.assert(
      fc.property(fc.array(attribute, { maxLength: 20 }), (attributes) => {
        const writer = new MessageWriter(16);
        for (const [type, value] of attributes) writer.attribute(type, value);
        const seen: [number, string][] = [];
        expect(forEachAttribute(writer.bytes(), (type, value) => seen.push([type, toHex(value)]))).toBe(true);
        expect(seen).toEqual(attributes.map(([type, value]) => [type, toHex(value)]));
      }),
    );
  });

  test("no bytes throw, loop, or are read past their end", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
        for (const message of decodeMessages(bytes)) {
          decodeAcknowledgement(message);
          decodeAttributes(message.payload);
        }
        decodeAttributes(bytes);
      }),
    );
  });
});

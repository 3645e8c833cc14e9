import assert from "node:assert/strict";
import { fromHex, HEX, hex } from "../../lib/protocol/hex.ts";
import { octets } from "../helpers/bytes.ts";

Deno.test("Octets are two lower-case digits each, and come back in either case", () => {
  const all = Uint8Array.from({ length: 256 }, (_, octet) => octet);
  assert.equal(hex(octets("\x00\x0f\xa0\xff")), "000fa0ff");
  assert.equal(hex(octets("")), "");
  assert.deepEqual(fromHex(hex(all)), all);
  assert.deepEqual(fromHex(hex(all).toUpperCase()), all);
  assert.equal(HEX.length, 256);
});

Deno.test("What is no hex text is null, not a guess", () => {
  for (const text of ["0", "000", "0x00", "gg", " 00", "00 ", "0\n", "\u0660\u0660", "+1"]) {
    assert.equal(fromHex(text), null, JSON.stringify(text));
  }
  assert.deepEqual(fromHex(""), octets(""));
});

import assert from "node:assert/strict";
import { chooseBody, largestBody } from "../../lib/requester/request_body.ts";
import { octets } from "../helpers/bytes.ts";

Deno.test("A body crosses as text when it is UTF-8, else as octets", () => {
  assert.deepEqual(chooseBody(null, 1000, 1000), { kind: "none" });
  assert.deepEqual(chooseBody(octets(""), 1000, 1000), { kind: "text", text: "" });
  assert.deepEqual(chooseBody(octets('{"a":1}'), 1000, 1000), { kind: "text", text: '{"a":1}' });
  assert.deepEqual(chooseBody(octets("\xef\xbb\xbfx"), 1000, 1000), {
    kind: "text",
    text: "\ufeffx",
  });
  assert.deepEqual(chooseBody(octets("\xff"), 1000, 1000), {
    kind: "bytes",
    bytes: octets("\xff"),
  });
});

Deno.test("Text that JSON would swell beyond base64 crosses as octets", () => {
  const most = largestBody(1000);
  assert.equal(most, 500);
  assert.equal(chooseBody(octets("a".repeat(most)), 1000, 1000).kind, "text");
  assert.equal(chooseBody(octets("\xff".repeat(most)), 1000, 1000).kind, "bytes");
  // As base64 668 octets, as JSON text 502, 668, 670.
  assert.equal(chooseBody(octets('"'.repeat(166) + "a".repeat(334)), 1000, 1000).kind, "text");
  assert.equal(chooseBody(octets('"'.repeat(167) + "a".repeat(333)), 1000, 1000).kind, "bytes");
  assert.equal(chooseBody(new Uint8Array(most), 1000, 1000).kind, "bytes");
});

Deno.test("Text over its own limit crosses as octets", () => {
  assert.equal(chooseBody(octets("a".repeat(101)), 1000, 100).kind, "bytes");
  assert.equal(chooseBody(octets("a".repeat(100)), 1000, 100).kind, "text");
});

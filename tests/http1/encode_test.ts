import assert from "node:assert/strict";
import {
  chunkPrefix,
  CRLF,
  LAST_CHUNK,
  latin1,
  latin1Into,
  reasonPhrase,
} from "../../lib/http1/encode.ts";
import { chars } from "./reader.ts";

Deno.test("chunkPrefix writes the size in hexadecimal and CRLF", () => {
  for (const length of [1, 9, 10, 15, 16, 255, 256, 65_535, 65_536, 2 ** 32, 2 ** 53 - 1]) {
    assert.equal(chars(chunkPrefix(length)), `${length.toString(16)}\r\n`);
  }
});

Deno.test("chunkPrefix refuses a length that would end the body or is none", () => {
  for (const length of [0, -1, 1.5, NaN, 2 ** 53]) {
    assert.throws(() => chunkPrefix(length), RangeError);
  }
});

Deno.test("CRLF and LAST_CHUNK are the octets of RFC 9112", () => {
  assert.equal(chars(CRLF), "\r\n");
  assert.equal(chars(LAST_CHUNK), "0\r\n\r\n");
});

Deno.test("latin1 writes each of the 256 code points as its octet, in short and long text", () => {
  const all = Array.from({ length: 256 }, (_, code) => String.fromCharCode(code)).join("");
  assert.deepEqual([...latin1(all)], Array.from({ length: 256 }, (_, code) => code));
  for (const char of all) assert.deepEqual([...latin1(char)], [char.charCodeAt(0)]);
  assert.equal(chars(latin1("a".repeat(1000))), "a".repeat(1000));
});

Deno.test("latin1Into writes at the offset, returns the one behind, and touches nothing else", () => {
  for (const text of ["", "ab", "caf\xe9", "x".repeat(100), "x".repeat(99) + "\xe9"]) {
    const into = new Uint8Array(text.length + 5).fill(7);
    assert.equal(latin1Into(text, into, 2), 2 + text.length);
    assert.equal(chars(into), "\x07\x07" + text + "\x07\x07\x07");
  }
});

Deno.test("latin1Into refuses code points over U+00FF, which could turn into line ends", () => {
  const into = new Uint8Array(1000);
  for (const text of ["a\u010d\u010a", "\u0100", "x".repeat(200) + "\u010a", "\u{1f600}"]) {
    assert.throws(() => latin1Into(text, into, 0), RangeError);
  }
});

Deno.test("latin1Into refuses to write beyond the buffer", () => {
  const into = new Uint8Array(10);
  assert.throws(() => latin1Into("12345678901", into, 0), RangeError);
  assert.throws(() => latin1Into("1", into, 10), RangeError);
  assert.throws(() => latin1Into("1", into, -1), RangeError);
  assert.equal(latin1Into("", into, 10), 10);
});

Deno.test("reasonPhrase knows the registered statuses and no other", () => {
  assert.equal(reasonPhrase(200), "OK");
  assert.equal(reasonPhrase(431), "Request Header Fields Too Large");
  assert.equal(reasonPhrase(508), "Loop Detected");
  assert.equal(reasonPhrase(299), "");
  assert.equal(reasonPhrase(-1), "");
});

/**
 * Octets to text, one code point per octet.
 * @module
 */

import { Buffer } from "node:buffer";

// The "latin1" of TextDecoder is windows-1252, which maps 0x80-0x9F elsewhere. UTF-8 serves ASCII, by
// far the most common head, well on every Deno; Buffer is exact, but slow before 2.9.
const utf8 = new TextDecoder();

/** Decodes `bytes[start, end)` as ISO 8859-1. */
export function decodeLatin1(bytes: Uint8Array, start: number, end: number): string {
  const text = utf8.decode(bytes.subarray(start, end));
  // A longer sequence (or a BOM) makes the text shorter than the octets; a stray octet leaves U+FFFD.
  if (text.length === end - start && !text.includes("\uFFFD")) return text;
  return Buffer.from(bytes.buffer, bytes.byteOffset + start, end - start).toString("latin1");
}

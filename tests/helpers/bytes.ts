/**
 * Octets in tests: text and back without loss, patterns, digests, the case files.
 * @module
 */
import { createHash } from "node:crypto";

/** One octet per code unit (U+0000..U+00FF), so that any octet can stand in a test's source. */
export function octets(text: string): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    if (unit > 0xff) throw new RangeError(`no octet: ${JSON.stringify(text[i])}`);
    bytes[i] = unit;
  }
  return bytes;
}

/** The reverse of {@linkcode octets}. */
export function latin1(bytes: Uint8Array): string {
  let text = "";
  for (let i = 0; i < bytes.length; i += 8192) {
    text += String.fromCharCode(...bytes.subarray(i, i + 8192));
  }
  return text;
}

/** All parts in one array. */
export function concat(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
}

/** Position of `needle` in `bytes` from `from` on, or -1. */
export function indexOf(bytes: Uint8Array, needle: Uint8Array, from = 0): number {
  search: for (let i = from; i + needle.length <= bytes.length; i++) {
    for (let j = 0; j < needle.length; j++) {
      if (bytes[i + j] !== needle[j]) continue search;
    }
    return i;
  }
  return -1;
}

/**
 * `size` octets of every value in an order that depends on `seed`: a lost, doubled or misplaced
 * piece changes the digest, which a repeated short block would not show.
 */
export function pattern(size: number, seed = 1): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(size);
  let state = (seed * 2654435761) >>> 0 || 1;
  for (let i = 0; i < size; i++) {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    bytes[i] = state & 0xff;
  }
  return bytes;
}

/** SHA-256 in lower-case hex. */
export function sha256(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}

/** The exact octets of a file of `tests/cases/data`. */
export function caseFile(name: string): Uint8Array<ArrayBuffer> {
  return Deno.readFileSync(new URL(`../cases/data/${name}`, import.meta.url));
}

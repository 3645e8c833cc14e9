/**
 * Base64 of RFC 4648 section 4: padded, no line breaks, decoded strictly.
 * @module
 */

const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const STRICT = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;
const CODES = new TextEncoder().encode(ALPHABET);
const VALUES = new Uint8Array(128);
for (let i = 0; i < CODES.length; i++) VALUES[CODES[i]!] = i;
const decoder = new TextDecoder();

/** Encodes any octets. */
export function encodeBase64(bytes: Uint8Array): string {
  const out = new Uint8Array(Math.ceil(bytes.length / 3) * 4);
  let at = 0;
  for (let i = 0; i < bytes.length; i += 3) {
    const a = bytes[i]!;
    const b = bytes[i + 1] ?? 0;
    const c = bytes[i + 2] ?? 0;
    out[at++] = CODES[a >> 2]!;
    out[at++] = CODES[((a & 3) << 4) | (b >> 4)]!;
    out[at++] = i + 1 < bytes.length ? CODES[((b & 15) << 2) | (c >> 6)]! : 0x3d;
    out[at++] = i + 2 < bytes.length ? CODES[c & 63]! : 0x3d;
  }
  return decoder.decode(out);
}

/** Decodes strictly; null for anything that is not padded base64 of that alphabet. */
export function decodeBase64(text: string): Uint8Array | null {
  if (text.length % 4 !== 0 || !STRICT.test(text)) return null;
  const padding = text.endsWith("==") ? 2 : text.endsWith("=") ? 1 : 0;
  const out = new Uint8Array(text.length / 4 * 3 - padding);
  let at = 0;
  for (let i = 0; i < text.length; i += 4) {
    const word = (value(text, i) << 18) | (value(text, i + 1) << 12) | (value(text, i + 2) << 6) |
      value(text, i + 3);
    out[at++] = word >> 16;
    if (at < out.length) out[at++] = word >> 8;
    if (at < out.length) out[at++] = word;
  }
  return out;
}

function value(text: string, at: number): number {
  return VALUES[text.charCodeAt(at) & 127]!;
}

/**
 * Small helpers for JSON that came from a peer.
 * @module
 */

/** A parsed JSON object: members may be anything. */
export type JsonObject = Readonly<Record<string, unknown>>;

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
// Two to four times as fast as the strict one (Deno 2.9); U+FFFD in its result says: look again.
const lenient = new TextDecoder("utf-8", { ignoreBOM: true });
const encoder = new TextEncoder();

/**
 * Parses UTF-8 JSON.
 * @returns undefined when the bytes are not UTF-8 or not JSON
 */
export function parseJson(bytes: Uint8Array): unknown {
  const text = jsonText(bytes);
  return text === null ? undefined : parseText(text);
}

/** The octets as text, or null when they are not UTF-8. */
export function jsonText(bytes: Uint8Array): string | null {
  const text = lenient.decode(bytes);
  return text.includes("\uFFFD") ? utf8OrNull(bytes) : text;
}

/** As {@linkcode parseJson}, for text. */
export function parseText(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** The value as UTF-8 JSON. */
export function jsonBytes(value: unknown): Uint8Array {
  return encoder.encode(JSON.stringify(value));
}

/** Largest text that goes through the shared buffer below; longer ones get one of their own. */
const SHARED_BYTES = 64 * 1024;
const shared = new Uint8Array(SHARED_BYTES);

/**
 * Text as UTF-8 in a buffer that all calls share: good until the next call, so it must be copied at
 * once. Making a typed array costs more than encoding a small text.
 */
export function sharedUtf8(text: string): Uint8Array {
  // A UTF-16 unit takes at most three octets.
  if (text.length * 3 > SHARED_BYTES) return encoder.encode(text);
  return shared.subarray(0, encoder.encodeInto(text, shared).written);
}

/** Whether a parsed value is an object and not null or an array. */
export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Whether a parsed value is a non-empty string. */
export function isText(value: unknown): value is string {
  return typeof value === "string" && value.length > 0;
}

/** The bytes as text when they are valid UTF-8 without a loss, else null. */
export function utf8OrNull(bytes: Uint8Array): string | null {
  try {
    return decoder.decode(bytes);
  } catch {
    return null;
  }
}

/** Octets that `text` takes as a JSON string in UTF-8, quotes included. */
export function jsonStringBytes(text: string, utf8Bytes: number): number {
  let extra = 2;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code >= 0x20 && code !== 0x22 && code !== 0x5c) continue;
    const short = code === 0x22 || code === 0x5c || code === 8 || code === 9 || code === 10 ||
      code === 12 || code === 13;
    extra += short ? 1 : 5;
  }
  return utf8Bytes + extra;
}

/** Octets that `bytes` take as base64 (RFC 4648 §4, padded). */
export function base64Length(bytes: number): number {
  return Math.ceil(bytes / 3) * 4;
}

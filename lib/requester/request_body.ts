/**
 * How a request body goes into the envelope (extensions.md section 2).
 * @module
 */
import type { RequestBody } from "../protocol/envelope.ts";
import { base64Length, jsonStringBytes, utf8OrNull } from "../protocol/json.ts";

/**
 * Most body octets that can be at hand for one message of `maxMessageBytes`: encoded, a body may fill
 * half of it. Text without many quotes or control characters fits up to this, other octets up to
 * three quarters of it (base64).
 */
export function largestBody(maxMessageBytes: number): number {
  return Math.floor(maxMessageBytes / 2);
}

/**
 * The form in which a body crosses: text when it is UTF-8, since Ruby receivers take that octet for
 * octet, else base64. Null when neither fits.
 * @param textBytes largest body that may cross as text although base64 would be taken
 */
export function chooseBody(
  body: Uint8Array | null,
  maxMessageBytes: number,
  textBytes: number,
): RequestBody | null {
  if (body === null) return { kind: "none" };
  const room = largestBody(maxMessageBytes);
  if (body.length <= textBytes) {
    const text = utf8OrNull(body);
    if (text !== null && jsonStringBytes(text, body.length) <= room) return { kind: "text", text };
  }
  return base64Length(body.length) <= room ? { kind: "bytes", bytes: body } : null;
}

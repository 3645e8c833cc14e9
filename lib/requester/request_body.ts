/**
 * How a request body goes into the envelope (extensions.md section 2).
 * @module
 */
import type { RequestBody } from "../protocol/envelope.ts";
import { base64Length, jsonStringBytes, utf8OrNull } from "../protocol/json.ts";

/**
 * Most body octets that go into one message of `maxMessageBytes`: half of it. As base64 that is two
 * thirds of the message, which leaves one third for the head.
 */
export function largestBody(maxMessageBytes: number): number {
  return Math.floor(maxMessageBytes / 2);
}

/**
 * The form in which a body of at most `largestBody` crosses: text when it is UTF-8, since Ruby
 * receivers take that octet for octet, unless it needs more room than base64 may take; else base64.
 * @param textBytes largest body that crosses as text
 */
export function chooseBody(
  body: Uint8Array | null,
  maxMessageBytes: number,
  textBytes: number,
): RequestBody {
  if (body === null) return { kind: "none" };
  const room = base64Length(largestBody(maxMessageBytes));
  if (body.length <= textBytes) {
    const text = utf8OrNull(body);
    if (text !== null && jsonStringBytes(text, body.length) <= room) return { kind: "text", text };
  }
  return { kind: "bytes", bytes: body };
}

/**
 * How long a body is and whether the connection goes on after it (RFC 9112 §6.3, §9.3).
 * @module
 */

import { HttpSyntaxError } from "./error.ts";
import { equalsName, FieldId, isBlank } from "./field.ts";
import { ConnectionOption, type Fields } from "./fields.ts";
import { COMMA } from "./octets.ts";

/** How the length of a message body is found (RFC 9112 §6.3). */
export interface Framing {
  /** `none`: no body; `close`: it ends with the connection. */
  readonly kind: "none" | "length" | "chunked" | "close";
  /** Octets of the body, -1 if not known in advance; 0 for `none`. */
  readonly length: number;
}

const NONE: Framing = Object.freeze({ kind: "none", length: 0 });
const CHUNKED: Framing = Object.freeze({ kind: "chunked", length: -1 });
const CLOSE: Framing = Object.freeze({ kind: "close", length: -1 });

/**
 * Framing of a request. A repeated Content-Length is refused even if the values agree (RFC 9110 §8.6
 * leaves it open): no client has a reason to send it, and the lines go on as they are. CONNECT has no
 * content (RFC 9110 §9.3.6): what follows its head belongs to the tunnel, so fields that declare a body
 * are refused.
 */
export function requestFraming(fields: Fields, minor: 0 | 1, method: string): Framing {
  const lengthAt = fields.indexOf(FieldId.ContentLength);
  if (fields.indexOf(FieldId.TransferEncoding) >= 0) {
    requireChunkedAlone(fields, lengthAt, minor);
    if (method === "CONNECT") throw contentInConnect();
    return CHUNKED;
  }
  if (lengthAt < 0) return NONE;
  if (fields.indexOf(FieldId.ContentLength, lengthAt + 1) >= 0) {
    throw new HttpSyntaxError(400, "more than one Content-Length");
  }
  const length = readLength(fields, lengthAt, false);
  if (method !== "CONNECT") return { kind: "length", length };
  if (length > 0) throw contentInConnect();
  return NONE;
}

/**
 * Framing of a response. A coding other than chunked is refused: RFC 9112 §6.3 would have the body read
 * until the close, but natsway never offers such a coding (§7.4), and forwarding the octets without
 * their Transfer-Encoding would change what they mean. Content-Length values that agree count as one;
 * whoever forwards the head must then write one line from `length`.
 */
export function responseFraming(
  fields: Fields,
  minor: 0 | 1,
  status: number,
  requestMethod: string,
): Framing {
  if (status < 200 || status === 204) return NONE;
  if (requestMethod === "CONNECT" && status < 300) return NONE;
  let length = -1;
  const id = FieldId.ContentLength;
  const lengthAt = fields.indexOf(id);
  for (let i = lengthAt; i >= 0; i = fields.indexOf(id, i + 1)) {
    const next = readLength(fields, i, true);
    if (length >= 0 && next !== length) throw differingLengths();
    length = next;
  }
  if (status === 304 || requestMethod === "HEAD") return NONE;
  if (fields.indexOf(FieldId.TransferEncoding) >= 0) {
    requireChunkedAlone(fields, lengthAt, minor);
    return CHUNKED;
  }
  return length < 0 ? CLOSE : { kind: "length", length };
}

/**
 * Whether the sender lets the connection go on after this message, as far as Connection and version
 * say. Proxy-Connection has no meaning here (RFC 9112 §C.2.2).
 */
export function persists(fields: Fields, minor: 0 | 1): boolean {
  const options = fields.connectionOptions();
  if ((options & ConnectionOption.Close) !== 0) return false;
  return minor === 1 || (options & ConnectionOption.KeepAlive) !== 0;
}

/** Passes if the coding is chunked, once and alone, without a length, in HTTP/1.1 (RFC 9112 §6.1). */
function requireChunkedAlone(fields: Fields, lengthAt: number, minor: 0 | 1): void {
  if (lengthAt >= 0) {
    throw new HttpSyntaxError(400, "Content-Length together with Transfer-Encoding");
  }
  if (minor === 0) throw new HttpSyntaxError(400, "Transfer-Encoding in HTTP/1.0");
  const id = FieldId.TransferEncoding;
  const first = fields.indexOf(id);
  const isAlone = fields.indexOf(id, first + 1) < 0;
  const { bytes } = fields;
  if (isAlone && equalsName(bytes, fields.valueStart(first), fields.valueEnd(first), "chunked")) {
    return;
  }
  const codings: string[] = [];
  for (let i = first; i >= 0; i = fields.indexOf(id, i + 1)) {
    // Not trim(): it takes octets for blanks that are none in HTTP, such as 0xA0.
    codings.push(...fields.value(i).toLowerCase().split(/[ \t]*,[ \t]*/));
  }
  // Without chunked at the end nobody can tell where the body ends: 400 is a MUST (RFC 9112 §6.3).
  if (codings.at(-1) === "chunked" && codings.some((coding) => !/^(chunked)?$/.test(coding))) {
    throw new HttpSyntaxError(501, "a transfer coding other than chunked");
  }
  throw new HttpSyntaxError(400, "Transfer-Encoding must be chunked, once and alone");
}

/** Reads 1*DIGIT, or with `asList` several that agree, as a number of octets. */
function readLength(fields: Fields, index: number, asList: boolean): number {
  const bytes = fields.bytes;
  const end = fields.valueEnd(index);
  let i = fields.valueStart(index);
  let length = -1;
  while (true) {
    const digitsFrom = i;
    let value = 0;
    for (; i < end; i++) {
      const digit = bytes[i]! - 0x30;
      if (digit < 0 || digit > 9) break;
      value = value * 10 + digit;
      if (value > Number.MAX_SAFE_INTEGER) {
        throw new HttpSyntaxError(400, "Content-Length is too large");
      }
    }
    if (i === digitsFrom) throw new HttpSyntaxError(400, "Content-Length is not a number");
    if (length >= 0 && value !== length) throw differingLengths();
    length = value;
    if (i === end) return length;
    while (asList && isBlank(bytes[i])) i++;
    if (!asList || bytes[i] !== COMMA) {
      throw new HttpSyntaxError(400, "Content-Length is not a number");
    }
    i++;
    while (isBlank(bytes[i])) i++;
  }
}

function differingLengths(): HttpSyntaxError {
  return new HttpSyntaxError(400, "Content-Length values that differ");
}

function contentInConnect(): HttpSyntaxError {
  return new HttpSyntaxError(400, "a CONNECT request that declares a body");
}

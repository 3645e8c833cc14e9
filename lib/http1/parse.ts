/**
 * Reads heads and field lines, as strictly as RFC 9112 lets a recipient be.
 * @module
 */

import { HttpSyntaxError } from "./error.ts";
import { FieldId, fieldId, isBlank } from "./field.ts";
import { type FieldLines, Fields, NUMBERS_PER_FIELD } from "./fields.ts";
import { RequestHead, ResponseHead } from "./head.ts";
import { COLON, CR, HEX, HOST, LF, NAME, SP, VALUE } from "./octets.ts";
import { MAX_LEADING_EMPTY_LINES } from "./scan.ts";

export { HttpSyntaxError };

/**
 * Reads the request head in `bytes[start, end)`, where `end` is what `HeadScanner` returned. The head is
 * a view of `bytes`.
 * @throws {HttpSyntaxError} 400: malformed; 501: a transfer coding other than chunked; 505: not HTTP/1
 */
export function parseRequestHead(bytes: Uint8Array, start: number, end: number): RequestHead {
  requireEmptyLine(bytes, start, end);
  // Every loop below ends at the head's last CRLF at the latest: no class of octets has a CR.
  const firstLineUntil = Math.min(start + 2 * MAX_LEADING_EMPTY_LINES, end - 2);
  while (start < firstLineUntil && bytes[start] === CR && bytes[start + 1] === LF) start += 2;
  let i = start;
  while (NAME[bytes[i]!]! > 0) i++;
  const methodEnd = i;
  if (i === start || bytes[i] !== SP) {
    throw new HttpSyntaxError(400, "no method in the request line");
  }
  const targetStart = ++i;
  while (bytes[i]! > SP && bytes[i]! < 0x7f) i++;
  if (i === targetStart || bytes[i] !== SP) {
    throw new HttpSyntaxError(400, "malformed request-target or request line");
  }
  const line = { start, methodEnd, targetStart, targetEnd: i, minor: readVersion(bytes, i + 1) };
  if (bytes[i + 9] !== CR || bytes[i + 10] !== LF) {
    throw new HttpSyntaxError(400, "malformed request line");
  }
  const head = new RequestHead(bytes, line, readFieldLines(bytes, i + 11, end - 2));
  checkHost(head);
  return head;
}

/**
 * Reads the response head in `bytes[start, end)`, where `end` is what `HeadScanner` returned. The head
 * is a view of `bytes`; `reason` is decoded only when asked for.
 * @param requestMethod of the request that is answered: HEAD and CONNECT change the framing
 * @throws {HttpSyntaxError} whatever the status, a client takes it as 502
 */
export function parseResponseHead(
  bytes: Uint8Array,
  start: number,
  end: number,
  requestMethod: string,
): ResponseHead {
  requireEmptyLine(bytes, start, end);
  const minor = readVersion(bytes, start);
  let i = start + 8;
  if (bytes[i++] !== SP) throw new HttpSyntaxError(400, "malformed status line");
  let status = 0;
  for (const digitsEnd = i + 3; i < digitsEnd; i++) {
    const digit = bytes[i]! - 0x30;
    if (!(digit >= 0 && digit <= 9)) throw new HttpSyntaxError(400, "malformed status code");
    status = status * 10 + digit;
  }
  if (status < 100) throw new HttpSyntaxError(400, "status code below 100");
  // RFC 9112 §4 wants the SP even before an empty reason; many servers leave it out.
  if (bytes[i] === SP) i++;
  else if (bytes[i] !== CR) throw new HttpSyntaxError(400, "malformed status code");
  const reasonStart = i;
  while (VALUE[bytes[i]!]! > 0) i++;
  if (bytes[i] !== CR || bytes[i + 1] !== LF) {
    throw new HttpSyntaxError(400, "control octet in the reason phrase");
  }
  const line = { start, minor, status, reasonStart, reasonEnd: i };
  return new ResponseHead(bytes, line, readFieldLines(bytes, i + 2, end - 2), requestMethod);
}

/**
 * Reads field lines, each with its CRLF, without an empty line behind them: the trailers of a message or
 * the lines in a peer's frame. No lines at all are fine.
 * @throws {HttpSyntaxError} 400
 */
export function parseFieldBlock(bytes: Uint8Array, start: number, end: number): Fields {
  if (start !== end && !endsLine(bytes, start, end)) {
    throw new HttpSyntaxError(400, "a field line without its CRLF");
  }
  return new Fields(bytes, start, readFieldLines(bytes, start, end));
}

function requireEmptyLine(bytes: Uint8Array, start: number, end: number): void {
  if (!endsLine(bytes, start, end) || !endsLine(bytes, start, end - 2)) {
    throw new HttpSyntaxError(400, "a head without an empty line behind it");
  }
}

function endsLine(bytes: Uint8Array, start: number, end: number): boolean {
  return end - start >= 2 && end <= bytes.length &&
    bytes[end - 2] === CR && bytes[end - 1] === LF;
}

// One for all: reading is synchronous, and what was read is copied at the end.
const scratch: number[] = [];

/** Reads lines up to `end`, where `bytes[end - 2, end)` must be CRLF unless there are none. */
function readFieldLines(bytes: Uint8Array, start: number, end: number): FieldLines {
  let ids = 0;
  let used = 0;
  let i = start;
  while (i < end) {
    const lineStart = i;
    while (NAME[bytes[i]!]! > 0) i++;
    const nameEnd = i;
    if (bytes[i] !== COLON || i === lineStart) throw nameError(bytes, lineStart, i);
    i++;
    while (isBlank(bytes[i])) i++;
    const valueStart = i;
    while (VALUE[bytes[i]!]! > 0) i++;
    if (bytes[i] !== CR || bytes[i + 1] !== LF) {
      throw new HttpSyntaxError(400, "control octet in a field value");
    }
    let valueEnd = i;
    while (valueEnd > valueStart && isBlank(bytes[valueEnd - 1])) valueEnd--;
    const id = fieldId(bytes, lineStart, nameEnd);
    ids |= 1 << id;
    scratch[used] = lineStart;
    scratch[used + 1] = nameEnd;
    scratch[used + 2] = valueStart;
    scratch[used + 3] = valueEnd;
    scratch[used + 4] = id;
    used += NUMBERS_PER_FIELD;
    i += 2;
  }
  scratch[used] = i;
  return { offsets: scratch.slice(0, used + 1), ids };
}

function nameError(bytes: Uint8Array, lineStart: number, at: number): HttpSyntaxError {
  const octet = bytes[at];
  if (isBlank(octet)) {
    return new HttpSyntaxError(
      400,
      at === lineStart ? "a folded field line" : "a blank in or behind a field name",
    );
  }
  if (octet === COLON) return new HttpSyntaxError(400, "a field line without a name");
  if (octet === CR || octet === LF) return new HttpSyntaxError(400, "a field line without a colon");
  return new HttpSyntaxError(400, "an octet that no field name may hold");
}

const VERSION_START = [0x48, 0x54, 0x54, 0x50, 0x2f]; // HTTP/

/** Reads the eight octets of HTTP-version (RFC 9112 §2.3). */
function readVersion(bytes: Uint8Array, at: number): 0 | 1 {
  for (let k = 0; k < 5; k++) {
    if (bytes[at + k] !== VERSION_START[k]) throw new HttpSyntaxError(400, "no HTTP version");
  }
  const major = bytes[at + 5]! - 0x30;
  const minor = bytes[at + 7]! - 0x30;
  if (!(major >= 0 && major <= 9 && bytes[at + 6] === 0x2e && minor >= 0 && minor <= 9)) {
    throw new HttpSyntaxError(400, "malformed HTTP version");
  }
  if (major !== 1) throw new HttpSyntaxError(505, "not HTTP/1");
  return minor === 0 ? 0 : 1;
}

/** RFC 9112 §3.2: one valid Host; none only in HTTP/1.0. */
function checkHost(head: RequestHead): void {
  const at = head.indexOf(FieldId.Host);
  if (at < 0) {
    if (head.minor === 1) throw new HttpSyntaxError(400, "no Host");
    return;
  }
  if (head.indexOf(FieldId.Host, at + 1) >= 0) throw new HttpSyntaxError(400, "more than one Host");
  if (!isHost(head.bytes, head.valueStart(at), head.valueEnd(at))) {
    throw new HttpSyntaxError(400, "malformed Host");
  }
}

/** uri-host [ ":" port ] (RFC 3986 §3.2.2, §3.2.3); may be empty. */
function isHost(bytes: Uint8Array, start: number, end: number): boolean {
  let i = start;
  if (bytes[i] === 0x5b && i < end) { // "[": the address itself is judged by who dials it
    for (i++; i < end && bytes[i] !== 0x5d; i++) {
      if (HOST[bytes[i]!] === 0 && bytes[i] !== COLON) return false;
    }
    if (i === end || i === start + 1) return false;
    i++;
  } else {
    for (; i < end; i++) {
      if (HOST[bytes[i]!] !== 0) continue;
      if (bytes[i] !== 0x25) break;
      if (i + 2 >= end || HEX[bytes[i + 1]!] === 255 || HEX[bytes[i + 2]!] === 255) return false;
      i += 2;
    }
  }
  if (i === end) return true;
  if (bytes[i++] !== COLON) return false;
  for (; i < end; i++) {
    if (bytes[i]! < 0x30 || bytes[i]! > 0x39) return false;
  }
  return true;
}

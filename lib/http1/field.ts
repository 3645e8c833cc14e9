/**
 * Field names with a meaning for an intermediary, and what may stand in a name, value or target.
 * @module
 */

import { HTAB, NAME, SP, VALUE } from "./octets.ts";

/** Numbers of the names that natsway acts on; every other name is `Other`. All are below 31. */
export const FieldId = {
  Other: 0,
  Connection: 1,
  KeepAlive: 2,
  ProxyConnection: 3,
  ProxyAuthenticate: 4,
  ProxyAuthorization: 5,
  Te: 6,
  Trailer: 7,
  TransferEncoding: 8,
  Upgrade: 9,
  ContentLength: 10,
  Host: 11,
  Expect: 12,
  Via: 13,
  Date: 14,
  MaxForwards: 15,
  XForwardedFor: 16,
  XForwardedProto: 17,
  XForwardedHost: 18,
  Forwarded: 19,
  Http2Settings: 20,
  Cookie: 21,
  SetCookie: 22,
  ContentType: 23,
  Authorization: 24,
  TraceParent: 25,
  TraceState: 26,
  ContentEncoding: 27,
} as const;

/** Lower-case names by number; the entry of `Other` is empty. */
export const FIELD_NAMES: readonly string[] = [
  "",
  "connection",
  "keep-alive",
  "proxy-connection",
  "proxy-authenticate",
  "proxy-authorization",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
  "content-length",
  "host",
  "expect",
  "via",
  "date",
  "max-forwards",
  "x-forwarded-for",
  "x-forwarded-proto",
  "x-forwarded-host",
  "forwarded",
  "http2-settings",
  "cookie",
  "set-cookie",
  "content-type",
  "authorization",
  "traceparent",
  "tracestate",
  "content-encoding",
];

/**
 * Where a name stands in `SLOTS`. The factors give each name above a slot of its own; a new name may
 * need other factors, and the test that looks up all names tells.
 */
function slotOf(length: number, first: number, last: number): number {
  return (length * 2 + first * 5 + last * 7) & 63;
}

const SLOTS = new Uint8Array(64);
for (let id = 1; id < FIELD_NAMES.length; id++) {
  const name = FIELD_NAMES[id]!;
  SLOTS[slotOf(name.length, name.charCodeAt(0), name.charCodeAt(name.length - 1))] = id;
}

/** The number of the name in `bytes[start, end)`, in any case; allocates nothing. */
export function fieldId(bytes: Uint8Array, start: number, end: number): number {
  const length = end - start;
  if (length < 2) return FieldId.Other;
  const id = SLOTS[slotOf(length, NAME[bytes[start]!]!, NAME[bytes[end - 1]!]!)]!;
  return id !== 0 && equalsName(bytes, start, end, FIELD_NAMES[id]!) ? id : FieldId.Other;
}

/** As {@linkcode fieldId}, for a name that comes as text. */
export function fieldIdOf(name: string): number {
  const length = name.length;
  if (length < 2) return FieldId.Other;
  const first = NAME[name.charCodeAt(0)] ?? 0;
  const last = NAME[name.charCodeAt(length - 1)] ?? 0;
  const id = SLOTS[slotOf(length, first, last)]!;
  const known = FIELD_NAMES[id]!;
  if (id === 0 || known.length !== length) return FieldId.Other;
  for (let i = 0; i < length; i++) {
    if (NAME[name.charCodeAt(i)] !== known.charCodeAt(i)) return FieldId.Other;
  }
  return id;
}

/** Tells whether `bytes[start, end)` is `lowerName`, whatever its case. */
export function equalsName(
  bytes: Uint8Array,
  start: number,
  end: number,
  lowerName: string,
): boolean {
  if (end - start !== lowerName.length) return false;
  for (let i = start, k = 0; i < end; i++, k++) {
    if (NAME[bytes[i]!] !== lowerName.charCodeAt(k)) return false;
  }
  return true;
}

const HOP_BY_HOP = new Uint8Array(256);
for (let id: number = FieldId.Connection; id <= FieldId.Upgrade; id++) HOP_BY_HOP[id] = 1;
HOP_BY_HOP[FieldId.Http2Settings] = 1;

/** Fields of one connection, never forwarded (RFC 9110 §7.6.1, §11.7; RFC 9113 §3.1). */
export function isHopByHop(id: number): boolean {
  return HOP_BY_HOP[id] === 1;
}

/** Tells whether `text` is a token (RFC 9110 §5.6.2): a method or a field name. */
export function isToken(text: string): boolean {
  for (let i = 0; i < text.length; i++) {
    if (!NAME[text.charCodeAt(i)]) return false;
  }
  return text.length > 0;
}

/**
 * Tells whether `text`, one code point per octet, can be sent as a field value (RFC 9110 §5.5): no
 * control but HTAB, no blank at either end. The empty value is one.
 */
export function isFieldValue(text: string): boolean {
  const length = text.length;
  for (let i = 0; i < length; i++) {
    if (!VALUE[text.charCodeAt(i)]) return false;
  }
  return length === 0 ||
    (!isBlank(text.charCodeAt(0)) && !isBlank(text.charCodeAt(length - 1)));
}

/** Tells whether `text` can stand as request-target: not empty, octets 0x21 to 0x7E only. */
export function isRequestTarget(text: string): boolean {
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code <= 0x20 || code >= 0x7f) return false;
  }
  return text.length > 0;
}

/** SP or HTAB. */
export function isBlank(octet: number | undefined): boolean {
  return octet === SP || octet === HTAB;
}

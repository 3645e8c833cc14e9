/**
 * The request envelope on subject 1 (wire-protocol.md section 4), what natsway adds to it
 * (extensions.md sections 1 and 2), and the answers that section 9 names for bad ones.
 * @module
 */
import { decodeBase64, encodeBase64 } from "./base64.ts";
import { type Cancel, readCancel } from "./cancel.ts";
import {
  isObject,
  isText,
  jsonBytes,
  type JsonObject,
  jsonText,
  parseText,
  sharedUtf8,
  utf8OrNull,
} from "./json.ts";
import { natsHeader } from "./nats_headers.ts";
import { type PeerInfo, peerInfoJson, readPeerInfo } from "./peer.ts";

/** Name and value of one field, one code point U+0000..U+00FF per octet. */
export type FieldPair = readonly [name: string, value: string];

export const Operation = {
  /** What a Ruby receiver can carry: its eight methods, a UTF-8 body. */
  Http: "http_request",
  /** Every other HTTP request. */
  NatswayHttp: "natsway_http",
  Tcp: "tcp_stream",
} as const;

/** Methods that a Ruby receiver knows. */
const CONTRACT_METHODS = new Set([
  "GET",
  "POST",
  "PUT",
  "DELETE",
  "HEAD",
  "PATCH",
  "OPTIONS",
  "TRACE",
]);

/** A body as it goes into an envelope. */
export type RequestBody =
  | { readonly kind: "none" }
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "bytes"; readonly bytes: Uint8Array };

/** An HTTP request to encode. */
export interface HttpRequest {
  readonly requestId: string;
  readonly replyTo: string;
  readonly method: string;
  /** Request target, byte for byte. */
  readonly path: string;
  /** Lower-case names, repeated fields joined: the form of Ruby peers. */
  readonly headers: JsonObject;
  /** All end-to-end fields in their order and case, with `Host` and `Content-Length` where they stood. */
  readonly head: readonly FieldPair[];
  readonly body: RequestBody;
  readonly peer: PeerInfo;
}

/** The operation that can carry a request (extensions.md section 2). */
export function httpOperation(method: string, body: RequestBody): string {
  return CONTRACT_METHODS.has(method) && body.kind !== "bytes"
    ? Operation.Http
    : Operation.NatswayHttp;
}

/**
 * Encodes a request; the members stand in the order that nats-proxy uses. The result is good until the
 * next call (see `sharedUtf8`).
 */
export function encodeHttpRequest(request: HttpRequest): Uint8Array {
  const { body, method, path, headers, head } = request;
  const payload = body.kind === "bytes"
    ? {
      method,
      path,
      headers,
      body: null,
      body_encoding: "base64",
      body_base64: encodeBase64(body.bytes),
      head,
    }
    : { method, path, headers, body: body.kind === "text" ? body.text : null, head };
  return sharedUtf8(
    `{"type":"request","request_id":${JSON.stringify(request.requestId)},` +
      `"reply_to":${JSON.stringify(request.replyTo)},` +
      `"operation":"${httpOperation(method, body)}",` +
      `"payload":${JSON.stringify(payload)},"natsway":${peerText(request.peer)}}`,
  );
}

let peerOfText: PeerInfo | null = null;
let textOfPeer = "";

/** The JSON of a peer; that of the last one is kept, since a process has one for all its requests. */
function peerText(peer: PeerInfo): string {
  if (peer !== peerOfText) {
    textOfPeer = JSON.stringify(peerInfoJson(peer));
    peerOfText = peer;
  }
  return textOfPeer;
}

/** What a message on the request plane is. */
export type Envelope =
  | {
    readonly kind: "request";
    readonly requestId: string;
    /** As the peer gave it: to be checked with `resolveReply`. */
    readonly replyTo: string;
    readonly operation: string;
    readonly payload: unknown;
    /** Null for a Ruby peer. */
    readonly peer: PeerInfo | null;
  }
  | { readonly kind: "cancel"; readonly cancel: Cancel }
  /** To be answered with a 400 where there is a reply subject. */
  | {
    readonly kind: "invalid";
    readonly text: string;
    readonly requestId: string | null;
    readonly replyTo: string | null;
    /** Use the reply subject as it came: not an object, so no envelope of any peer. */
    readonly replyAsIs: boolean;
  }
  /** Nothing can be answered; `text` is for the log. `done`: nothing was asked for either. */
  | { readonly kind: "drop"; readonly text: string; readonly done?: true };

/** Reads one message of the request plane; checks in the order of wire-protocol.md section 9. */
export function decodeEnvelope(
  data: Uint8Array,
  reply: string,
  natsHeaders: Uint8Array | null,
): Envelope {
  const { value, peer } = parseEnvelope(data);
  if (value === undefined) return { kind: "drop", text: "not JSON" };
  const messageReply = reply !== "" && !reply.startsWith("$JS.ACK.") ? reply : null;
  const headerReply = natsHeaders === null ? null : replyHeader(natsHeaders);
  if (!isObject(value)) {
    return {
      kind: "invalid",
      text: "Invalid request envelope",
      requestId: null,
      replyTo: headerReply ?? messageReply,
      replyAsIs: true,
    };
  }
  const type = value.type ?? "";
  const requestId = isText(value.request_id) ? value.request_id : null;
  const replyTo = headerReply ?? text(value.reply_to) ?? text(value["reply-to"]) ?? messageReply;
  const invalid = (message: string): Envelope => ({
    kind: "invalid",
    text: message,
    requestId,
    replyTo,
    replyAsIs: false,
  });
  if (type === "cancel") {
    const cancel = readCancel(value);
    return cancel === null
      ? { kind: "drop", text: "cancel without a cancel object or request id", done: true }
      : { kind: "cancel", cancel };
  }
  if (type !== "" && type !== "request") return invalid("Invalid request envelope type");
  if (requestId === null) return invalid("Missing request_id");
  if (replyTo === null) return { kind: "drop", text: "no reply_to" };
  if (!isText(value.operation)) return invalid("Missing operation");
  if (value.payload === undefined || value.payload === null) return invalid("Missing payload");
  return {
    kind: "request",
    requestId,
    replyTo,
    operation: value.operation,
    payload: value.payload,
    peer: peer ?? readPeerInfo(value.natsway),
  };
}

const PEER_MEMBER = ',"natsway":';
/** Ends of envelopes from `PEER_MEMBER` on, which are the same for all requests of a process. */
const knownTails = new Map<string, PeerInfo>();
const MAX_TAILS = 64;
const MAX_TAIL_CHARS = 1024;

/**
 * Parses an envelope; one with an end that is known without its `natsway` member. No string of JSON can
 * hold `PEER_MEMBER`, for its quotes would be escaped, and what follows it up to the last brace is a
 * whole object: so it is a member of the envelope itself.
 */
function parseEnvelope(data: Uint8Array): { value: unknown; peer: PeerInfo | null } {
  const text = jsonText(data);
  if (text === null) return { value: undefined, peer: null };
  const cut = text.lastIndexOf(PEER_MEMBER);
  if (cut < 0 || text.length - cut > MAX_TAIL_CHARS) return { value: parseText(text), peer: null };
  const tail = text.slice(cut);
  const known = knownTails.get(tail);
  if (known !== undefined) return { value: parseText(text.slice(0, cut) + "}"), peer: known };
  const value = parseText(text);
  if (isObject(value)) {
    const peer = readPeerInfo(value.natsway);
    // Only what stands at the end of the envelope itself, just as natsway writes it.
    if (peer !== null && tail === `${PEER_MEMBER}${JSON.stringify(value.natsway)}}`) {
      if (knownTails.size >= MAX_TAILS) knownTails.clear();
      knownTails.set(tail, peer);
    }
  }
  return { value, peer: null };
}

function text(value: unknown): string | null {
  return isText(value) ? value : null;
}

function replyHeader(block: Uint8Array): string | null {
  return text(natsHeader(block, "Reply-To", { ignoreCase: true })) ??
    text(natsHeader(block, "Reply_To", { ignoreCase: true }));
}

/** The payload of an HTTP operation. */
export interface HttpPayload {
  readonly method: string;
  readonly path: string;
  /** Fields in the order they shall be sent; from `head` when the peer gave one. */
  readonly fields: readonly FieldPair[];
  /** Whether `fields` came from `head`: order, case, `Host` and `Content-Length` are the client's. */
  readonly ordered: boolean;
  /** Null when the request has no body at all; empty when it said `Content-Length: 0`. */
  readonly body: Uint8Array | null;
}

/**
 * Reads the payload of `http_request` and `natsway_http`, in all forms of wire-protocol.md section 4.
 * @returns the text of a 400 when it cannot be used
 */
export function readHttpPayload(payload: unknown): HttpPayload | string {
  const missing = "Missing method or path";
  if (typeof payload === "string") return missing;
  if (!isObject(payload)) return "Invalid payload";
  if (!isText(payload.method) || !isText(payload.path)) return missing;
  const body = readBody(payload);
  if (typeof body === "string") return body;
  const ordered = readHead(payload.head);
  const fields = ordered ?? readHeaders(payload.headers);
  if (fields === null) return "Invalid headers";
  if (body.json && !fields.some(([name]) => name.toLowerCase() === "content-type")) {
    (fields as FieldPair[]).push(["content-type", "application/json"]);
  }
  const upper = payload.method.toUpperCase();
  return {
    // A Ruby receiver takes its eight methods in any case; a natsway peer gives what the client sent.
    method: ordered === null && CONTRACT_METHODS.has(upper) ? upper : payload.method,
    path: payload.path,
    fields,
    ordered: ordered !== null,
    body: body.bytes,
  };
}

const encoder = new TextEncoder();

function readBody(payload: JsonObject): { bytes: Uint8Array | null; json: boolean } | string {
  if (payload.body_encoding === "base64") {
    const bytes = typeof payload.body_base64 === "string"
      ? decodeBase64(payload.body_base64)
      : null;
    return bytes === null ? "Invalid body_base64" : { bytes, json: false };
  }
  const { body } = payload;
  if (body === undefined || body === null || body === false) return { bytes: null, json: false };
  if (typeof body === "string") return { bytes: encoder.encode(body), json: false };
  return { bytes: jsonBytes(body), json: true };
}

/** The ordered list, or null when there is none that can be used. */
function readHead(value: unknown): FieldPair[] | null {
  if (!Array.isArray(value)) return null;
  for (const pair of value) {
    if (!Array.isArray(pair) || typeof pair[0] !== "string" || typeof pair[1] !== "string") {
      return null;
    }
  }
  return value as FieldPair[];
}

function readHeaders(value: unknown): FieldPair[] | null {
  if (value === undefined || value === null) return [];
  if (!isObject(value)) return null;
  const pairs: FieldPair[] = [];
  for (const [name, content] of Object.entries(value)) {
    if (typeof content === "string") pairs.push([name, asOctets(content)]);
    else if (Array.isArray(content)) {
      const values = content.filter((item) => typeof item === "string");
      pairs.push([name, asOctets(values.join(", "))]);
    } else if (typeof content === "number") pairs.push([name, String(content)]);
  }
  return pairs;
}

/** The octets of a header text as a Ruby peer has it: UTF-8. One code point per octet. */
function asOctets(content: string): string {
  if (isAscii(content)) return content;
  let octets = "";
  for (const octet of encoder.encode(content)) octets += String.fromCharCode(octet);
  return octets;
}

/**
 * The header text for a Ruby peer, which writes strings as UTF-8: octets (one code point each) that
 * are UTF-8 become that text, others stay as they are.
 */
export function asHeaderText(octets: string): string {
  if (isAscii(octets)) return octets;
  const bytes = new Uint8Array(octets.length);
  for (let i = 0; i < octets.length; i++) bytes[i] = octets.charCodeAt(i);
  return utf8OrNull(bytes) ?? octets;
}

function isAscii(text: string): boolean {
  for (let i = 0; i < text.length; i++) if (text.charCodeAt(i) > 0x7f) return false;
  return true;
}

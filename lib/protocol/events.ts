/**
 * Response events as JSON (wire-protocol.md section 6): the form that every peer understands.
 * @module
 */
import { decodeBase64, encodeBase64 } from "./base64.ts";
import {
  base64Length,
  isObject,
  isText,
  jsonBytes,
  type JsonObject,
  jsonStringBytes,
  parseJson,
  utf8OrNull,
} from "./json.ts";
import { type PeerInfo, readPeerInfo } from "./peer.ts";

/** Values of a header in an event: a string, or one string for each line. */
export type EventHeaders = Readonly<Record<string, string | readonly string[]>>;

/** `response_start`, to be encoded. */
export interface ResponseStart {
  readonly status: number;
  readonly headers: EventHeaders;
  readonly contentType: string | null;
  readonly streaming: boolean;
  readonly receiverServiceId: string;
  /** Absent in error replies that are made before an operation starts. */
  readonly requestId?: string;
}

/** Encodes `response_start`; `flow_kind` follows from `streaming`. */
export function encodeResponseStart(start: ResponseStart, operation: string): Uint8Array {
  return jsonBytes({
    type: "response_start",
    status: start.status,
    headers: start.headers,
    content_type: start.contentType,
    streaming: start.streaming,
    receiver_service_id: start.receiverServiceId,
    ...(start.requestId === undefined ? {} : {
      request_id: start.requestId,
      flow_kind: start.streaming ? "http_stream" : operation,
    }),
  });
}

/** Encodes `response_chunk`: text when the octets are UTF-8, unless base64 is the shorter form. */
export function encodeResponseChunk(body: Uint8Array): Uint8Array {
  const text = utf8OrNull(body);
  if (text !== null && jsonStringBytes(text, body.length) <= 40 + base64Length(body.length)) {
    return jsonBytes({ type: "response_chunk", body: text });
  }
  return jsonBytes({
    type: "response_chunk",
    body_encoding: "base64",
    body_base64: encodeBase64(body),
  });
}

/** The bytes of `response_end`. */
export const RESPONSE_END: Uint8Array = jsonBytes({ type: "response_end" });

/** Encodes `response_error`. `code` is added for natsway peers. */
export function encodeResponseError(error: string, code?: string): Uint8Array {
  return jsonBytes({
    type: "response_error",
    error,
    ...(code === undefined ? {} : { natsway: { error: code } }),
  });
}

/** A decoded event. */
export type ResponseEvent =
  | {
    readonly type: "response_start";
    readonly status: number;
    readonly headers: EventHeaders;
    readonly streaming: boolean;
    readonly receiverServiceId: string;
    /** Null in a refusal that was made before an operation started. */
    readonly requestId: string | null;
    readonly peer: PeerInfo | null;
    readonly code: string | null;
  }
  | { readonly type: "response_chunk"; readonly body: Uint8Array }
  | { readonly type: "response_end" }
  | { readonly type: "response_error"; readonly error: string; readonly code: string | null }
  /** An event of another kind; `name` is for the message to the client. */
  | { readonly type: "other"; readonly name: string };

const encoder = new TextEncoder();

/** Reads one event; null for what is to be dropped: not a JSON object, or without `type`. */
export function decodeEvent(data: Uint8Array): ResponseEvent | null {
  const value = parseJson(data);
  if (!isObject(value) || typeof value.type !== "string") return null;
  switch (value.type) {
    case "response_start":
      return readStart(value);
    case "response_chunk": {
      const body = readChunkBody(value);
      // Part of the body is lost: what follows must not pass for all of it.
      if (body === null) return { type: "other", name: "response_chunk (bad base64)" };
      return { type: "response_chunk", body };
    }
    case "response_end":
      return { type: "response_end" };
    case "response_error":
      return {
        type: "response_error",
        error: typeof value.error === "string" ? value.error : "",
        code: codeOf(value),
      };
    default:
      return { type: "other", name: value.type.slice(0, 64) };
  }
}

function readStart(value: JsonObject): ResponseEvent {
  // Absent means 200 (wire-protocol.md section 6); anything else that is no status is no success.
  const status = value.status === undefined
    ? 200
    : typeof value.status === "number" && Number.isInteger(value.status)
    ? value.status
    : 502;
  return {
    type: "response_start",
    // An interim status is no answer: a client would wait for another one.
    status: status >= 200 && status <= 999 ? status : 502,
    headers: readEventHeaders(value.headers),
    streaming: value.streaming !== undefined && value.streaming !== null &&
      value.streaming !== false,
    receiverServiceId: isText(value.receiver_service_id) ? value.receiver_service_id : "",
    requestId: isText(value.request_id) ? value.request_id : null,
    peer: readPeerInfo(value.natsway),
    code: codeOf(value),
  };
}

function readEventHeaders(value: unknown): EventHeaders {
  if (!isObject(value)) return {};
  const headers: Record<string, string | string[]> = Object.create(null);
  for (const [name, content] of Object.entries(value)) {
    if (typeof content === "string") headers[name] = content;
    else if (typeof content === "number") headers[name] = String(content);
    else if (Array.isArray(content)) {
      headers[name] = content.filter((item) => typeof item === "string");
    }
  }
  return headers;
}

/** Null when the base64 is broken; an absent body counts as empty. */
function readChunkBody(value: JsonObject): Uint8Array | null {
  if (value.body_encoding === "base64") {
    const text = value.body_base64;
    return typeof text === "string" ? decodeBase64(text) : null;
  }
  return typeof value.body === "string" ? encoder.encode(value.body) : new Uint8Array(0);
}

function codeOf(value: JsonObject): string | null {
  return isObject(value.natsway) && isText(value.natsway.error) ? value.natsway.error : null;
}

/**
 * What both doubles of nats-proxy (Ruby) share: names, sizes, header and body rules, written from
 * wire-protocol.md alone. Nothing of lib/ is used, so a fault of the codecs cannot hide here.
 * @module
 */
import type { BareMessage } from "./bare_nats.ts";

/** The roots of a double, its service id and its way into nats-server. */
export interface RubyPlace {
  readonly port: number;
  readonly user?: string;
  readonly password?: string;
  /** @default {"to.proxy"} */
  readonly requestRoot?: string;
  /** @default {"from.proxy"} */
  readonly responseRoot?: string;
  readonly serviceId: string;
}

export type JsonRecord = Record<string, unknown>;

/** Sent by both to and fro: section 7. */
export interface CreditSizes {
  readonly chunk: number;
  readonly initial: number;
  readonly batch: number;
  readonly cap: number;
}

/** Sizes of section 7 for a server's `max_payload`. */
export function creditSizes(maxPayload: number): CreditSizes {
  const chunk = Math.min(Math.floor(maxPayload / 2), 32_768);
  return { chunk, initial: 32 * chunk, batch: 8 * chunk, cap: 4 * 32 * chunk };
}

/** Dropped from responses at both ends; the first eight of {@linkcode REQUEST_DROPPED}. */
export const RESPONSE_DROPPED: readonly string[] = [
  "connection",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authorization",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
];
export const REQUEST_DROPPED: readonly string[] = [...RESPONSE_DROPPED, "content-length", "host"];

/** The flow id: last token, whatever stands before it. */
export function lastToken(subject: string): string {
  return subject.slice(subject.lastIndexOf(".") + 1);
}

/** What a Ruby receiver does to a reply subject before it publishes events there. */
export function withoutFrom(subject: string): string {
  return subject.startsWith("from.") ? subject.slice("from.".length) : subject;
}

/** The parsed object, or null for anything that is none. */
export function parseObject(data: Uint8Array): JsonRecord | null {
  const value = parseOrUndefined(data);
  return typeof value === "object" && value !== null && !Array.isArray(value)
    ? value as JsonRecord
    : null;
}

/** The parsed value, or undefined when the bytes are no JSON. */
export function parseOrUndefined(data: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(data));
  } catch {
    return undefined;
  }
}

/** The text, or null when the octets are no UTF-8. */
export function utf8OrNull(bytes: Uint8Array): string | null {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return null;
  }
}

/** `response_chunk`: text where the octets are UTF-8, else base64. */
export function chunkEvent(bytes: Uint8Array): JsonRecord {
  const text = utf8OrNull(bytes);
  if (text !== null) return { type: "response_chunk", body: text };
  let binary = "";
  for (let at = 0; at < bytes.length; at += 8192) {
    binary += String.fromCharCode(...bytes.subarray(at, at + 8192));
  }
  return { type: "response_chunk", body_encoding: "base64", body_base64: btoa(binary) };
}

const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

/**
 * The octets of a `response_chunk`, decoded strictly.
 * @throws {Error} base64 that is none, as the Ruby decoder does
 */
export function chunkBytes(event: JsonRecord): Uint8Array<ArrayBuffer> {
  if (event["body_encoding"] !== "base64") {
    const body = event["body"];
    return new TextEncoder().encode(typeof body === "string" ? body : "");
  }
  const text = event["body_base64"];
  if (typeof text !== "string" || !BASE64.test(text)) throw new Error("invalid base64");
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

/** UTC as `YYYY-MM-DDThh:mm:ssZ`. */
export function timestamp(): string {
  return new Date().toISOString().replace(/\.\d+Z$/, "Z");
}

/** The cancel envelope of section 8. */
export function cancelEnvelope(id: string, serviceId: string, reason: string): JsonRecord {
  return {
    type: "cancel",
    request_id: id,
    cancel: { request_id: id, service_id: serviceId, reason, timestamp: timestamp() },
  };
}

/** Where the answers go, by the precedence of section 4; null when nothing says so. */
export function replySubject(message: BareMessage, envelope: JsonRecord | null): string | null {
  const header = (wanted: string) =>
    message.headers.find(([name]) => name.toLowerCase() === wanted)?.[1];
  const stored = message.reply.startsWith("$JS.ACK.") ? undefined : message.reply;
  const candidates = [
    header("reply-to"),
    header("reply_to"),
    envelope?.["reply_to"],
    envelope?.["reply-to"],
    stored,
  ];
  return candidates.find((one): one is string => typeof one === "string" && one !== "") ?? null;
}

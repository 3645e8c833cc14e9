/**
 * What the receiver double sends to an upstream, and what it takes over from its answer: the rules of
 * wire-protocol.md sections 4 to 6.
 * @module
 */
import type http from "node:http";
import { type JsonRecord, REQUEST_DROPPED, RESPONSE_DROPPED } from "./ruby_wire.ts";

/** What a Ruby receiver can send, in any case. */
export const METHODS: readonly string[] = [
  "get",
  "post",
  "put",
  "delete",
  "head",
  "patch",
  "options",
  "trace",
];

/** Headers and body as the Ruby receiver's HTTP library gets them. */
export function upstreamParts(
  payload: JsonRecord,
): { headers: Record<string, string>; body: Uint8Array | null } {
  const headers: Record<string, string> = {};
  for (const [name, value] of Object.entries((payload["headers"] ?? {}) as JsonRecord)) {
    const lower = name.toLowerCase();
    if (REQUEST_DROPPED.includes(lower)) continue;
    headers[lower] = Array.isArray(value) ? value.join(", ") : String(value);
  }
  const content = payload["body"];
  if (content === null || content === undefined || content === false) {
    return { headers, body: null };
  }
  if (typeof content !== "string") headers["content-type"] ??= "application/json";
  const text = typeof content === "string" ? content : JSON.stringify(content);
  const body = new TextEncoder().encode(text);
  headers["content-length"] = String(body.length);
  return { headers, body };
}

/** Lower-case names, the last of repeated ones, without the eight. */
export function responseHeaders(response: http.IncomingMessage): Record<string, string> {
  const headers: Record<string, string> = {};
  for (let i = 0; i + 1 < response.rawHeaders.length; i += 2) {
    const name = (response.rawHeaders[i] as string).toLowerCase();
    if (!RESPONSE_DROPPED.includes(name)) headers[name] = response.rawHeaders[i + 1] as string;
  }
  return headers;
}

/** The media type without parameters, lower-case, or null. */
export function mediaType(response: http.IncomingMessage): string | null {
  const value = response.headers["content-type"];
  return value === undefined ? null : (value.split(";")[0] as string).trim().toLowerCase();
}

/** Section 6.1: nothing but the beginning of the content type counts. */
export function isStream(response: http.IncomingMessage): boolean {
  const type = mediaType(response) ?? "";
  return type.startsWith("text/event-stream") || type.startsWith("application/x-ndjson");
}

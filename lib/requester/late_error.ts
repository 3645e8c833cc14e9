/**
 * What a client reads of a failure that comes after the head, in media types that are made of events
 * (wire-protocol.md section 11).
 * @module
 */
import type { FlowEnd } from "../flow/registry.ts";
import { FieldId } from "../http1/field.ts";
import type { Fields } from "../http1/fields.ts";

const encoder = new TextEncoder();
const NOTHING = new Uint8Array(0);

/**
 * The text for server-sent events and NDJSON; empty for every other type, where it would be data. It
 * starts on a line of its own: `midLine` says that the body was broken off within one.
 */
export function inBandError(contentType: string, message: string, midLine: boolean): Uint8Array {
  const type = contentType.split(";", 1)[0]!.trim().toLowerCase();
  const json = JSON.stringify({ error: message });
  const start = midLine ? "\n" : "";
  if (type.startsWith("text/event-stream")) {
    return encoder.encode(`${start}event: error\ndata: ${json}\n\n`);
  }
  if (type.startsWith("application/x-ndjson")) return encoder.encode(`${start}${json}\n`);
  return NOTHING;
}

/** The value of Content-Type; `""` for none, and for a coded body, which text cannot be added to. */
export function contentTypeOf(fields: Fields): string {
  if (fields.indexOf(FieldId.ContentEncoding) >= 0) return "";
  const at = fields.indexOf(FieldId.ContentType);
  return at < 0 ? "" : fields.value(at);
}

/** What a client is told where the code alone says too little. */
const MESSAGES: Partial<Record<FlowEnd, string>> = {
  peer_lost: "The receiver has not been heard of within PEER_TIMEOUT",
  gap: "Part of the response was lost on its way",
  nats_down: "The connection to NATS was lost for longer than PEER_TIMEOUT",
};

/** Why a response was broken off, for its client and the log. */
export function brokenOffText(end: FlowEnd): string {
  return MESSAGES[end] ?? `The response was broken off: ${end}`;
}

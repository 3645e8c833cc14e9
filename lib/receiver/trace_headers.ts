/**
 * The trace context that a request brings and its events carry on (wire-protocol.md section 5).
 * @module
 */
import { encodeNatsHeaders, natsHeader } from "../protocol/nats_headers.ts";

/** Longest trace header that is copied: W3C Trace Context asks for 512 at least. */
const MAX_TRACE_CHARS = 1024;

/** `traceparent` and `tracestate` of a request's NATS headers, for its events; null when it has none. */
export function traceHeaders(block: Uint8Array | null): Uint8Array | null {
  if (block === null) return null;
  const pairs: [string, string][] = [];
  for (const name of ["traceparent", "tracestate"]) {
    const value = natsHeader(block, name);
    // What does not fit beside every event, or would write lines of its own, is left out.
    if (value !== null && value.length <= MAX_TRACE_CHARS && !/[\r\n]/.test(value)) {
      pairs.push([name, value]);
    }
  }
  return pairs.length === 0 ? null : encodeNatsHeaders(pairs);
}

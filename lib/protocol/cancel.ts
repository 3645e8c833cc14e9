/**
 * The cancel envelope (wire-protocol.md section 8), with the epoch of extensions.md section 1.
 * @module
 */
import { isObject, isText, jsonBytes, type JsonObject, parseJson } from "./json.ts";

/** A decoded cancel. */
export interface Cancel {
  readonly requestId: string;
  readonly reason: string;
  /** Who sent it, or `""`. */
  readonly serviceId: string;
  /** Hex of the execution it is meant for; null ends every execution of the id. */
  readonly epoch: string | null;
}

/** Reason that an empty one stands for. */
export const DEFAULT_CANCEL_REASON = "downstream_disconnect";

/** Encodes a cancel. `now` is for the informational timestamp. */
export function encodeCancel(cancel: Cancel, now: Date): Uint8Array {
  return jsonBytes({
    type: "cancel",
    request_id: cancel.requestId,
    cancel: {
      request_id: cancel.requestId,
      service_id: cancel.serviceId,
      reason: cancel.reason,
      timestamp: wireTime(now),
      ...(cancel.epoch === null ? {} : { epoch: cancel.epoch }),
    },
  });
}

/** Reads a message of a cancel plane; null when it is no cancel. */
export function decodeCancel(data: Uint8Array): Cancel | null {
  const value = parseJson(data);
  return isObject(value) && value.type === "cancel" ? readCancel(value) : null;
}

/** Reads the members of a cancel envelope; either `request_id` will do. */
export function readCancel(value: JsonObject): Cancel | null {
  if (!isObject(value.cancel)) return null;
  const inner = value.cancel;
  const requestId = isText(inner.request_id) ? inner.request_id : value.request_id;
  if (!isText(requestId)) return null;
  // An epoch that is no text can be nobody's: such a cancel must not end other executions.
  if (inner.epoch !== undefined && inner.epoch !== null && !isText(inner.epoch)) return null;
  return {
    requestId,
    reason: isText(inner.reason) ? inner.reason : DEFAULT_CANCEL_REASON,
    serviceId: isText(inner.service_id) ? inner.service_id : "",
    epoch: isText(inner.epoch) ? inner.epoch : null,
  };
}

/** `YYYY-MM-DDThh:mm:ssZ`, as all informational timestamps of the contract. */
export function wireTime(now: Date): string {
  return `${now.toISOString().slice(0, 19)}Z`;
}

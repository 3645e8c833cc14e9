/**
 * Incremental credit of the contract (wire-protocol.md section 7).
 * @module
 */
import { wireTime } from "./cancel.ts";
import { isObject, isText, jsonBytes, parseJson } from "./json.ts";
import { encodeNatsHeaders } from "./nats_headers.ts";

export type CreditDirection = "response" | "upstream" | "downstream";

/** A grant of `bytes` more of body or stream. */
export interface Credit {
  readonly requestId: string;
  readonly direction: CreditDirection;
  readonly bytes: number;
  readonly serviceId: string;
}

/** Window sizes that follow from the own server's `max_payload`, in bytes. */
export interface CreditSizes {
  /** Largest piece of a body in one message. */
  readonly chunk: number;
  /** First grant. */
  readonly initial: number;
  /** What has been consumed is granted again once it reaches this. */
  readonly batch: number;
  /** What would exceed this is lost. */
  readonly cap: number;
}

/** chunk = min(max_payload / 2, 32768), initial = 32, batch = 8, cap = 128 chunks. */
export function creditSizes(maxPayload: number): CreditSizes {
  const chunk = Math.max(1, Math.min(Math.floor(maxPayload / 2), 32_768));
  return { chunk, initial: 32 * chunk, batch: 8 * chunk, cap: 128 * chunk };
}

const FRAME_TYPE: Record<CreditDirection, string> = {
  response: "response_credit",
  upstream: "session_credit_upstream",
  downstream: "session_credit_downstream",
};

/** The NATS header block that goes with a credit. */
export function creditHeaders(direction: CreditDirection, requestId: string): Uint8Array {
  return encodeNatsHeaders([
    ["Nats-Session-Id", requestId],
    ["Nats-Frame-Type", FRAME_TYPE[direction]],
  ]);
}

/** Encodes a grant; `now` is for the informational timestamp. */
export function encodeCredit(credit: Credit, now: Date): Uint8Array {
  return jsonBytes({
    type: "flow_credit",
    request_id: credit.requestId,
    direction: credit.direction,
    bytes: credit.bytes,
    service_id: credit.serviceId,
    timestamp: wireTime(now),
  });
}

/**
 * Reads a grant for the flow `requestId` in `direction`.
 * @returns the bytes granted, or null when it is not such a grant
 */
export function readCredit(
  data: Uint8Array,
  requestId: string,
  direction: CreditDirection,
): number | null {
  const value = parseJson(data);
  if (!isObject(value) || value.type !== "flow_credit") return null;
  if (value.request_id !== requestId || value.direction !== direction) return null;
  const bytes = isText(value.bytes) && /^\d{1,15}$/.test(value.bytes)
    ? Number(value.bytes)
    : value.bytes;
  return typeof bytes === "number" && Number.isSafeInteger(bytes) && bytes > 0 ? bytes : null;
}

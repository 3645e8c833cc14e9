/**
 * What opens and ends a session over TCP (wire-protocol.md sections 4, 6 and 10): the payload of
 * `tcp_stream`, `session_established`, `session_close`.
 * @module
 */
import { fromHex, hex } from "./hex.ts";
import { EPOCH_BYTES } from "./frames.ts";
import { isObject, isText, jsonBytes, parseJson, sharedUtf8 } from "./json.ts";
import { encodeNatsHeaders } from "./nats_headers.ts";
import { Operation } from "./envelope.ts";
import { type PeerInfo, peerInfoJson, readPeerInfo } from "./peer.ts";

/** A session to open, to be encoded. */
export interface SessionRequest {
  readonly requestId: string;
  readonly replyTo: string;
  /** Name, or IP address without brackets. */
  readonly host: string;
  readonly port: number;
  /** `http_connect`, `socks5`, …; echoed by the receiver. */
  readonly ingressKind: string;
  /** `CONNECT` or `SOCKS5_CONNECT`; informational. */
  readonly method: string;
  readonly requesterServiceId: string;
  readonly peer: PeerInfo;
}

/** Encodes the envelope of a `tcp_stream`. Good until the next call (see `sharedUtf8`). */
export function encodeSessionRequest(request: SessionRequest): Uint8Array {
  return sharedUtf8(JSON.stringify({
    type: "request",
    request_id: request.requestId,
    reply_to: request.replyTo,
    operation: Operation.Tcp,
    payload: {
      host: request.host,
      port: request.port,
      ingress_kind: request.ingressKind,
      method: request.method,
      requester_service_id: request.requesterServiceId,
    },
    natsway: peerInfoJson(request.peer),
  }));
}

/** The payload of `tcp_stream`. */
export interface SessionPayload {
  readonly host: string;
  readonly port: number;
  /** `""` when it was not given. */
  readonly ingressKind: string;
  readonly requesterServiceId: string;
}

/**
 * Reads the payload of `tcp_stream`.
 * @returns the text of a 400 when it cannot be used (wire-protocol.md section 9)
 */
export function readSessionPayload(payload: unknown): SessionPayload | string {
  const value = isObject(payload) ? payload : {};
  const port = isText(value.port) && /^\d{1,5}$/.test(value.port) ? Number(value.port) : value.port;
  const usable = typeof port === "number" && Number.isInteger(port) && port > 0 && port <= 65535;
  if (!isText(value.host) || !usable) return "Missing or invalid host/port for tcp_stream";
  if (!isText(value.requester_service_id)) return "Missing requester_service_id for tcp_stream";
  return {
    host: value.host,
    port,
    ingressKind: isText(value.ingress_kind) ? value.ingress_kind : "",
    requesterServiceId: value.requester_service_id,
  };
}

/** `session_established`, to be encoded. */
export interface SessionEstablished {
  readonly sessionId: string;
  /** Local IP address of the connection to the target, or null. */
  readonly bindHost: string | null;
  readonly bindPort: number;
  /** As the request gave it; `""` for none. */
  readonly ingressKind: string;
  readonly receiverServiceId: string;
  /** For natsway requesters, else null. `window` of the peer is the first limit of the up lane. */
  readonly natsway: { readonly peer: PeerInfo; readonly epoch: Uint8Array } | null;
}

/** Encodes `session_established`. */
export function encodeSessionEstablished(event: SessionEstablished): Uint8Array {
  const { natsway, bindHost, ingressKind } = event;
  return jsonBytes({
    type: "session_established",
    session_id: event.sessionId,
    ...(bindHost === null ? {} : { bind_host: bindHost, bind_port: event.bindPort }),
    ...(ingressKind === "" ? {} : { ingress_kind: ingressKind }),
    receiver_service_id: event.receiverServiceId,
    flow_kind: ingressKind === "socks5" ? "socks5_stream" : Operation.Tcp,
    ...(natsway === null
      ? {}
      : { natsway: { ...peerInfoJson(natsway.peer), epoch: hex(natsway.epoch) } }),
  });
}

/** The bytes of `session_close`: an event on the reply subject, or the payload of a close frame. */
export function encodeSessionClose(reason: string): Uint8Array {
  return jsonBytes({ type: "session_close", reason });
}

/** An event on the reply subject of a session. */
export type SessionEvent =
  | ({ readonly type: "session_established" } & SessionEstablished)
  | { readonly type: "session_close"; readonly reason: string };

/** Reads an event that only sessions have; null for every other one. */
export function decodeSessionEvent(data: Uint8Array): SessionEvent | null {
  const value = parseJson(data);
  if (!isObject(value)) return null;
  if (value.type === "session_close") {
    return { type: "session_close", reason: isText(value.reason) ? value.reason : "" };
  }
  if (value.type !== "session_established") return null;
  const peer = readPeerInfo(value.natsway);
  const epoch = isObject(value.natsway) && isText(value.natsway.epoch)
    ? fromHex(value.natsway.epoch)
    : null;
  const port = value.bind_port;
  return {
    type: "session_established",
    sessionId: isText(value.session_id) ? value.session_id : "",
    bindHost: isText(value.bind_host) ? value.bind_host : null,
    bindPort: typeof port === "number" && Number.isInteger(port) && port > 0 && port <= 65535
      ? port
      : 0,
    ingressKind: isText(value.ingress_kind) ? value.ingress_kind : "",
    receiverServiceId: isText(value.receiver_service_id) ? value.receiver_service_id : "",
    natsway: peer !== null && epoch?.length === EPOCH_BYTES ? { peer, epoch } : null,
  };
}

/** What a contract frame of a session is (wire-protocol.md section 10). */
export const SessionFrame = {
  /** Client bytes, on subject 3. */
  Data: "session_data",
  /** Target bytes, on subject 4. */
  DataDownstream: "session_data_downstream",
  /** End by the requester, on subject 3. */
  Close: "session_close",
} as const;

/** The NATS header block of a contract frame. */
export function sessionHeaders(frame: string, sessionId: string): Uint8Array {
  return encodeNatsHeaders([["Nats-Session-Id", sessionId], ["Nats-Frame-Type", frame]]);
}

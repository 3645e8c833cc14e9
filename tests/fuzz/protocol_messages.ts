/**
 * Whole messages of peers that the fuzzers begin with.
 * @module
 */
import { encodeCancel } from "../../lib/protocol/cancel.ts";
import { encodeCredit } from "../../lib/protocol/credit.ts";
import { encodeHttpRequest } from "../../lib/protocol/envelope.ts";
import {
  encodeResponseChunk,
  encodeResponseError,
  encodeResponseStart,
  RESPONSE_END,
} from "../../lib/protocol/events.ts";
import { encodeResponseInfo } from "../../lib/protocol/response_info.ts";

const encoder = new TextEncoder();
const NOW = new Date(0);
/** What a peer says of itself. */
export const PEER = {
  instance: "i-1",
  features: ["raw"],
  maxMsg: 1048576,
  ttlMs: 30000,
  window: 65536,
};

/** The part of a head frame that holds JSON. */
export const RESPONSE_INFO = encodeResponseInfo({
  receiverServiceId: "w",
  peer: PEER,
  code: "gap",
});

/** Whole messages to begin with. */
export const MESSAGES: readonly Uint8Array[] = [
  encodeHttpRequest({
    requestId: "9c41",
    replyTo: "from.proxy.responses.edge-a.9c41",
    method: "POST",
    path: "/a?b=c",
    headers: { accept: "*/*", cookie: "a=1" },
    head: [["Host", "h"], ["Accept", "*/*"]],
    body: { kind: "bytes", bytes: new Uint8Array([0xff, 0, 1]) },
    peer: PEER,
  }),
  encoder.encode(
    '{"type":"request","request_id":"q","reply_to":"from.proxy.responses.a.q","operation":' +
      '"http_request","payload":{"method":"GET","path":"/","headers":{"a":["b","c"]},"body":{"x":1}}}',
  ),
  encodeCancel({ requestId: "q", reason: "r", serviceId: "s", epoch: "00ff" }, NOW),
  encodeCredit({ requestId: "q", direction: "response", bytes: 7, serviceId: "s" }, NOW),
  encodeResponseStart({
    status: 200,
    headers: { "content-type": "text/plain", "set-cookie": ["a", "b"] },
    contentType: "text/plain",
    streaming: true,
    receiverServiceId: "w",
    requestId: "q",
  }, "http_request"),
  encodeResponseChunk(encoder.encode("data: tick\n\n")),
  encodeResponseChunk(new Uint8Array([0xff, 0xd8, 0xff])),
  encodeResponseError("stream canceled", "gap"),
  RESPONSE_END,
  RESPONSE_INFO,
];

import assert from "node:assert/strict";
import { natsHeader } from "../../lib/protocol/nats_headers.ts";
import {
  decodeSessionEvent,
  encodeSessionClose,
  encodeSessionEstablished,
  encodeSessionRequest,
  readSessionPayload,
  SessionFrame,
  sessionHeaders,
} from "../../lib/protocol/session.ts";
import { octets } from "../helpers/bytes.ts";

const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
const json = (value: unknown) => new TextEncoder().encode(JSON.stringify(value));
const PEER = { instance: "i-1", features: ["raw"], maxMsg: 1_048_576, ttlMs: 30_000, window: 4096 };
const EPOCH = octets("\xa1\xa2\xa3\xa4\xa5\xa6\xa7\xa8");

Deno.test("The request of a session, octet for octet", () => {
  const bytes = encodeSessionRequest({
    requestId: "77de",
    replyTo: "from.proxy.responses.edge-a.77de",
    host: "2001:db8::1",
    port: 5432,
    ingressKind: "socks5",
    method: "SOCKS5_CONNECT",
    requesterServiceId: "edge-a",
    peer: PEER,
  });
  assert.equal(
    text(bytes),
    '{"type":"request","request_id":"77de","reply_to":"from.proxy.responses.edge-a.77de",' +
      '"operation":"tcp_stream","payload":{"host":"2001:db8::1","port":5432,' +
      '"ingress_kind":"socks5","method":"SOCKS5_CONNECT","requester_service_id":"edge-a"},' +
      '"natsway":{"v":1,"instance":"i-1","features":["raw"],"max_msg":1048576,"ttl_ms":30000,' +
      '"window":4096}}',
  );
});

Deno.test("session_established, octet for octet, for natsway and for nats-proxy", () => {
  const event = {
    sessionId: "77de",
    bindHost: "10.3.0.9",
    bindPort: 41_822,
    ingressKind: "http_connect",
    receiverServiceId: "worker-1",
    natsway: null,
  };
  const ruby = '{"type":"session_established","session_id":"77de","bind_host":"10.3.0.9",' +
    '"bind_port":41822,"ingress_kind":"http_connect","receiver_service_id":"worker-1",' +
    '"flow_kind":"tcp_stream"}';
  assert.equal(text(encodeSessionEstablished(event)), ruby);
  const natsway = { peer: { ...PEER, ttlMs: 0 }, epoch: EPOCH };
  assert.equal(
    text(encodeSessionEstablished({ ...event, natsway })),
    ruby.slice(0, -1) + ',"natsway":{"v":1,"instance":"i-1","features":["raw"],' +
      '"max_msg":1048576,"ttl_ms":0,"window":4096,"epoch":"a1a2a3a4a5a6a7a8"}}',
  );
  const least = { ...event, bindHost: null, bindPort: 0, ingressKind: "" };
  assert.equal(
    text(encodeSessionEstablished(least)),
    '{"type":"session_established","session_id":"77de","receiver_service_id":"worker-1",' +
      '"flow_kind":"tcp_stream"}',
  );
  const socks = encodeSessionEstablished({ ...event, ingressKind: "socks5" });
  assert.ok(text(socks).endsWith('"flow_kind":"socks5_stream"}'));
});

Deno.test("What was encoded is read again", () => {
  const event = {
    sessionId: "77de",
    bindHost: "::1",
    bindPort: 1,
    ingressKind: "stdio",
    receiverServiceId: "worker-1",
    natsway: { peer: { ...PEER, ttlMs: 0 }, epoch: EPOCH },
  };
  assert.deepEqual(decodeSessionEvent(encodeSessionEstablished(event)), {
    type: "session_established",
    ...event,
  });
  assert.equal(text(encodeSessionClose("target_closed")), CLOSE);
  assert.deepEqual(decodeSessionEvent(encodeSessionClose("target_closed")), {
    type: "session_close",
    reason: "target_closed",
  });
});

const CLOSE = '{"type":"session_close","reason":"target_closed"}';

Deno.test("A nats-proxy's event is read; members that cannot be used count as absent", () => {
  const least = {
    type: "session_established",
    sessionId: "",
    bindHost: null,
    bindPort: 0,
    ingressKind: "",
    receiverServiceId: "",
    natsway: null,
  };
  assert.deepEqual(decodeSessionEvent(json({ type: "session_established" })), least);
  const wrong = {
    type: "session_established",
    session_id: 7,
    bind_host: {},
    ingress_kind: [],
    receiver_service_id: null,
    natsway: "x",
  };
  assert.deepEqual(decodeSessionEvent(json(wrong)), least);
  for (const port of [0, -1, 65_536, 1.5, "80", null]) {
    const event = decodeSessionEvent(json({ type: "session_established", bind_port: port }));
    assert.deepEqual(event, least, String(port));
  }
  const close = decodeSessionEvent(json({ type: "session_close", reason: 7 }));
  assert.deepEqual(close, { type: "session_close", reason: "" });
});

Deno.test("Without a whole epoch an event is not natsway's: no lane can be bound to it", () => {
  const natsway = { v: 1, instance: "i-1", features: ["raw"], max_msg: 1, ttl_ms: 0, window: 1 };
  const read = (epoch: unknown) => {
    const event = decodeSessionEvent(json({
      type: "session_established",
      natsway: { ...natsway, epoch },
    }));
    return event?.type === "session_established" && event.natsway;
  };
  assert.deepEqual(read("A1a2a3a4a5a6a7a8") && "bound", "bound");
  for (
    const epoch of [undefined, "", "a1", "a1a2a3a4a5a6a7", "a1a2a3a4a5a6a7a8a9", "x".repeat(16), 7]
  ) {
    assert.equal(read(epoch), null, String(epoch));
  }
});

Deno.test("Every other event is none of a session's", () => {
  for (const other of ['{"type":"response_start"}', '{"type":7}', "{}", "[]", "null", "", "x"]) {
    assert.equal(decodeSessionEvent(octets(other)), null, other);
  }
});

Deno.test("A payload is read as the contract has it, or refused with its texts in their order", () => {
  const good = { host: "db.lan", port: 5432, requester_service_id: "edge-a" };
  assert.deepEqual(readSessionPayload({ ...good, ingress_kind: "socks5", method: "X", more: 1 }), {
    host: "db.lan",
    port: 5432,
    ingressKind: "socks5",
    requesterServiceId: "edge-a",
  });
  const numeric = readSessionPayload({ ...good, port: "0022" });
  assert.equal(typeof numeric === "object" && numeric.port, 22);
  const hostPort = "Missing or invalid host/port for tcp_stream";
  const rows: [unknown, string][] = [
    [null, hostPort],
    [[], hostPort],
    ["x", hostPort],
    [{}, hostPort],
    [{ ...good, host: "" }, hostPort],
    [{ ...good, port: 0 }, hostPort],
    [{ ...good, port: "1e3" }, hostPort],
    [{ ...good, port: " 22" }, hostPort],
    [{ ...good, port: "123456" }, hostPort],
    [{ ...good, port: NaN }, hostPort],
    [{ ...good, port: true }, hostPort],
    [{ ...good, host: "", requester_service_id: "" }, hostPort],
    [{ ...good, requester_service_id: "" }, "Missing requester_service_id for tcp_stream"],
    [{ ...good, requester_service_id: {} }, "Missing requester_service_id for tcp_stream"],
  ];
  for (const [payload, expected] of rows) {
    assert.equal(readSessionPayload(payload), expected, JSON.stringify(payload));
  }
});

Deno.test("The headers of a contract frame, octet for octet", () => {
  const block = sessionHeaders(SessionFrame.DataDownstream, "77de");
  assert.equal(
    text(block),
    "NATS/1.0\r\nNats-Session-Id: 77de\r\nNats-Frame-Type: session_data_downstream\r\n\r\n",
  );
  assert.equal(natsHeader(block, "Nats-Frame-Type"), "session_data_downstream");
});

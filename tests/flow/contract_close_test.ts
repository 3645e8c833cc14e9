import assert from "node:assert/strict";
import { encodeNatsHeaders } from "../../lib/protocol/nats_headers.ts";
import {
  encodeSessionClose,
  encodeSessionEstablished,
  encodeSessionRequest,
} from "../../lib/protocol/session.ts";
import { latin1, octets } from "../helpers/bytes.ts";
import {
  contractRig,
  CREDIT_TIMEOUT_MS,
  DOWNSTREAM,
  EVENTS,
  ID,
  inbound,
  openRig,
  UPSTREAM,
} from "./contract_rig.ts";
import { pattern } from "./lane_rig.ts";

const CLOSE = (reason: string) => `{"type":"session_close","reason":"${reason}"}`;

Deno.test("A requester says client_closed behind its data and still delivers, until the target's close", () => {
  const { flow, wire, app, clock, data } = openRig("requester");
  flow.offer(pattern(0, 10), 0, 10);
  flow.finish();
  flow.finish();
  assert.deepEqual(wire.take(), ["session_data 10", CLOSE("client_closed")]);
  assert.equal(flow.offer(pattern(0, 10), 0, 10), 0);
  // However far away the receiver is: its answer is awaited, not a time.
  clock.pass(500);
  data(pattern(0, 10));
  clock.pass(CREDIT_TIMEOUT_MS - 1);
  data(pattern(10, 20));
  clock.pass(CREDIT_TIMEOUT_MS - 1);
  flow.peerClosed("target_closed");
  data(pattern(20, 30));
  flow.delivered(30);
  clock.pass(100);
  assert.deepEqual(app.bytes, pattern(0, 30));
  assert.deepEqual(app.seen.slice(-2), ["eof", "ended ok"]);
  assert.deepEqual([wire.take(), clock.running], [["credit 30"], 0]);
});

Deno.test("A requester whose receiver never answers the client's end breaks the session off", () => {
  const { flow, wire, app, clock, data } = openRig("requester");
  flow.finish();
  clock.pass(CREDIT_TIMEOUT_MS - 1);
  data(pattern(0, 1));
  clock.pass(CREDIT_TIMEOUT_MS - 1);
  assert.equal(app.end(), null);
  clock.pass(1);
  assert.deepEqual(app.end(), { reason: "peer_lost", byPeer: false });
  assert.deepEqual(wire.cancels, ["downstream_disconnect"]);
  const patient = openRig("requester", { creditTimeoutMs: 0 });
  patient.flow.finish();
  patient.clock.pass(1e9);
  assert.equal(patient.app.end(), null);
});

Deno.test("A requester sends nothing back when the target closes first", () => {
  const { flow, wire, app, clock } = openRig("requester");
  flow.peerClosed("target_closed");
  assert.equal(flow.offer(pattern(0, 10), 0, 10), 0, "there is nobody to get it");
  flow.finish();
  clock.pass(100);
  assert.deepEqual(app.seen, ["eof", "ended ok"]);
  assert.deepEqual(wire.take(), []);
  const reset = openRig("requester");
  reset.flow.peerClosed("target_closed");
  reset.flow.reset("reset");
  assert.deepEqual(reset.wire.take(), []);
});

Deno.test("A receiver says target_closed by event, then delivers client bytes until it is quiet", () => {
  const { flow, wire, app, clock, data } = openRig("receiver");
  flow.offer(pattern(0, 10), 0, 10);
  flow.finish();
  assert.deepEqual(wire.take(), [
    "session_data_downstream 10",
    `event ${CLOSE("target_closed")}`,
  ]);
  clock.pass(99);
  data(pattern(0, 10));
  clock.pass(99);
  flow.delivered(10);
  assert.equal(app.end(), null);
  clock.pass(1);
  assert.deepEqual(app.seen, ["data 10", "eof", "ended ok"]);
  assert.deepEqual(wire.take(), ["credit 10"]);
});

Deno.test("A receiver answers client_closed with target_closed, and sends what the target still says", () => {
  const { flow, wire, app, clock, data } = openRig("receiver");
  data(pattern(0, 10));
  flow.receive(inbound(encodeSessionClose("client_closed"), "session_close"));
  clock.pass(50);
  assert.equal(flow.offer(pattern(0, 5), 0, 5), 5);
  flow.delivered(10);
  clock.pass(50);
  assert.deepEqual(app.seen, ["data 10", "eof", "ended ok"]);
  assert.deepEqual(wire.take(), [
    "session_data_downstream 5",
    "credit 10",
    `event ${CLOSE("target_closed")}`,
  ]);
  const both = openRig("receiver");
  both.flow.receive(inbound(encodeSessionClose("client_closed"), "session_close"));
  both.flow.finish();
  both.clock.pass(100);
  assert.deepEqual(both.wire.take(), [`event ${CLOSE("target_closed")}`], "once");
});

Deno.test("A receiver takes a close frame whatever is in it", () => {
  for (const content of ["", "null", "{}", '{"type":"session_close"}', '{"reason":7}']) {
    const { flow, app, clock } = openRig("receiver");
    flow.receive(inbound(octets(content), "session_close"));
    clock.pass(100);
    assert.deepEqual(app.end(), { reason: "ok", byPeer: false }, content);
  }
});

Deno.test("What a broken client or a starved peer left is broken off at once, never ended well", () => {
  const rows = [
    ["receiver", "client_disconnected", "reset"],
    ["receiver", "flow_credit_timeout", "flow_credit_timeout"],
    ["receiver", "hijack_not_supported", "canceled"],
    ["requester", "flow_credit_timeout", "flow_credit_timeout"],
    ["requester", "cancel_requested", "canceled"],
  ] as const;
  for (const [side, said, reason] of rows) {
    const { flow, wire, app, clock } = openRig(side);
    if (side === "requester") flow.peerClosed(said);
    else flow.receive(inbound(encodeSessionClose(said), "session_close"));
    assert.deepEqual(app.end(), { reason, byPeer: true }, said);
    const answer = side === "requester" ? [] : [`event ${CLOSE("target_closed")}`];
    assert.deepEqual(wire.take(), answer, said);
    assert.equal(clock.running, 0);
  }
});

Deno.test("A requester that gets response_error cancels as R does and breaks off", () => {
  const { flow, wire, app } = openRig("requester");
  flow.peerFailed();
  assert.deepEqual(app.end(), { reason: "target_broken", byPeer: true });
  assert.deepEqual([wire.take(), wire.cancels], [[], ["upstream_error"]]);
  flow.peerFailed();
  assert.equal(wire.cancels.length, 1);
});

Deno.test("A receiver that is cancelled says cancel_requested", () => {
  const { flow, wire, app } = openRig("receiver");
  flow.canceled("downstream_disconnect");
  assert.deepEqual(app.end(), { reason: "downstream_disconnect", byPeer: true });
  assert.deepEqual(wire.take(), [`event ${CLOSE("cancel_requested")}`]);
  flow.canceled("again");
  assert.deepEqual(wire.take(), []);
  const late = openRig("receiver");
  late.flow.finish();
  late.wire.take();
  late.flow.canceled("downstream_disconnect");
  assert.deepEqual(late.wire.take(), [], "it has said its end before");
});

Deno.test("A reset is said in the peer's form", () => {
  const rows = [
    ["requester", "reset", CLOSE("client_disconnected")],
    ["requester", "idle_timeout", CLOSE("client_disconnected")],
    ["receiver", "reset", 'event {"type":"response_error","error":"Tunnel error: reset"}'],
    ["receiver", "stopping", `event ${CLOSE("stopping")}`],
  ] as const;
  for (const [side, reason, said] of rows) {
    const { flow, wire, app } = openRig(side);
    flow.reset(reason);
    assert.deepEqual(app.end(), { reason, byPeer: false });
    assert.deepEqual(wire.take(), [said]);
    flow.reset("again");
    assert.deepEqual([wire.take(), app.seen.length], [[], 1]);
    const ended = openRig(side);
    ended.flow.finish();
    ended.wire.take();
    ended.flow.reset(reason);
    assert.deepEqual(ended.wire.take(), [], "its end was said before");
  }
});

Deno.test("The events of a receiver carry the trace headers of the request, its frames do not", () => {
  const traceHeaders = encodeNatsHeaders([["traceparent", "00-1"]]);
  const { flow, wire } = openRig("receiver", { traceHeaders });
  flow.offer(octets("x"), 0, 1);
  flow.finish();
  const [frame, event] = wire.published;
  assert.notEqual(frame?.headers, traceHeaders);
  assert.equal(event?.headers, traceHeaders);
});

for (const side of ["requester", "receiver"] as const) {
  Deno.test(`A ${side} whose peer has closed asks for nothing and waits for no credit`, () => {
    const { flow, wire, app, clock, data } = openRig(side, {}, 10);
    flow.offer(pattern(0, 20), 0, 20);
    for (let i = 0; i < 9; i++) data(pattern(0, 1000));
    data(pattern(0, 0));
    assert.equal(app.seen.length, 9, "an empty frame is nothing");
    flow.peerClosed("");
    wire.take();
    flow.offer(pattern(0, 20), 0, 20);
    flow.delivered(8500);
    assert.deepEqual(wire.take(), []);
    clock.pass(2 * CREDIT_TIMEOUT_MS);
    assert.equal(app.end(), null);
    flow.peerClosed("flow_credit_timeout");
    assert.equal(app.end(), null, "all that there is has come");
    flow.delivered(500);
    assert.deepEqual(app.end(), { reason: "ok", byPeer: false });
    assert.equal(wire.take()[0], "credit 9000");
  });

  Deno.test(`A ${side} that has said its end waits for no credit, and a reset ends its other wait`, () => {
    const { flow, app, clock } = openRig(side, { creditTimeoutMs: 50 }, 10);
    flow.offer(pattern(0, 20), 0, 20);
    flow.finish();
    if (side === "requester") flow.peerClosed("target_closed");
    clock.pass(99);
    assert.equal(app.end(), null);
    flow.reset("reset");
    assert.deepEqual([app.end()?.reason, clock.running], ["reset", 0]);
  });
}

/** A message as it goes over the wire; times of credits are made equal. */
function golden(subject: string, headers: Uint8Array | null, data: Uint8Array): string {
  const text = latin1(data).replace(
    /"timestamp":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"/,
    '"timestamp":"T"',
  );
  return `${subject}\n${headers === null ? "" : latin1(headers)}${text}`;
}

const frame = (subject: string, type: string, payload: string) =>
  `${subject}\nNATS/1.0\r\nNats-Session-Id: ${ID}\r\nNats-Frame-Type: ${type}\r\n\r\n${payload}`;

Deno.test("The messages of a CONNECT are those of wire-protocol section 12, octet for octet", () => {
  const request = latin1(encodeSessionRequest({
    requestId: ID,
    replyTo: EVENTS,
    host: "db.lan",
    port: 5432,
    ingressKind: "http_connect",
    method: "CONNECT",
    requesterServiceId: "edge-a",
    peer: { instance: "i", features: [], maxMsg: 1, ttlMs: 0, window: 1 },
  }));
  const wanted = `{"type":"request","request_id":"${ID}","reply_to":"${EVENTS}",` +
    '"operation":"tcp_stream","payload":{"host":"db.lan","port":5432,"ingress_kind":"http_connect",' +
    '"method":"CONNECT","requester_service_id":"edge-a"},"natsway":';
  assert.ok(request.startsWith(wanted), request);
  const established = {
    sessionId: ID,
    bindHost: "10.3.0.9",
    bindPort: 41822,
    receiverServiceId: "worker-1",
    natsway: null,
  };
  const tail = (kind: string, flow: string) =>
    `{"type":"session_established","session_id":"${ID}","bind_host":"10.3.0.9","bind_port":41822,` +
    `"ingress_kind":"${kind}","receiver_service_id":"worker-1","flow_kind":"${flow}"}`;
  for (
    const [kind, flow] of [["http_connect", "tcp_stream"], ["socks5", "socks5_stream"]] as const
  ) {
    const event = encodeSessionEstablished({ ...established, ingressKind: kind });
    assert.equal(latin1(event), tail(kind, flow));
  }

  const edge = contractRig("requester", { sizes: REAL_SIZES });
  const worker = contractRig("receiver", { sizes: REAL_SIZES });
  const said: string[] = [];
  const pass = () => {
    for (const { subject, headers, data } of edge.wire.published.splice(0)) {
      said.push(golden(subject, headers, data));
      worker.flow.receive({ token: ID, reply: "", headers, data });
    }
    for (const { subject, headers, data } of worker.wire.published.splice(0)) {
      said.push(golden(subject, headers, data));
      if (subject === EVENTS) edge.flow.peerClosed("target_closed");
      else edge.flow.receive({ token: ID, reply: "", headers, data });
    }
  };
  worker.flow.open();
  pass();
  edge.flow.open();
  pass();
  edge.flow.offer(octets("\x00SELECT\xff"), 0, 8);
  pass();
  worker.flow.offer(octets("\xfe42"), 0, 3);
  pass();
  edge.flow.delivered(3);
  worker.flow.delivered(8);
  edge.flow.finish();
  pass();
  worker.clock.pass(100);
  const rest = worker.wire.published.shift();
  assert.equal(rest?.subject, DOWNSTREAM);
  pass();
  edge.clock.pass(100);
  const credit = (direction: string, who: string) =>
    `{"type":"flow_credit","request_id":"${ID}","direction":"${direction}","bytes":1048576,` +
    `"service_id":"${who}","timestamp":"T"}`;
  assert.deepEqual(said, [
    frame(DOWNSTREAM, "session_credit_upstream", credit("upstream", "worker-1")),
    frame(UPSTREAM, "session_credit_downstream", credit("downstream", "edge-a")),
    frame(UPSTREAM, "session_data", "\x00SELECT\xff"),
    frame(DOWNSTREAM, "session_data_downstream", "\xfe42"),
    frame(UPSTREAM, "session_close", CLOSE("client_closed")),
    `${EVENTS}\n${CLOSE("target_closed")}`,
  ]);
  assert.deepEqual([edge.app.end()?.reason, worker.app.end()?.reason], ["ok", "ok"]);
  assert.deepEqual(worker.app.bytes, octets("\x00SELECT\xff"));
  assert.deepEqual(edge.app.bytes, octets("\xfe42"));
});

const REAL_SIZES = { chunk: 32_768, initial: 1_048_576, batch: 262_144, cap: 4_194_304 };

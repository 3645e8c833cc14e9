import assert from "node:assert/strict";
import { hex } from "../../lib/protocol/hex.ts";
import { latin1 } from "../helpers/bytes.ts";
import {
  bodyOf,
  EDGE,
  envelope,
  infoOf,
  natswayPeer,
  ReceiverRig,
} from "../helpers/unit_receiver.ts";
import { answer } from "../helpers/upstream.ts";
import { within } from "../helpers/wait.ts";

Deno.test("A request is carried out and answered in one frame of its own epoch", async () => {
  await using rig = await ReceiverRig.start();
  rig.request(envelope("q1"));
  rig.request(envelope("q2"));
  const [frame] = await rig.frames("q1");
  const [other] = await rig.frames("q2");
  assert.ok(frame?.head && other);
  assert.equal(frame.fin, true);
  assert.equal(frame.head.status, 200);
  assert.equal(latin1(frame.head.fields), "Content-Type: text/plain\r\nContent-Length: 7\r\n");
  assert.equal(frame.head.declaredLength, 7);
  assert.equal(latin1(frame.body), "GET /q1");
  assert.notEqual(hex(frame.epoch), hex(other.epoch));
  assert.deepEqual(infoOf(frame), {
    receiver_service_id: "worker-1",
    natsway: {
      v: 1,
      instance: "i-worker-1",
      features: ["raw"],
      max_msg: 1_048_576,
      ttl_ms: 0,
      window: 0,
    },
  });
  await rig.idle();
  assert.deepEqual(rig.ends, { ok: 2 });
  assert.deepEqual(rig.transport.settled, ["ack", "ack"]);
});

Deno.test("What the upstream gets is what the client sent: target, order, case, octets, body", async () => {
  await using rig = await ReceiverRig.start();
  rig.request(envelope("q1", {
    operation: "natsway_http",
    payload: {
      method: "PROPFIND",
      path: "/a/../b%2f?x=%zz&&y",
      headers: { wrong: "form" },
      body: null,
      body_encoding: "base64",
      body_base64: "/9j/4AAQ",
      head: [["X-b", "1"], ["Host", "client"], ["content-LENGTH", "6"], ["x-B", "\xe9"]],
    },
  }));
  await rig.whole("q1");
  const [request] = rig.upstream.requests;
  assert.equal(
    request?.raw,
    "PROPFIND /a/../b%2f?x=%zz&&y HTTP/1.1\r\n" +
      `X-b: 1\r\nHost: 127.0.0.1:${rig.upstream.port}\r\ncontent-LENGTH: 6\r\nx-B: \xe9\r\n\r\n`,
  );
  assert.equal(latin1(await request.readBody()), "\xff\xd8\xff\xe0\x00\x10");
});

/** An error reply of wire-protocol.md section 9. */
const START = (status: number) =>
  `{"type":"response_start","status":${status},"headers":{"content-type":"application/json"},` +
  '"content_type":"application/json","streaming":false,"receiver_service_id":"worker-1"}';

function errorReply(status: number, text: string): string[] {
  const body = JSON.stringify(JSON.stringify({ error: text }));
  return [START(status), `{"type":"response_chunk","body":${body}}`, '{"type":"response_end"}'];
}

Deno.test("Bad messages get the answers of wire-protocol.md section 9, octet for octet", async () => {
  await using rig = await ReceiverRig.start();
  const rows: [unknown, string[]][] = [
    [envelope("q", { type: "nonsense" }), errorReply(400, "Invalid request envelope type")],
    [envelope("q", { request_id: "" }), errorReply(400, "Missing request_id")],
    [envelope("q", { operation: null }), errorReply(400, "Missing operation")],
    [envelope("q", { payload: null }), errorReply(400, "Missing payload")],
    [envelope("q", { operation: "x" }), errorReply(503, "No handler registered for operation=x")],
    [envelope("q", { payload: "GET /" }), errorReply(400, "Missing method or path")],
    [envelope("q", { payload: { method: "GET" } }), errorReply(400, "Missing method or path")],
    [envelope("q", { payload: [] }), errorReply(400, "Invalid payload")],
  ];
  for (const [message, expected] of rows) {
    const before = rig.answers("q").length;
    rig.request(message);
    const answers = rig.answers("q").slice(before).map((one) => one.text);
    assert.deepEqual(answers, expected, JSON.stringify(message));
    assert.equal(rig.transport.settled.at(-1), "term");
  }
  assert.equal(rig.registry.opened, 0);
  assert.equal(rig.upstream.requests.length, 0);
});

Deno.test("JSON that is no object is answered on the reply subject as it came, the rest is dropped", async () => {
  await using rig = await ReceiverRig.start();
  rig.request("[]", { reply: `from.proxy.responses.${EDGE}.q1` });
  assert.deepEqual(
    rig.answers("q1").map((one) => one.text),
    errorReply(400, "Invalid request envelope"),
  );
  const before = rig.transport.all.length;
  rig.request("[]", { reply: "_INBOX.x" });
  rig.request("[]", { reply: `other.responses.${EDGE}.q1` });
  rig.request("[]");
  rig.request("not JSON", { reply: `from.proxy.responses.${EDGE}.q1` });
  rig.request({ type: "cancel", request_id: "q1" });
  rig.request(envelope("q1", { reply_to: "" }));
  assert.equal(rig.transport.all.length, before);
  assert.equal([...rig.receiver.dropped.values()].reduce((sum, count) => sum + count, 0), 7);
});

Deno.test("A reply subject that is none is dropped and counted, and nothing runs", async () => {
  await using rig = await ReceiverRig.start();
  const attacks = [
    "to.proxy.requests.x.q1",
    "from.proxy.responses.edge-a.q2",
    "from.proxy.responses.edge-a.*",
    "from.proxy.responses.>",
    "from.proxy.responses.a.b.q1",
    "$SYS.x.q1",
    "from.proxy.responses.a\0.q1",
    "from.proxy.responses.a\r\nPUB x.q1",
  ];
  for (const reply of attacks) rig.request(envelope("q1", { reply_to: reply }));
  assert.equal(rig.transport.all.length, 0);
  assert.equal(rig.receiver.dropped.get("reply subject that may not be used"), attacks.length);
  assert.equal(rig.registry.opened, 0);
  rig.request(envelope("q1", { reply_to: "proxy.responses.edge-a.q1" }));
  assert.equal((await rig.answer("q1")).subject, "proxy.responses.edge-a.q1");
});

Deno.test("What cannot be sent upstream is refused with its code, to frames and to events", async () => {
  await using rig = await ReceiverRig.start();
  const payload = (changes: object) => ({ method: "GET", path: "/", headers: {}, ...changes });
  const rows: [object, number, string][] = [
    [payload({ method: "G T" }), 400, "bad_request"],
    [payload({ path: "x" }), 400, "bad_request"],
    [payload({ path: "/ x" }), 400, "bad_request"],
    [payload({ headers: { "a\r\nb": "c" } }), 400, "bad_request"],
    [payload({ headers: { a: "c\r\nd: e" } }), 400, "bad_request"],
    [payload({ path: "http://" }), 400, "bad_request"],
    [payload({ path: "http://other.test/x" }), 403, "target_denied"],
  ];
  for (const [index, [bad, status, code]] of rows.entries()) {
    rig.request(envelope(`n${index}`, { payload: bad }));
    const [frame] = await rig.frames(`n${index}`);
    assert.equal(frame?.head?.status, status, JSON.stringify(bad));
    assert.equal(infoOf(frame).code, code);
    assert.equal(JSON.parse(latin1(frame.body)).code, code);
    rig.request(envelope(`r${index}`, { payload: bad, natsway: undefined }));
    const [start, chunk] = await rig.whole(`r${index}`);
    assert.equal(start?.json.status, status);
    assert.equal(start?.json.request_id, `r${index}`);
    assert.equal(JSON.parse(chunk?.json.body).code, code);
  }
  assert.equal(rig.upstream.connections.length, 0);
});

Deno.test("Without UPSTREAM_URL the answer is that of the contract", async () => {
  await using rig = await ReceiverRig.start("none");
  rig.request(envelope("r", { natsway: undefined }));
  const events = await rig.whole("r");
  assert.equal(events[0]?.json.status, 503);
  assert.equal(events[0]?.json.flow_kind, "http_request");
  assert.equal(events[1]?.json.body, '{"error":"Receiver is missing UPSTREAM_URL"}');
  rig.request(envelope("n"));
  const [frame] = await rig.frames("n");
  assert.equal(frame?.head?.status, 503);
  assert.equal(infoOf(frame!).code, "no_upstream");
});

Deno.test("A cancel with an epoch ends that execution, one without ends all of the id", async () => {
  await using rig = await ReceiverRig.start(async (connection) => {
    await connection.readUntil("\r\n\r\n");
    await connection.write("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc");
    await connection.waitEnd(10_000);
  });
  rig.request(envelope("q"));
  rig.request(envelope("q"));
  await rig.answer("q", 2);
  const epochs = rig.answers("q").map((one) => hex(one.frame!.epoch));
  const cancel = (epoch?: string) =>
    JSON.stringify({
      type: "cancel",
      request_id: "q",
      cancel: { request_id: "q", service_id: EDGE, reason: "r", ...(epoch ? { epoch } : {}) },
    });
  rig.transport.deliver("cancel", "q", cancel("0000000000000000"));
  assert.equal(rig.registry.size, 2);
  rig.request(cancel(epochs[0]));
  await within(rig.upstream.connections[0]!.waitEnd(), 5_000, "the first call's end");
  assert.equal(rig.registry.size, 1);
  rig.transport.deliver("pool", "q", cancel());
  await rig.idle();
  assert.deepEqual(rig.ends, { canceled: 2 });
  assert.equal(rig.answers("q").length, 2, "a natsway peer that cancelled is told nothing");
});

Deno.test("A cancel whose id is not that of its subject, or that is none, is dropped", async () => {
  await using rig = await ReceiverRig.start();
  rig.transport.deliver("cancel", "other", '{"type":"cancel","request_id":"q","cancel":{}}');
  rig.transport.deliver("pool", "q", "[]");
  assert.equal(rig.receiver.dropped.get("cancel that cannot be read"), 2);
  rig.request(envelope("q"));
  await rig.frames("q");
});

Deno.test("A cancel that comes first is remembered: the request is acked and not run", async () => {
  await using rig = await ReceiverRig.start();
  rig.transport.deliver("pool", "q", '{"type":"cancel","request_id":"q","cancel":{}}');
  rig.request(envelope("q"));
  assert.deepEqual(rig.transport.settled, ["ack"]);
  assert.equal(rig.registry.opened, 0);
  rig.request(envelope("q2"));
  await rig.frames("q2");
  assert.deepEqual(rig.upstream.requests.map((one) => one.target), ["/q2"]);
});

Deno.test("Beyond slots and queue a request is refused, and the pool is left and joined in between", async () => {
  const gate = Promise.withResolvers<void>();
  await using rig = await ReceiverRig.start(async (connection) => {
    await connection.readUntil("\r\n\r\n");
    await gate.promise;
    await connection.write(answer("x", { fields: ["Connection: close"] }));
  }, { maxInflight: 2 });
  const ids = Array.from({ length: 7 }, (_, i) => `q${i}`);
  for (const id of ids.slice(0, 4)) rig.request(envelope(id));
  assert.deepEqual(rig.transport.pool, ["join"]);
  rig.request(envelope("q4"));
  assert.deepEqual(rig.transport.pool, ["join", "leave"], "three of four places are taken");
  rig.request(envelope("q5"));
  rig.request(envelope("q6"));
  const [refused] = await rig.frames("q6");
  assert.equal(refused?.head?.status, 503);
  assert.match(latin1(refused.head.fields), /Retry-After: 1\r\n/);
  assert.equal(infoOf(refused).code, "overloaded");
  gate.resolve();
  for (const id of ids.slice(0, 6)) assert.equal(bodyOf(await rig.frames(id)), "x");
  assert.deepEqual(rig.transport.pool, ["join", "leave", "join"]);
});

Deno.test("A slot is given back at the head: slow bodies keep nobody waiting", async () => {
  await using rig = await ReceiverRig.start(async (connection) => {
    await connection.readUntil("\r\n\r\n");
    await connection.write("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nabc");
    await connection.waitEnd(10_000);
  }, { maxInflight: 1 });
  for (const id of ["q1", "q2", "q3"]) rig.request(envelope(id));
  for (const id of ["q1", "q2", "q3"]) await rig.answer(id);
  assert.equal(rig.registry.size, 3);
});

Deno.test("What waited longer than its requester does is not run", async () => {
  const gate = Promise.withResolvers<void>();
  await using rig = await ReceiverRig.start(async (connection) => {
    await connection.readUntil("\r\n\r\n");
    await gate.promise;
    await connection.write(answer("x"));
  }, { maxInflight: 1 });
  rig.request(envelope("first"));
  rig.request(envelope("late", { natsway: natswayPeer({ ttl_ms: 1 }) }));
  await rig.upstream.connectionLog.find(() => true, { ms: 5_000, what: "the first call" });
  await new Promise((resolve) => setTimeout(resolve, 20));
  gate.resolve();
  await rig.frames("first");
  await rig.idle();
  assert.equal(rig.answers("late").length, 0);
  assert.equal(rig.upstream.connections.length, 1);
  assert.deepEqual(rig.ends, { ok: 1, canceled: 1 });
});

Deno.test("A request that is cancelled while it waits is not run", async () => {
  const gate = Promise.withResolvers<void>();
  await using rig = await ReceiverRig.start(async (connection) => {
    await connection.readUntil("\r\n\r\n");
    await gate.promise;
    await connection.write(answer("x"));
  }, { maxInflight: 1 });
  rig.request(envelope("first"));
  rig.request(envelope("second"));
  rig.transport.deliver("pool", "second", '{"type":"cancel","request_id":"second","cancel":{}}');
  gate.resolve();
  await rig.frames("first");
  await rig.idle();
  assert.equal(rig.upstream.connections.length, 1);
});

Deno.test("MAX_FLOWS is answered as overloaded", async () => {
  await using rig = await ReceiverRig.start(async (connection) => {
    await connection.waitEnd(10_000);
  }, { maxFlows: 1 });
  rig.request(envelope("q1"));
  rig.request(envelope("q2"));
  const [frame] = await rig.frames("q2");
  assert.equal(infoOf(frame!).code, "overloaded");
});

Deno.test("An answer waits for the connection to come back while its requester may wait", async () => {
  const gate = Promise.withResolvers<void>();
  await using rig = await ReceiverRig.start(async (connection) => {
    await connection.readUntil("\r\n\r\n");
    await gate.promise;
    await connection.write(answer("x"));
    await connection.waitEnd(10_000);
  });
  rig.request(envelope("q"));
  rig.transport.setConnected(false);
  gate.resolve();
  await rig.upstream.connectionLog.find(() => true, { ms: 5_000, what: "the call" });
  rig.transport.setConnected(true);
  assert.equal(bodyOf(await rig.frames("q")), "x");
});

Deno.test("drain leaves the pool for good; stop breaks off what is under way", async () => {
  const rig = await ReceiverRig.start(async (connection) => {
    await connection.readUntil("\r\n\r\n");
    await connection.waitEnd(10_000);
  });
  rig.request(envelope("q"));
  await rig.upstream.connectionLog.find(() => true, { ms: 5_000, what: "the call" });
  await rig.receiver.drain();
  assert.deepEqual(rig.transport.pool, ["join", "leave"]);
  rig.receiver.stop();
  const [frame] = await rig.frames("q");
  assert.equal(frame?.head?.status, 503);
  assert.equal(infoOf(frame).code, "stopping");
  await rig[Symbol.asyncDispose]();
});

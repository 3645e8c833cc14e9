import assert from "node:assert/strict";
import { encodeCredit } from "../../lib/protocol/credit.ts";
import { latin1 } from "../helpers/bytes.ts";
import { EDGE, envelope, ReceiverRig } from "../helpers/unit_receiver.ts";
import { answer, type Script } from "../helpers/upstream.ts";

function ruby(id: string, changes: Record<string, unknown> = {}): Record<string, unknown> {
  return envelope(id, { natsway: undefined, ...changes });
}

function gives(...pieces: readonly (string | Uint8Array)[]): Script {
  return async (connection) => {
    await connection.readUntil("\r\n\r\n");
    for (const piece of pieces) await connection.write(piece);
    await connection.waitEnd(60_000);
  };
}

function grant(rig: ReceiverRig, id: string, bytes: number): void {
  const credit = { requestId: id, direction: "response", bytes, serviceId: EDGE } as const;
  rig.transport.deliver("control", id, encodeCredit(credit, new Date()));
}

/** Body of all chunks, one code point per octet. */
function body(rig: ReceiverRig, id: string): string {
  return rig.answers(id).map((one) => one.json).filter((event) => event.type === "response_chunk")
    .map((event) =>
      event.body_encoding === "base64"
        ? atob(event.body_base64)
        : latin1(new TextEncoder().encode(event.body))
    ).join("");
}

const types = (rig: ReceiverRig, id: string) => rig.answers(id).map((one) => one.json.type);

Deno.test("A Ruby requester gets the events of the contract's plain GET, octet for octet", async () => {
  const fields = ["Content-Type: application/json; charset=utf-8"];
  await using rig = await ReceiverRig.start(gives(answer('{"qty":7}', { fields })));
  rig.request(ruby("q"));
  const events = (await rig.whole("q")).map((one) => one.text);
  assert.deepEqual(events, [
    '{"type":"response_start","status":200,"headers":{"content-type":"application/json; charset=utf-8",' +
    '"content-length":"9"},"content_type":"application/json","streaming":false,' +
    '"receiver_service_id":"worker-1","request_id":"q","flow_kind":"http_request"}',
    '{"type":"response_chunk","body":"{\\"qty\\":7}"}',
    '{"type":"response_end"}',
  ]);
  await rig.idle();
  assert.deepEqual(rig.ends, { ok: 1 });
});

Deno.test("Repeated fields become arrays, hop-by-hop ones stay, octets become text", async () => {
  await using rig = await ReceiverRig.start(gives(
    "HTTP/1.1 200 OK\r\nSet-Cookie: a=1\r\nX-Text: \xc3\xbc\r\nSET-COOKIE: b=2\r\nset-cookie: c=3\r\n" +
      "Connection: x-hop\r\nX-Hop: 1\r\n__proto__: p\r\nContent-Length: 0\r\n\r\n",
  ));
  rig.request(ruby("q"));
  await rig.whole("q");
  const start = rig.answers("q")[0]!;
  assert.match(
    start.text,
    /"headers":\{"set-cookie":\["a=1","b=2","c=3"\],"x-text":"ü","__proto__":"p","content-length":"0"\}/,
  );
  assert.equal(start.json.content_type, null);
});

Deno.test("Octets that are no UTF-8 go as base64, in chunks of at most 32 KiB", async () => {
  const octets = Uint8Array.from({ length: 100_000 }, (_, i) => i % 256);
  await using rig = await ReceiverRig.start(gives(answer(octets)));
  rig.request(ruby("q"));
  await rig.whole("q");
  assert.equal(body(rig, "q"), latin1(octets));
  for (const one of rig.answers("q")) assert.ok(one.payload.length < 45_000);
  assert.ok(rig.answers("q").length >= 6);
  assert.equal(rig.answers("q")[0]?.json.streaming, false);
});

Deno.test("Every event fits a small max_payload", async () => {
  const octets = Uint8Array.from({ length: 20_000 }, (_, i) => i % 256);
  await using rig = await ReceiverRig.start(gives(answer(octets)));
  rig.transport.maxPayload = 1_024;
  rig.request(ruby("q"), { headers: "NATS/1.0\r\ntraceparent: 00-ab-cd-01\r\n\r\n" });
  await rig.whole("q");
  assert.equal(body(rig, "q"), latin1(octets));
});

for (
  const type of ["text/event-stream; charset=utf-8", "application/x-ndjson", "TEXT/EVENT-STREAM"]
) {
  Deno.test(`${type} is streamed with credit, and nothing goes before it`, async () => {
    await using rig = await ReceiverRig.start(
      gives(
        `HTTP/1.1 200 OK\r\nContent-Type: ${type}\r\nTransfer-Encoding: chunked\r\n\r\n`,
        "5\r\nhello\r\n",
      ),
    );
    rig.request(ruby("q"));
    const start = await rig.answer("q");
    assert.equal(start.json.streaming, true);
    assert.equal(start.json.flow_kind, "http_stream");
    assert.deepEqual(types(rig, "q"), ["response_start"]);
    grant(rig, "q", 2);
    await rig.answer("q", 2);
    assert.equal(body(rig, "q"), "he");
    grant(rig, "q", 1_000);
    await rig.answer("q", 3);
    assert.equal(body(rig, "q"), "hello");
    await rig.upstream.connections[0]!.write("0\r\n\r\n");
    await rig.whole("q");
    assert.equal(types(rig, "q").at(-1), "response_end");
  });
}

Deno.test("What may be endless is streamed whatever its type, what is short and whole is not", async () => {
  await using endless = await ReceiverRig.start(
    gives("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
  );
  endless.request(ruby("q"));
  assert.equal((await endless.answer("q")).json.streaming, true);
  await using short = await ReceiverRig.start(
    gives("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"),
  );
  short.request(ruby("q"));
  await short.whole("q");
  assert.equal(short.answers("q")[0]?.json.streaming, false);
});

Deno.test("A stream without credit for STREAM_RESPONSE_TIMEOUT ends with the contract's error", async () => {
  await using rig = await ReceiverRig.start(
    gives("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: x\n\n"),
    { streamTimeoutMs: 60 },
  );
  rig.request(ruby("q"));
  await rig.whole("q");
  const events = rig.answers("q").map((one) => one.json);
  const error = events.find((event) => event.type === "response_error");
  assert.equal(error.error, "Response flow credit timeout");
  assert.equal(events.at(-1).type, "response_end");
  await rig.upstream.connections[0]!.waitEnd();
  await rig.idle();
});

Deno.test("A cancel ends a stream with the contract's two events", async () => {
  await using rig = await ReceiverRig.start(
    gives("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: x\n\n"),
  );
  rig.request(ruby("q"));
  await rig.answer("q");
  grant(rig, "q", 1_000);
  await rig.answer("q", 2);
  const cancel = { request_id: "q", service_id: EDGE, reason: "downstream_disconnect" };
  rig.transport.deliver("cancel", "q", JSON.stringify({ type: "cancel", request_id: "q", cancel }));
  assert.deepEqual(rig.answers("q").slice(2).map((one) => one.text), [
    '{"type":"response_error","error":"stream canceled: downstream_disconnect"}',
    '{"type":"response_end"}',
  ]);
  await rig.upstream.connections[0]!.waitEnd();
  await rig.idle();
  assert.deepEqual(rig.ends, { canceled: 1 });
});

Deno.test("An idle stream gets empty chunks, so that its requester does not give it up", async () => {
  await using rig = await ReceiverRig.start(
    gives("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"),
    { streamTimeoutMs: 160 },
  );
  rig.request(ruby("q"));
  const chunk = await rig.answer("q", 2);
  assert.equal(chunk.text, '{"type":"response_chunk","body":""}');
});

Deno.test("An upstream that breaks off is told before the end", async () => {
  await using rig = await ReceiverRig.start(async (connection) => {
    await connection.readUntil("\r\n\r\n");
    await connection.write("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc");
  });
  rig.request(ruby("q"));
  await rig.whole("q");
  assert.deepEqual(types(rig, "q"), [
    "response_start",
    "response_chunk",
    "response_error",
    "response_end",
  ]);
  const error = rig.answers("q")[2]!.json;
  assert.match(error.error, /^Upstream unavailable: /);
  assert.deepEqual(error.natsway, { error: "target_broken" });
});

Deno.test("A failure before the head has the statuses and texts of the contract", async () => {
  await using rig = await ReceiverRig.start();
  await rig.upstream.refuse();
  rig.request(ruby("q"));
  const [start, chunk] = (await rig.whole("q")).map((one) => one.json);
  assert.equal(start.status, 503);
  assert.equal(start.request_id, "q");
  assert.equal(start.flow_kind, "http_request");
  const { error, code } = JSON.parse(chunk.body);
  assert.match(error, /^Upstream unavailable: Connection to 127\.0\.0\.1:\d+ refused$/);
  assert.equal(code, "target_refused");
});

Deno.test("Every event carries the trace headers of its request, and only those", async () => {
  await using rig = await ReceiverRig.start();
  const headers = "NATS/1.0\r\nX: y\r\ntraceparent: 00-ab-cd-01\r\ntracestate: a=b\r\n\r\n";
  rig.request(ruby("q"), { headers });
  for (const one of await rig.whole("q")) {
    assert.equal(one.headers, "NATS/1.0\r\ntraceparent: 00-ab-cd-01\r\ntracestate: a=b\r\n\r\n");
  }
  rig.request(ruby("q2"));
  for (const one of await rig.whole("q2")) assert.equal(one.headers, null);
});

Deno.test("Trace headers that could do harm are left out, and the request is answered", async () => {
  await using rig = await ReceiverRig.start();
  rig.request(ruby("q1"), { headers: "NATS/1.0\r\ntraceparent: a\rb\r\n\r\n" });
  rig.request(ruby("q2"), { headers: `NATS/1.0\r\ntracestate: ${"x".repeat(1_040_000)}\r\n\r\n` });
  for (const id of ["q1", "q2"]) {
    for (const one of await rig.whole(id)) assert.equal(one.headers, null, id);
  }
});

Deno.test("A head that does not fit is answered with 502 instead", async () => {
  await using rig = await ReceiverRig.start(
    gives(answer("x", { fields: [`X: ${"y".repeat(5_000)}`] })),
  );
  rig.transport.maxPayload = 4_000;
  rig.request(ruby("q"));
  const [start, chunk] = (await rig.whole("q")).map((one) => one.json);
  assert.equal(start.status, 502);
  assert.equal(JSON.parse(chunk.body).code, "head_too_large");
  await rig.idle();
  assert.deepEqual(rig.ends, { head_too_large: 1 });
});

Deno.test("A server that takes hardly anything gets nothing, and nothing breaks", async () => {
  await using rig = await ReceiverRig.start();
  rig.transport.maxPayload = 50;
  rig.request(ruby("q"));
  rig.request(ruby("bad", { operation: "x" }));
  await rig.idle();
  assert.equal(rig.transport.all.length, 0);
});

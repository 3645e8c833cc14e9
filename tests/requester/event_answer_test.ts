import assert from "node:assert/strict";
import { withoutDate } from "../helpers/unit_client.ts";
import { headFrame, RequesterRig, type Sent } from "../helpers/unit_requester.ts";
import { within } from "../helpers/wait.ts";

const CANCEL = "to.proxy.cancel.worker-1.";

/** `response_start` as a Ruby receiver sends it. */
function start(sent: Sent, changes: Record<string, unknown> = {}): Record<string, unknown> {
  return {
    type: "response_start",
    status: 200,
    headers: { "content-type": "application/json", "content-length": "9", date: "D" },
    content_type: "application/json",
    streaming: false,
    receiver_service_id: "worker-1",
    request_id: sent.id,
    flow_kind: "http_request",
    ...changes,
  };
}

const STREAM = {
  headers: { "content-type": "text/event-stream", "content-length": "9", date: "D" },
  content_type: "text/event-stream",
  streaming: true,
  flow_kind: "http_stream",
};
const STREAM_HEAD = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ndate: D\r\n" +
  "Transfer-Encoding: chunked\r\n\r\n";

Deno.test("The plain GET of the contract is answered with its length", async () => {
  using rig = new RequesterRig();
  const sent = rig.send();
  rig.answer(sent, start(sent));
  rig.answer(sent, { type: "response_chunk", body: '{"qty":7}' });
  rig.answer(sent, { type: "response_end" });
  assert.equal(
    await sent.client.text(),
    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ndate: D\r\nContent-Length: 9\r\n\r\n" +
      '{"qty":7}',
  );
  assert.equal(rig.end, "ok");
  assert.equal(rig.transport.all.length, 1, "no credit for a buffered answer");
});

Deno.test("A buffered answer without a length is chunked; one without a body has length 0", async () => {
  using rig = new RequesterRig();
  const sent = rig.send();
  rig.answer(sent, start(sent, { headers: { date: "D" } }));
  rig.answer(sent, { type: "response_chunk", body_encoding: "base64", body_base64: "/9j/4AAQ" });
  rig.answer(sent, { type: "response_chunk", body: "x" });
  rig.answer(sent, { type: "response_end" });
  assert.equal(
    await sent.client.text(),
    "HTTP/1.1 200 OK\r\ndate: D\r\nTransfer-Encoding: chunked\r\n\r\n" +
      "6\r\n\xff\xd8\xff\xe0\x00\x10\r\n1\r\nx\r\n0\r\n\r\n",
  );
  const empty = rig.send();
  rig.answer(empty, start(empty, { headers: { date: "D" } }));
  rig.answer(empty, { type: "response_end" });
  assert.equal(
    await empty.client.text(),
    "HTTP/1.1 200 OK\r\ndate: D\r\nContent-Length: 0\r\n\r\n",
  );
});

Deno.test("A stream gets credit, is written as it comes, and has no length", async () => {
  using rig = new RequesterRig();
  const sent = rig.send();
  rig.answer(sent, start(sent, STREAM));
  const [credit] = rig.transport.to("to.proxy.control.worker-1.");
  assert.equal(credit?.json.bytes, 1_048_576);
  assert.equal(await sent.client.text(), STREAM_HEAD);
  rig.answer(sent, { type: "response_chunk", body: "data: tick\n\n" });
  rig.answer(sent, { type: "response_chunk", body: "" });
  assert.equal(await sent.client.text(), `${STREAM_HEAD}c\r\ndata: tick\n\n\r\n`);
  rig.answer(sent, { type: "response_end" });
  assert.equal(await sent.client.text(), `${STREAM_HEAD}c\r\ndata: tick\n\n\r\n0\r\n\r\n`);
  assert.equal(rig.end, "ok");
});

Deno.test("A client that leaves a stream cancels it without an epoch", () => {
  using rig = new RequesterRig();
  const sent = rig.send();
  rig.answer(sent, start(sent, STREAM));
  sent.client.response.gone();
  const [cancel] = rig.transport.to(CANCEL);
  assert.equal(cancel?.subject, CANCEL + sent.id);
  assert.ok(!("epoch" in cancel.json.cancel));
  assert.equal(cancel.json.cancel.reason, "downstream_disconnect");
});

Deno.test("An error before any octet is 502; after some it stands in-band and the message is broken off", async () => {
  using rig = new RequesterRig();
  const early = rig.send();
  rig.answer(early, start(early));
  rig.answer(early, { type: "response_error", error: "Upstream unavailable: x" });
  rig.answer(early, { type: "response_end" });
  const text = await early.client.text();
  assert.ok(text.startsWith("HTTP/1.1 502 Bad Gateway\r\n"), text);
  assert.match(text, /"message":"Unexpected event response_error"/);
  assert.equal(early.client.end, "keep");
  const late = rig.send();
  rig.answer(late, start(late, STREAM));
  rig.answer(late, { type: "response_chunk", body: "abc" });
  rig.answer(late, {
    type: "response_error",
    error: "x",
    natsway: { error: "peer_lost" },
  });
  assert.equal(await late.client.ended, "broken");
  const inBand = '\nevent: error\ndata: {"error":"Unexpected event response_error"}\n\n';
  const size = inBand.length.toString(16);
  assert.equal(
    await late.client.text(),
    `${STREAM_HEAD}3\r\nabc\r\n${size}\r\n${inBand}\r\n`,
  );
  assert.equal(rig.registry.ends().get("peer_lost"), 1);
  assert.equal(rig.registry.ends().get("target_broken"), 1);
});

Deno.test("Another first event than response_start is 502, named, and the pool is told", async () => {
  for (
    const [event, name] of [
      [{ type: "response_chunk", body: "x" }, "response_chunk"],
      [{ type: "response_end" }, "response_end"],
      [{ type: "response_error", error: "x" }, "response_error"],
      [{ type: "session_established" }, "session_established"],
    ] as const
  ) {
    using rig = new RequesterRig();
    const sent = rig.send();
    rig.answer(sent, event);
    const text = await sent.client.text();
    assert.ok(text.startsWith("HTTP/1.1 502 Bad Gateway\r\n"), text);
    assert.ok(text.includes(`"message":"Expected response_start, got ${name}"`), text);
    assert.equal(rig.transport.to("to.proxy.cancel._pool.").length, 1);
  }
});

Deno.test("What is no event is dropped, also a PubAck", () => {
  using rig = new RequesterRig();
  const sent = rig.send();
  for (const data of ["", "{", "[]", '{"stream":"proxy","seq":7}', '{"type":7}', "null"]) {
    rig.answer(sent, data);
  }
  assert.equal(sent.client.end, null);
  assert.equal(rig.registry.size, 1);
});

Deno.test("A second response_start and an unknown event end the flow, and the receiver is told", async () => {
  for (const second of [{ type: "response_start", status: 200 }, { type: "something" }]) {
    using rig = new RequesterRig();
    const sent = rig.send();
    rig.answer(sent, start(sent));
    rig.answer(sent, second);
    const text = await sent.client.text();
    assert.ok(text.startsWith("HTTP/1.1 502 Bad Gateway\r\n"), text);
    assert.equal(rig.transport.to(CANCEL).length, 1);
    assert.equal(rig.end, "target_broken");
  }
});

Deno.test("A body over its length breaks off, one under it too", async () => {
  using rig = new RequesterRig();
  for (const body of ["1234567890", "12345678"]) {
    const sent = rig.send();
    rig.answer(sent, start(sent));
    rig.answer(sent, { type: "response_chunk", body });
    rig.answer(sent, { type: "response_end" });
    assert.equal(await sent.client.ended, "broken", body);
  }
});

Deno.test("Headers of an event become fields; what could write lines of its own is left out", async () => {
  using rig = new RequesterRig();
  const sent = rig.send();
  rig.answer(
    sent,
    start(sent, {
      headers: {
        "set-cookie": ["a=1", "b=2"],
        date: "D",
        "x-utf8": " ü ",
        "x-split": "a\r\nX-Evil: 1",
        "x-nul": "a\0b",
        "x bad": "name",
        "x\r\nX-Evil": "2",
        "": "x",
        connection: "x",
        "transfer-encoding": "chunked",
        "content-length": ["3", "x", "0"],
      },
    }),
  );
  rig.answer(sent, { type: "response_end" });
  assert.equal(
    await sent.client.text(),
    "HTTP/1.1 200 OK\r\nset-cookie: a=1\r\nset-cookie: b=2\r\ndate: D\r\nx-utf8: \xc3\xbc\r\n" +
      "Content-Length: 0\r\n\r\n",
  );
});

Deno.test("Events of a receiver without an id that a subject can hold are taken all the same", async () => {
  for (const id of [undefined, "", "a b", "x.>", 7]) {
    using rig = new RequesterRig();
    const sent = rig.send();
    rig.answer(sent, start(sent, { ...STREAM, receiver_service_id: id }));
    rig.answer(sent, { type: "response_chunk", body: "abc" });
    assert.equal(await sent.client.text(), `${STREAM_HEAD}3\r\nabc\r\n`);
    assert.equal(rig.transport.to("to.proxy.control.").length, 0);
    sent.client.response.gone();
    assert.equal(rig.transport.to("to.proxy.cancel._pool.").length, 1);
  }
});

Deno.test("Frames that come for a flow of a Ruby peer are foreign", () => {
  using rig = new RequesterRig();
  const sent = rig.send();
  rig.answer(sent, start(sent, STREAM));
  rig.answer(sent, headFrame({ fin: false, serviceId: "worker-2", body: "ZZZ" }));
  assert.equal(rig.transport.to("to.proxy.cancel.worker-2.").length, 1);
  assert.equal(sent.client.response.bodyBytes, 0);
});

Deno.test("Each event of a Ruby peer must come within STREAM_RESPONSE_TIMEOUT", async () => {
  using rig = new RequesterRig({ streamTimeoutMs: 40 });
  const buffered = rig.send();
  rig.answer(buffered, start(buffered));
  const streamed = rig.send();
  rig.answer(streamed, start(streamed, STREAM));
  await within(buffered.client.ended, 5_000, "the 504");
  const text = await buffered.client.text();
  assert.ok(text.startsWith("HTTP/1.1 504 Gateway Timeout\r\n"), text);
  assert.match(text, /"message":"No response from bridge within 0.04s"/);
  assert.equal(await within(streamed.client.ended, 5_000, "the end"), "broken");
  assert.equal(rig.transport.to(CANCEL).length, 2);
});

Deno.test("STREAM_RESPONSE_TIMEOUT=0 is no limit, nor is the first event's one after it came", async () => {
  using rig = new RequesterRig({ streamTimeoutMs: 0, responseTimeoutMs: 40 });
  const sent = rig.send();
  rig.answer(sent, start(sent, STREAM));
  const other = rig.send();
  await within(other.client.ended, 5_000, "the other's 504");
  rig.answer(sent, { type: "response_end" });
  assert.equal(await sent.client.ended, "keep");
});

/** The refusal of wire-protocol.md section 9. */
function refuse(rig: RequesterRig, sent: Sent): void {
  rig.answer(sent, {
    type: "response_start",
    status: 503,
    headers: { "content-type": "application/json" },
    content_type: "application/json",
    streaming: false,
    receiver_service_id: "ruby-1",
  });
  const error = "No handler registered for operation=natsway_http";
  rig.answer(sent, { type: "response_chunk", body: JSON.stringify({ error }) });
  rig.answer(sent, { type: "response_end" });
}

Deno.test("PEERS=mixed: what a Ruby receiver cannot carry is sent again under a new id", async () => {
  using rig = new RequesterRig({ peers: "mixed" });
  const first = rig.send("PROPFIND /x HTTP/1.1\r\nHost: a\r\n\r\n");
  assert.equal(first.message.json.operation, "natsway_http");
  refuse(rig, first);
  const again = rig.transport.to("to.proxy.requests.");
  assert.equal(again.length, 2);
  const { request_id: id, reply_to: replyTo, payload } = again[1]!.json;
  assert.notEqual(id, first.id);
  assert.deepEqual(payload, first.message.json.payload);
  rig.answer({ ...first, id, replyTo, message: again[1]! }, headFrame({ body: "done" }));
  assert.ok((await first.client.text()).endsWith("\r\n\r\ndone"));
  assert.equal(rig.registry.ends().get("peer_lacks"), 1);
  assert.equal(rig.registry.ends().get("ok"), 1);
});

Deno.test("PEERS=mixed: after four more receivers of that kind it is 502", async () => {
  using rig = new RequesterRig({ peers: "mixed" });
  const first = rig.send("PROPFIND /x HTTP/1.1\r\nHost: a\r\n\r\n");
  for (let i = 0; i < 5; i++) {
    const message = rig.transport.to("to.proxy.requests.").at(-1)!;
    refuse(rig, { ...first, id: message.json.request_id });
  }
  assert.equal(rig.transport.to("to.proxy.requests.").length, 5);
  const text = await first.client.text();
  assert.ok(text.startsWith("HTTP/1.1 502 Bad Gateway\r\n"), text);
  assert.match(text, /"code":"peer_lacks"/);
  assert.match(text, /PEERS=mixed/);
  assert.equal(rig.registry.size, 0);
});

Deno.test("PEERS=mixed: a cancel without an owner goes on the request's own subject as well", () => {
  using rig = new RequesterRig({ peers: "mixed" });
  const sent = rig.send();
  sent.client.response.gone();
  const [early, pool, ...more] = rig.transport.all.slice(1);
  assert.equal(early?.subject, sent.message.subject);
  assert.equal(pool?.subject, `to.proxy.cancel._pool.${sent.id}`);
  assert.deepEqual(early.json, pool.json);
  assert.equal(early.json.type, "cancel");
  assert.equal(more.length, 0);
  using natsway = new RequesterRig();
  natsway.send().client.response.gone();
  assert.equal(natsway.transport.all.length, 2, "natsway receivers hear the pool's cancel");
});

Deno.test("Without PEERS=mixed that refusal ends the request at once with the cause", async () => {
  using rig = new RequesterRig();
  const sent = rig.send("PROPFIND /x HTTP/1.1\r\nHost: a\r\n\r\n");
  refuse(rig, sent);
  const text = withoutDate(await sent.client.text());
  assert.ok(text.startsWith("HTTP/1.1 502 Bad Gateway\r\n"), text);
  assert.match(text, /PEERS=mixed.*"code":"peer_lacks"/);
});

Deno.test("PEERS=mixed: another 503 of a receiver is passed on whole", async () => {
  using rig = new RequesterRig({ peers: "mixed" });
  const sent = rig.send();
  rig.answer(sent, start(sent, { status: 503, request_id: undefined, headers: { date: "D" } }));
  rig.answer(sent, { type: "response_chunk", body: '{"error":' });
  rig.answer(sent, { type: "response_chunk", body: '"Upstream unavailable"}' });
  rig.answer(sent, { type: "response_end" });
  assert.equal(
    await sent.client.text(),
    "HTTP/1.1 503 Service Unavailable\r\ndate: D\r\nContent-Length: 32\r\n\r\n" +
      '{"error":"Upstream unavailable"}',
  );
});

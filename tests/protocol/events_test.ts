import assert from "node:assert/strict";
import {
  decodeEvent,
  encodeResponseChunk,
  encodeResponseError,
  encodeResponseStart,
  RESPONSE_END,
} from "../../lib/protocol/events.ts";
import { octets } from "../helpers/bytes.ts";

const text = (data: Uint8Array) => new TextDecoder().decode(data);
const decode = (value: unknown) =>
  decodeEvent(new TextEncoder().encode(typeof value === "string" ? value : JSON.stringify(value)));

/** Plain GET of wire-protocol.md section 12. */
const START = '{"type":"response_start","status":200,' +
  '"headers":{"content-type":"application/json","content-length":"9"},' +
  '"content_type":"application/json","streaming":false,"receiver_service_id":"worker-1",' +
  '"request_id":"9c41","flow_kind":"http_request"}';

Deno.test("encodeResponseStart writes the start of the contract's plain GET", () => {
  const start = encodeResponseStart({
    status: 200,
    headers: { "content-type": "application/json", "content-length": "9" },
    contentType: "application/json",
    streaming: false,
    receiverServiceId: "worker-1",
    requestId: "9c41",
  }, "http_request");
  assert.equal(text(start), START);
});

Deno.test("encodeResponseStart names a streaming flow http_stream", () => {
  const start = encodeResponseStart({
    status: 200,
    headers: {},
    contentType: "text/event-stream",
    streaming: true,
    receiverServiceId: "worker-1",
    requestId: "9c41",
  }, "natsway_http");
  assert.equal(
    text(start),
    '{"type":"response_start","status":200,"headers":{},"content_type":"text/event-stream",' +
      '"streaming":true,"receiver_service_id":"worker-1","request_id":"9c41",' +
      '"flow_kind":"http_stream"}',
  );
});

Deno.test("The start of a reply before any operation has neither request_id nor flow_kind", () => {
  const start = encodeResponseStart({
    status: 400,
    headers: { "content-type": "application/json" },
    contentType: "application/json",
    streaming: false,
    receiverServiceId: "worker-1",
  }, "http_request");
  assert.equal(
    text(start),
    '{"type":"response_start","status":400,"headers":{"content-type":"application/json"},' +
      '"content_type":"application/json","streaming":false,"receiver_service_id":"worker-1"}',
  );
});

Deno.test("encodeResponseChunk writes text as text, other octets as base64", () => {
  const chunk = (body: string) => text(encodeResponseChunk(octets(body)));
  assert.equal(chunk('{"qty":7}'), '{"type":"response_chunk","body":"{\\"qty\\":7}"}');
  assert.equal(chunk("data: tick\n\n"), '{"type":"response_chunk","body":"data: tick\\n\\n"}');
  assert.equal(chunk(""), '{"type":"response_chunk","body":""}');
  assert.equal(chunk("\xc3\xbc"), '{"type":"response_chunk","body":"ü"}');
  const image = '{"type":"response_chunk","body_encoding":"base64","body_base64":"/9j/4AAQ"}';
  assert.equal(chunk("\xff\xd8\xff\xe0\x00\x10"), image);
  assert.match(chunk("\xc3"), /"body_base64":"ww=="/);
});

Deno.test("encodeResponseChunk takes base64 where JSON escapes would make text longer", () => {
  const zeros = encodeResponseChunk(new Uint8Array(32_768));
  assert.match(text(zeros).slice(0, 50), /base64/);
  assert.ok(zeros.length < 32_768 * 1.4, `${zeros.length}`);
});

Deno.test("encodeResponseError and the end have the contract's bytes", () => {
  assert.equal(text(RESPONSE_END), '{"type":"response_end"}');
  assert.equal(
    text(encodeResponseError("stream canceled: downstream_disconnect")),
    '{"type":"response_error","error":"stream canceled: downstream_disconnect"}',
  );
  assert.equal(
    text(encodeResponseError("gone", "target_broken")),
    '{"type":"response_error","error":"gone","natsway":{"error":"target_broken"}}',
  );
});

Deno.test("decodeEvent reads the events of the contract's sequences", () => {
  const start = decode(START);
  assert.ok(start?.type === "response_start");
  assert.equal(start.status, 200);
  assert.equal(start.streaming, false);
  assert.equal(start.receiverServiceId, "worker-1");
  assert.deepEqual({ ...start.headers }, {
    "content-type": "application/json",
    "content-length": "9",
  });
  assert.equal(start.peer, null);
  assert.equal(start.code, null);
  const body = (value: unknown) => {
    const event = decode(value);
    return event?.type === "response_chunk" ? event.body : null;
  };
  assert.deepEqual(body({ type: "response_chunk", body: '{"qty":7}' }), octets('{"qty":7}'));
  assert.deepEqual(
    body({ type: "response_chunk", body_encoding: "base64", body_base64: "/9j/4AAQ" }),
    octets("\xff\xd8\xff\xe0\x00\x10"),
  );
  assert.deepEqual(body({ type: "response_chunk", body_encoding: "x", body: "b" }), octets("b"));
  assert.deepEqual(body({ type: "response_chunk" }), octets(""));
  assert.deepEqual(
    decode({ type: "response_chunk", body_encoding: "base64", body_base64: "/9j/4AAQ\n" }),
    { type: "other", name: "response_chunk (bad base64)" },
  );
  assert.deepEqual(decode({ type: "response_end" }), { type: "response_end" });
  assert.deepEqual(decode({ type: "response_error", error: "x", natsway: { error: "gap" } }), {
    type: "response_error",
    error: "x",
    code: "gap",
  });
});

Deno.test("decodeEvent keeps arrays of header values, and drops values that are none", () => {
  const start = decode({
    type: "response_start",
    headers: { "set-cookie": ["a=1", 2, "b=2"], "x-n": 5, "x-null": null, "x-o": {} },
  });
  assert.ok(start?.type === "response_start");
  assert.deepEqual({ ...start.headers }, { "set-cookie": ["a=1", "b=2"], "x-n": "5" });
});

Deno.test("decodeEvent takes __proto__ for a header like any other", () => {
  const start = decode('{"type":"response_start","headers":{"__proto__":"x"}}');
  assert.ok(start?.type === "response_start");
  assert.deepEqual(Object.entries(start.headers), [["__proto__", "x"]]);
});

Deno.test("decodeEvent reads a missing status as 200 and one that is no answer as 502", () => {
  const status = (value: unknown) => {
    const event = decode({ type: "response_start", status: value });
    return event?.type === "response_start" ? event.status : null;
  };
  assert.equal(status(undefined), 200);
  assert.equal(status("204"), 502);
  assert.equal(status(1.5), 502);
  assert.equal(status(204), 204);
  for (const impossible of [0, -1, 99, 100, 101, 103, 1000, 1e9]) {
    assert.equal(status(impossible), 502, String(impossible));
  }
});

Deno.test("decodeEvent reads any streaming but false and null as true", () => {
  for (
    const [value, expected] of [[true, true], [0, true], ["", true], [false, false], [null, false]]
  ) {
    const event = decode({ type: "response_start", streaming: value });
    assert.equal(event?.type === "response_start" && event.streaming, expected, String(value));
  }
});

Deno.test("decodeEvent reads an error that is no text without stumbling", () => {
  for (const error of [{ toString: 1, valueOf: 2 }, [[]], 7, null, undefined]) {
    assert.deepEqual(decode({ type: "response_error", error }), {
      type: "response_error",
      error: "",
      code: null,
    });
  }
});

Deno.test("decodeEvent tells an unknown event, and drops what has no type", () => {
  assert.deepEqual(decode({ type: "session_established" }), {
    type: "other",
    name: "session_established",
  });
  assert.deepEqual(decode({ type: "x".repeat(5000) }), { type: "other", name: "x".repeat(64) });
  for (const value of ["[]", "7", "null", "{}", '{"type":7}', '{"stream":"proxy","seq":1}', "no"]) {
    assert.equal(decode(value), null, value);
  }
  assert.equal(decodeEvent(octets('{"type":"\xff"}')), null);
});

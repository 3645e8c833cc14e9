import assert from "node:assert/strict";
import {
  asHeaderText,
  decodeEnvelope,
  encodeHttpRequest,
  type HttpRequest,
  readHttpPayload,
} from "../../lib/protocol/envelope.ts";
import { encodeNatsHeaders } from "../../lib/protocol/nats_headers.ts";
import { octets } from "../helpers/bytes.ts";

const bytes = (value: unknown) =>
  new TextEncoder().encode(typeof value === "string" ? value : JSON.stringify(value));
const text = (data: Uint8Array | null) => data === null ? null : new TextDecoder().decode(data);
const decode = (value: unknown, reply = "", headers: Uint8Array | null = null) =>
  decodeEnvelope(bytes(value), reply, headers);

const PEER = {
  instance: "0123456789abcdef0123456789abcdef",
  features: ["raw"],
  maxMsg: 1048576,
  ttlMs: 30000,
  window: 1048576,
};

function request(changes: Partial<HttpRequest> = {}): HttpRequest {
  return {
    requestId: "9c41",
    replyTo: "proxy.responses.edge-a.9c41",
    method: "GET",
    path: "/stock/42?full=1",
    headers: { accept: "*/*" },
    head: [["Host", "shop.test"], ["Accept", "*/*"]],
    body: { kind: "none" },
    peer: PEER,
    ...changes,
  };
}

const NATSWAY = '"natsway":{"v":1,"instance":"0123456789abcdef0123456789abcdef",' +
  '"features":["raw"],"max_msg":1048576,"ttl_ms":30000,"window":1048576}';
/** The request of wire-protocol.md section 12 as a Ruby requester sends it. */
const RUBY_GET = '{"type":"request","request_id":"9c41","reply_to":"proxy.responses.edge-a.9c41",' +
  '"operation":"http_request","payload":{"method":"GET","path":"/stock/42?full=1",' +
  '"headers":{"accept":"*/*"},"body":null}}';

Deno.test("encodeHttpRequest writes the plain GET of the contract, with head and natsway behind", () => {
  assert.equal(
    text(encodeHttpRequest(request())),
    RUBY_GET.slice(0, -2) + ',"head":[["Host","shop.test"],["Accept","*/*"]]},' + NATSWAY + "}",
  );
});

Deno.test("encodeHttpRequest sends a text body as a JSON string, even if it is JSON", () => {
  const message = encodeHttpRequest(request({
    method: "POST",
    path: "/orders",
    headers: { "content-type": "application/json", traceparent: "00-ab-cd-01" },
    head: [["Content-Type", "application/json"]],
    body: { kind: "text", text: '{"sku": "A-1"}' },
  }));
  assert.equal(
    text(message),
    '{"type":"request","request_id":"9c41","reply_to":"proxy.responses.edge-a.9c41",' +
      '"operation":"http_request","payload":{"method":"POST","path":"/orders",' +
      '"headers":{"content-type":"application/json","traceparent":"00-ab-cd-01"},' +
      '"body":"{\\"sku\\": \\"A-1\\"}","head":[["Content-Type","application/json"]]},' +
      NATSWAY + "}",
  );
});

Deno.test("encodeHttpRequest sends other bodies and methods as natsway_http", () => {
  const binary = encodeHttpRequest(request({
    method: "PUT",
    headers: {},
    head: [],
    body: { kind: "bytes", bytes: octets("\xff\xd8\xff\xe0\x00\x10") },
  }));
  assert.equal(
    text(binary),
    '{"type":"request","request_id":"9c41","reply_to":"proxy.responses.edge-a.9c41",' +
      '"operation":"natsway_http","payload":{"method":"PUT","path":"/stock/42?full=1",' +
      '"headers":{},"body":null,"body_encoding":"base64","body_base64":"/9j/4AAQ","head":[]},' +
      NATSWAY + "}",
  );
  for (
    const [method, operation] of [
      ["PATCH", "http_request"],
      ["TRACE", "http_request"],
      ["OPTIONS", "http_request"],
      ["PROPFIND", "natsway_http"],
      ["get", "natsway_http"],
      ["__proto__", "natsway_http"],
    ] as const
  ) {
    const { operation: sent } = JSON.parse(text(encodeHttpRequest(request({ method })))!);
    assert.equal(sent, operation, method);
  }
});

Deno.test("A field named __proto__ crosses like any other", () => {
  const headers: Record<string, string> = Object.create(null);
  headers["__proto__"] = "x";
  const sent = encodeHttpRequest(request({ headers, head: [["__proto__", "x"]] }));
  const envelope = decodeEnvelope(sent, "", null);
  assert.equal(envelope.kind, "request");
  if (envelope.kind !== "request") return;
  assert.match(text(sent)!, /"headers":\{"__proto__":"x"\}/);
  const payload = { ...(envelope.payload as Record<string, unknown>), head: undefined };
  const read = readHttpPayload(payload);
  assert.ok(typeof read !== "string");
  assert.deepEqual(read.fields, [["__proto__", "x"]]);
});

Deno.test("decodeEnvelope reads what natsway sends and what Ruby sends", () => {
  const natsway = decodeEnvelope(encodeHttpRequest(request()), "x", null);
  const ruby = decode(RUBY_GET);
  assert.ok(natsway.kind === "request" && ruby.kind === "request");
  assert.deepEqual(natsway.peer, PEER);
  assert.equal(ruby.peer, null);
  for (const one of [natsway, ruby]) {
    assert.equal(one.requestId, "9c41");
    assert.equal(one.replyTo, "proxy.responses.edge-a.9c41");
    assert.equal(one.operation, "http_request");
    const payload = readHttpPayload(one.payload);
    assert.ok(typeof payload !== "string");
    assert.equal(payload.method, "GET");
    assert.equal(payload.path, "/stock/42?full=1");
    assert.equal(payload.body, null);
    assert.equal(payload.ordered, one === natsway);
  }
});

Deno.test("decodeEnvelope takes the reply subject by the precedence of the contract", () => {
  const block = (...pairs: [string, string][]) => encodeNatsHeaders(pairs);
  const whole = {
    request_id: "q",
    operation: "o",
    payload: {},
    reply_to: "field",
    "reply-to": "dashed",
  };
  const replyOf = (value: object, reply: string, headers: Uint8Array | null) => {
    const envelope = decode(value, reply, headers);
    return envelope.kind === "request" ? envelope.replyTo : envelope.kind;
  };
  assert.equal(replyOf(whole, "message", block(["Reply_To", "b"], ["rEPLY-tO", "a"])), "a");
  assert.equal(replyOf(whole, "message", block(["reply_to", "b"])), "b");
  assert.equal(replyOf(whole, "message", block(["Reply-To", ""])), "field");
  assert.equal(replyOf({ ...whole, reply_to: "" }, "message", null), "dashed");
  assert.equal(replyOf({ ...whole, reply_to: 7, "reply-to": null }, "message", null), "message");
  const without = { ...whole, reply_to: null, "reply-to": undefined };
  assert.equal(replyOf(without, "$JS.ACK.proxy.nats-proxy.1.2.3.4.5", null), "drop");
  assert.equal(replyOf(without, "", null), "drop");
});

Deno.test("decodeEnvelope refuses in the order of wire-protocol.md section 9", () => {
  const full = { type: "request", request_id: "q1", reply_to: "r", operation: "o", payload: {} };
  const invalid = (text: string, requestId: string | null, replyTo: string | null) => ({
    kind: "invalid",
    text,
    requestId,
    replyTo,
    replyAsIs: false,
  });
  const rows: [unknown, unknown][] = [
    [
      { ...full, type: "nonsense", request_id: "" },
      invalid("Invalid request envelope type", null, "r"),
    ],
    [{ ...full, type: 0 }, invalid("Invalid request envelope type", "q1", "r")],
    [{ ...full, request_id: "", operation: "" }, invalid("Missing request_id", null, "r")],
    [{ ...full, request_id: 17 }, invalid("Missing request_id", null, "r")],
    [{ ...full, request_id: "", reply_to: "" }, invalid("Missing request_id", null, null)],
    [{ ...full, reply_to: "", operation: "" }, { kind: "drop", text: "no reply_to" }],
    [{ ...full, operation: "", payload: null }, invalid("Missing operation", "q1", "r")],
    [{ ...full, payload: null }, invalid("Missing payload", "q1", "r")],
    [{ ...full, payload: undefined }, invalid("Missing payload", "q1", "r")],
  ];
  for (const [value, expected] of rows) {
    assert.deepEqual(decode(value), expected, JSON.stringify(value));
  }
  // The example of section 12.
  assert.deepEqual(
    decode('{"request_id":"q1","reply_to":"proxy.responses.edge-a.q1","operation":"http_request"}'),
    invalid("Missing payload", "q1", "proxy.responses.edge-a.q1"),
  );
});

Deno.test("decodeEnvelope counts an absent, null or empty type as a request", () => {
  for (const type of [undefined, null, "", "request"]) {
    const full = { type, request_id: "q", reply_to: "r", operation: "o", payload: 5 };
    assert.equal(decode(full).kind, "request", String(type));
  }
});

Deno.test("decodeEnvelope drops what is no JSON, and answers JSON that is no object as it came", () => {
  for (const data of [bytes(""), bytes("{"), bytes("GET / HTTP/1.1"), octets('{"a":"\xff"}')]) {
    assert.deepEqual(decodeEnvelope(data, "r", null), { kind: "drop", text: "not JSON" });
  }
  for (const value of ["[]", "3", "null", "true", '"text"']) {
    const expected = {
      kind: "invalid",
      text: "Invalid request envelope",
      requestId: null,
      replyTo: "from.reply",
      replyAsIs: true,
    };
    assert.deepEqual(decode(value, "from.reply"), expected, value);
  }
  const headers = encodeNatsHeaders([["Reply-To", "a.b"]]);
  const envelope = decode("[]", "c.d", headers);
  assert.equal(envelope.kind === "invalid" && envelope.replyTo, "a.b");
});

Deno.test("decodeEnvelope reads an early cancel, and drops one without its object", () => {
  const cancel = {
    request_id: "9c41",
    service_id: "edge-a",
    reason: "downstream_disconnect",
    timestamp: "2026-06-02T08:15:30Z",
  };
  assert.deepEqual(decode({ type: "cancel", request_id: "9c41", cancel }), {
    kind: "cancel",
    cancel: {
      requestId: "9c41",
      reason: "downstream_disconnect",
      serviceId: "edge-a",
      epoch: null,
    },
  });
  assert.equal(decode({ type: "cancel", request_id: "9c41" }).kind, "drop");
  assert.equal(decode({ type: "cancel", request_id: "9c41", cancel: "x" }).kind, "drop");
  assert.equal(decode({ type: "cancel", cancel: {} }).kind, "drop");
});

Deno.test("readHttpPayload takes every form of a body", () => {
  const rows: [object, string | null, boolean][] = [
    [{}, null, false],
    [{ body: null }, null, false],
    [{ body: false }, null, false],
    [{ body: "" }, "", false],
    [{ body: "ü" }, "ü", false],
    [{ body: { sku: "A-1", n: [1, 2] } }, '{"sku":"A-1","n":[1,2]}', true],
    [{ body: [] }, "[]", true],
    [{ body: 0 }, "0", true],
    [{ body: true }, "true", true],
    [{ body: "x", body_encoding: "base64", body_base64: "/9j/4AAQ" }, "base64", false],
    [{ body: "x", body_encoding: "gzip" }, "x", false],
  ];
  for (const [members, body, json] of rows) {
    const read = readHttpPayload({ method: "POST", path: "/", ...members });
    assert.ok(typeof read !== "string", JSON.stringify(members));
    if (body === "base64") assert.deepEqual(read.body, octets("\xff\xd8\xff\xe0\x00\x10"));
    else assert.equal(text(read.body), body, JSON.stringify(members));
    const types = read.fields.filter(([name]) => name === "content-type");
    assert.deepEqual(types, json ? [["content-type", "application/json"]] : []);
  }
});

Deno.test("readHttpPayload adds a content type to re-serialised JSON only where there is none", () => {
  const fields = (members: object) => {
    const read = readHttpPayload({ method: "POST", path: "/", body: { a: 1 }, ...members });
    return typeof read === "string" ? read : read.fields;
  };
  assert.deepEqual(fields({ headers: { "Content-TYPE": "text/x" } }), [["Content-TYPE", "text/x"]]);
  assert.deepEqual(fields({ head: [["A", "b"]] }), [
    ["A", "b"],
    ["content-type", "application/json"],
  ]);
});

Deno.test("readHttpPayload refuses what cannot be a request, with the text of the contract", () => {
  const ok = { method: "GET", path: "/" };
  const rows: [unknown, string][] = [
    ["GET /", "Missing method or path"],
    [{ ...ok, method: "" }, "Missing method or path"],
    [{ ...ok, path: "" }, "Missing method or path"],
    [{ ...ok, path: 7 }, "Missing method or path"],
    [[], "Invalid payload"],
    [7, "Invalid payload"],
    [{ ...ok, headers: [] }, "Invalid headers"],
    [{ ...ok, headers: "x" }, "Invalid headers"],
    [{ ...ok, body_encoding: "base64" }, "Invalid body_base64"],
    [{ ...ok, body_encoding: "base64", body_base64: "/9j/4AA" }, "Invalid body_base64"],
  ];
  for (const [payload, expected] of rows) {
    assert.equal(readHttpPayload(payload), expected, JSON.stringify(payload));
  }
});

Deno.test("readHttpPayload reads Ruby's headers: strings, arrays, numbers; UTF-8 becomes octets", () => {
  const read = readHttpPayload({
    method: "GET",
    path: "/",
    headers: {
      accept: "*/*",
      cookie: ["a=1", "b=2"],
      "x-number": 7,
      "x-text": "ü€",
      "x-null": null,
      "x-object": { a: 1 },
      "x-mixed": ["a", { toString: 1 }, ["b"], null, "c"],
    },
  });
  assert.ok(typeof read !== "string");
  assert.equal(read.ordered, false);
  assert.deepEqual(read.fields, [
    ["accept", "*/*"],
    ["cookie", "a=1, b=2"],
    ["x-number", "7"],
    ["x-text", "\xc3\xbc\xe2\x82\xac"],
    ["x-mixed", "a, c"],
  ]);
});

Deno.test("readHttpPayload falls back to headers when head is not a list of pairs", () => {
  for (const head of [{}, "x", [["a"]], [["a", 1]], [null], [["a", "b"], "c"]]) {
    const read = readHttpPayload({ method: "GET", path: "/", headers: { h: "1" }, head });
    assert.ok(typeof read !== "string");
    assert.deepEqual(read.fields, [["h", "1"]], JSON.stringify(head));
  }
});

Deno.test("Ruby's eight methods are read in any case, a natsway peer's as the client sent it", () => {
  const method = (payload: object) => {
    const read = readHttpPayload({ path: "/", ...payload });
    return typeof read === "string" ? read : read.method;
  };
  assert.equal(method({ method: "get" }), "GET");
  assert.equal(method({ method: "Trace" }), "TRACE");
  assert.equal(method({ method: "propfind" }), "propfind");
  assert.equal(method({ method: "get", head: [] }), "get");
});

Deno.test("asHeaderText gives UTF-8 octets as their text, and others as they are", () => {
  assert.equal(asHeaderText("plain"), "plain");
  assert.equal(asHeaderText("\xc3\xbc"), "ü");
  assert.equal(asHeaderText("\xef\xbb\xbfx"), "\ufeffx");
  assert.equal(asHeaderText("\xfc"), "\xfc");
});

Deno.test("decodeEnvelope reads the natsway member from where it stands, also when it has seen that one before", () => {
  const natsway = (json: string, times = 3) => {
    let last: unknown;
    for (let i = 0; i < times; i++) {
      const envelope = decodeEnvelope(octets(json), "", null);
      assert.ok(envelope.kind === "request", json);
      last = [envelope.peer, envelope.payload];
    }
    return last;
  };
  const envelope = text(encodeHttpRequest(request()))!;
  const payload = {
    method: "GET",
    path: "/stock/42?full=1",
    headers: { accept: "*/*" },
    body: null,
  };
  const head = [["Host", "shop.test"], ["Accept", "*/*"]];
  assert.deepEqual(natsway(envelope), [PEER, { ...payload, head }]);
  // The same text, but as a part of the payload: no word of the peer about itself.
  const start = '{"type":"request","request_id":"1","reply_to":"r","operation":"o",';
  const inside = `${start}"payload":{"a":1,${NATSWAY}}}`;
  const value = JSON.parse(`{${NATSWAY}}`).natsway;
  assert.deepEqual(natsway(inside), [null, { a: 1, natsway: value }]);
  assert.deepEqual(natsway(`${start}"payload":{"a":",${NATSWAY.replaceAll('"', '\\"')}}"}}`), [
    null,
    { a: `,${NATSWAY}}` },
  ]);
  for (const broken of [`[${envelope}`, envelope.slice(0, -1), `${envelope}}`, `x${envelope}`]) {
    assert.equal(decodeEnvelope(octets(broken), "", null).kind, "drop", broken);
  }
});

import assert from "node:assert/strict";
import { octets } from "../helpers/bytes.ts";
import { withoutDate } from "../helpers/unit_client.ts";
import { headFrame, RequesterRig } from "../helpers/unit_requester.ts";

const POST = "POST /orders HTTP/1.1\r\nHost: shop.test\r\nContent-Length: 3\r\n\r\n";

Deno.test("A request is published once, on the own subject, with the reply subject for no-responders", () => {
  using rig = new RequesterRig({ via: "natsway-1", forwardedHeaders: "append" });
  const { message, id, replyTo } = rig.send(
    "GET /stock/42?full=1 HTTP/1.1\r\nHost: shop.test\r\nTraceParent: 00-ab-cd-01\r\n\r\n",
  );
  assert.match(id, /^[0-9a-f]{32}$/);
  assert.equal(message.subject, `to.proxy.requests.edge-a.${id}`);
  assert.equal(replyTo, `from.proxy.responses.edge-a.${id}`);
  assert.equal(message.reply, replyTo);
  assert.equal(message.headers, "NATS/1.0\r\ntraceparent: 00-ab-cd-01\r\n\r\n");
  assert.deepEqual(message.json, {
    type: "request",
    request_id: id,
    reply_to: replyTo,
    operation: "http_request",
    payload: {
      method: "GET",
      path: "/stock/42?full=1",
      headers: {
        traceparent: "00-ab-cd-01",
        "x-forwarded-for": "192.0.2.7",
        "x-forwarded-proto": "http",
        "x-forwarded-host": "shop.test",
        via: "1.1 natsway-1",
      },
      body: null,
      head: [
        ["Host", "shop.test"],
        ["TraceParent", "00-ab-cd-01"],
        ["X-Forwarded-For", "192.0.2.7"],
        ["X-Forwarded-Proto", "http"],
        ["X-Forwarded-Host", "shop.test"],
        ["Via", "1.1 natsway-1"],
      ],
    },
    natsway: {
      v: 1,
      instance: "i-edge-a",
      features: ["raw"],
      max_msg: 1_048_576,
      ttl_ms: 60_000,
      window: 262_144,
    },
  });
});

Deno.test("A response gets Via behind the origin's fields", async () => {
  using rig = new RequesterRig({ via: "natsway-1" });
  const sent = rig.send();
  rig.answer(sent, headFrame({ body: "x" }));
  assert.equal(
    await sent.client.text(),
    "HTTP/1.1 200 OK\r\nDate: D\r\nVia: 1.1 natsway-1\r\nContent-Length: 1\r\n\r\nx",
  );
});

Deno.test("Bodies go as text or as octets", async () => {
  using rig = new RequesterRig();
  rig.handle(POST, { kind: "body", bytes: octets("abc") });
  rig.handle(POST, { kind: "body", bytes: octets("\xff\xfe\xfd") });
  rig.handle(POST, { kind: "body", bytes: octets("") });
  await rig.transport.count(3);
  const [text, binary, empty] = rig.transport.all.map((one) => one.json);
  assert.equal(text.payload.body, "abc");
  assert.equal(text.operation, "http_request");
  assert.equal(binary.payload.body, null);
  assert.equal(binary.payload.body_base64, "//79");
  assert.equal(binary.operation, "natsway_http");
  assert.equal(empty.payload.body, "");
  assert.equal([...rig.registry.live()][0]?.sentBytes, 3);
});

Deno.test("A body that is too large names the bound that it hit", async () => {
  using rig = new RequesterRig();
  const half = rig.handle(POST, { kind: "too_large" });
  await half.ended;
  assert.match(
    await half.text(),
    /413 Content Too Large\r\n[^]*half of the NATS server's max_payload/,
  );
  using own = new RequesterRig({ maxBodyBytes: 10 });
  const set = own.handle(POST, { kind: "too_large" });
  await set.ended;
  assert.match(await set.text(), /MAX_BODY_BYTES \(10\)[^]*"code":"body_too_large"/);
  assert.equal(rig.registry.opened, 0);
});

Deno.test("A body that is none is answered with its status, or not at all", async () => {
  using rig = new RequesterRig();
  const late = rig.handle(POST, { kind: "broken", status: 408, reason: "The body took too long" });
  await late.ended;
  assert.match(await late.text(), /^HTTP\/1\.1 408 Request Timeout\r\n/);
  const left = rig.handle(POST, { kind: "broken", status: 0, reason: "The client left" });
  assert.equal(await left.ended, "broken");
  assert.equal(await left.text(), "");
  assert.equal(rig.transport.all.length, 0);
});

Deno.test("A request that came through this process before is a loop", async () => {
  using rig = new RequesterRig({ via: "natsway-1" });
  const client = rig.handle("GET / HTTP/1.1\r\nHost: a\r\nVia: 1.1 natsway-1\r\n\r\n");
  assert.match(await client.text(), /^HTTP\/1\.1 508 Loop Detected\r\n[^]*"code":"loop"/);
  using off = new RequesterRig({ via: null });
  off.send("GET / HTTP/1.1\r\nHost: a\r\nVia: 1.1 natsway-1\r\n\r\n");
});

Deno.test("TRACE and OPTIONS with no hop left end here", async () => {
  using rig = new RequesterRig();
  const trace = rig.handle("TRACE /t HTTP/1.1\r\nHost: a\r\nMax-Forwards: 0\r\n\r\n");
  assert.match(
    await trace.text(),
    /\r\n\r\nTRACE \/t HTTP\/1\.1\r\nHost: a\r\nMax-Forwards: 0\r\n\r\n$/,
  );
  const options = rig.handle("OPTIONS * HTTP/1.1\r\nHost: a\r\nMax-Forwards: 0\r\n\r\n");
  assert.equal(withoutDate(await options.text()), "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
  assert.equal(rig.transport.all.length, 0);
  const sent = rig.send("OPTIONS * HTTP/1.1\r\nHost: a\r\nMax-Forwards: 2\r\n\r\n");
  assert.equal(sent.message.json.payload.path, "*");
  assert.equal(sent.message.json.payload.headers["max-forwards"], "1");
});

Deno.test("Without a connection the answer is 503 at once, with the state of the service", async () => {
  using rig = new RequesterRig();
  rig.transport.connected = false;
  const client = rig.handle("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  const text = await client.text();
  assert.match(text, /^HTTP\/1\.1 503 Service Unavailable\r\n/);
  assert.match(
    text,
    /"message":"Service runtime booting","code":"nats_down","details":\{"state":"booting"\}/,
  );
  assert.equal(rig.end, "nats_down");
});

Deno.test("A connection that is lost while the body comes is 503 too", async () => {
  using rig = new RequesterRig();
  const client = rig.handle(POST, { kind: "body", bytes: octets("abc") });
  rig.transport.connected = false;
  await client.ended;
  assert.match(await client.text(), /^HTTP\/1\.1 503 [^]*"code":"nats_down"/);
  assert.equal(rig.end, "nats_down");
});

Deno.test("A head that does not fit a message is 431", async () => {
  using rig = new RequesterRig();
  rig.transport.maxPayload = 2000;
  const client = rig.handle(`GET / HTTP/1.1\r\nHost: a\r\nX: ${"y".repeat(2000)}\r\n\r\n`);
  const text = await client.text();
  assert.match(text, /^HTTP\/1\.1 431 [^]*max_payload of 2000[^]*"code":"head_too_large"/);
  assert.equal(rig.registry.size, 0);
});

Deno.test("MAX_FLOWS bounds what is under way", async () => {
  using rig = new RequesterRig({ maxFlows: 1 });
  const first = rig.send();
  const client = rig.handle("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  assert.match(await client.text(), /^HTTP\/1\.1 503 [^]*\r\nRetry-After: 1\r\n[^]*MAX_FLOWS/);
  rig.answer(first, headFrame({ body: "x" }));
  rig.send();
});

Deno.test("A flow's line names the request, its peer and both byte counts", async () => {
  using rig = new RequesterRig();
  const client = rig.handle(POST, { kind: "body", bytes: octets("abc") });
  await rig.transport.count(1);
  const { request_id: id, reply_to: replyTo } = rig.transport.all[0]!.json;
  rig.answer({ client, id, replyTo, message: rig.transport.all[0]! }, headFrame({ body: "hello" }));
  const line = rig.logger.lines.find((one) => one.message === "flow closed");
  assert.deepEqual({ ...line?.fields, ms: 0 }, {
    request_id: id,
    kind: "http",
    code: "ok",
    method: "POST",
    target: "/orders",
    status: 200,
    peer: "worker-1",
    sent_bytes: 3,
    received_bytes: 5,
    ms: 0,
    detail: undefined,
  });
});

import assert from "node:assert/strict";
import { octets } from "../helpers/bytes.ts";
import { RawClient, request as httpRequest, requestOctets } from "../helpers/client.ts";
import { text } from "../helpers/http_message.ts";
import { startNats } from "../helpers/nats_server.ts";
import { startNatsway } from "../helpers/natsway.ts";
import { answer, startUpstream, type Upstream } from "../helpers/upstream.ts";
import { EventLog } from "../helpers/wait.ts";
import { type BareMessage, BareNats, exactHeader } from "./bare_nats.ts";
import { type JsonRecord, parseObject } from "./ruby_wire.ts";
import { chunkedHead, httpChunk } from "./sides.ts";

const ID = "9c41".repeat(8);
const TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const ROOTS = { NATS_REQUEST_SUBJECT_ROOT: "proxy", NATS_RESPONSE_SUBJECT_ROOT: "proxy" };
const REPLY = `proxy.responses.edge-a.${ID}`;
const payloadText = (message: BareMessage) => new TextDecoder().decode(message.data);

/** Keeps what comes on a subject. */
async function listen(nats: BareNats, subject: string): Promise<EventLog<BareMessage>> {
  const log = new EventLog<BareMessage>();
  nats.subscribe(subject, (message) => log.add(message));
  await nats.flush();
  return log;
}

function has(log: EventLog<BareMessage>, part: string): Promise<BareMessage> {
  return log.find((message) => payloadText(message).includes(part), {
    ms: 8_000,
    what: part,
    describe: () => log.events.map(payloadText).join("\n"),
  });
}

/** The request envelope of section 12, as nats-proxy writes it. */
function requestText(payload: JsonRecord, id = ID): string {
  const reply_to = `proxy.responses.edge-a.${id}`;
  const operation = "http_request";
  return JSON.stringify({ type: "request", request_id: id, reply_to, operation, payload });
}

const START_9 =
  '{"type":"response_start","status":200,"headers":{"content-type":"application/json","content-length":"9"},' +
  '"content_type":"application/json","streaming":false,"receiver_service_id":"worker-1",' +
  `"request_id":"${ID}","flow_kind":"http_request"}`;

async function receiverSteps(t: Deno.TestContext, nats: BareNats, upstream: Upstream) {
  const send = (id: string, body: string, headers: [string, string][] = []) =>
    nats.publish(`proxy.requests.edge-a.${id}`, body, { headers });

  await t.step("plain GET", async () => {
    upstream.route(
      "/stock",
      (_, connection) =>
        connection.write(answer('{"qty":7}', { fields: ["Content-Type: application/json"] })),
    );
    const events = await listen(nats, REPLY);
    const payload = { method: "GET", path: "/stock/42?full=1", headers: { accept: "*/*" } };
    send(ID, requestText({ ...payload, body: null }));
    await has(events, "response_end");
    assert.deepEqual(events.events.map(payloadText), [
      START_9,
      '{"type":"response_chunk","body":"{\\"qty\\":7}"}',
      '{"type":"response_end"}',
    ]);
    assert.equal((await upstream.request("/stock")).startLine, "GET /stock/42?full=1 HTTP/1.1");
  });

  await t.step("POST JSON in Ruby's form, with a binary answer", async () => {
    upstream.route("/image", async (request, connection) => {
      await request.readBody();
      await connection.write(
        answer(octets("\xff\xd8\xff\xe0\x00\x10"), { fields: ["Content-Type: image/jpeg"] }),
      );
    });
    const id = "b0".repeat(16);
    const events = await listen(nats, `proxy.responses.edge-a.${id}`);
    const payload = { method: "POST", path: "/image", headers: { traceparent: TRACE } };
    send(id, requestText({ ...payload, body: { sku: "A-1" } }, id), [["traceparent", TRACE]]);
    await has(events, "response_end");
    assert.equal(
      payloadText(events.events[1] as BareMessage),
      '{"type":"response_chunk","body_encoding":"base64","body_base64":"/9j/4AAQ"}',
    );
    for (const event of events.events) assert.equal(exactHeader(event, "traceparent"), TRACE);
    const seen = await upstream.request("/image");
    assert.equal(new TextDecoder().decode(await seen.readBody()), '{"sku":"A-1"}');
  });

  await t.step("SSE with credit and cancel", async () => {
    upstream.route("/sse", async (_, connection) => {
      await connection.write(chunkedHead("text/event-stream"));
      await connection.write(httpChunk("data: tick\n\n"));
      await connection.waitEnd(60_000);
    });
    const id = "55".repeat(16);
    const events = await listen(nats, `proxy.responses.edge-a.${id}`);
    const payload = { method: "GET", path: "/sse", headers: {}, body: null };
    send(id, requestText(payload, id));
    const start = parseObject((await has(events, "response_start")).data);
    assert.equal(start?.["streaming"], true);
    assert.equal(start?.["content_type"], "text/event-stream");
    assert.equal(start?.["flow_kind"], "http_stream");
    await nats.flush();
    assert.equal(events.events.length, 1, "nothing may be published before the first grant");
    const credit = { type: "flow_credit", request_id: id, direction: "response", bytes: 1048576 };
    const about = { service_id: "edge-a", timestamp: "2026-06-02T08:15:30Z" };
    nats.publish(`proxy.control.worker-1.${id}`, JSON.stringify({ ...credit, ...about }), {
      headers: [["Nats-Session-Id", id], ["Nats-Frame-Type", "response_credit"]],
    });
    const chunk = await has(events, "tick");
    assert.equal(payloadText(chunk), '{"type":"response_chunk","body":"data: tick\\n\\n"}');
    const cancel = { request_id: id, service_id: "edge-a", reason: "downstream_disconnect" };
    nats.publish(
      `proxy.cancel.worker-1.${id}`,
      JSON.stringify({ type: "cancel", request_id: id, cancel: { ...cancel, timestamp: "…" } }),
    );
    await has(events, "response_end");
    assert.deepEqual(events.events.slice(2).map(payloadText), [
      '{"type":"response_error","error":"stream canceled: downstream_disconnect"}',
      '{"type":"response_end"}',
    ]);
  });

  await t.step("invalid envelope", async () => {
    const events = await listen(nats, "proxy.responses.edge-a.q1");
    send(
      "q1",
      '{"request_id":"q1","reply_to":"proxy.responses.edge-a.q1","operation":"http_request"}',
    );
    await has(events, "response_end");
    assert.deepEqual(events.events.map(payloadText), [
      '{"type":"response_start","status":400,"headers":{"content-type":"application/json"},' +
      '"content_type":"application/json","streaming":false,"receiver_service_id":"worker-1"}',
      '{"type":"response_chunk","body":"{\\"error\\":\\"Missing payload\\"}"}',
      '{"type":"response_end"}',
    ]);
  });
}

async function requesterSteps(t: Deno.TestContext, nats: BareNats, port: number) {
  const requests = await listen(nats, "proxy.requests.>");
  const controls = await listen(nats, "proxy.control.worker-1.*");
  const cancels = await listen(nats, "proxy.cancel.worker-1.*");
  const taken = async (path: string) => {
    const message = await has(requests, `"${path}"`);
    const envelope = parseObject(message.data) as JsonRecord;
    const id = String(envelope["request_id"]);
    const say = (event: string) => nats.publish(`proxy.responses.edge-a.${id}`, event);
    return { message, envelope, id, say };
  };

  await t.step("plain GET", async () => {
    const response = httpRequest(port, "/stock/42?full=1", { fields: ["Accept: */*"] });
    const { message, envelope, id, say } = await taken("/stock/42?full=1");
    assert.equal(message.subject, `proxy.requests.edge-a.${id}`);
    const wanted =
      `{"type":"request","request_id":"${id}","reply_to":"proxy.responses.edge-a.${id}",` +
      '"operation":"http_request","payload":{"method":"GET","path":"/stock/42?full=1","headers":{';
    assert.ok(payloadText(message).startsWith(wanted), payloadText(message));
    const payload = envelope["payload"] as JsonRecord;
    assert.equal((payload["headers"] as JsonRecord)["accept"], "*/*");
    assert.equal(payload["body"], null);
    for (
      const event of [
        START_9.replace(ID, id),
        '{"type":"response_chunk","body":"{\\"qty\\":7}"}',
        '{"type":"response_end"}',
      ]
    ) say(event);
    assert.equal(text(await response), '{"qty":7}');
  });

  await t.step("POST JSON", async () => {
    const fields = ["Content-Type: application/json", `traceparent: ${TRACE}`];
    const response = httpRequest(port, "/orders", {
      method: "POST",
      body: '{"sku": "A-1"}',
      fields,
    });
    const { message, envelope, id, say } = await taken("/orders");
    assert.ok(payloadText(message).includes('"body":"{\\"sku\\": \\"A-1\\"}"'));
    assert.equal(exactHeader(message, "traceparent"), TRACE);
    const headers = (envelope["payload"] as JsonRecord)["headers"] as JsonRecord;
    assert.equal(headers["content-type"], "application/json");
    assert.equal(headers["traceparent"], TRACE);
    say(START_9.replace(ID, id).replace("9", "6"));
    say('{"type":"response_chunk","body_encoding":"base64","body_base64":"/9j/4AAQ"}');
    say('{"type":"response_end"}');
    assert.deepEqual((await response).body, octets("\xff\xd8\xff\xe0\x00\x10"));
  });

  await t.step("SSE with credit and cancel", async () => {
    await using client = await RawClient.connect(port);
    await client.send(requestOctets("/live"));
    const { id, say } = await taken("/live");
    say(
      `{"type":"response_start","status":200,"headers":{"content-type":"text/event-stream"},"content_type":` +
        `"text/event-stream","streaming":true,"receiver_service_id":"worker-1","request_id":"${id}","flow_kind":"http_stream"}`,
    );
    const grant = await has(controls, id);
    const credit = parseObject(grant.data) as JsonRecord;
    assert.equal(grant.subject, `proxy.control.worker-1.${id}`);
    assert.deepEqual(grant.headers, [
      ["Nats-Session-Id", id],
      ["Nats-Frame-Type", "response_credit"],
    ]);
    const { timestamp: _, ...rest } = credit;
    assert.deepEqual(rest, {
      type: "flow_credit",
      request_id: id,
      direction: "response",
      bytes: 1_048_576,
      service_id: "edge-a",
    });
    say('{"type":"response_chunk","body":"data: tick\\n\\n"}');
    await client.socket.readUntil("data: tick\n\n");
    const before = controls.events.length;
    const big = JSON.stringify({ type: "response_chunk", body: "x".repeat(32_768) });
    for (let i = 0; i < 9; i++) say(big);
    const more = await controls.find((one) => one.subject.endsWith(id), {
      ms: 8_000,
      what: "another response_credit",
      from: before,
    });
    assert.ok(Number(parseObject(more.data)?.["bytes"]) >= 262_144);
    await client.close();
    const cancel = parseObject((await has(cancels, id)).data) as JsonRecord;
    const { timestamp, ...inner } = cancel["cancel"] as JsonRecord;
    assert.match(String(timestamp), /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
    assert.deepEqual(inner, {
      request_id: id,
      service_id: "edge-a",
      reason: "downstream_disconnect",
    });
    say('{"type":"response_chunk","body":"late"}');
    say('{"type":"response_error","error":"stream canceled: downstream_disconnect"}');
    say('{"type":"response_end"}');
    await nats.flush();
  });

  await t.step(
    "a CONNECT of a client is refused while proxy auth is on and has no users",
    async () => {
      await using client = await RawClient.connect(port);
      const response = await client.exchange(
        "CONNECT db.lan:5432 HTTP/1.1\r\nHost: db.lan:5432\r\n\r\n",
        {
          method: "GET",
        },
      );
      assert.ok(response.status >= 400, String(response.status));
      assert.ok(!requests.events.some((message) => payloadText(message).includes("db.lan")));
    },
  );
}

Deno.test("the sequences of wire-protocol section 12, with natsway as worker-1", async (t) => {
  await using nats = await startNats();
  await using upstream = await startUpstream();
  await using receiver = await startNatsway("receiver", {
    ...ROOTS,
    NATS_URL: nats.url,
    UPSTREAM_URL: upstream.url,
    SERVICE_ID: "worker-1",
  });
  await using raw = await BareNats.connect(nats.port);
  await receiverSteps(t, raw, upstream);
  assert.ok(receiver.running);
});

Deno.test("the sequences of wire-protocol section 12, with natsway as edge-a", async (t) => {
  await using nats = await startNats();
  await using requester = await startNatsway("requester", {
    ...ROOTS,
    NATS_URL: nats.url,
    SERVICE_ID: "edge-a",
  });
  await using raw = await BareNats.connect(nats.port);
  await requesterSteps(t, raw, requester.port);
  assert.ok(requester.running);
});

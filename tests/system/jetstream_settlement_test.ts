import assert from "node:assert/strict";
import { pattern } from "../helpers/bytes.ts";
import { NatsClient } from "../helpers/nats_client.ts";
import { assertErrorReply, newId, PEER_ID, PeerCall } from "../helpers/nats_peer.ts";
import { freePort } from "../helpers/nats_server.ts";
import { startRig } from "../helpers/rig.ts";
import { type Row, runRows } from "../helpers/rows.ts";
import { answer } from "../helpers/upstream.ts";
import { Settlements, stored } from "./settlements.ts";

const RECEIVER_ID = "rec-1";

/** A row of wire-protocol.md section 9. */
interface Case {
  readonly name: string;
  readonly payload: (call: PeerCall) => unknown;
  readonly headers?: (call: PeerCall) => string[];
  /** Status and text of the answer; null for a dash. */
  readonly answer: readonly [status: number, error: string | RegExp] | null;
  /** The answer is made before the operation starts. @default {true} */
  readonly early?: boolean;
  readonly settled: "+ACK" | "+TERM";
}

const http = (call: PeerCall, payload: unknown) => call.envelope({ payload });
const tcp = (call: PeerCall, payload: unknown) =>
  call.envelope({ operation: "tcp_stream", payload });
const without = (call: PeerCall, name: string) =>
  Object.fromEntries(Object.entries(call.envelope()).filter(([key]) => key !== name));
const replyHeader = (call: PeerCall) => [`Reply-To: ${call.replyTo}`];
const BAD_TARGET = "Missing or invalid host/port for tcp_stream";

const CASES: readonly Case[] = [
  {
    name: "octets that are no JSON",
    payload: () => pattern(16),
    headers: replyHeader,
    answer: null,
    settled: "+TERM",
  },
  ...[[], 5, "text", null, true].map((payload): Case => ({
    name: `${JSON.stringify(payload)} as envelope`,
    payload: () => payload,
    headers: replyHeader,
    answer: [400, "Invalid request envelope"],
    settled: "+TERM",
  })),
  {
    name: "an array without a reply subject",
    payload: () => [],
    answer: null,
    settled: "+TERM",
  },
  {
    name: "another type",
    payload: (call) => call.envelope({ type: "other" }),
    answer: [400, "Invalid request envelope type"],
    settled: "+TERM",
  },
  ...["request_id", "operation", "payload"].map((field): Case => ({
    name: `no ${field}`,
    payload: (call) => without(call, field),
    answer: [400, `Missing ${field}`],
    settled: "+TERM",
  })),
  {
    name: "no reply_to",
    payload: (call) => without(call, "reply_to"),
    answer: null,
    settled: "+TERM",
  },
  {
    name: "a cancel without its object",
    payload: (call) => ({ type: "cancel", request_id: call.id }),
    answer: null,
    settled: "+ACK",
  },
  {
    name: "a cancel for an unknown id",
    payload: () => {
      const id = newId();
      const cancel = { request_id: id, service_id: PEER_ID, reason: "", timestamp: "x" };
      return { type: "cancel", request_id: id, cancel };
    },
    answer: null,
    settled: "+ACK",
  },
  {
    name: "an unknown operation",
    payload: (call) => call.envelope({ operation: "fax" }),
    answer: [503, "No handler registered for operation=fax"],
    settled: "+TERM",
  },
  ...[[1], 5, true].map((payload): Case => ({
    name: `${JSON.stringify(payload)} as payload`,
    payload: (call) => http(call, payload),
    answer: [400, /./],
    settled: "+TERM",
  })),
  ...["GET /", { path: "/x" }, { method: "GET", path: "" }].map((payload): Case => ({
    name: `${JSON.stringify(payload)} as payload: no method or path`,
    payload: (call) => http(call, payload),
    answer: [400, "Missing method or path"],
    settled: "+TERM",
  })),
  {
    name: "an absolute URL that is none",
    payload: (call) => http(call, { method: "GET", path: "http://[::1/x" }),
    answer: [400, /^Invalid proxy target URL/],
    // It names its request, which the contract leaves out and no peer minds.
    early: false,
    settled: "+TERM",
  },
  ...[
    { port: 80, requester_service_id: PEER_ID },
    { host: "a.test", port: 0, requester_service_id: PEER_ID },
    { host: "a.test", port: "none", requester_service_id: PEER_ID },
  ].map((payload): Case => ({
    name: `${JSON.stringify(payload)} as target`,
    payload: (call) => tcp(call, payload),
    answer: [400, BAD_TARGET],
    settled: "+TERM",
  })),
  {
    name: "a session without its requester",
    payload: (call) => tcp(call, { host: "a.test", port: 80 }),
    answer: [400, "Missing requester_service_id for tcp_stream"],
    settled: "+TERM",
  },
];

Deno.test("each row of the contract's table of bad input is settled at its first delivery, with the answer of Core", async (t) => {
  await using rig = await startRig({
    mode: "jetstream",
    receiverSettings: { SERVICE_ID: RECEIVER_ID },
  });
  await using nats = await NatsClient.connect(rig.nats.port);
  const settlements = await Settlements.open(nats);
  const rows = CASES.map((one): Row => ({
    name: `${one.name}: ${one.answer === null ? "no answer" : one.answer[0]}, ${one.settled}`,
    run: async () => {
      const call = new PeerCall(nats);
      const seq = await stored(nats, call, one.payload(call), one.headers?.(call));
      if (one.answer === null) await call.unanswered();
      else {
        const [status, error] = one.answer;
        const { early = true } = one;
        const events = await call.answered();
        assertErrorReply(events, status, error, { early, receiver: RECEIVER_ID });
      }
      await settlements.settled(seq, `${one.settled} 1`);
      assert.deepEqual(settlements.of(seq), [`${one.settled} 1`]);
    },
  }));
  await runRows(t, rows);
  const { num_ack_pending, num_redelivered } = await rig.operator.consumer();
  assert.deepEqual({ num_ack_pending, num_redelivered }, {
    num_ack_pending: 0,
    num_redelivered: 0,
  });
  assert.equal((await rig.request("/fine")).status, 200);
});

Deno.test("what has touched its target is answered and acknowledged, never delivered again", async (t) => {
  await using rig = await startRig({
    mode: "jetstream",
    receiverSettings: {
      SERVICE_ID: RECEIVER_ID,
      UPSTREAM_URL: `http://127.0.0.1:${freePort()}`,
    },
  });
  await using nats = await NatsClient.connect(rig.nats.port);
  const settlements = await Settlements.open(nats);
  const ends = async (call: PeerCall, envelope: unknown) => {
    const seq = await stored(nats, call, envelope);
    const events = await call.answered();
    await settlements.settled(seq, "+ACK 1");
    assert.deepEqual(settlements.of(seq), ["+ACK 1"]);
    return events;
  };
  for (const method of ["GET", "POST"]) {
    await t.step(`${method} to an upstream that refuses: 503, +ACK`, async () => {
      const call = new PeerCall(nats);
      const events = await ends(call, http(call, { method, path: "/x", headers: {} }));
      const error = /^Upstream unavailable: ./;
      assertErrorReply(events, 503, error, { early: false, receiver: RECEIVER_ID });
    });
  }
  for (const [host, what] of [["127.0.0.1", "refuses"], ["no-such-name.invalid", "is unknown"]]) {
    await t.step(`a session to a target that ${what}: 502, +ACK`, async () => {
      const call = new PeerCall(nats);
      const port = freePort();
      const events = await ends(
        call,
        tcp(call, { host, port, requester_service_id: PEER_ID }),
      );
      const [start, chunk] = events;
      assert.equal(start?.["status"], 502);
      assert.equal(start?.["content_type"], "text/plain");
      assert.equal(String(chunk?.["body"]).trim(), `Failed to connect to ${host}:${port}`);
    });
  }
});

Deno.test("a receiver without an upstream gives a request back, and answers on the last delivery", async () => {
  await using rig = await startRig({
    mode: "jetstream",
    receiverSettings: { SERVICE_ID: RECEIVER_ID, UPSTREAM_URL: "" },
  });
  await using nats = await NatsClient.connect(rig.nats.port);
  const settlements = await Settlements.open(nats);
  const call = new PeerCall(nats);
  const seq = await stored(nats, call, call.envelope());
  assertErrorReply(await call.answered(), 503, "Receiver is missing UPSTREAM_URL", {
    early: false,
    receiver: RECEIVER_ID,
  });
  await settlements.settled(seq, "+TERM 3");
  assert.deepEqual(settlements.of(seq), ["-NAK 1", "-NAK 2", "+TERM 3"]);
  assert.equal((await rig.operator.consumer()).num_ack_pending, 0);
});

Deno.test("a request that one receiver gives back is carried out by another that can", async () => {
  await using rig = await startRig({
    mode: "jetstream",
    receiverSettings: { UPSTREAM_URL: "" },
  });
  await rig.addReceiver({ UPSTREAM_URL: rig.upstream.url });
  for (let i = 0; i < 8; i++) {
    assert.equal((await rig.request(`/either/${i}`, { method: "POST", body: "x" })).status, 200);
  }
  assert.equal(rig.upstream.requestsFor("/either/").length, 8);
});

Deno.test("good requests are acknowledged: unsafe ones before they run, safe ones once the head is out", async () => {
  await using rig = await startRig({ mode: "jetstream" });
  await using nats = await NatsClient.connect(rig.nats.port);
  const settlements = await Settlements.open(nats);
  for (const method of ["POST", "GET"]) {
    const path = `/held/${method}`;
    const go = Promise.withResolvers<void>();
    rig.upstream.route(path, async (_, connection) => {
      await go.promise;
      await connection.write(answer("held"));
    });
    const call = new PeerCall(nats);
    const seq = await stored(nats, call, http(call, { method, path, headers: {} }));
    await rig.upstream.request(path);
    // The upstream has the request and no head is out. The server may tell us a little after the receiver.
    if (method === "POST") await settlements.settled(seq, "+ACK 1");
    await nats.flush();
    assert.deepEqual(settlements.of(seq), method === "POST" ? ["+ACK 1"] : [], method);
    go.resolve();
    await call.answered();
    await settlements.settled(seq, "+ACK 1");
    assert.deepEqual(settlements.of(seq), ["+ACK 1"], method);
  }
});

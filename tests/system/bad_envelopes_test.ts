import assert from "node:assert/strict";
import { pattern } from "../helpers/bytes.ts";
import { MODE } from "../helpers/mode.ts";
import { NatsClient } from "../helpers/nats_client.ts";
import { assertErrorReply, newId, PEER_ID, PeerCall } from "../helpers/nats_peer.ts";
import { startNatsway } from "../helpers/natsway.ts";
import { startRig } from "../helpers/rig.ts";
import { type Row, runRows } from "../helpers/rows.ts";

const RECEIVER_ID = "rec-1";

interface Message {
  readonly payload: unknown;
  readonly reply?: string;
  readonly headers?: string[];
}

/** The reply subject of a message that a stream keeps is the stream's: a header names the other. */
function send(call: PeerCall, { payload, reply, headers = [] }: Message): Promise<void> {
  if (reply === undefined || MODE === "core") {
    return call.send(payload, {
      ...(reply === undefined ? {} : { reply }),
      ...(headers.length === 0 ? {} : { headers }),
    });
  }
  return call.send(payload, { headers: [`Reply-To: ${reply}`, ...headers] });
}

function errorRow(
  nats: NatsClient,
  name: string,
  make: (call: PeerCall) => Message,
  status: number,
  error: string | RegExp,
  early = true,
): Row {
  return {
    name: `${name}: ${status} ${error}`,
    run: async () => {
      const call = new PeerCall(nats);
      await send(call, make(call));
      assertErrorReply(await call.answered(), status, error, { early, receiver: RECEIVER_ID });
    },
  };
}

function silentRow(
  nats: NatsClient,
  name: string,
  make: (call: PeerCall) => Message,
): Row {
  return {
    name: `${name}: no answer, and nothing breaks`,
    run: async () => {
      const call = new PeerCall(nats);
      await send(call, make(call));
      await call.unanswered();
    },
  };
}

function envelopeRows(nats: NatsClient): Row[] {
  const without = (call: PeerCall, ...names: string[]) =>
    Object.fromEntries(Object.entries(call.envelope()).filter(([name]) => !names.includes(name)));
  return [
    silentRow(nats, "octets that are no JSON", (call) => ({
      payload: pattern(16),
      headers: [`Reply-To: ${call.replyTo}`],
    })),
    silentRow(nats, "an empty payload", (call) => ({
      payload: new Uint8Array(),
      reply: call.replyTo,
    })),
    ...[[], 5, "text", null, true].map((payload) =>
      errorRow(
        nats,
        `${JSON.stringify(payload)} as envelope`,
        (call) => ({ payload, reply: call.replyTo }),
        400,
        "Invalid request envelope",
      )
    ),
    errorRow(
      nats,
      "another type",
      (call) => ({ payload: call.envelope({ type: "other" }) }),
      400,
      "Invalid request envelope type",
    ),
    errorRow(
      nats,
      "an empty object with the message's reply",
      (call) => ({ payload: {}, reply: call.replyTo }),
      400,
      "Missing request_id",
    ),
    errorRow(
      nats,
      "no request_id",
      (call) => ({ payload: without(call, "request_id") }),
      400,
      "Missing request_id",
    ),
    errorRow(
      nats,
      "a request_id that is a number",
      (call) => ({ payload: call.envelope({ request_id: 7 }) }),
      400,
      "Missing request_id",
    ),
    silentRow(nats, "no reply_to at all", (call) => ({ payload: without(call, "reply_to") })),
    errorRow(
      nats,
      "no operation",
      (call) => ({ payload: without(call, "operation") }),
      400,
      "Missing operation",
    ),
    errorRow(
      nats,
      "no payload",
      (call) => ({ payload: without(call, "payload") }),
      400,
      "Missing payload",
    ),
    errorRow(
      nats,
      "a payload that is null",
      (call) => ({ payload: call.envelope({ payload: null }) }),
      400,
      "Missing payload",
    ),
    errorRow(
      nats,
      "an unknown operation",
      (call) => ({ payload: call.envelope({ operation: "fax" }) }),
      503,
      "No handler registered for operation=fax",
    ),
    errorRow(
      nats,
      "no method",
      (call) => ({ payload: call.envelope({ payload: { path: "/x" } }) }),
      400,
      "Missing method or path",
    ),
    errorRow(
      nats,
      "an empty path",
      (call) => ({ payload: call.envelope({ payload: { method: "GET", path: "" } }) }),
      400,
      "Missing method or path",
    ),
    errorRow(
      nats,
      "a payload that is a string",
      (call) => ({ payload: call.envelope({ payload: "GET /" }) }),
      400,
      "Missing method or path",
    ),
    errorRow(
      nats,
      "the Reply-To header in another case",
      (call) => ({
        payload: without(call, "reply_to", "operation"),
        headers: [`reply-to: ${call.replyTo}`],
      }),
      400,
      "Missing operation",
    ),
    errorRow(
      nats,
      "the field reply-to",
      (call) => ({
        payload: { ...without(call, "reply_to", "operation"), "reply-to": call.replyTo },
      }),
      400,
      "Missing operation",
    ),
    silentRow(nats, "a cancel without its object", (call) => ({
      payload: { type: "cancel", request_id: call.id, reply_to: call.replyTo },
    })),
    silentRow(nats, "a cancel for an unknown id", () => ({
      payload: {
        type: "cancel",
        request_id: newId(),
        cancel: { request_id: newId(), service_id: PEER_ID, reason: "", timestamp: "x" },
      },
    })),
  ];
}

Deno.test("bad envelopes get the contract's answers and never end the receiver", async (t) => {
  await using rig = await startRig({ receiverSettings: { SERVICE_ID: RECEIVER_ID } });
  await using nats = await NatsClient.connect(rig.nats.port);
  await runRows(t, envelopeRows(nats));
  assert.ok(rig.receiver.running);
  assert.equal((await rig.request("/fine")).status, 200);
  assert.doesNotMatch(rig.receiver.stderr, /Uncaught|unhandled/i);
});

Deno.test("failures behind a good envelope get the contract's statuses towards a Ruby-like peer", async (t) => {
  await using rig = await startRig({
    receiverSettings: { SERVICE_ID: RECEIVER_ID, UPSTREAM_URL: "http://127.0.0.1:1" },
  });
  await using nats = await NatsClient.connect(rig.nats.port);
  await t.step("an upstream that refuses: 503 Upstream unavailable", async () => {
    const call = new PeerCall(nats);
    await call.send(call.envelope());
    assertErrorReply(await call.answered(), 503, /^Upstream unavailable: ./, {
      early: false,
      receiver: RECEIVER_ID,
    });
  });
  await rig.receiver[Symbol.asyncDispose]();
  await using _bare = await startNatsway("receiver", {
    ...rig.receiverSettings,
    UPSTREAM_URL: "",
  });
  await t.step("no UPSTREAM_URL: 503 Receiver is missing UPSTREAM_URL", async () => {
    const call = new PeerCall(nats);
    await call.send(call.envelope());
    assertErrorReply(await call.answered(), 503, "Receiver is missing UPSTREAM_URL", {
      early: false,
      receiver: RECEIVER_ID,
    });
  });
});

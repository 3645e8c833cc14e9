/**
 * Mutated messages of peers against the readers of envelopes, events and control messages: a value or a
 * refusal, in time, and never more octets than came.
 * @module
 */
import assert from "node:assert/strict";
import { decodeCancel } from "../../lib/protocol/cancel.ts";
import { readCredit } from "../../lib/protocol/credit.ts";
import { decodeEnvelope, readHttpPayload } from "../../lib/protocol/envelope.ts";
import { decodeEvent } from "../../lib/protocol/events.ts";
import { isObject } from "../../lib/protocol/json.ts";
import { encodeNatsHeaders } from "../../lib/protocol/nats_headers.ts";
import { readPeerInfo } from "../../lib/protocol/peer.ts";
import { decodeResponseInfo } from "../../lib/protocol/response_info.ts";
import { fuzz, mutateJson, mutateOctets } from "../helpers/unit_fuzz.ts";
import { MESSAGES, RESPONSE_INFO } from "./protocol_messages.ts";

Deno.test("Any message is read or refused by every reader, and gives no more than it had", async () => {
  await fuzz(0, (random) => {
    let data = random.pick(MESSAGES);
    data = random.below(4) === 0 ? mutateOctets(data, random) : mutateJson(data, random);
    const headers = random.below(4) > 0 ? null : mutateOctets(
      encodeNatsHeaders([["Reply-To", "from.proxy.responses.a.q"], ["traceparent", "00"]]),
      random,
    );
    const envelope = decodeEnvelope(data, random.pick(["", "from.proxy.responses.a.q"]), headers);
    if (envelope.kind === "request") {
      assert.ok(envelope.requestId !== "" && envelope.replyTo !== "" && envelope.operation !== "");
      const payload = readHttpPayload(envelope.payload);
      if (typeof payload !== "string") {
        assert.ok(payload.method !== "" && payload.path !== "");
        // Compact JSON of `1e5` may be longer than its source by a few digits for each number.
        const most = data.length * 8;
        assert.ok((payload.body?.length ?? 0) <= most);
        for (const [name, value] of payload.fields) {
          assert.ok(typeof name === "string" && typeof value === "string");
        }
      }
    }
    const event = decodeEvent(data);
    if (event?.type === "response_chunk") assert.ok(event.body.length <= data.length * 3);
    if (event?.type === "response_start") {
      assert.ok(event.status >= 200 && event.status <= 999);
      for (const value of Object.values(event.headers)) {
        assert.ok(typeof value === "string" || value.every((item) => typeof item === "string"));
      }
    }
    if (event?.type === "response_error") assert.equal(typeof event.error, "string");
    const granted = readCredit(data, "q", "response");
    assert.ok(granted === null || (Number.isSafeInteger(granted) && granted > 0));
    const cancel = decodeCancel(data);
    assert.ok(cancel === null || cancel.requestId !== "");
    const info = decodeResponseInfo(data);
    assert.ok(info === null || info.receiverServiceId !== "");
    return new TextDecoder().decode(data);
  });
});

Deno.test("Any value can be asked for a peer", async () => {
  await fuzz(1_000_003, (random) => {
    const text = new TextDecoder().decode(mutateJson(RESPONSE_INFO, random));
    let value: unknown = text;
    try {
      value = JSON.parse(text);
    } catch {
      // Then the text itself is the value.
    }
    const peer = readPeerInfo(isObject(value) ? value.natsway : value);
    if (peer !== null) {
      assert.match(peer.instance, /^[A-Za-z0-9_-]{1,64}$/);
      for (const number of [peer.maxMsg, peer.ttlMs, peer.window]) {
        assert.ok(Number.isSafeInteger(number) && number >= 0);
      }
      assert.ok(peer.features.every((feature) => typeof feature === "string"));
    }
    return text;
  });
});

Deno.test("Values nested as deep as a payload allows are read or refused by every reader", () => {
  const depth = 200_000;
  for (const [open, close] of [["[", "]"], ['{"a":', "}"]] as const) {
    const deep = `${open.repeat(depth)}1${close.repeat(depth)}`;
    const payload = '"payload":{"method":"GET","path":"/","headers":{}';
    const request = '{"type":"request","request_id":"q","reply_to":"r","operation":"http_request"';
    for (
      const text of [
        deep,
        `${request},${payload},"body":${deep}}}`,
        `${request},${payload},"head":${deep}},"natsway":${deep}}`,
        `{"type":"response_start","status":200,"headers":{"a":${deep}}}`,
        `{"type":"response_error","error":${deep}}`,
        `{"type":"cancel","request_id":"q","reason":${deep}}`,
      ]
    ) {
      const data = new TextEncoder().encode(text);
      const envelope = decodeEnvelope(data, "", null);
      if (envelope.kind === "request") {
        const read = readHttpPayload(envelope.payload);
        if (typeof read !== "string") assert.ok((read.body?.length ?? 0) <= data.length);
      }
      decodeEvent(data);
      decodeCancel(data);
      decodeResponseInfo(data);
      assert.equal(readCredit(data, "q", "response"), null);
    }
  }
});

/**
 * Mutated messages of peers against every reader of `lib/protocol`: a value, a refusal or the one typed
 * error, in time, and never more octets than came.
 * @module
 */
import assert from "node:assert/strict";
import { decodeBase64, encodeBase64 } from "../../lib/protocol/base64.ts";
import { decodeCancel, encodeCancel } from "../../lib/protocol/cancel.ts";
import { encodeCredit, readCredit } from "../../lib/protocol/credit.ts";
import {
  asHeaderText,
  decodeEnvelope,
  encodeHttpRequest,
  type FieldPair,
  readHttpPayload,
  type RequestBody,
} from "../../lib/protocol/envelope.ts";
import {
  decodeEvent,
  encodeResponseChunk,
  encodeResponseError,
  encodeResponseStart,
  RESPONSE_END,
} from "../../lib/protocol/events.ts";
import {
  decodeFrame,
  encodeClose,
  encodeDataPrefix,
  encodeHeadPrefix,
  encodeProbe,
  encodeWindow,
  type Frame,
  FrameError,
  isFrame,
} from "../../lib/protocol/frames.ts";
import { base64Length, isObject, jsonStringBytes, utf8OrNull } from "../../lib/protocol/json.ts";
import { encodeNatsHeaders } from "../../lib/protocol/nats_headers.ts";
import { readPeerInfo } from "../../lib/protocol/peer.ts";
import { decodeResponseInfo, encodeResponseInfo } from "../../lib/protocol/response_info.ts";
import { isReplySubject, resolveReply } from "../../lib/protocol/subjects.ts";
import { checkPublishSubject } from "../../lib/transport/publish_encoder.ts";
import { concat } from "../helpers/bytes.ts";
import { fuzz, mutateJson, mutateOctets, type Random } from "../helpers/unit_fuzz.ts";

const encoder = new TextEncoder();
const NOW = new Date(0);
const PEER = { instance: "i-1", features: ["raw"], maxMsg: 1048576, ttlMs: 30000, window: 65536 };

/** Whole messages to begin with. */
const MESSAGES: readonly Uint8Array[] = [
  encodeHttpRequest({
    requestId: "9c41",
    replyTo: "from.proxy.responses.edge-a.9c41",
    method: "POST",
    path: "/a?b=c",
    headers: { accept: "*/*", cookie: "a=1" },
    head: [["Host", "h"], ["Accept", "*/*"]],
    body: { kind: "bytes", bytes: new Uint8Array([0xff, 0, 1]) },
    peer: PEER,
  }),
  encoder.encode(
    '{"type":"request","request_id":"q","reply_to":"from.proxy.responses.a.q","operation":' +
      '"http_request","payload":{"method":"GET","path":"/","headers":{"a":["b","c"]},"body":{"x":1}}}',
  ),
  encodeCancel({ requestId: "q", reason: "r", serviceId: "s", epoch: "00ff" }, NOW),
  encodeCredit({ requestId: "q", direction: "response", bytes: 7, serviceId: "s" }, NOW),
  encodeResponseStart({
    status: 200,
    headers: { "content-type": "text/plain", "set-cookie": ["a", "b"] },
    contentType: "text/plain",
    streaming: true,
    receiverServiceId: "w",
    requestId: "q",
  }, "http_request"),
  encodeResponseChunk(encoder.encode("data: tick\n\n")),
  encodeResponseChunk(new Uint8Array([0xff, 0xd8, 0xff])),
  encodeResponseError("stream canceled", "gap"),
  RESPONSE_END,
  encodeResponseInfo({ receiverServiceId: "w", peer: PEER, code: "gap" }),
];

Deno.test("Any message is read or refused by every reader, and gives no more than it had", () => {
  fuzz(0, (random) => {
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

Deno.test("Any value can be asked for a peer", () => {
  fuzz(1_000_003, (random) => {
    const text = new TextDecoder().decode(mutateJson(MESSAGES[9]!, random));
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

const EPOCH = new Uint8Array([1, 2, 3, 4, 5, 6, 7, 8]);
const FRAMES: readonly Uint8Array[] = [
  concat([encodeDataPrefix(EPOCH, 1, true), new Uint8Array(20)]),
  concat([
    encodeHeadPrefix(EPOCH, {
      status: 200,
      reason: encoder.encode("Fine"),
      info: MESSAGES[9]!,
      fields: encoder.encode("A: b\r\nC: d\r\n"),
      declaredLength: 3,
    }, true),
    encoder.encode("abc"),
  ]),
  encodeClose(EPOCH, 9, "gone"),
  encodeProbe(EPOCH, 9, 1, "worker-1"),
  encodeWindow(EPOCH, 9, 10, 1),
];

Deno.test("Any octets are a frame or a FrameError, and the parts of a frame lie within them", () => {
  fuzz(2_000_003, (random) => {
    const bytes = random.below(20) === 0
      ? random.bytes(random.below(80))
      : mutateOctets(random.pick(FRAMES), random);
    let frame: Frame;
    try {
      frame = decodeFrame(bytes);
    } catch (error) {
      assert.ok(error instanceof FrameError, String(error));
      return bytes;
    }
    assert.ok(isFrame(bytes));
    assert.equal(frame.epoch.length, 8);
    if (frame.type === 1) {
      const head = frame.head === null
        ? 0
        : frame.head.reason.length + frame.head.info.length + frame.head.fields.length + 17;
      assert.equal(frame.body.length + head + 18, bytes.length);
      assert.equal(frame.body.buffer, bytes.buffer, "a view, not a copy");
    }
    return bytes;
  });
});

Deno.test("Every frame comes back as it went in", () => {
  fuzz(3_000_003, (random) => {
    const epoch = random.bytes(8);
    const number = () => random.below(2 ** 21) * 2 ** 32 + random.below(2 ** 32);
    const text = (bytes: number) =>
      String.fromCharCode(...random.bytes(bytes).map((octet) => 0x21 + octet % 0x5e));
    switch (random.below(5)) {
      case 0: {
        const body = random.bytes(random.below(40));
        const frame = { type: 1, epoch, offset: number(), fin: random.below(2) === 1, body };
        const sent = concat([encodeDataPrefix(epoch, frame.offset, frame.fin), body]);
        assert.deepEqual(decodeFrame(sent), { ...frame, head: null });
        return sent;
      }
      case 1: {
        const head = {
          status: 100 + random.below(900),
          reason: random.bytes(random.below(30)),
          info: random.bytes(random.below(40)),
          fields: random.bytes(random.below(60)),
          declaredLength: random.below(3) === 0 ? -1 : number(),
        };
        const fin = random.below(2) === 1;
        const body = random.bytes(random.below(20));
        const sent = concat([encodeHeadPrefix(epoch, head, fin), body]);
        assert.deepEqual(decodeFrame(sent), { type: 1, epoch, offset: 0, fin, head, body });
        return sent;
      }
      case 2: {
        const close = { type: 3, epoch, offset: number(), reason: text(random.below(65)) };
        assert.deepEqual(decodeFrame(encodeClose(epoch, close.offset, close.reason)), close);
        return close.reason;
      }
      case 3: {
        const serial = random.below(2 ** 32);
        const probe = {
          type: 4,
          epoch,
          sent: number(),
          serial,
          serviceId: text(1 + random.below(64)),
        };
        const sent = encodeProbe(epoch, probe.sent, serial, probe.serviceId);
        assert.deepEqual(decodeFrame(sent), probe);
        return sent;
      }
      default: {
        const serial = random.below(2 ** 32);
        const window = { type: 5, epoch, next: number(), limit: number(), serial };
        const sent = encodeWindow(epoch, window.next, window.limit, serial);
        assert.deepEqual(decodeFrame(sent), window);
        return sent;
      }
    }
  });
});

/** Octets of which some are UTF-8 and some are not. */
function someOctets(random: Random, most: number): Uint8Array {
  const count = random.below(most);
  if (random.below(2) === 0) return random.bytes(count);
  const text = Array.from(
    { length: count >> 2 },
    () => random.pick(["a", '"', "\\", "\n", "\0", "ü", "€", "😀", "\u2028", "\x7f", " "]),
  ).join("");
  return encoder.encode(text);
}

Deno.test("Every body comes back from a chunk and from an envelope, octet for octet", () => {
  fuzz(4_000_003, (random) => {
    const body = someOctets(random, 200);
    const event = decodeEvent(encodeResponseChunk(body));
    assert.ok(event?.type === "response_chunk");
    assert.deepEqual(event.body, body);
    const text = utf8OrNull(body);
    const form: RequestBody = text === null
      ? { kind: "bytes", bytes: body }
      : { kind: "text", text };
    const pairs: FieldPair[] = Array.from({ length: random.below(4) }, () => [
      random.pick(["A", "__proto__", "x-y"]),
      String.fromCharCode(...random.bytes(random.below(10))),
    ]);
    const message = encodeHttpRequest({
      requestId: "q",
      replyTo: "r",
      method: "PUT",
      path: "/",
      headers: {},
      head: pairs,
      body: form,
      peer: PEER,
    });
    const envelope = decodeEnvelope(message, "", null);
    assert.ok(envelope.kind === "request");
    const payload = readHttpPayload(envelope.payload);
    assert.ok(typeof payload !== "string");
    assert.deepEqual(payload.body, body);
    assert.deepEqual(payload.fields, pairs);
    if (text !== null) {
      assert.equal(jsonStringBytes(text, body.length), encoder.encode(JSON.stringify(text)).length);
    }
    return body;
  });
});

Deno.test("Base64 of any octets comes back, and any text is decoded strictly or not at all", () => {
  fuzz(5_000_003, (random) => {
    const bytes = random.bytes(random.below(60));
    const coded = encodeBase64(bytes);
    assert.equal(coded.length, base64Length(bytes.length));
    assert.deepEqual(decodeBase64(coded), bytes);
    const changed = new TextDecoder("windows-1252").decode(
      mutateOctets(encoder.encode(coded), random),
    );
    const decoded = decodeBase64(changed);
    if (decoded !== null) assert.ok(decoded.length <= changed.length / 4 * 3);
    return changed;
  });
});

Deno.test("A header of any octets comes back from Ruby's form when it is UTF-8", () => {
  fuzz(6_000_003, (random) => {
    const octets = someOctets(random, 40);
    const value = Array.from(octets, (octet) => String.fromCharCode(octet)).join("");
    const payload = readHttpPayload({
      method: "G",
      path: "/",
      headers: { h: asHeaderText(value) },
    });
    assert.ok(typeof payload !== "string");
    if (utf8OrNull(octets) !== null) assert.deepEqual(payload.fields, [["h", value]]);
    else assert.equal(payload.fields[0]?.[0], "h");
    return value;
  });
});

Deno.test("Whatever the reply subject, what may be used can be published to and stays in its plane", () => {
  const pieces = [
    "from.",
    "proxy",
    ".responses.",
    "a",
    ".",
    "q",
    "*",
    ">",
    " ",
    "\r\n",
    "\0",
    "to.",
  ];
  fuzz(7_000_003, (random) => {
    const subject = random.below(2) === 0
      ? Array.from({ length: random.below(10) }, () => random.pick(pieces)).join("")
      : new TextDecoder().decode(
        mutateOctets(encoder.encode("from.proxy.responses.edge-a.q"), random),
      );
    const root = random.pick(["from.proxy", "proxy"]);
    const used = resolveReply(subject, root, random.pick(["q", null]));
    if (used !== null) {
      checkPublishSubject(used);
      assert.match(used, /^(?:from\.){0,2}proxy\.responses\.[^.*>\s]+\.[A-Za-z0-9_-]+$/);
    }
    if (isReplySubject(subject, root, null)) checkPublishSubject(subject);
    return subject;
  });
});

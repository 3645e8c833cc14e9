/**
 * Mutated frames against their reader: a frame whose parts lie within the message, or the one typed error.
 * @module
 */
import assert from "node:assert/strict";
import {
  decodeFrame,
  encodeClose,
  encodeDataPrefix,
  encodeEof,
  encodeGone,
  encodeHeadPrefix,
  encodeProbe,
  encodeWindow,
  type Frame,
  FrameError,
  isFrame,
} from "../../lib/protocol/frames.ts";
import { concat } from "../helpers/bytes.ts";
import { fuzz, mutateOctets } from "../helpers/unit_fuzz.ts";
import { RESPONSE_INFO } from "./protocol_messages.ts";

const encoder = new TextEncoder();
const EPOCH = new Uint8Array([1, 2, 3, 4, 5, 6, 7, 8]);
const FRAMES: readonly Uint8Array[] = [
  concat([encodeDataPrefix(EPOCH, 1, true), new Uint8Array(20)]),
  concat([
    encodeHeadPrefix(EPOCH, {
      status: 200,
      reason: encoder.encode("Fine"),
      info: RESPONSE_INFO,
      fields: encoder.encode("A: b\r\nC: d\r\n"),
      declaredLength: 3,
    }, true),
    encoder.encode("abc"),
  ]),
  encodeClose(EPOCH, 9, "gone"),
  encodeEof(EPOCH, 9),
  encodeGone(EPOCH, "gap"),
  encodeProbe(EPOCH, 9, 1, "worker-1"),
  encodeWindow(EPOCH, 9, 10, 1),
];

Deno.test("Any octets are a frame or a FrameError, and the parts of a frame lie within them", async () => {
  await fuzz(2_000_003, (random) => {
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

Deno.test("A length that lies, wherever it stands, makes no frame longer than its message", () => {
  for (const bytes of FRAMES) {
    for (let at = 0; at < bytes.length; at++) {
      for (const size of [1, 2, 4, 8]) {
        for (const value of [0x00, 0x7f, 0x80, 0xff]) {
          const changed = bytes.slice();
          changed.fill(value, at, Math.min(at + size, bytes.length));
          try {
            const frame = decodeFrame(changed);
            if (frame.type === 1) assert.ok(frame.body.length < changed.length);
            if (frame.type === 2) assert.ok(frame.trailers.length < changed.length);
          } catch (error) {
            assert.ok(error instanceof FrameError, String(error));
          }
        }
      }
    }
  }
});

Deno.test("Every frame comes back as it went in", async () => {
  await fuzz(3_000_003, (random) => {
    const epoch = random.bytes(8);
    const number = () => random.below(2 ** 21) * 2 ** 32 + random.below(2 ** 32);
    const text = (bytes: number) =>
      String.fromCharCode(...random.bytes(bytes).map((octet) => 0x21 + octet % 0x5e));
    switch (random.below(7)) {
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
      case 4: {
        const eof = { type: 2, epoch, offset: number(), trailers: random.bytes(random.below(40)) };
        const sent = encodeEof(epoch, eof.offset, eof.trailers);
        assert.deepEqual(decodeFrame(sent), eof);
        return sent;
      }
      case 5: {
        const gone = { type: 6, epoch, reason: text(random.below(65)) };
        assert.deepEqual(decodeFrame(encodeGone(epoch, gone.reason)), gone);
        return gone.reason;
      }
      default: {
        const serial = random.below(2 ** 32);
        const resend = random.below(2) === 1;
        const window = { type: 5, epoch, next: number(), limit: number(), serial, resend };
        const sent = encodeWindow(epoch, window.next, window.limit, serial, resend);
        assert.deepEqual(decodeFrame(sent), window);
        return sent;
      }
    }
  });
});

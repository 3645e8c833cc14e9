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
  FRAME_HEADER_BYTES,
  FrameError,
  HEAD_FRAME_BYTES,
  isFrame,
  sameBytes,
} from "../../lib/protocol/frames.ts";
import { concat, octets } from "../helpers/bytes.ts";

const EPOCH = new Uint8Array([0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8]);

const hex = (bytes: Uint8Array) =>
  Array.from(bytes, (octet) => octet.toString(16).padStart(2, "0")).join(" ");
const unhex = (text: string) =>
  Uint8Array.from(text.trim().split(/\s+/).map((pair) => parseInt(pair, 16)));

const HEAD = {
  status: 200,
  reason: octets(""),
  info: octets("{}"),
  fields: octets("A: b\r\n"),
  declaredLength: 5,
};

/** Encoded frame, its hex dump, what it decodes to. */
const GOLDEN: [string, Uint8Array, string, object][] = [
  [
    "data",
    concat([encodeDataPrefix(EPOCH, 4097, false), octets("abc")]),
    "01 00 a1 a2 a3 a4 a5 a6 a7 a8 00 00 00 00 00 00 10 01 61 62 63",
    { type: 1, epoch: EPOCH, offset: 4097, fin: false, head: null, body: octets("abc") },
  ],
  [
    "the last data, empty",
    encodeDataPrefix(EPOCH, 2 ** 53 - 1, true).slice(),
    "01 02 a1 a2 a3 a4 a5 a6 a7 a8 00 1f ff ff ff ff ff ff",
    { type: 1, epoch: EPOCH, offset: 2 ** 53 - 1, fin: true, head: null, body: octets("") },
  ],
  [
    "a whole response",
    concat([encodeHeadPrefix(EPOCH, HEAD, true), octets("hello")]),
    "01 03 a1 a2 a3 a4 a5 a6 a7 a8 00 00 00 00 00 00 00 00 " +
    "00 c8 00 02 00 00 00 06 00 00 00 00 00 00 00 05 00 7b 7d 41 3a 20 62 0d 0a 68 65 6c 6c 6f",
    { type: 1, epoch: EPOCH, offset: 0, fin: true, head: HEAD, body: octets("hello") },
  ],
  [
    "a head without declared length, with a reason of its own",
    encodeHeadPrefix(
      EPOCH,
      { ...HEAD, status: 599, reason: octets("\xe9"), declaredLength: -1 },
      false,
    ).slice(),
    "01 01 a1 a2 a3 a4 a5 a6 a7 a8 00 00 00 00 00 00 00 00 " +
    "02 57 00 02 00 00 00 06 ff ff ff ff ff ff ff ff 01 e9 7b 7d 41 3a 20 62 0d 0a",
    {
      type: 1,
      epoch: EPOCH,
      offset: 0,
      fin: false,
      head: { ...HEAD, status: 599, reason: octets("\xe9"), declaredLength: -1 },
      body: octets(""),
    },
  ],
  [
    "close",
    encodeClose(EPOCH, 258, "gone"),
    "03 00 a1 a2 a3 a4 a5 a6 a7 a8 00 00 00 00 00 00 01 02 67 6f 6e 65",
    { type: 3, epoch: EPOCH, offset: 258, reason: "gone" },
  ],
  [
    "probe",
    encodeProbe(EPOCH, 5_000_000_000, 7, "worker-1"),
    "04 00 a1 a2 a3 a4 a5 a6 a7 a8 00 00 00 01 2a 05 f2 00 00 00 00 07 " +
    "77 6f 72 6b 65 72 2d 31",
    { type: 4, epoch: EPOCH, sent: 5_000_000_000, serial: 7, serviceId: "worker-1" },
  ],
  [
    "window",
    encodeWindow(EPOCH, 1, 65_537, 0xffff_fffe),
    "05 00 a1 a2 a3 a4 a5 a6 a7 a8 00 00 00 00 00 00 00 01 00 00 00 00 00 01 00 01 ff ff ff fe",
    { type: 5, epoch: EPOCH, next: 1, limit: 65_537, serial: 0xffff_fffe, resend: false },
  ],
  [
    "window that asks for a resend",
    encodeWindow(EPOCH, 1, 2, 3, true),
    "05 04 a1 a2 a3 a4 a5 a6 a7 a8 00 00 00 00 00 00 00 01 00 00 00 00 00 00 00 02 00 00 00 03",
    { type: 5, epoch: EPOCH, next: 1, limit: 2, serial: 3, resend: true },
  ],
  [
    "eof",
    encodeEof(EPOCH, 258),
    "02 00 a1 a2 a3 a4 a5 a6 a7 a8 00 00 00 00 00 00 01 02",
    { type: 2, epoch: EPOCH, offset: 258, trailers: octets("") },
  ],
  [
    "eof with trailers",
    encodeEof(EPOCH, 258, octets("A: b\r\n")),
    "02 00 a1 a2 a3 a4 a5 a6 a7 a8 00 00 00 00 00 00 01 02 41 3a 20 62 0d 0a",
    { type: 2, epoch: EPOCH, offset: 258, trailers: octets("A: b\r\n") },
  ],
  [
    "gone",
    encodeGone(EPOCH, "gap"),
    "06 00 a1 a2 a3 a4 a5 a6 a7 a8 00 00 00 00 00 00 00 00 67 61 70",
    { type: 6, epoch: EPOCH, reason: "gap" },
  ],
];

Deno.test("Every type of frame has its golden octets and is read back from them", () => {
  for (const [name, frame, dump, decoded] of GOLDEN) {
    assert.equal(hex(frame), dump, name);
    assert.deepEqual(decodeFrame(unhex(dump)), decoded, name);
    assert.ok(isFrame(frame), name);
  }
});

Deno.test("decodeFrame reads a view that does not start its buffer", () => {
  for (const [name, frame, , decoded] of GOLDEN) {
    const view = concat([octets("zzz"), frame, octets("yyy")]).subarray(3, 3 + frame.length);
    assert.deepEqual(decodeFrame(view), decoded, name);
  }
});

Deno.test("A JSON event and an empty payload are no frames", () => {
  for (const payload of ["", "{", "[", "\x00", "\x07", " "]) {
    assert.equal(isFrame(octets(payload)), false, JSON.stringify(payload));
  }
});

Deno.test("A frame cut anywhere before its text is refused, or shorter in its last part alone", () => {
  for (const [name, frame] of GOLDEN) {
    for (let length = 0; length < FRAME_HEADER_BYTES; length++) {
      assert.throws(
        () => decodeFrame(frame.subarray(0, length)),
        FrameError,
        `${name} at ${length}`,
      );
    }
  }
  const whole = GOLDEN[2]![1];
  for (let length = FRAME_HEADER_BYTES; length < HEAD_FRAME_BYTES + 8; length++) {
    assert.throws(() => decodeFrame(whole.subarray(0, length)), FrameError, `head at ${length}`);
  }
});

Deno.test("decodeFrame refuses what no natsway sends", () => {
  const change = (index: number, at: number, ...values: number[]) => {
    const bytes = GOLDEN[index]![1].slice();
    bytes.set(values, at);
    return bytes;
  };
  const rows: [string, Uint8Array, RegExp][] = [
    ["type 0", change(0, 0, 0), /unknown type/],
    ["type 7", change(0, 0, 7), /unknown type/],
    ["data with flag 4", change(0, 1, 4), /unknown flags/],
    ["close with a flag", change(4, 1, 2), /unknown flags/],
    ["probe with a flag", change(5, 1, 1), /unknown flags/],
    ["a window with FIN", change(6, 1, 2), /unknown flags/],
    ["an eof with a flag", change(8, 1, 2), /unknown flags/],
    ["a gone with a flag", change(10, 1, 4), /unknown flags/],
    ["a gone with a blank", change(10, 18, 0x20), /not ASCII/],
    ["a window with flag 128", change(6, 1, 128), /unknown flags/],
    ["an offset over 2^53 - 1", change(0, 10, 0, 0x20), /over 2\^53/],
    ["a limit over 2^53 - 1", change(6, 18, 0xff), /over 2\^53/],
    ["a declared length over 2^53 - 1", change(2, 26, 0xff), /over 2\^53/],
    ["a head that does not start its lane", change(2, 17, 1), /does not start/],
    ["status 99", change(2, 18, 0, 99), /impossible status/],
    ["status 1000", change(2, 18, 3, 0xe8), /impossible status/],
    ["an info of 4097 octets", change(2, 20, 0x10, 1), /too long an info/],
    ["an info past the end", change(2, 20, 0x0f, 0xff), /shorter than its parts/],
    ["fields of 4 GiB", change(2, 22, 0xff, 0xff, 0xff, 0xff), /shorter than its parts/],
    ["a reason past the end", change(2, 34, 255), /shorter than its parts/],
    ["a close with a blank", change(4, 18, 0x20), /not ASCII/],
    ["a close with an octet over 0x7E", change(4, 18, 0xe9), /not ASCII/],
    ["a close with a line end", change(4, 18, 0x0a), /not ASCII/],
    ["a close reason of 65", concat([GOLDEN[4]![1], octets("x".repeat(61))]), /too long a reason/],
    ["a probe without service id", GOLDEN[5]![1].subarray(0, 22), /wrong length/],
    ["a probe with an id of 65", concat([GOLDEN[5]![1], octets("x".repeat(57))]), /wrong length/],
    ["a window with more", concat([GOLDEN[6]![1], octets("x")]), /wrong length/],
    ["a window with less", GOLDEN[6]![1].subarray(0, 29), /wrong length/],
  ];
  for (const [name, bytes, message] of rows) {
    assert.throws(
      () => decodeFrame(bytes),
      (error: Error) => error instanceof FrameError && message.test(error.message),
      name,
    );
  }
});

Deno.test("encodeHeadPrefix and encodeClose cut what is too long for its place", () => {
  const long = encodeHeadPrefix(EPOCH, { ...HEAD, reason: octets("r".repeat(300)) }, true);
  const frame = decodeFrame(long);
  assert.ok(frame.type === 1);
  assert.equal(frame.head?.reason.length, 255);
  assert.deepEqual(frame.head?.fields, HEAD.fields);
  const close = decodeFrame(encodeClose(EPOCH, 0, "c".repeat(100)));
  assert.ok(close.type === 3);
  assert.equal(close.reason, "c".repeat(64));
});

Deno.test("sameBytes compares length and octets", () => {
  assert.ok(sameBytes(EPOCH, EPOCH.slice()));
  assert.ok(!sameBytes(EPOCH, EPOCH.subarray(0, 7)));
  assert.ok(!sameBytes(EPOCH, new Uint8Array(8)));
});
